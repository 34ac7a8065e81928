"""The form of a leader's batches."""

import pytest

from kcore.errors import RaftLogError
from kcore.raft.log.accumulator import Accumulator, max_records
from kcore.raft.log.batches import split_batches
from kcore.raft.raft_config import MAX_BATCH_BYTES
from kcore.wire.record_building import encode_records
from kcore.wire.records import Record, decode_records


def test_all_records_of_a_batch_have_its_first_time() -> None:
    """A node of Kafka ends with "Got timestamp delta of 22, but this is invalid because it is not 0 as expected"."""
    accumulator = Accumulator(7)
    accumulator.add([b"a", b"b"], 1_000, 25)
    accumulator.add([b"c"], 1_022, 25)
    records = decode_records(accumulator.drain(3).data)
    assert records.offset.tolist() == [7, 8, 9]
    assert records.timestamp_delta.tolist() == [0, 0, 0]
    assert records.batches.base_timestamp.tolist() == records.batches.max_timestamp.tolist() == [1_000]


def test_a_batch_is_as_any_other() -> None:
    accumulator = Accumulator(7)
    accumulator.add([b"one", b"", b"three"], 1_000, 25)
    records = [Record(7 + at, 1_000, None, value) for at, value in enumerate([b"one", b"", b"three"])]
    batch = accumulator.drain(3)
    assert batch.data == encode_records(records, partition_leader_epoch=3)
    assert split_batches(batch.data) == ([batch], None)
    accumulator.add([b"four"], 1_005, 25)
    assert accumulator.drain(3).data == encode_records([Record(10, 1_005, None, b"four")], partition_leader_epoch=3)


def test_how_many_records_fit() -> None:
    most = max_records(100)
    accumulator = Accumulator(0)
    assert accumulator.has_room([bytes(100)] * most)
    with pytest.raises(RaftLogError, match="exceed a batch"):
        accumulator.has_room([bytes(100)] * (most + 1))
    accumulator.add([bytes(100)] * most, 1_000, 25)
    assert len(accumulator.drain(1).data) <= MAX_BATCH_BYTES
