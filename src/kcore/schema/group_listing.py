"""Group listing."""

from kcore.schema.kinds import int16, int32
from kcore.schema.structure import Message, Struct, field


class DescribeGroupsRequest(Message, api_key=15, versions="0-6", flexible="5+"):
    """DescribeGroupsRequest, as Kafka has it."""

    groups: list[str]
    include_authorized_operations: bool = field(versions="3+")


class DescribedGroupMember(Struct):
    """A part of DescribeGroupsResponse."""

    member_id: str
    group_instance_id: str | None = field(versions="4+", nullable="4+", default=None, ignorable=True)
    client_id: str
    client_host: str
    member_metadata: bytes
    member_assignment: bytes


class DescribedGroup(Struct):
    """A part of DescribeGroupsResponse."""

    error_code: int16
    error_message: str | None = field(versions="6+", nullable="6+", default=None)
    group_id: str
    group_state: str
    protocol_type: str
    protocol_data: str
    members: list[DescribedGroupMember]
    authorized_operations: int32 = field(versions="3+", default=-2147483648)


class DescribeGroupsResponse(Message, api_key=15, versions="0-6", flexible="5+"):
    """DescribeGroupsResponse, as Kafka has it."""

    throttle_time_ms: int32 = field(versions="1+", ignorable=True)
    groups: list[DescribedGroup]


class ListGroupsRequest(Message, api_key=16, versions="0-5", flexible="3+"):
    """ListGroupsRequest, as Kafka has it."""

    states_filter: list[str] = field(versions="4+")
    types_filter: list[str] = field(versions="5+")


class ListedGroup(Struct):
    """A part of ListGroupsResponse."""

    group_id: str
    protocol_type: str
    group_state: str = field(versions="4+", ignorable=True)
    group_type: str = field(versions="5+", ignorable=True)


class ListGroupsResponse(Message, api_key=16, versions="0-5", flexible="3+"):
    """ListGroupsResponse, as Kafka has it."""

    throttle_time_ms: int32 = field(versions="1+", ignorable=True)
    error_code: int16
    groups: list[ListedGroup]


class DeleteGroupsRequest(Message, api_key=42, versions="0-2", flexible="2+"):
    """DeleteGroupsRequest, as Kafka has it."""

    groups_names: list[str]


class DeletableGroupResult(Struct):
    """A part of DeleteGroupsResponse."""

    group_id: str
    error_code: int16


class DeleteGroupsResponse(Message, api_key=42, versions="0-2", flexible="2+"):
    """DeleteGroupsResponse, as Kafka has it."""

    throttle_time_ms: int32
    results: list[DeletableGroupResult]
