"""Bugs between a node and its state machine: appends, calls of the machine, snapshots that it writes."""

from typing import Any

from kcore.raft.driver import StateMachineDriver
from kcore.raft.effects import Committed
from kcore.raft.log.accumulator import Accumulator
from kcore.raft.log.snapshot_writing import SnapshotWriter
from kcore.raft.node import RaftNode
from kcore.raft.state_machine import SnapshotReader
from planted_raft.patches import Patches, plant


@plant("AppendsAsExpected")
def append_at_another_offset(patches: Patches) -> None:
    """A leader takes an append whatever offset it expects."""

    def broken(refused: Any, self: Any, epoch: int, expected_offset: int) -> Any:
        return refused(self, epoch, self.next_offset)

    patches.around(RaftNode, "_refused", broken)


@plant("NoAckedAppendLost")
def records_of_an_append_change_places(patches: Patches) -> None:
    """They are in the log, and not where their leader has replayed them."""

    def make(add: Any) -> Any:
        return lambda self, values, *given: add(self, values[::-1], *given)

    patches.put(Accumulator, "add", make)


@plant("LeaderIsTold")
def resigned_machine_is_not_told(patches: Patches) -> None:
    """Its node leads no more; the machine keeps what was never committed (KAFKA-13104)."""
    patches.put(StateMachineDriver, "_resigned", lambda _: lambda self: ())


@plant("CommittedIsTold")
def leader_is_given_what_it_replayed(patches: Patches) -> None:
    """Its machine would apply its own records twice."""
    patches.put(
        StateMachineDriver, "_committed_unread", lambda _: lambda self: self._read() if self._has_committed else ()
    )


@plant("ReadsBelowHighWatermark")
def machine_is_given_the_end_of_the_log(patches: Patches) -> None:
    """All that is there is taken for committed."""

    def broken(note: Any, self: Any, effect: Any) -> Any:
        return note(self, Committed(self._node.log.end_offset) if isinstance(effect, Committed) else effect)

    patches.around(StateMachineDriver, "note", broken)


@plant("SnapshotAtLogStart")
def late_snapshot_is_kept(patches: Patches) -> None:
    """The log begins behind a snapshot by the time that it is written; it becomes one of the log's all the same."""

    def freeze(self: Any) -> bool:
        self._node.log.freeze_snapshot(self.snapshot)
        self._node.writing.remove(self.snapshot)
        return True

    patches.put(SnapshotWriter, "freeze", lambda _: freeze)


@plant("SameCommittedData")
def snapshot_of_another_offset_is_read(patches: Patches) -> None:
    """A machine that begins anew is given the earliest snapshot, and goes on behind the latest one."""

    def of_log(cls: Any, log: Any, snapshot: Any) -> Any:
        return cls(snapshot, lambda position, size: log.snapshot_piece(log.earliest_snapshot, position, size))

    patches.put(SnapshotReader, "of_log", lambda _: classmethod(of_log))
