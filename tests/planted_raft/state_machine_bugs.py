"""Bugs between a node and its state machine: appends, calls of the state machine, and its snapshots."""

from typing import Any

from kcore.raft.driver import StateMachineDriver
from kcore.raft.effects import Committed
from kcore.raft.log.accumulator import Accumulator
from kcore.raft.log.snapshot_writing import SnapshotWriter
from kcore.raft.node import RaftNode
from kcore.raft.state_machine import SnapshotReader
from planted_raft.patches import Patches, planted_bug


@planted_bug("AppendsAsExpected")
def append_at_another_offset(patches: Patches) -> None:
    """A leader accepts an append at another offset than the state machine expects."""

    def broken(refused: Any, self: Any, epoch: int, expected_offset: int) -> Any:
        return refused(self, epoch, self.next_offset)

    patches.around(RaftNode, "_refused", broken)


@planted_bug("NoAckedAppendLost")
def records_of_an_append_change_places(patches: Patches) -> None:
    """The records of an append are written in reverse order, so at other offsets than the leader replayed them."""

    def make(add: Any) -> Any:
        return lambda self, values, *given: add(self, values[::-1], *given)

    patches.put(Accumulator, "add", make)


@planted_bug("LeaderReported")
def resigned_machine_is_not_notified(patches: Patches) -> None:
    """A state machine is not called when its node resigns, and keeps uncommitted records (KAFKA-13104)."""
    patches.put(StateMachineDriver, "_resigned", lambda _: lambda self: ())


@planted_bug("CommitReported")
def leader_is_given_what_it_replayed(patches: Patches) -> None:
    """A leader's state machine gets records that it has replayed already."""
    patches.put(
        StateMachineDriver, "_committed_unread", lambda _: lambda self: self._read() if self._has_committed else ()
    )


@planted_bug("ReadsBelowHighWatermark")
def machine_is_given_the_end_of_the_log(patches: Patches) -> None:
    """A state machine gets all records of the log as committed."""

    def broken(note: Any, self: Any, effect: Any) -> Any:
        return note(self, Committed(self._node.log.end_offset) if isinstance(effect, Committed) else effect)

    patches.around(StateMachineDriver, "note", broken)


@planted_bug("SnapshotAtLogStart")
def late_snapshot_is_kept(patches: Patches) -> None:
    """A snapshot is kept although the log begins after its end by the time that it is written."""

    def freeze(self: Any) -> bool:
        self._node.log.freeze_snapshot(self.snapshot)
        self._node.writing.remove(self.snapshot)
        return True

    patches.put(SnapshotWriter, "freeze", lambda _: freeze)


@planted_bug("SameCommittedData")
def snapshot_of_another_offset_is_read(patches: Patches) -> None:
    """A state machine reads the earliest snapshot, but continues after the end of the latest snapshot."""

    def of_log(cls: Any, log: Any, snapshot: Any) -> Any:
        return cls(snapshot, lambda position, size: log.snapshot_piece(log.earliest_snapshot, position, size))

    patches.put(SnapshotReader, "of_log", lambda _: classmethod(of_log))
