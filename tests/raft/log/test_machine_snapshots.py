"""Snapshots of a state machine: written in slices while its node goes on, read when the machine has time for it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kcore.errors import DecodeError, RaftLogError
from kcore.raft import snapshots, state_machine
from kcore.raft.driver import StateMachineDriver
from kcore.raft.log.batches import split_batches
from kcore.raft.log.raft_log import SnapshotPiece
from kcore.raft.node import RaftNode
from kcore.raft.state_machine import SnapshotReader
from kcore.replication.raft_log import OffsetAndEpoch
from kcore.storage.raft.file_raft_log import DiskRaftLog
from kcore.wire.record_building import encode_records, encode_values
from kcore.wire.records import Record, decode_records
from raft.machines import Ledger, Stage, leading
from raft.replication import (
    append,
    committed_leader,
    fetch,
    fetch_request,
    values,
    write_snapshot,
)

# Snapshots, written.


def state_of(machine: Ledger) -> list[bytes]:
    return [value for offset, value in machine.state if offset < machine.committed]


def test_a_snapshot_is_written_slice_by_slice_while_its_machine_leads() -> None:
    """It has what was committed when it was begun; the log goes on between the slices. A restart reads both."""
    stage = leading()
    stage.commit(stage.decide(b"a", b"b"))
    at, state = OffsetAndEpoch(3, 1), state_of(stage.machine)
    uncommitted = stage.decide(b"c")
    writer = stage.node.begin_snapshot(at, 7, 1000)
    assert writer is not None and stage.node.begin_snapshot(at, 7, 1000) is None, "it is being written"
    writer.add(encode_values(state[:1], base_offset=9, timestamp=0, partition_leader_epoch=9))
    stage.commit(uncommitted)
    writer.add_values(state[1:])
    uncommitted = stage.decide(b"d")
    writer.flush()()
    assert stage.node.log.latest_snapshot is None
    assert writer.freeze()
    stage.commit(uncommitted)
    piece = stage.node.log.snapshot_piece(at, 0, 1 << 20)
    assert piece is not None
    records = list(decode_records(piece.data))
    assert [each.offset for each in records] == [0, 1, 2, 3]
    assert [each.value for each in records[1:3]] == [b"a", b"b"]
    assert snapshots.delete_before(stage.node, at)
    again = Stage(stage.node)
    assert again.machine.calls[:2] == [("snapshot", at), ("committed", [b"c", b"d"], 5)]
    assert [value for _, value in again.machine.state] == [value for _, value in stage.machine.state]


def test_a_snapshot_that_comes_too_late_is_dropped() -> None:
    """A newer one has moved the start of the log; an older one than that is none of the log's."""
    node = committed_leader()
    append(node, b"a")
    append(node, b"b")
    fetch(node, fetch_request(3, max_wait_ms=0), 1000)
    late = node.begin_snapshot(OffsetAndEpoch(2, 1), 0, 0)
    assert late is not None
    late.add_values([b"state"])
    late.flush()()
    newest = OffsetAndEpoch(3, 1)
    assert write_snapshot(node, newest, [b"newer"])
    assert snapshots.delete_before(node, newest)
    assert not late.freeze()
    assert (node.log.snapshots, node.writing, node.log._begun) == ([newest], set(), {})  # type: ignore[attr-defined]
    with pytest.raises(RaftLogError, match="any more"):
        late.add(values(b"a"))


@pytest.mark.parametrize("batches", [values(b"a")[:-1], encode_records([Record(0, 0, b"\0\0\0\2", b"")], control=True)])
def test_a_snapshot_takes_whole_batches_of_data(batches: bytes) -> None:
    node = committed_leader()
    writer = node.begin_snapshot(OffsetAndEpoch(1, 1), 0, 0)
    assert writer is not None
    with pytest.raises(RaftLogError, match="snapshot"):
        writer.add(batches)
    writer.drop()
    writer.drop()
    assert node.writing == set() and node.begin_snapshot(OffsetAndEpoch(1, 1), 0, 0) is not None


def test_a_snapshot_is_made_durable_in_another_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread leaves `freeze` nothing to write; the snapshot's writer may be dropped before the thread ends."""
    with DiskRaftLog(tmp_path / "__cluster_metadata-0") as log:
        log.append_as_leader(values(b"a"), 1)
        log.update_high_watermark(1)
        at = OffsetAndEpoch(1, 1)
        log.begin_snapshot(at)
        log.append_snapshot(at, b"state")
        synced: list[int] = []
        monkeypatch.setattr("kcore.storage.files.os.fsync", lambda file: synced.append(file))
        make_durable = log.snapshot_flush(at)
        log.drop_snapshot(at)
        assert synced == []
        make_durable()
        assert len(synced) == 1
        with pytest.raises(RaftLogError, match="was not begun"):
            log.snapshot_flush(at)


