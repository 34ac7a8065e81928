"""Checks that snapshots of one id are equal on all nodes and committed, and that each log begins at a snapshot."""

from typing import Final

from kcore.raft.log.batches import split_batches
from kcore.replication.raft_log import OffsetAndEpoch
from kcore.sim.kernel.violation import Violation
from kcore.sim.raft.checkers.base import Checker
from kcore.sim.raft.simulated_machine import Machine
from kcore.sim.raft.world_state import WorldState

WHOLE: Final = 1 << 40
FIRST: Final = OffsetAndEpoch(0, 0)  # The snapshot with which a dynamic quorum is formatted (KIP-853).


class Snapshots(Checker):
    """SameSnapshots, SnapshotIsCommitted, SnapshotAtLogStart: the invariants of this checker."""

    def __init__(self, world: WorldState) -> None:
        super().__init__(world)
        self._starts: dict[int, int] = {}  # By machine: the start offset of its log.
        self._whole: set[OffsetAndEpoch] = set()  # Snapshots with checked batches.

    def on_open(self, machine: Machine) -> None:
        """After a start each snapshot is whole and equals its copies, and the log begins at a snapshot or before it."""
        log = machine.log
        for snapshot in log.damaged_snapshots:  # A snapshot is durable before it gets its name: no crash damages it.
            raise Violation("SameSnapshots", f"node {machine.index} finds {snapshot} damaged")
        for snapshot in log.snapshots:
            piece = log.snapshot_piece(snapshot, 0, WHOLE)
            assert piece is not None
            if snapshot in self._whole and piece.data == self.facts.snapshots[snapshot]:
                continue
            batches, problem = split_batches(piece.data)
            is_whole = problem is None and sum(len(batch.data) for batch in batches) == len(piece.data) > 0
            if not is_whole or self.facts.snapshots.setdefault(snapshot, piece.data) != piece.data:
                raise Violation("SameSnapshots", f"node {machine.index} finds {snapshot} with other bytes: {problem}")
            self._whole.add(snapshot)
        self._check_start(machine, is_new=True)

    def on_frozen(self, machine: Machine, snapshot: OffsetAndEpoch) -> None:
        """All machines have the same bytes for one snapshot id, and the id is a committed offset and epoch."""
        piece = machine.log.snapshot_piece(snapshot, 0, WHOLE)
        if piece is None or self.facts.snapshots.setdefault(snapshot, piece.data) != piece.data:
            raise Violation("SameSnapshots", f"node {machine.index} has {snapshot} with other bytes")
        if snapshot != FIRST and self.facts.committed.epochs.get(snapshot.offset) != snapshot.epoch:
            raise Violation("SnapshotIsCommitted", f"node {machine.index} has {snapshot}, which is not committed")

    def after_write(self, machine: Machine) -> None:
        if machine.log.start_offset != self._starts.get(machine.index):
            self._check_start(machine)

    def _check_start(self, machine: Machine, *, is_new: bool = False) -> None:
        """The log begins at 0 or at the end of its earliest snapshot.

        After a start (`is_new`) the log begins with its first segment, which may have records before that end.
        """
        log = machine.log
        self._starts[machine.index] = log.start_offset
        earliest = log.earliest_snapshot
        ends = range(log.start_offset, (log.end_offset if is_new else log.start_offset) + 1)
        if log.start_offset > 0 and (earliest is None or earliest.offset not in ends):
            message = f"node {machine.index}: the log begins at {log.start_offset}, the earliest snapshot is {earliest}"
            raise Violation("SnapshotAtLogStart", message)
        is_kept = earliest is not None and earliest.offset >= log.start_offset > 0
        if earliest is not None and is_kept and log.validate_offset_and_epoch(*earliest).kind != "VALID":
            message = f"node {machine.index}: {earliest} does not fit the epochs of its own log"
            raise Violation("SnapshotAtLogStart", message)
