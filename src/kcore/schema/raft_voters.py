"""Raft voters."""

from kcore.schema.kinds import int16, int32, uint16
from kcore.schema.structure import Message, Struct, field
from kcore.types import Uuid


class Listener(Struct):
    """A part of AddRaftVoterRequest."""

    name: str
    host: str
    port: uint16


class AddRaftVoterRequest(Message, api_key=80, versions="0-1", flexible="0+"):
    """AddRaftVoterRequest, as Kafka has it."""

    cluster_id: str | None = field(nullable="0+")
    timeout_ms: int32
    voter_id: int32
    voter_directory_id: Uuid
    listeners: list[Listener]
    ack_when_committed: bool = field(versions="1+", default=True)


class AddRaftVoterResponse(Message, api_key=80, versions="0-1", flexible="0+"):
    """AddRaftVoterResponse, as Kafka has it."""

    throttle_time_ms: int32
    error_code: int16
    error_message: str | None = field(nullable="0+", ignorable=True)


class RemoveRaftVoterRequest(Message, api_key=81, versions="0", flexible="0+"):
    """RemoveRaftVoterRequest, as Kafka has it."""

    cluster_id: str | None = field(nullable="0+")
    voter_id: int32
    voter_directory_id: Uuid


class RemoveRaftVoterResponse(Message, api_key=81, versions="0", flexible="0+"):
    """RemoveRaftVoterResponse, as Kafka has it."""

    throttle_time_ms: int32
    error_code: int16
    error_message: str | None = field(nullable="0+", ignorable=True)


class KRaftVersionFeature(Struct):
    """A part of UpdateRaftVoterRequest."""

    min_supported_version: int16
    max_supported_version: int16


class UpdateRaftVoterRequest(Message, api_key=82, versions="0", flexible="0+"):
    """UpdateRaftVoterRequest, as Kafka has it."""

    cluster_id: str | None = field(nullable="0+")
    current_leader_epoch: int32
    voter_id: int32
    voter_directory_id: Uuid
    listeners: list[Listener]
    kraft_version_feature: KRaftVersionFeature = field(json_name="kRaftVersionFeature")


class CurrentLeader(Struct):
    """A part of UpdateRaftVoterResponse."""

    leader_id: int32 = field(default=-1)
    leader_epoch: int32 = field(default=-1)
    host: str
    port: int32


class UpdateRaftVoterResponse(Message, api_key=82, versions="0", flexible="0+"):
    """UpdateRaftVoterResponse, as Kafka has it."""

    throttle_time_ms: int32
    error_code: int16
    current_leader: CurrentLeader = field(tag=0, tagged="0+")
