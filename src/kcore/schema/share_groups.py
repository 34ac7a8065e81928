"""Share groups (KIP-932): members share partitions record by record, so no member owns a partition."""

from kcore.schema.consumer_groups import Assignment, NamedAssignment
from kcore.schema.kinds import int16, int32
from kcore.schema.structure import Message, Struct, field


class ShareGroupHeartbeatRequest(Message, api_key=76, versions="0-1", flexible="0+"):
    """A member joins, reports or leaves. Null stands for a value that did not change since the last heartbeat."""

    group_id: str
    member_id: str
    member_epoch: int32  # 0 joins, -1 leaves.
    rack_id: str | None = field(nullable="0+", default=None)
    subscribed_topic_names: list[str] | None = field(nullable="0+", default=None)


class ShareGroupHeartbeatResponse(Message, api_key=76, versions="0-1", flexible="0+"):
    """The member's epoch and, if it changed, its assignment."""

    throttle_time_ms: int32
    error_code: int16
    error_message: str | None = field(nullable="0+", default=None)
    member_id: str | None = field(nullable="0+", default=None)
    member_epoch: int32
    heartbeat_interval_ms: int32
    # Null if nothing changed.
    assignment: Assignment | None = field(nullable="0+", default=None)


class ShareGroupDescribeRequest(Message, api_key=77, versions="0-1", flexible="0+"):
    """An administrator asks a coordinator for details of share groups."""

    group_ids: list[str]
    include_authorized_operations: bool


class Member(Struct):
    """A member of the group."""

    member_id: str
    rack_id: str | None = field(nullable="0+", default=None)
    member_epoch: int32
    client_id: str
    client_host: str
    subscribed_topic_names: list[str]
    assignment: NamedAssignment


class DescribedGroup(Struct):
    """A share group with its members."""

    error_code: int16
    error_message: str | None = field(nullable="0+", default=None)
    group_id: str
    group_state: str
    group_epoch: int32  # Rises with every change of members or topics.
    assignment_epoch: int32  # The group epoch of the assignment.
    assignor_name: str
    members: list[Member]
    # A bit for each operation; the lowest integer if not requested.
    authorized_operations: int32 = field(default=-(2**31))


class ShareGroupDescribeResponse(Message, api_key=77, versions="0-1", flexible="0+"):
    """The requested groups."""

    throttle_time_ms: int32
    groups: list[DescribedGroup]
