"""A state machine for tests, and a stage: a leader's node with such a machine on it."""

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from kcore.raft.driver import StateMachineDriver
from kcore.raft.effects import Committed, Effect, LeaderChanged, SnapshotLoaded
from kcore.raft.node import RaftNode
from kcore.raft.state_machine import AnyAppend, Append, Resign, SnapshotReader
from kcore.wire.records import decode_records
from raft.replication import (
    committed_leader,
    fetch,
    fetch_request,
    flush,
)


class Ledger:
    """A machine whose state is a list of (offset, value); it replays its appends when it decides them."""

    reads_batches: ClassVar[bool] = True
    is_at_work = False

    def __init__(self, *, reads: bool = True) -> None:
        self.calls: list[Any] = []
        self.state: list[tuple[int, bytes]] = []
        self.committed = 0
        self.epoch: int | None = None
        self.next_offset = -1
        self.reader: SnapshotReader | None = None
        self._reads = reads

    def decide(self, *records: bytes) -> Append:
        assert self.epoch is not None
        self.state += enumerate(records, self.next_offset)
        self.next_offset += len(records)
        return Append(records, self.epoch, self.next_offset - len(records))

    def on_leader(self, epoch: int, offset: int) -> Sequence[AnyAppend | Resign | str]:
        self.calls.append(("leader", epoch, offset))
        self.epoch, self.next_offset = epoch, offset
        return ()

    def on_committed(self, batches: bytes, end_offset: int) -> Sequence[AnyAppend | Resign | str]:
        given = [(each.offset, each.value or b"") for each in decode_records(batches) if each.control is None]
        self.calls.append(("committed", [value for _, value in given], end_offset))
        self.state += given
        self.committed = end_offset
        return ()

    def on_resigned(self, epoch: int) -> Sequence[AnyAppend | Resign | str]:
        self.calls.append(("resigned", epoch))
        self.state = [each for each in self.state if each[0] < self.committed]
        self.epoch = None
        return ()

    def on_refused(self, append: AnyAppend, next_offset: int) -> Sequence[AnyAppend | Resign | str]:
        """The same decisions again, at their new place."""
        self.calls.append(("refused", append.expected_offset, next_offset))
        again = [value for offset, value in self.state if offset >= append.expected_offset]
        self.state = [each for each in self.state if each[0] < append.expected_offset]
        self.next_offset = next_offset
        return [self.decide(*again)]

    def on_snapshot(self, reader: SnapshotReader) -> Sequence[AnyAppend | Resign | str]:
        self.calls.append(("snapshot", reader.snapshot))
        self.state, self.committed, self.reader = [], reader.snapshot.offset, reader
        if self._reads:
            for batches in reader:
                self.read(batches)
        return ()

    def read(self, batches: bytes) -> None:
        self.state += [(-1, each.value or b"") for each in decode_records(batches) if each.control is None]


class Stage:
    """A node, its machine and what is between them."""

    def __init__(self, node: RaftNode, machine: Ledger | None = None) -> None:
        self.node, self.machine = node, machine or Ledger()
        self.driver = StateMachineDriver[str](node, self.machine)
        self.catch_up()

    def perform(self, effects: Iterable[Effect]) -> list[Effect]:
        """All effects of an event, and of what the machine makes of them."""
        done, outputs = [*effects], list[Any]()
        for effect in done:
            if isinstance(effect, Committed | LeaderChanged | SnapshotLoaded):
                outputs += self.driver.note(effect)
        done += self.submit(outputs)
        self.catch_up()
        return done

    def submit(self, outputs: Sequence[AnyAppend | Resign | str]) -> list[Effect]:
        effects, _ = self.driver.submit(outputs, 1000)
        return self.perform(effects) if effects else []

    def catch_up(self) -> None:
        while self.driver.has_more:
            self.submit(self.driver.catch_up())

    def decide(self, *records: bytes) -> list[Effect]:
        return self.submit([self.machine.decide(*records)])

    def commit(self, effects: Iterable[Effect] = ()) -> None:
        """All that the leader has: flushed, and fetched by node 2."""
        end = self.node.log.end_offset
        self.perform(flush(self.node, effects, 1000))
        self.perform(fetch(self.node, fetch_request(end, max_wait_ms=0), 1000)[1])


def leading() -> Stage:
    """A stage whose node leads epoch 1; the machine's first append is expected at offset 1."""
    stage = Stage(committed_leader())
    assert stage.machine.calls == [("committed", [], 1), ("leader", 1, 1)]
    stage.machine.calls.clear()
    return stage
