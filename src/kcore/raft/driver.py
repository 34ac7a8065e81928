"""Connects a raft node with its state machine: turns the node's effects into calls of the machine.

The machine has all records below `position`, from the driver or from its own replay as leader. The driver reads
committed records from that offset on, one slice of the log per call. So other events of the node never wait long while
a machine that is far behind catches up. Source: KafkaRaftClient.ListenerContext.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, Final, Generic, TypeAlias, TypeVar

from kcore.errors import RaftLogError
from kcore.raft.effects import Committed, Effect, LeaderChanged, SnapshotLoaded
from kcore.raft.log.batches import end_offset_of
from kcore.raft.log.raft_log import Refused
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
MachineEffect: TypeAlias = Committed | LeaderChanged | SnapshotLoaded  # The effects that are for the machine.


_APPENDS: Final = (Append, AppendBatches)


class StateMachineDriver(Generic[E]):
    """Drives the state machine of one node.

    The edge passes each MachineEffect of the node to `note` and calls `catch_up` as long as `has_more` is true. It
    passes the machine's outputs to `submit`.
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
        """The machine starts from the log's latest snapshot, if there is one; `node` may have been running before."""
        self._node, self._machine = node, machine
        self.position = 0  # The machine has all records below this offset.
        self._committed = node.high_watermark or 0
        self._needs_snapshot = node.log.latest_snapshot is not None
        self._reader: SnapshotReader | None = None  # The snapshot that the machine is reading.
        self._led_epoch: int | None = None  # The epoch that `on_leader` was called with.
        self._unled_epoch: int | None = None  # The epoch that the node leads while its machine still catches up.
        if node.leads and node.high_watermark is not None:
            self._unled_epoch = node.epoch

    # Calls of the machine.

    def note(self, effect: MachineEffect) -> Sequence[AnyAppend | Resign | E]:
        """Records an effect of the node. Calls `on_resigned` at once if the node no longer leads."""
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
        """Whether `catch_up` has a call to make now."""
        if self._reader is not None and not self._reader.is_done:
            return False  # The machine still reads the snapshot; its own event reports the end.
        if self._machine.is_at_work:
            return False
        return self.position < self._committed or self._wants_snapshot or self._may_lead

    @property
    def _wants_snapshot(self) -> bool:
        """True at the start, and when the log begins above the machine's position: its snapshot was deleted."""
        return self._needs_snapshot or self.position < self._node.log.start_offset

    @property
    def _has_committed(self) -> bool:
        return self.position < self._committed

    @property
    def _may_lead(self) -> bool:
        """True once the machine has the whole log, uncommitted control records included, and its node leads."""
        return self._unled_epoch is not None and self._node.leads and self.position == self._node.next_offset

    def catch_up(self) -> Sequence[AnyAppend | Resign | E]:
        """Makes one call of the machine, with at most one slice of the log; no call if there is nothing new."""
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
        assert snapshot is not None  # A log that begins above offset 0 has a snapshot.
        self._needs_snapshot = False
        self.position = snapshot.offset
        self._reader = SnapshotReader.of_log(self._node.log, snapshot)
        return self._machine.on_snapshot(self._reader)

    def _committed_unread(self) -> Sequence[AnyAppend | Resign | E]:
        """Reports the committed offset without records: a machine that leads has replayed its own records already."""
        if not self._has_committed:
            return ()
        self.position = self._committed
        return self._machine.on_committed(b"", self.position)

    def _read(self) -> Sequence[AnyAppend | Resign | E]:
        data = self._node.log.read(self.position, SLICE_BYTES, self._committed)
        if not data:  # The high watermark is inside a batch: the machine gets the batch once it is wholly committed.
            self._committed = self.position
            return ()
        self.position = end_offset_of(data)
        return self._machine.on_committed(data, self.position)

    # Outputs of the machine.

    def submit(self, outputs: Iterable[AnyAppend | Resign | E], now_ms: int) -> tuple[list[Effect], list[E]]:
        """Performs a machine's outputs; returns the node's effects and the machine's own effects, each in order.

        After a refused append all later appends are dropped: they depend on the refused one, even if their offset fits.
        Appends for an epoch that the node no longer leads are dropped, too; the machine gets `on_resigned`. Raises
        RaftLogError if records do not fit into a batch, or if the node refuses the append that follows `on_refused`.
        """
        effects: list[Effect] = []
        own: list[E] = []
        waiting = deque[Any](outputs)
        was_refused = False
        while waiting:
            output = waiting.popleft()
            if isinstance(output, _APPENDS):
                refused, more = self._append(output, now_ms)
                effects += more
                if refused is not None:
                    if was_refused:
                        raise RaftLogError(
                            f"the state machine appends at offset {output[2]} after on_refused gave it {refused}"
                        )
                    was_refused = True
                    waiting = deque(each for each in waiting if not isinstance(each, _APPENDS))
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
        """Appends to the node's log; returns the refusal that the machine must see, or None, and the node's effects."""
        if append.epoch != self._led_epoch:
            return None, []
        if isinstance(append, Append):
            outcome, effects = self._node.append(append.records, append.epoch, append.expected_offset, now_ms)
        else:
            outcome, effects = self._node.append_batches(append.batches, append.epoch, append.expected_offset, now_ms)
        is_refused = isinstance(outcome, Refused) and outcome.epoch == append.epoch
        return outcome if is_refused else None, effects  # type: ignore[return-value]
