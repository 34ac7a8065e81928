"""Snapshots of controllers and brokers: written slice by slice, between other events."""

from collections.abc import Callable, Iterator
from typing import Final

from kcore.errors import LevelError
from kcore.raft import snapshots as raft_snapshots
from kcore.raft.log.snapshot_writing import SnapshotWriter
from kcore.replication.raft_log import OffsetAndEpoch
from kcore.sim.cluster.process_events import ProcessEvents
from kcore.sim.raft.running_world import RunningWorld
from kcore.sim.raft.simulated_machine import Machine

SLICES_AT_ONCE: Final = 8
SLICE_US: Final = 5_000  # The mean time between two events of a writer.
MOVES_START: Final = 0.7  # The share of snapshots before which the log is then deleted.


class Snapshot:
    """A snapshot of the state at `offset` that is about to be written. `release` is called at its end."""

    def __init__(self, offset: int, slices: Callable[[int], Iterator[bytes]], release: Callable[[], None]) -> None:
        """`slices(epoch)`: the state as whole batches."""
        self.offset, self.slices, self.release = offset, slices, release


class SnapshotWriting:
    """Writes one snapshot of a process."""

    def __init__(self, world: RunningWorld, machine: Machine, snapshot: Snapshot) -> None:
        self._world, self._machine, self._snapshot = world, machine, snapshot
        self._events = ProcessEvents(world, machine)

    def begin(self) -> None:
        """Begins, unless the log has the snapshot already or can have none at this offset."""
        offset, machine = self._snapshot.offset, self._machine
        epoch = machine.log.epochs.epoch_for_offset(offset - 1)
        writer = None
        if epoch is not None and offset >= machine.log.start_offset:
            writer = machine.node.begin_snapshot(OffsetAndEpoch(offset, epoch), 0, 0)
        if writer is None:
            self._world.seen["snapshot refused"] += 1
            self._snapshot.release()
            return
        self._go_on(writer, self._snapshot.slices(writer.snapshot.epoch))

    def _go_on(self, writer: SnapshotWriter, slices: Iterator[bytes]) -> None:
        for _ in range(SLICES_AT_ONCE):
            try:
                batches = next(slices, None)
            except LevelError:  # The state at the offset has no metadata.version. Production logs the failure.
                self._world.seen["snapshot failed"] += 1
                self._snapshot.release()
                writer.drop()
                return
            if batches is None:
                self._finish(writer)
                return
            if batches:
                writer.add(batches)
        delay_us = int(SLICE_US * 2 * self._world.dice())
        self._events.after_us(delay_us, lambda: self._go_on(writer, slices), "a snapshot slice is written")

    def _finish(self, writer: SnapshotWriter) -> None:
        self._snapshot.release()
        writer.flush()()
        if not writer.freeze():
            self._world.seen["snapshot too late"] += 1
            return
        self._world.seen["snapshot made"] += 1
        is_moved = self._world.dice() < MOVES_START
        if is_moved and raft_snapshots.delete_before(self._machine.node, writer.snapshot):
            self._world.seen["log start moved"] += 1
