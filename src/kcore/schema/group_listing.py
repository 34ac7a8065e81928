"""Requests of administrators about groups: DescribeGroups, ListGroups, DeleteGroups."""

from kcore.schema.kinds import int16, int32
from kcore.schema.structure import Message, Struct, field


class DescribeGroupsRequest(Message, api_key=15, versions="0-6", flexible="5+"):
    """An administrator asks a coordinator for details of classic groups."""

    groups: list[str]
    include_authorized_operations: bool = field(versions="3+")  # KIP-430.


class DescribedGroupMember(Struct):
    """A member of a classic group."""

    member_id: str
    # Only for a static member (KIP-345).
    group_instance_id: str | None = field(versions="4+", nullable="4+", default=None, ignorable=True)
    client_id: str
    client_host: str
    member_metadata: bytes  # The member's metadata in JoinGroup.
    member_assignment: bytes  # The member's assignment in SyncGroup.


class DescribedGroup(Struct):
    """A classic group: its state, its protocol, its members."""

    error_code: int16
    error_message: str | None = field(versions="6+", nullable="6+", default=None)  # KIP-1043.
    group_id: str
    group_state: str
    protocol_type: str
    protocol_data: str  # The name of the assignor that the members agreed on.
    members: list[DescribedGroupMember]
    # A bit for each operation; the lowest integer if not requested.
    authorized_operations: int32 = field(versions="3+", default=-(2**31))


class DescribeGroupsResponse(Message, api_key=15, versions="0-6", flexible="5+"):
    """The requested groups."""

    throttle_time_ms: int32 = field(versions="1+", ignorable=True)
    groups: list[DescribedGroup]


class ListGroupsRequest(Message, api_key=16, versions="0-5", flexible="3+"):
    """An administrator asks a broker for the groups that the broker coordinates."""

    states_filter: list[str] = field(versions="4+")  # Empty for all (KIP-518).
    types_filter: list[str] = field(versions="5+")  # Empty for all (KIP-848).


class ListedGroup(Struct):
    """A group by name."""

    group_id: str
    protocol_type: str
    group_state: str = field(versions="4+", ignorable=True)  # KIP-518.
    group_type: str = field(versions="5+", ignorable=True)  # "classic", "consumer", "share" ... (KIP-848).


class ListGroupsResponse(Message, api_key=16, versions="0-5", flexible="3+"):
    """The broker's groups."""

    throttle_time_ms: int32 = field(versions="1+", ignorable=True)
    error_code: int16
    groups: list[ListedGroup]


class DeleteGroupsRequest(Message, api_key=42, versions="0-3", flexible="2+"):
    """An administrator deletes empty groups with their offsets (KIP-229)."""

    groups_names: list[str]


class DeletableGroupResult(Struct):
    """The result for one group."""

    group_id: str
    error_code: int16
    error_message: str | None = field(versions="3+", nullable="3+", default=None, ignorable=True)  # KIP-1331.


class DeleteGroupsResponse(Message, api_key=42, versions="0-3", flexible="2+"):
    """The coordinator's answer, group by group."""

    throttle_time_ms: int32
    results: list[DeletableGroupResult]
