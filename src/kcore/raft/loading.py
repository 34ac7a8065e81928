"""A leader's snapshot on its way into a follower's log."""

from kcore.raft.batches import split_batches
from kcore.raft.control_records import replay_batches
from kcore.raft.voters import VoterHistory, VoterSet
from kcore.replication.raft_log import OffsetAndEpoch


class LoadingSnapshot:
    """One that comes in pieces, cut anywhere; read along as it comes, so that no damaged one is ever installed."""

    __slots__ = ("history", "id", "size", "unread")

    def __init__(self, snapshot: OffsetAndEpoch, static_voters: VoterSet) -> None:
        self.id = snapshot
        self.size = 0
        self.unread = b""  # The beginning of a batch.
        self.history = VoterHistory(static_voters)

    def read(self, data: bytes) -> None:
        """DecodeError for what is no snapshot."""
        batches, problem = split_batches(self.unread + data)
        if problem:
            raise problem
        self.unread = (self.unread + data)[sum(len(batch.data) for batch in batches) :]
        replay_batches(self.history, batches, at=self.id.offset - 1)
