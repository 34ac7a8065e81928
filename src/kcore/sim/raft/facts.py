"""The facts about a whole world: the leader of each epoch, and the batches that any node wrote or committed."""

from kcore.raft.membership.replicas import ReplicaKey
from kcore.replication.raft_log import OffsetAndEpoch
from kcore.sim.raft.committed import CommittedLog


class Facts:
    """Facts that checkers add; checkers, clients and faults read them."""

    def __init__(self) -> None:
        self.committed = CommittedLog()
        self.written: dict[tuple[int, int], tuple[bytes, int]] = {}  # By offset and epoch: batch, previous epoch.
        self.epoch_starts: dict[int, int] = {}  # The offset of the first batch of each epoch.
        self.leaders: dict[int, tuple[ReplicaKey, int]] = {}  # By epoch: the leader and its incarnation.
        self.snapshots: dict[OffsetAndEpoch, bytes] = {}  # The bytes of each snapshot.
        self.acknowledged = 0  # The number of appends that leaders saw committed.

    @property
    def last_epoch(self) -> int:
        """The last epoch that had a leader."""
        return max(self.leaders, default=0)
