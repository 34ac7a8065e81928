"""The counts of `kcore top` from the metadata log equal the counts of the same records as objects."""

from random import Random
from typing import Any

import numpy as np
import pytest

from kcore.errors import DecodeError, NetworkError
from kcore.measure.watch import metadata_log_reader
from kcore.measure.watch.frame import brokers_of, measured, partitions_of
from kcore.measure.watch.metadata_log_reader import MetadataLogReader, Seen, isr_changes
from kcore.measure.watch.scraped import samples_of
from kcore.replication.raft_log import OffsetAndEpoch
from kcore.schema.metadata_records_brokers import RegisterBrokerRecord
from kcore.schema.metadata_records_topics import PartitionChangeRecord, PartitionRecord, TopicRecord
from kcore.types import Uuid
from kcore.wire.metadata_frames import encode_metadata_record
from kcore.wire.record_building import encode_records, encode_values
from kcore.wire.records import Record
from net.loops import story
from server.kraft.test_snapshot_pieces import answer

TOPIC = Uuid(b"t" * 16)


def test_isr_changes_are_the_records_with_an_isr() -> None:
    dice = Random(1)
    changes = []
    for at in range(400):
        change = PartitionChangeRecord(partition_id=at, topic_id=Uuid(dice.randbytes(16)))
        for name, value in (
            ("isr", [1, 2]),
            ("leader", 2),
            ("replicas", [1, 2, 3]),
            ("removing_replicas", [3]),
            ("leader_recovery_state", 1),
        ):
            if dice.random() < 0.4:
                setattr(change, name, value)
        changes.append(change)
    values = [encode_metadata_record(change, 0) for change in changes]
    lengths = np.array([len(value) for value in values], np.int32)
    begins = np.cumsum([0, *lengths[:-1]]).astype(np.int64)
    expected = sum(change.isr is not None for change in changes)
    assert 0 < expected < 400
    assert isr_changes(memoryview(b"".join(values)), begins, lengths) == expected
    assert isr_changes(memoryview(b""), begins[:0], lengths[:0]) == 0


def change(partition: int, isr: list[int] | None = None) -> bytes:
    return encode_metadata_record(PartitionChangeRecord(partition_id=partition, topic_id=TOPIC, isr=isr), 0)


def batch(offset: int, epoch: int, *values: bytes) -> bytes:
    return encode_values(values, base_offset=offset, timestamp=0, partition_leader_epoch=epoch)


def began() -> MetadataLogReader:
    """A topic of three partitions, committed and read."""
    reader = MetadataLogReader()
    topic = encode_metadata_record(TopicRecord(name="t", topic_id=TOPIC), 0)
    broker = encode_metadata_record(RegisterBrokerRecord(broker_id=1, fenced=False), 3)
    partitions = [
        PartitionRecord(partition_id=at, topic_id=TOPIC, replicas=[1, 2], isr=[1, 2], leader=1) for at in range(3)
    ]
    values = [topic, broker, *(encode_metadata_record(each, 0) for each in partitions)]
    reader._read(batch(0, 1, *values), 5, reports_commits=True)
    assert (reader.end_offset, reader.log_end_offset, reader.is_current) == (5, 5, True)
    assert reader.seen == Seen(), "the first reading is not counted"
    return reader


def test_what_is_committed_is_in_the_image_and_counted() -> None:
    reader = began()
    reader._read(batch(5, 1, change(0, [1]), change(1)), 5, reports_commits=True)
    assert (reader.end_offset, reader.log_end_offset, reader.seen.records) == (5, 7, 0)
    assert len(reader.image.table.under_replicated()) == 0
    reader._read(b"", 7, reports_commits=True)
    assert (reader.end_offset, reader.seen) == (7, Seen(2, 2, 1))
    assert len(reader.image.table.under_replicated()) == 1
    partitions, [broker] = partitions_of(reader.image), brokers_of(reader.image)
    assert (partitions.topics, partitions.partitions, partitions.offline, partitions.under_replicated) == (1, 3, 0, 1)
    assert (broker.id, broker.state, broker.leaders, broker.replicas) == (1, "active", 3, 3)


