"""Changes of the quorum's voters at run time (KIP-853)."""

from kcore.schema.control_records import KRaftVersionFeature as KRaftVersionFeature
from kcore.schema.kinds import int16, int32, uint16
from kcore.schema.structure import Message, Struct, field
from kcore.types import Uuid


class Listener(Struct):
    """One listener of a voter."""

    name: str
    host: str
    port: uint16


class AddRaftVoterRequest(Message, api_key=80, versions="0-1", flexible="0+"):
    """An administrator adds a voter to the quorum, or a controller adds itself."""

    cluster_id: str | None = field(nullable="0+")
    timeout_ms: int32  # Time limit of the whole operation.
    voter_id: int32
    voter_directory_id: Uuid
    listeners: list[Listener]  # The voter's endpoints for other voters.
    # If False, the leader answers as soon as it has appended the change (KIP-1186).
    ack_when_committed: bool = field(versions="1+", default=True)


class AddRaftVoterResponse(Message, api_key=80, versions="0-1", flexible="0+"):
    """The leader's answer to the request to add a voter."""

    throttle_time_ms: int32
    error_code: int16
    error_message: str | None = field(nullable="0+", ignorable=True)


class RemoveRaftVoterRequest(Message, api_key=81, versions="0", flexible="0+"):
    """An administrator removes a voter from the quorum."""

    cluster_id: str | None = field(nullable="0+")
    voter_id: int32
    voter_directory_id: Uuid


class RemoveRaftVoterResponse(Message, api_key=81, versions="0", flexible="0+"):
    """The leader's answer to the request to remove a voter."""

    throttle_time_ms: int32
    error_code: int16
    error_message: str | None = field(nullable="0+", ignorable=True)


class UpdateRaftVoterRequest(Message, api_key=82, versions="0", flexible="0+"):
    """A starting voter sends the leader its listeners and versions."""

    cluster_id: str | None = field(nullable="0+")
    current_leader_epoch: int32
    voter_id: int32
    voter_directory_id: Uuid
    listeners: list[Listener]
    kraft_version_feature: KRaftVersionFeature = field(json_name="kRaftVersionFeature")


class CurrentLeader(Struct):
    """The present leader, if the answering voter knows it."""

    leader_id: int32 = field(default=-1)
    leader_epoch: int32 = field(default=-1)
    host: str
    port: int32


class UpdateRaftVoterResponse(Message, api_key=82, versions="0", flexible="0+"):
    """The result, or the present leader."""

    throttle_time_ms: int32
    error_code: int16
    current_leader: CurrentLeader = field(tag=0, tagged="0+")
