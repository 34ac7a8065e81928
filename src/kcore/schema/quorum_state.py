"""The file `quorum-state`, in which a voter stores its vote (KIP-595)."""

from kcore.schema.kinds import int32, int64
from kcore.schema.structure import Data, Struct, field
from kcore.types import Uuid


class Voter(Struct):
    """A voter of the quorum."""

    voter_id: int32


class QuorumStateData(Data, versions="0-1", flexible="0+"):
    """A replica's epoch, its vote and the leader, as JSON in a file."""

    cluster_id: str = field(versions="0")
    leader_id: int32 = field(default=-1)  # -1 for unknown.
    leader_epoch: int32 = field(default=-1)
    voted_id: int32 = field(default=-1)  # -1 for no vote.
    voted_directory_id: Uuid = field(versions="1+")  # KIP-853.
    applied_offset: int64 = field(versions="0")
    current_voters: list[Voter] | None = field(versions="0", nullable="0")  # Since version 1 the log has the voters.
