"""The state machine of the nodes of `kcore sim raft`: it appends the records of clients, and reads snapshots."""

from collections import deque
from collections.abc import Sequence
from typing import ClassVar

from kcore.raft.log.batches import split_batches
from kcore.raft.state_machine import AnyAppend, Append, SnapshotReader
from kcore.sim.kernel.violation import Violation
from kcore.sim.raft.committed import Facts
from kcore.sim.raft.watched_state_machine import OwnMachine
from kcore.wire.records import records_of


class Consumer:
    """The state machine of one process. In odd incarnations it reads a snapshot slice by slice, otherwise at once."""

    reads_batches: ClassVar = True
    is_at_work: ClassVar = False
    __slots__ = ("_facts", "_is_slow", "_machine", "_reader", "_undecided", "epoch", "next_offset")

    def __init__(self, machine: OwnMachine, facts: Facts) -> None:
        self._machine, self._facts = machine, facts
        self._is_slow = machine.incarnation % 2 == 1
        self._reader: SnapshotReader | None = None  # Set until the snapshot is read.
        self._undecided: deque[Append] = deque()  # Appends that are not committed yet.
        self.epoch: int | None = None  # The epoch in which the state machine leads.
        self.next_offset = -1

    def decide(self, *values: bytes) -> Append | None:
        """Replays `values`, and returns their append at the next offset; None if the state machine does not lead."""
        if self.epoch is None:
            return None
        append = Append(values, self.epoch, self.next_offset)
        self._undecided.append(append)
        self.next_offset += len(values)
        return append

    # Calls of the driver.

    def on_leader(self, epoch: int, offset: int) -> Sequence[Append]:
        """Starts to lead; returns the append of a first record, which a new controller makes too."""
        self.epoch, self.next_offset = epoch, offset
        first = self.decide(b"leader of epoch %d" % epoch)
        return (first,) if first is not None else ()

    def on_committed(self, batches: bytes, end_offset: int) -> Sequence[Append]:
        while self._undecided and self._undecided[0].expected_offset + len(self._undecided[0].records) <= end_offset:
            self._undecided.popleft()
        return ()

    def on_resigned(self, epoch: int) -> Sequence[Append]:
        """Reverts the uncommitted records."""
        self.epoch = None
        self._undecided.clear()
        return ()

    def on_refused(self, append: AnyAppend, next_offset: int) -> Sequence[Append]:
        """Reverts the refused records and all later records, and decides the same records again."""
        refused = []
        while self._undecided and self._undecided[-1].expected_offset >= append.expected_offset:
            refused.append(self._undecided.pop().records)
        self.next_offset = next_offset
        return [again for values in reversed(refused) if (again := self.decide(*values)) is not None]

    def on_snapshot(self, reader: SnapshotReader) -> Sequence[Append]:
        self._reader = reader
        while self._reader is not None and not self._is_slow:
            self.read_on()
        return ()

    def read_on(self) -> None:
        """Reads one slice of the snapshot, unless it is read already."""
        if self._reader is None:
            return
        batches = next(self._reader, None)
        if batches is None:
            self._reader = None
            return
        first = next((each for each in split_batches(batches, check_crc=False)[0] if not each.is_control), None)
        if first is None:
            return  # The first snapshot of a dynamic quorum has control records only.
        state = records_of(first.data)[0].value
        if state != self._facts.committed.checksums[self._reader.snapshot.offset].to_bytes(4):
            raise Violation("SameCommittedData", f"node {self._machine.index} reads {self._reader.snapshot}: {state!r}")
