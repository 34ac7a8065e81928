"""Where the id of a cluster comes from that was formatted without one."""

from typing import Any

import pytest

from kcore.raft.batches import split_batches
from kcore.raft.cluster_id import ClusterIdHook, decode_cluster_id, encode_cluster_id
from kcore.raft.effects import Committed, LeaderChanged, SnapshotLoaded
from kcore.raft.memory_log import MemoryLog
from kcore.replication.raft_log import OffsetAndEpoch
from kcore.schema.metadata_records_log import NoOpRecord
from kcore.wire.metadata_frames import decode_metadata_record, encode_metadata_record
from kcore.wire.record_building import encode_records, encode_values
from kcore.wire.records import Record


def log_of(*values: bytes) -> MemoryLog:
    """Each in a batch of epoch 1."""
    log = MemoryLog()
    for offset, value in enumerate(values):
        log.append_as_leader(encode_values([value], base_offset=offset, timestamp=0, partition_leader_epoch=1), epoch=1)
    return log


def compressed(*values: bytes) -> bytes:
    records = [Record(offset, 0, None, value) for offset, value in enumerate(values)]
    return encode_records(records, codec="gzip", partition_leader_epoch=1)


def never() -> str:
    raise AssertionError("there is one already")


def test_its_record_is_a_no_op_to_whoever_does_not_know_of_it() -> None:
    record = encode_cluster_id("abc")
    assert isinstance(decode_metadata_record(record)[0], NoOpRecord)
    assert decode_cluster_id(record) == "abc"


@pytest.mark.parametrize("value", [b"", b"x", encode_metadata_record(NoOpRecord(), 0), encode_cluster_id("abc")[:-1]])
def test_every_other_record_is_passed_over(value: bytes) -> None:
    assert decode_cluster_id(value) is None


def test_a_leader_draws_one_where_there_is_none() -> None:
    hook = ClusterIdHook(MemoryLog(), 1, lambda: "abc")
    assert hook.hear(LeaderChanged(2, 4)) is None
    assert hook.hear(LeaderChanged(-1, 5)) is None
    assert hook.hear(LeaderChanged(1, 5, 0)) == encode_cluster_id("abc")
    assert hook.cluster_id is None, "before it is committed it is nobody's"


def test_the_first_that_is_committed_counts() -> None:
    """What two leaders may have drawn, one after the other, has one order in the log."""
    log = log_of(b"x", encode_cluster_id("first"), encode_cluster_id("second"))
    hook = ClusterIdHook(log, 1, never)
    hook.hear(Committed(1))
    assert hook.cluster_id is None
    hook.hear(Committed(2))
    assert hook.cluster_id == "first"
    assert hook.hear(LeaderChanged(1, 5, 3)) is None
    hook.hear(Committed(3))
    assert hook.cluster_id == "first"


@pytest.mark.parametrize("is_there_before", [True, False])
def test_it_may_be_in_a_snapshot_alone(is_there_before: bool) -> None:
    log = MemoryLog()
    hook = ClusterIdHook(log, 1, never)
    snapshot = OffsetAndEpoch(7, 1)
    log.begin_snapshot(snapshot)
    log.append_snapshot(
        snapshot, encode_values([b"x", encode_cluster_id("abc")], base_offset=0, timestamp=0, partition_leader_epoch=0)
    )
    log.freeze_snapshot(snapshot)
    log.truncate_to_latest_snapshot()
    if is_there_before:
        hook = ClusterIdHook(log, 1, never)
    hook.hear(SnapshotLoaded(snapshot))
    assert hook.cluster_id == "abc"


def test_compressed_batches_are_passed_over() -> None:
    """No leader writes them, and nobody knows how much is in them: in the log, and in a snapshot."""
    log = MemoryLog()
    log.append_as_leader(compressed(b"x", encode_cluster_id("not this one")), 1)
    log.append_as_leader(
        encode_values([encode_cluster_id("abc")], base_offset=2, timestamp=0, partition_leader_epoch=1), epoch=1
    )
    hook = ClusterIdHook(log, 1, never)
    hook.hear(Committed(2))
    assert hook.cluster_id is None
    hook.hear(Committed(3))
    assert hook.cluster_id == "abc"


def test_a_snapshot_is_read_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be larger than the memory should be: no more than a batch and a piece of it is there at once."""
    monkeypatch.setattr("kcore.raft.cluster_id.PIECE_BYTES", 100)
    log, largest = MemoryLog(), 0
    snapshot = OffsetAndEpoch(50, 1)
    log.begin_snapshot(snapshot)
    for offset in range(50):
        value = encode_cluster_id("abc") if offset == 49 else b"x" * 200
        log.append_snapshot(snapshot, encode_values([value], base_offset=offset, timestamp=0, partition_leader_epoch=1))
    log.freeze_snapshot(snapshot)
    log.truncate_to_latest_snapshot()

    def split(data: bytes, *, check_crc: bool) -> Any:
        nonlocal largest
        largest = max(largest, len(data))
        return split_batches(data, check_crc=check_crc)

    monkeypatch.setattr("kcore.raft.cluster_id.split_batches", split)
    assert ClusterIdHook(log, 1, never).cluster_id == "abc"
    assert largest < 500
