"""The state machine of each simulated node: it replays its appends, and records the calls that it gets.

It must get the records that were committed in this world. Records that it replayed as a leader must be committed at the
offsets that it expected. `checkers/consumer_checker.py` has the other rules.
"""

from collections import deque
from collections.abc import Sequence
from typing import ClassVar, NamedTuple, Protocol

from kcore.raft.log.batches import split_batches
from kcore.raft.node import RaftNode
from kcore.raft.state_machine import AnyAppend, Append, SnapshotReader
from kcore.raft.states import Leader
from kcore.sim.kernel.violation import Violation
from kcore.sim.raft.committed import Held
from kcore.sim.raft.facts import Facts
from kcore.wire.records import records_of

NOBODY = -1, 0  # The leader and the epoch before the first LeaderChanged.


class Given(NamedTuple):
    """Committed records from `offset` on; no batches if the state machine had replayed them as a leader."""

    offset: int
    batches: bytes
    end_offset: int


class ConsumersMachine(Protocol):
    """The attributes of a machine that its consumer uses."""

    index: int
    incarnation: int
    node: RaftNode


class Consumer:
    """The state machine of one process. In odd incarnations it reads a snapshot slice by slice, otherwise at once."""

    reads_batches: ClassVar = True
    is_at_work: ClassVar = False
    __slots__ = (
        *("_facts", "_is_slow", "_machine", "acknowledged", "epoch", "given", "high_watermark", "journal", "leader"),
        *("may_repeat", "next_offset", "position", "reader", "resigned"),
    )

    def __init__(self, machine: ConsumersMachine, facts: Facts) -> None:
        self._machine, self._facts = machine, facts
        self._is_slow = machine.incarnation % 2 == 1
        # The node's effects so far.
        self.high_watermark = -1
        self.may_repeat = False  # Elected since: the high watermark may be repeated.
        self.leader = NOBODY  # The leader's id and epoch.
        self.resigned = -1  # The last epoch in which this node is known to have resigned.
        # The state that the driver's calls have made.
        self.position = 0  # Records below this offset are committed, or in a loaded snapshot.
        self.reader: SnapshotReader | None = None  # Set until the snapshot is read.
        self.epoch: int | None = None  # The epoch in which the state machine leads.
        self.next_offset = -1
        self.journal: deque[Held] = deque()
        # Calls that the checker compares after the event.
        self.given: list[Given] = []
        self.acknowledged: list[Held] = []

    def decide(self, *values: bytes) -> Append | None:
        """Replays `values`, and returns their append at the next offset; None if the state machine does not lead."""
        if self.epoch is None:
            return None
        self.journal.append(Held(self.next_offset, self.epoch, values))
        self.next_offset += len(values)
        return Append(values, self.epoch, self.next_offset - len(values))

    # Calls of the driver.

    def on_leader(self, epoch: int, offset: int) -> Sequence[Append]:
        """Starts to lead; returns the append of a first record, which a new controller makes too."""
        node = self._machine.node
        message = f"node {self._machine.index}: its state machine starts to lead epoch {epoch} from {offset} on"
        if self.epoch is not None or type(node.state) is not Leader or node.epoch != epoch:
            raise Violation("LeaderReported", f"{message}; it leads {self.epoch}, and the node is {node.state}")
        if offset != self.position or offset != node.next_offset:
            raise Violation("LeaderReported", f"{message}; it is at {self.position}, the node at {node.next_offset}")
        self.epoch, self.next_offset = epoch, offset
        first = self.decide(b"leader of epoch %d" % epoch)
        return (first,) if first is not None else ()

    def on_committed(self, batches: bytes, end_offset: int) -> Sequence[Append]:
        if self.epoch is not None and batches:
            raise self._given_wrongly("CommitReported", end_offset, f"it leads epoch {self.epoch} and has replayed it")
        if end_offset <= self.position:
            raise self._given_wrongly("CommitReported", end_offset, f"it was at {self.position}")
        if end_offset > self.high_watermark:
            raise self._given_wrongly("ReadsBelowHighWatermark", end_offset, f"the node is at {self.high_watermark}")
        self.given.append(Given(self.position, batches, end_offset))
        self.position = end_offset
        while self.journal and self.journal[0].end_offset <= end_offset:
            self.acknowledged.append(self.journal.popleft())
        return ()

    def _given_wrongly(self, invariant: str, end_offset: int, why: str) -> Violation:
        message = f"node {self._machine.index}: its state machine gets the commits up to {end_offset}"
        return Violation(invariant, f"{message}; {why}")

    def on_resigned(self, epoch: int) -> Sequence[Append]:
        """Reverts the uncommitted records."""
        if epoch != self.epoch:
            message = f"node {self._machine.index}: its state machine resigns in epoch {epoch}"
            raise Violation("LeaderReported", f"{message}; it leads {self.epoch}")
        self.epoch = None
        self.journal.clear()
        return ()

    def on_refused(self, append: AnyAppend, next_offset: int) -> Sequence[Append]:
        """Reverts the refused records and all later records, and decides the same records again."""
        refused = []
        while self.journal and self.journal[-1].offset >= append.expected_offset:
            refused.append(self.journal.pop().values)
        self.next_offset = next_offset
        return [again for values in reversed(refused) if (again := self.decide(*values)) is not None]

    def on_snapshot(self, reader: SnapshotReader) -> Sequence[Append]:
        offset, index = reader.snapshot.offset, self._machine.index
        if self.epoch is not None:
            raise Violation("LeaderNeverLoadsSnapshot", f"node {index} leads {self.epoch} and reads {reader.snapshot}")
        if offset < self.position:
            raise Violation("CommitReported", f"node {index} was at {self.position} and reads {reader.snapshot}")
        self.position, self.reader = offset, reader
        while self.reader is not None and not self._is_slow:
            self.read_on()
        return ()

    def read_on(self) -> None:
        """Reads one slice of the snapshot, unless it is read already."""
        if self.reader is None:
            return
        batches = next(self.reader, None)
        if batches is None:
            self.reader = None
            return
        first = next((each for each in split_batches(batches, check_crc=False)[0] if not each.is_control), None)
        if first is None:
            return  # The first snapshot of a dynamic quorum has control records only.
        state = records_of(first.data)[0].value
        if state != self._facts.committed.checksums[self.reader.snapshot.offset].to_bytes(4):
            raise Violation("SameCommittedData", f"node {self._machine.index} reads {self.reader.snapshot}: {state!r}")
