"""Classic groups."""

from kcore.schema.kinds import int16, int32
from kcore.schema.structure import Message, Struct, field


class JoinGroupRequestProtocol(Struct):
    """A part of JoinGroupRequest."""

    name: str
    metadata: bytes


class JoinGroupRequest(Message, api_key=11, versions="0-9", flexible="6+"):
    """JoinGroupRequest, as Kafka has it."""

    group_id: str
    session_timeout_ms: int32
    rebalance_timeout_ms: int32 = field(versions="1+", default=-1, ignorable=True)
    member_id: str
    group_instance_id: str | None = field(versions="5+", nullable="5+", default=None)
    protocol_type: str
    protocols: list[JoinGroupRequestProtocol]
    reason: str | None = field(versions="8+", nullable="8+", default=None, ignorable=True)


class JoinGroupResponseMember(Struct):
    """A part of JoinGroupResponse."""

    member_id: str
    group_instance_id: str | None = field(versions="5+", nullable="5+", default=None, ignorable=True)
    metadata: bytes


class JoinGroupResponse(Message, api_key=11, versions="0-9", flexible="6+"):
    """JoinGroupResponse, as Kafka has it."""

    throttle_time_ms: int32 = field(versions="2+", ignorable=True)
    error_code: int16
    generation_id: int32 = field(default=-1)
    protocol_type: str | None = field(versions="7+", nullable="7+", default=None, ignorable=True)
    protocol_name: str | None = field(nullable="7+")
    leader: str
    skip_assignment: bool = field(versions="9+")
    member_id: str
    members: list[JoinGroupResponseMember]


class SyncGroupRequestAssignment(Struct):
    """A part of SyncGroupRequest."""

    member_id: str
    assignment: bytes


class SyncGroupRequest(Message, api_key=14, versions="0-5", flexible="4+"):
    """SyncGroupRequest, as Kafka has it."""

    group_id: str
    generation_id: int32
    member_id: str
    group_instance_id: str | None = field(versions="3+", nullable="3+", default=None)
    protocol_type: str | None = field(versions="5+", nullable="5+", default=None, ignorable=True)
    protocol_name: str | None = field(versions="5+", nullable="5+", default=None, ignorable=True)
    assignments: list[SyncGroupRequestAssignment]


class SyncGroupResponse(Message, api_key=14, versions="0-5", flexible="4+"):
    """SyncGroupResponse, as Kafka has it."""

    throttle_time_ms: int32 = field(versions="1+", ignorable=True)
    error_code: int16
    protocol_type: str | None = field(versions="5+", nullable="5+", default=None, ignorable=True)
    protocol_name: str | None = field(versions="5+", nullable="5+", default=None, ignorable=True)
    assignment: bytes


class HeartbeatRequest(Message, api_key=12, versions="0-4", flexible="4+"):
    """HeartbeatRequest, as Kafka has it."""

    group_id: str
    generation_id: int32
    member_id: str
    group_instance_id: str | None = field(versions="3+", nullable="3+", default=None)


class HeartbeatResponse(Message, api_key=12, versions="0-4", flexible="4+"):
    """HeartbeatResponse, as Kafka has it."""

    throttle_time_ms: int32 = field(versions="1+", ignorable=True)
    error_code: int16


class MemberIdentity(Struct):
    """A part of LeaveGroupRequest."""

    member_id: str
    group_instance_id: str | None = field(nullable="3+", default=None)
    reason: str | None = field(versions="5+", nullable="5+", default=None, ignorable=True)


class LeaveGroupRequest(Message, api_key=13, versions="0-5", flexible="4+"):
    """LeaveGroupRequest, as Kafka has it."""

    group_id: str
    member_id: str = field(versions="0-2")
    members: list[MemberIdentity] = field(versions="3+")


class MemberResponse(Struct):
    """A part of LeaveGroupResponse."""

    member_id: str
    group_instance_id: str | None = field(nullable="3+")
    error_code: int16


class LeaveGroupResponse(Message, api_key=13, versions="0-5", flexible="4+"):
    """LeaveGroupResponse, as Kafka has it."""

    throttle_time_ms: int32 = field(versions="1+", ignorable=True)
    error_code: int16
    members: list[MemberResponse] = field(versions="3+")
