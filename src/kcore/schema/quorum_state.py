"""Quorum state."""

from kcore.schema.kinds import int32, int64
from kcore.schema.structure import Data, Struct, field
from kcore.types import Uuid


class Voter(Struct):
    """A part of QuorumStateData."""

    voter_id: int32


class QuorumStateData(Data, versions="0-1", flexible="0+"):
    """QuorumStateData, as Kafka has it."""

    cluster_id: str = field(versions="0")
    leader_id: int32 = field(default=-1)
    leader_epoch: int32 = field(default=-1)
    voted_id: int32 = field(default=-1)
    voted_directory_id: Uuid = field(versions="1+")
    applied_offset: int64 = field(versions="0")
    current_voters: list[Voter] | None = field(versions="0", nullable="0")
