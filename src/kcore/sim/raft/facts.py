"""The facts about a whole world: the leader of each epoch, and the batches that any node wrote or committed."""

from kcore.raft.membership.replicas import ReplicaKey
from kcore.replication.raft_log import OffsetAndEpoch
from kcore.sim.raft.committed import CommittedLog


class Facts:
    """Filled by the checkers; read by them, by clients and by faults."""

    def __init__(self) -> None:
        self.committed = CommittedLog()
        self.written: dict[tuple[int, int], tuple[bytes, int]] = {}  # By offset and epoch: a batch, the epoch before.
        self.epoch_starts: dict[int, int] = {}  # The offset of the first batch of each epoch.
        self.leaders: dict[int, tuple[ReplicaKey, int]] = {}  # By epoch: the leader, and which incarnation of it.
        self.snapshots: dict[OffsetAndEpoch, bytes] = {}
        self.acknowledged = 0  # Appends.

    @property
    def last_epoch(self) -> int:
        """The last one that had a leader."""
        return max(self.leaders, default=0)