def test_a_batch_that_is_cut_off_is_fetched_again() -> None:
    """A log answers with so many bytes, wherever a batch ends."""
    reader = began()
    first, second = batch(5, 1, change(0, [1])), batch(6, 1, change(1, [2]))
    reader._read(first + second[:30], 7, reports_commits=True)
    assert (reader.log_end_offset, reader.end_offset) == (6, 6)
    reader._read(second, 7, reports_commits=True)
    assert (reader.end_offset, reader.seen.isr_changes) == (7, 2)
    with pytest.raises(NetworkError, match="the answer has no batch with offset 7"):
        reader._read(second, 7, reports_commits=True)
    with pytest.raises(NetworkError, match="the answer has no batch with offset 7"):
        reader._read(b"junk", 7, reports_commits=True)


def test_another_leaders_log_replaces_what_was_not_committed() -> None:
    reader = began()
    reader._read(batch(5, 1, change(0, [1])) + batch(6, 1, change(1, [1])), 6, reports_commits=True)
    reader._truncate(6, 1)
    assert (reader.log_end_offset, reader.end_offset) == (6, 6)
    reader._read(batch(6, 2, change(2, [1])), 7, reports_commits=True)
    table = reader.image.table
    assert reader.end_offset == 7
    assert [table.state(row).isr for row in range(3)] == [(1,), (1, 2), (1,)]
    reader._truncate(3, 1)
    assert (reader.end_offset, reader.log_end_offset, reader.is_current) == (0, 0, False), "from the start again"


def test_what_no_leader_commits_is_not_kept_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata_log_reader, "MOST_WAITING", 1_000)
    reader = began()
    with pytest.raises(NetworkError, match="more than 1,000 bytes of the leader's log are not committed"):
        for offset in range(5, 50):
            reader._read(batch(offset, 1, change(0)), 5, reports_commits=True)


def test_records_that_are_far_more_than_their_bytes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata_log_reader, "MOST_DECOMPRESSED", 1_000)
    reader = began()
    with pytest.raises(DecodeError, match="larger than max_bytes"):
        reader._read(bytes(encode_records([Record(5, 0, None, bytes(2_000))], codec="gzip")), 6, reports_commits=True)


@story
async def test_a_snapshot_that_is_far_more_than_its_bytes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata_log_reader, "MOST_DECOMPRESSED", 1_000)
    data = bytes(encode_records([Record(0, 0, None, bytes(2_000))], codec="gzip"))

    class Leader:
        async def send(self, request: Any) -> Any:
            return answer(data, size=len(data))

    leader: Any = Leader()
    with pytest.raises(DecodeError, match="larger than max_bytes"):
        await MetadataLogReader()._load(OffsetAndEpoch(5, 1), leader)


PAGE = """
# TYPE kcore_event_longest_recent_seconds gauge
kcore_event_longest_recent_seconds{kind="CreateTopics"} 0.25
kcore_event_longest_recent_seconds{kind="Fetch"} 0.5
# TYPE kcore_request_seconds histogram
kcore_request_seconds_bucket{api="BrokerHeartbeat",le="+Inf"} %d
kcore_request_seconds_count{api="BrokerHeartbeat"} %d
kcore_request_seconds_sum{api="BrokerHeartbeat"} %f
# TYPE process_cpu_seconds counter
process_cpu_seconds_total %f
# TYPE kafka_server_raft_metrics_commit_latency_avg gauge
kafka_server_raft_metrics_commit_latency_avg NaN
"""


def test_rates_are_of_two_readings_of_a_page() -> None:
    before, now = samples_of(PAGE % (10, 10, 1.0, 3.0)), samples_of(PAGE % (30, 30, 1.5, 4.0))
    found = measured("u", now, before, 2.0)
    assert (found.heartbeats_per_s, found.heartbeat_ms, found.cpu) == (10.0, 25.0, 0.5)
    assert (found.longest_event, found.longest_event_ms, found.commit_avg_ms) == ("Fetch", 500.0, None)
    first = measured("u", now, None, 0.0)
    assert (first.heartbeats_per_s, first.cpu, first.longest_event) == (None, None, "Fetch")
    restarted = measured("u", before, now, 2.0)
    assert (restarted.heartbeats_per_s, restarted.cpu) == (None, None), "the controller is another process"
