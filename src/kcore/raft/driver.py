"""Between a raft node and its state machine: the node's effects go in, the machine is told what they mean for it.

The machine is at one offset: all records below it were given, or the machine has replayed them as a leader. What is
committed behind that offset is read from the log, a slice at a time, so that no other event of the node waits for a
machine that is far behind. Source: KafkaRaftClient.ListenerContext.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, Generic, TypeAlias, TypeVar

from kcore.errors import RaftLogError
from kcore.raft.batches import split_batches
from kcore.raft.effects import Committed, Effect, LeaderChanged, SnapshotLoaded
from kcore.raft.log import Refused
from kcore.raft.node import RaftNode
from kcore.raft.state_machine import (
    SLICE_BYTES,
    AnyAppend,
    Append,
    AppendBatches,
    Resign,
    SnapshotReader,
    StateMachine,
    UpgradeKraftVersion,
)

E = TypeVar("E")
Told: TypeAlias = Committed | LeaderChanged | SnapshotLoaded  # The effects that are for the machine.


class StateMachineDriver(Generic[E]):
    """Of one node and its one state machine.

    The edge gives it each effect of the node that is for the machine (`note`), calls `catch_up` as long as `has_more`,
    and hands what comes of it, or of an event of the machine's own, to `submit`.
    """

    __slots__ = (
        "_committed",
        "_led_epoch",
        "_machine",
        "_needs_snapshot",
        "_node",
        "_reader",
        "_unled_epoch",
        "position",
    )

    def __init__(self, node: RaftNode, machine: StateMachine[E]) -> None:
        """At any time: the machine begins with the latest snapshot of the log, if there is one."""
        self._node, self._machine = node, machine
        self.position = 0  # Records below it were given, are in a snapshot that was, or were replayed and committed.
        self._committed = node.high_watermark or 0
        self._needs_snapshot = node.log.latest_snapshot is not None
        self._reader: SnapshotReader | None = None  # Until it is read.
        self._led_epoch: int | None = None  # The machine was told that it leads it.
        self._unled_epoch: int | None = None  # The node leads it; the machine has yet to catch up.
        if node.leads and node.high_watermark is not None:
            self._unled_epoch = node.epoch

    # What the machine is told.

    def note(self, effect: Told) -> Sequence[AnyAppend | Resign | E]:
        """An effect of the node. What a leader has lost is told at once, before anything that comes behind it."""
        if isinstance(effect, Committed):
            self._committed = max(self._committed, effect.high_watermark)
        elif isinstance(effect, SnapshotLoaded):
            self._needs_snapshot = True
        else:
            is_own = effect.leader_id == self._node.local.id
            self._unled_epoch = effect.epoch if is_own else None
            return self._resigned()
        return ()

    def _resigned(self) -> Sequence[AnyAppend | Resign | E]:
        if self._led_epoch is None:
            return ()
        outputs = [*self._committed_unread(), *self._machine.on_resigned(self._led_epoch)]
        self._led_epoch = None
        return outputs

    @property
    def has_more(self) -> bool:
        """The machine can be told something now."""
        if self._reader is not None and not self._reader.is_done:
            return False  # The machine reads, and says so by an event of its own.
        return self._wants_snapshot or self._has_committed or self._may_lead

    @property
    def _wants_snapshot(self) -> bool:
        """At the start, or the log begins behind what the machine has: also where its snapshot was deleted."""
        return self._needs_snapshot or self.position < self._node.log.start_offset

    @property
    def _has_committed(self) -> bool:
        return self.position < self._committed

    @property
    def _may_lead(self) -> bool:
        """It has all that is in the log, uncommitted control records too: its first append is where it expects it."""
        return self._unled_epoch is not None and self._node.leads and self.position == self._node.next_offset

    def catch_up(self) -> Sequence[AnyAppend | Resign | E]:
        """Tells the machine one thing, a slice of the log at most; nothing if there is nothing."""
        if not self.has_more:
            return ()
        if self._wants_snapshot:
            return self._snapshot()
        self._reader = None
        if self._led_epoch is not None or (self._has_committed and not self._machine.reads_batches):
            return self._committed_unread()
        if self._has_committed:
            return self._read()
        assert self._unled_epoch is not None
        self._led_epoch, self._unled_epoch = self._unled_epoch, None
        return self._machine.on_leader(self._led_epoch, self.position)

    def _snapshot(self) -> Sequence[AnyAppend | Resign | E]:
        snapshot = self._node.log.latest_snapshot
        assert snapshot is not None  # A log that begins behind offset 0 has one.
        self._needs_snapshot = False
        self.position = snapshot.offset
        self._reader = SnapshotReader.of_log(self._node.log, snapshot)
        return self._machine.on_snapshot(self._reader)

    def _committed_unread(self) -> Sequence[AnyAppend | Resign | E]:
        """All that was committed since the machine leads is its own, or control records: none of it is read."""
        if not self._has_committed:
            return ()
        self.position = self._committed
        return self._machine.on_committed(b"", self.position)

    def _read(self) -> Sequence[AnyAppend | Resign | E]:
        data = self._node.log.read(self.position, SLICE_BYTES, self._committed)
        batches, _ = split_batches(data, check_crc=False)
        if not batches:  # The high watermark is within a batch: it comes whole with a later one.
            self._committed = self.position
            return ()
        self.position = batches[-1].last_offset + 1
        return self._machine.on_committed(data, self.position)

    # What comes of it.

    def submit(self, outputs: Iterable[AnyAppend | Resign | E], now_ms: int) -> tuple[list[Effect], list[E]]:
        """Performs what a machine returned; the node's effects, and those that are the machine's own, in order.

        Of appends that are refused nothing is written, nor of those behind: the next may by chance expect the offset
        that the node is at, and would be there without what it was decided upon. An append of an epoch that the node
        leads no more is dropped, as the machine hears of that by `on_resigned`. RaftLogError for records that do not
        fit into a batch, and for a machine that appends elsewhere than it was told.
        """
        effects: list[Effect] = []
        own: list[E] = []
        waiting = deque[Any](outputs)
        is_told = False
        while waiting:
            output = waiting.popleft()
            if isinstance(output, Append | AppendBatches):
                refused, more = self._append(output, now_ms)
                effects += more
                if refused is not None:
                    if is_told:
                        raise RaftLogError(f"a state machine was told of {refused}, and appends at {output[2]}")
                    is_told = True
                    waiting = deque(each for each in waiting if not isinstance(each, Append | AppendBatches))
                    waiting.extend(self._machine.on_refused(output, refused.next_offset))
            elif isinstance(output, Resign):
                effects += self._node.resign(output.epoch, now_ms)
            elif isinstance(output, UpgradeKraftVersion):
                if output.epoch == self._led_epoch and self._node.leads:
                    effects += self._node.upgrade_kraft_version(output.version, output.epoch, now_ms)[1]
            else:
                own.append(output)
        return effects, own

    def _append(self, append: AnyAppend, now_ms: int) -> tuple[Refused | None, list[Effect]]:
        """The refusal that the machine must be told, or None; and the effects."""
        if append.epoch != self._led_epoch:
            return None, []
        if isinstance(append, Append):
            outcome, effects = self._node.append(append.records, append.epoch, append.expected_offset, now_ms)
        else:
            outcome, effects = self._node.append_batches(append.batches, append.epoch, append.expected_offset, now_ms)
        is_refused = isinstance(outcome, Refused) and outcome.epoch == append.epoch
        return outcome if is_refused else None, effects  # type: ignore[return-value]
