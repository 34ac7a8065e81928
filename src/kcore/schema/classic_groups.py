"""The classic group protocol: members join, one member makes the assignment, all members sync and send heartbeats."""

from kcore.schema.kinds import int16, int32
from kcore.schema.structure import Message, Struct, field


class JoinGroupRequestProtocol(Struct):
    """An assignment protocol that the member supports, and the member's data for the group's leader."""

    name: str
    metadata: bytes  # For consumers a ConsumerProtocolSubscription with its version in front.


class JoinGroupRequest(Message, api_key=11, versions="0-9", flexible="6+"):
    """A member enters a new generation of the group."""

    group_id: str
    session_timeout_ms: int32  # A member without a heartbeat for this long is removed.
    # The time that members have to join again in a rebalance (KIP-62).
    rebalance_timeout_ms: int32 = field(versions="1+", default=-1, ignorable=True)
    member_id: str  # Empty for a new member; the coordinator then assigns an id (KIP-394).
    # Only for a static member (KIP-345).
    group_instance_id: str | None = field(versions="5+", nullable="5+", default=None)
    protocol_type: str  # "consumer", "connect" ...
    protocols: list[JoinGroupRequestProtocol]  # The preferred protocol first.
    # For the coordinator's log (KIP-800).
    reason: str | None = field(versions="8+", nullable="8+", default=None, ignorable=True)


class JoinGroupResponseMember(Struct):
    """A member, with the data that the group's leader needs."""

    member_id: str
    group_instance_id: str | None = field(versions="5+", nullable="5+", default=None, ignorable=True)
    metadata: bytes


class JoinGroupResponse(Message, api_key=11, versions="0-9", flexible="6+"):
    """The new generation; only the group's leader gets the list of members."""

    throttle_time_ms: int32 = field(versions="2+", ignorable=True)
    error_code: int16
    generation_id: int32 = field(default=-1)
    protocol_type: str | None = field(versions="7+", nullable="7+", default=None, ignorable=True)  # KIP-559.
    protocol_name: str | None = field(nullable="7+")  # The protocol that the coordinator chose; null after an error.
    leader: str  # The member that makes the assignment.
    skip_assignment: bool = field(versions="9+")  # A returned static leader keeps the assignment (KIP-814).
    member_id: str
    members: list[JoinGroupResponseMember]


class SyncGroupRequestAssignment(Struct):
    """The leader's assignment for one member."""

    member_id: str
    assignment: bytes  # For consumers a ConsumerProtocolAssignment with its version in front.


class SyncGroupRequest(Message, api_key=14, versions="0-5", flexible="4+"):
    """The group's leader sends the assignment; every member asks for its own part."""

    group_id: str
    generation_id: int32
    member_id: str
    group_instance_id: str | None = field(versions="3+", nullable="3+", default=None)
    # The coordinator checks the type and the name of the protocol (KIP-559).
    protocol_type: str | None = field(versions="5+", nullable="5+", default=None, ignorable=True)
    protocol_name: str | None = field(versions="5+", nullable="5+", default=None, ignorable=True)
    assignments: list[SyncGroupRequestAssignment]  # Empty except from the leader.


class SyncGroupResponse(Message, api_key=14, versions="0-5", flexible="4+"):
    """The member's part of the assignment."""

    throttle_time_ms: int32 = field(versions="1+", ignorable=True)
    error_code: int16
    protocol_type: str | None = field(versions="5+", nullable="5+", default=None, ignorable=True)
    protocol_name: str | None = field(versions="5+", nullable="5+", default=None, ignorable=True)
    assignment: bytes


class HeartbeatRequest(Message, api_key=12, versions="0-4", flexible="4+"):
    """A member's heartbeat; the response says whether the member must join again."""

    group_id: str
    generation_id: int32
    member_id: str
    group_instance_id: str | None = field(versions="3+", nullable="3+", default=None)


class HeartbeatResponse(Message, api_key=12, versions="0-4", flexible="4+"):
    """The error REBALANCE_IN_PROGRESS makes the member send JoinGroup again."""

    throttle_time_ms: int32 = field(versions="1+", ignorable=True)
    error_code: int16


class MemberIdentity(Struct):
    """A member that leaves."""

    member_id: str
    group_instance_id: str | None = field(nullable="3+", default=None)
    # For the coordinator's log (KIP-800).
    reason: str | None = field(versions="5+", nullable="5+", default=None, ignorable=True)


class LeaveGroupRequest(Message, api_key=13, versions="0-5", flexible="4+"):
    """A member leaves the group, or an administrator removes static members (KIP-345)."""

    group_id: str
    member_id: str = field(versions="0-2")
    members: list[MemberIdentity] = field(versions="3+")


class MemberResponse(Struct):
    """The result for one member."""

    member_id: str
    group_instance_id: str | None = field(nullable="3+")
    error_code: int16


class LeaveGroupResponse(Message, api_key=13, versions="0-5", flexible="4+"):
    """The coordinator's answer, member by member."""

    throttle_time_ms: int32 = field(versions="1+", ignorable=True)
    error_code: int16
    members: list[MemberResponse] = field(versions="3+")
