"""What a leader's batches look like."""

from kcore.raft.accumulator import Accumulator
from kcore.wire.records import decode_records


def test_all_records_of_a_batch_have_its_first_time() -> None:
    """A node of Kafka ends with "Got timestamp delta of 22, but this is invalid because it is not 0 as expected"."""
    accumulator = Accumulator(7)
    accumulator.add([b"a", b"b"], 1_000, 25)
    accumulator.add([b"c"], 1_022, 25)
    records = decode_records(accumulator.drain(3))
    assert records.offset.tolist() == [7, 8, 9]
    assert records.timestamp_delta.tolist() == [0, 0, 0]
    assert records.batches.base_timestamp.tolist() == records.batches.max_timestamp.tolist() == [1_000]
