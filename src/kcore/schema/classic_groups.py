"""The classic group protocol: members join, one of them assigns, all sync and send heartbeats."""

from kcore.schema.kinds import int16, int32
from kcore.schema.structure import Message, Struct, field


class JoinGroupRequestProtocol(Struct):
    """An assignment protocol of the member, with the data that the assigning member needs for it."""

    name: str
    metadata: bytes  # For consumers a ConsumerProtocolSubscription with its version in front.


class JoinGroupRequest(Message, api_key=11, versions="0-9", flexible="6+"):
    """A member enters a new generation of the group."""

    group_id: str
    session_timeout_ms: int32  # A member without a heartbeat for this long is removed.
    # How long the members have to join again (KIP-62).
    rebalance_timeout_ms: int32 = field(versions="1+", default=-1, ignorable=True)
    member_id: str  # Empty for a new member; the coordinator then assigns an id (KIP-394).
    # Only for a static member (KIP-345).
    group_instance_id: str | None = field(versions="5+", nullable="5+", default=None)
    protocol_type: str  # "consumer", "connect" ...
    protocols: list[JoinGroupRequestProtocol]  # Best first.
    # For the coordinator's log (KIP-800).
    reason: str | None = field(versions="8+", nullable="8+", default=None, ignorable=True)


class JoinGroupResponseMember(Struct):
    """A member, with the data that the group's leader needs."""

    member_id: str
    group_instance_id: str | None = field(versions="5+", nullable="5+", default=None, ignorable=True)
    metadata: bytes


class JoinGroupResponse(Message, api_key=11, versions="0-9", flexible="6+"):
    """The new generation; only its leader gets the members."""

    throttle_time_ms: int32 = field(versions="2+", ignorable=True)
    error_code: int16
    generation_id: int32 = field(default=-1)
    protocol_type: str | None = field(versions="7+", nullable="7+", default=None, ignorable=True)  # KIP-559.
    protocol_name: str | None = field(nullable="7+")  # The protocol that all members have; null if there is an error.
    leader: str  # The member that assigns.
    skip_assignment: bool = field(versions="9+")  # A static leader came back: the assignment stays (KIP-814).
    member_id: str
    members: list[JoinGroupResponseMember]


class SyncGroupRequestAssignment(Struct):
    """The leader's assignment for one member."""

    member_id: str
    assignment: bytes  # For consumers a ConsumerProtocolAssignment with its version in front.


class SyncGroupRequest(Message, api_key=14, versions="0-5", flexible="4+"):
    """The leader sends its assignment; the others ask for their part."""

    group_id: str
    generation_id: int32
    member_id: str
    group_instance_id: str | None = field(versions="3+", nullable="3+", default=None)
    # With the name, so that the coordinator can check them (KIP-559).
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
    """A member's sign of life; the response says whether it must join again."""

    group_id: str
    generation_id: int32
    member_id: str
    group_instance_id: str | None = field(versions="3+", nullable="3+", default=None)


class HeartbeatResponse(Message, api_key=12, versions="0-4", flexible="4+"):
    """REBALANCE_IN_PROGRESS sends the member back to JoinGroup."""

    throttle_time_ms: int32 = field(versions="1+", ignorable=True)
    error_code: int16


class MemberIdentity(Struct):
    """A member that leaves."""

    member_id: str
    group_instance_id: str | None = field(nullable="3+", default=None)
    # For the coordinator's log (KIP-800).
    reason: str | None = field(versions="5+", nullable="5+", default=None, ignorable=True)


class LeaveGroupRequest(Message, api_key=13, versions="0-5", flexible="4+"):
    """Members leave: on their own or, static ones, by an administrator (KIP-345)."""

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
