"""The state machine of a simulated process, with a record of the calls that it gets from its node.

A state machine must get the records that are committed in this world. Records that it replayed as a leader must be
committed at the offsets that it expected. `checkers/consumer_checker.py` has the other rules.
"""

from collections import deque
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple, Protocol

from kcore.raft.log.batches import split_batches
from kcore.raft.node import RaftNode
from kcore.raft.state_machine import AnyAppend, Append, AppendBatches, SnapshotReader, StateMachine
from kcore.raft.states import Leader
from kcore.sim.kernel.violation import Violation
from kcore.sim.raft.committed import Held
from kcore.wire.records import values_of

NOBODY = -1, 0  # The leader and the epoch before the first LeaderChanged.
Outputs = Sequence[Any]


class Given(NamedTuple):
    """Committed records from `offset` on; no batches if the state machine had replayed them as a leader."""

    offset: int
    batches: bytes
    end_offset: int


class OwnMachine(Protocol):
    """The attributes of a machine that its state machine uses."""

    index: int
    incarnation: int
    node: RaftNode


class WatchedStateMachine:
    """Passes each call of the driver to `inner`, and checks that the node may make this call now."""

    reads_batches: ClassVar = True
    __slots__ = (
        *("_machine", "acknowledged", "epoch", "given", "high_watermark", "inner", "journal", "leader", "may_repeat"),
        *("position", "reader", "resigned"),
    )

    def __init__(self, machine: OwnMachine, inner: StateMachine[Any]) -> None:
        self._machine, self.inner = machine, inner
        # The node's effects so far.
        self.high_watermark = -1
        self.may_repeat = False  # Elected since: the high watermark may be repeated.
        self.leader = NOBODY  # The leader's id and epoch.
        self.resigned = -1  # The last epoch in which this node is known to have resigned.
        # The state that the driver's calls have made.
        self.position = 0  # Records below this offset are committed, or in a loaded snapshot.
        self.reader: SnapshotReader | None = None  # The last snapshot.
        self.epoch: int | None = None  # The epoch in which the state machine leads.
        self.journal: deque[Held] = deque()  # Records that are appended and not committed yet.
        # Calls that the checker compares after the event.
        self.given: list[Given] = []
        self.acknowledged: list[Held] = []

    @property
    def is_at_work(self) -> bool:
        """Whether the state machine still applies records."""
        return self.inner.is_at_work

    @property
    def is_reading(self) -> bool:
        """Whether the state machine still reads a snapshot."""
        return self.reader is not None and not self.reader.is_done

    def watch(self, outputs: Outputs) -> Outputs:
        """Notes the appends among outputs, which the state machine has replayed already."""
        for each in outputs:
            if type(each) is Append:
                self.journal.append(Held(each.expected_offset, each.epoch, tuple(each.records)))
            elif type(each) is AppendBatches:
                self.journal.append(Held(each.expected_offset, each.epoch, _values_in(each.batches)))
        return outputs

    # Calls of the driver.

    def on_leader(self, epoch: int, offset: int) -> Outputs:
        """Starts to lead."""
        node = self._machine.node
        message = f"node {self._machine.index}: its state machine starts to lead epoch {epoch} from {offset} on"
        if self.epoch is not None or type(node.state) is not Leader or node.epoch != epoch:
            raise Violation("LeaderReported", f"{message}; it leads {self.epoch}, and the node is {node.state}")
        if offset != self.position or offset != node.next_offset:
            raise Violation("LeaderReported", f"{message}; it is at {self.position}, the node at {node.next_offset}")
        self.epoch = epoch
        return self.watch(self.inner.on_leader(epoch, offset))

    def on_committed(self, batches: bytes, end_offset: int) -> Outputs:
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
        return self.watch(self.inner.on_committed(batches, end_offset))

    def _given_wrongly(self, invariant: str, end_offset: int, why: str) -> Violation:
        message = f"node {self._machine.index}: its state machine gets the commits up to {end_offset}"
        return Violation(invariant, f"{message}; {why}")

    def on_resigned(self, epoch: int) -> Outputs:
        """The uncommitted records are void."""
        if epoch != self.epoch:
            message = f"node {self._machine.index}: its state machine resigns in epoch {epoch}"
            raise Violation("LeaderReported", f"{message}; it leads {self.epoch}")
        self.epoch = None
        self.journal.clear()
        return self.watch(self.inner.on_resigned(epoch))

    def on_refused(self, append: AnyAppend, next_offset: int) -> Outputs:
        """The refused records and all later records are void."""
        while self.journal and self.journal[-1].offset >= append.expected_offset:
            self.journal.pop()
        return self.watch(self.inner.on_refused(append, next_offset))

    def on_snapshot(self, reader: SnapshotReader) -> Outputs:
        offset, index = reader.snapshot.offset, self._machine.index
        if self.epoch is not None:
            raise Violation("LeaderNeverLoadsSnapshot", f"node {index} leads {self.epoch} and reads {reader.snapshot}")
        if offset < self.position:
            raise Violation("CommitReported", f"node {index} was at {self.position} and reads {reader.snapshot}")
        self.position, self.reader = offset, reader
        return self.watch(self.inner.on_snapshot(reader))


def _values_in(batches: bytes) -> tuple[bytes, ...]:
    """The records' values in these batches."""
    found = split_batches(batches, check_crc=False)[0]
    return tuple(value or b"" for batch in found for value in values_of(batch.data).values())