# Snapshots, read.


def with_snapshot() -> tuple[RaftNode, OffsetAndEpoch]:
    """A leader whose log begins at a snapshot, and has one record behind it."""
    node = committed_leader()
    append(node, b"a")
    append(node, b"b")
    fetch(node, fetch_request(3, max_wait_ms=0), 1000)
    at = OffsetAndEpoch(2, 1)
    assert write_snapshot(node, at, [b"state", b"more"])
    assert snapshots.delete_before(node, at)
    return node, at


def test_a_machine_that_reads_a_snapshot_gets_no_other_call() -> None:
    """In its own time, slice by slice; then the log behind it, and only then that it leads."""
    node, at = with_snapshot()
    stage = Stage(node, Ledger(reads=False))
    machine = stage.machine
    assert machine.calls == [("snapshot", at)] and not stage.driver.has_more
    append(node, b"c")
    stage.perform(fetch(node, fetch_request(4, max_wait_ms=0), 1000)[1])
    assert machine.calls == [("snapshot", at)]
    assert machine.reader is not None
    for batches in machine.reader:
        machine.read(batches)
    stage.catch_up()
    assert machine.calls[1:] == [("committed", [b"b", b"c"], 4), ("leader", 1, 4)]
    assert [value for _, value in machine.state] == [b"state", b"more", b"b", b"c"]


def test_a_machine_may_want_no_more_of_a_snapshot() -> None:
    node, _ = with_snapshot()
    stage = Stage(node, Ledger(reads=False))
    assert stage.machine.reader is not None
    stage.machine.reader.close()
    assert list(stage.machine.reader) == []
    stage.catch_up()
    assert stage.machine.calls[1:] == [("committed", [b"b"], 3), ("leader", 1, 3)]


def test_a_snapshot_that_is_deleted_while_it_is_read_gives_way_to_a_newer_one() -> None:
    node, at = with_snapshot()
    stage = Stage(node, Ledger(reads=False))
    machine, newer = stage.machine, OffsetAndEpoch(3, 1)
    assert write_snapshot(node, newer, [b"newer"])
    assert snapshots.delete_before(node, newer)
    assert machine.reader is not None and list(machine.reader) == [] and machine.reader.is_lost
    machine._reads = True
    stage.catch_up()
    assert machine.calls == [("snapshot", at), ("snapshot", newer), ("leader", 1, 3)]
    assert machine.state == [(-1, b"newer")]


def test_a_machine_that_is_behind_the_start_of_the_log_gets_a_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kcore.raft.driver.SLICE_BYTES", 10)
    node = committed_leader()
    append(node, b"a")
    fetch(node, fetch_request(2, max_wait_ms=0), 1000)
    machine = Ledger()
    driver = StateMachineDriver[str](node, machine)
    driver.catch_up()
    at = OffsetAndEpoch(2, 1)
    assert write_snapshot(node, at, [b"state"])
    assert snapshots.delete_before(node, at)
    driver.catch_up()
    assert machine.calls == [("committed", [], 1), ("snapshot", at)]


def test_a_snapshot_s_slices_are_whole_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """No more than a batch and a slice of it is in memory at once."""
    monkeypatch.setattr(state_machine, "SLICE_BYTES", 100)
    batches = [values(b"x" * 250, base_offset=k) for k in range(20)]
    data, largest = b"".join(batches), 0

    def split(piece: bytes) -> Any:
        nonlocal largest
        largest = max(largest, len(piece))
        return split_batches(piece)

    monkeypatch.setattr(state_machine, "split_batches", split)
    reader = SnapshotReader(OffsetAndEpoch(20, 1), piece_of(data))
    assert [*reader] == batches
    assert (reader.is_done, reader.is_lost, largest < len(batches[0]) + 100) == (True, False, True)


def test_a_damaged_snapshot_is_an_error() -> None:
    data = values(b"a")[:-1] + b"?"
    with pytest.raises(DecodeError):
        next(SnapshotReader(OffsetAndEpoch(1, 1), piece_of(data)))


def test_a_batch_of_a_snapshot_that_never_ends_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A damaged length must not bring the whole file into memory."""
    monkeypatch.setattr(state_machine, "MOST_UNREAD_BYTES", 1000)
    monkeypatch.setattr(state_machine, "SLICE_BYTES", 100)
    whole = values(b"x" * 50_000)
    with pytest.raises(DecodeError, match="more than 1000 bytes"):
        next(SnapshotReader(OffsetAndEpoch(1, 1), piece_of(whole)))


def piece_of(data: bytes) -> Callable[[int, int], SnapshotPiece]:
    return lambda position, size: SnapshotPiece(data[position : position + size], len(data))
