"""Kafka 4.4.0's own dump tool reads kcore's logs without a complaint, and prints them as kcore does."""

from pathlib import Path
from random import Random

import pytest

from kcore import schema as s
from kcore.storage.log.indexes import AbortedTransaction, format_aborted
from kcore.storage.log.log_writer import LogWriter
from kcore.storage.log.partition_folder import segment_files
from kcore.storage.log.producer_snapshot import ProducerState, format_producers
from kcore.storage.raft.snapshot import SnapshotId, write_snapshot
from kcore.storage.tools.dump import Detail, dump_lines
from kcore.types import Uuid
from kcore.wire.codec import encode
from kcore.wire.metadata_frames import encode_metadata_record
from kcore.wire.record_building import CODECS, encode_records
from kcore.wire.records import Record
from oracle.kafka_tools import dump_log

TIME_MS = 1_795_248_000_000
TOPIC_ID = Uuid(bytes(range(1, 17)))


def our_lines(paths: list[Path], detail: Detail) -> list[str]:
    return [line for path in paths for line in (f"Dumping {path}", *dump_lines(path, detail))]


def complaints_without_begins(complaints: str, logs: list[Path]) -> list[str]:
    """The tool takes -1 for the offset before any segment, so it finds a gap before all but the first."""
    begins = {
        line for log in logs for line in (f"Non-consecutive offsets in {log}", f"  -1 is followed by {int(log.stem)}")
    }
    return [line for line in complaints.splitlines() if line not in begins]


def random_batch(random: Random, offset: int, codec: str) -> bytes:
    rows = []
    time_ms = TIME_MS + offset * 10
    for k in range(random.randrange(1, 40)):
        value = None if random.random() < 0.1 else "".join(random.choices("abcäß ", k=random.randrange(60))).encode()
        key = random.choice([None, b"", b"key", "schlüssel".encode()])
        headers = tuple((f"h{n}", random.choice([None, b"", b"x"])) for n in range(random.randrange(3)))
        rows.append(Record(offset + k, time_ms + random.randrange(-5, 6), key, value, headers))
    producer = {"producer_id": 7, "producer_epoch": 2, "base_sequence": offset} if random.random() < 0.5 else {}
    return encode_records(rows, codec=codec, partition_leader_epoch=offset // 500, **producer)


@pytest.mark.parametrize("codec", CODECS)
def test_a_log_with_its_indexes(codec: str, tmp_path: Path):
    random = Random(codec)
    folder = tmp_path / "orders-0"
    with LogWriter(folder, segment_bytes=40_000, index_interval_bytes=1000) as log:
        for _ in range(120):
            log.append(random_batch(random, log.end_offset, codec), sync=False)
    logs = segment_files(folder)
    assert len(logs) > 1
    theirs, complaints = dump_log(logs, "--print-data-log")
    assert complaints_without_begins(complaints, logs) == []
    assert theirs == our_lines(logs, Detail(contents=True))
    indexes = [path.with_suffix(suffix) for path in logs for suffix in (".index", ".timeindex")]
    theirs, complaints = dump_log(indexes)
    assert complaints == ""
    assert theirs == our_lines(indexes, Detail())
    assert len(theirs) > 40
    passed, complaints = dump_log(indexes, "--index-sanity-check")
    assert complaints == ""
    assert passed[1::2] == [f"{path} passed sanity check." for path in indexes]


def test_files_beside_a_segment(tmp_path: Path):
    producers, aborted = tmp_path / f"{1005:020}.snapshot", tmp_path / f"{0:020}.txnindex"
    states = [
        ProducerState(7, 2, 41, 1000, 3, TIME_MS, 5, 998),
        ProducerState(8, 0, 1, 1004, 3, TIME_MS + 1, 0, -1),
        ProducerState(2**62, 9, -1, -1, 0, -1, -1, -1),
    ]
    producers.write_bytes(format_producers(states))
    aborted.write_bytes(format_aborted([AbortedTransaction(7, 5, 9, 5), AbortedTransaction(8, 6, 12, 6)]))
    theirs, complaints = dump_log([producers, aborted])
    assert complaints == ""
    assert theirs == our_lines([producers, aborted], Detail())
    assert len(theirs) == 2 + 3 + 2


def test_a_metadata_log_and_its_snapshot(tmp_path: Path):
    records = [
        (s.FeatureLevelRecord(name="metadata.version", feature_level=30), 0),
        (s.RegisterBrokerRecord(broker_id=1, broker_epoch=5, rack=None, log_dirs=[TOPIC_ID]), 4),
        (s.TopicRecord(name="orders", topic_id=TOPIC_ID), 0),
        (
            s.PartitionRecord(
                topic_id=TOPIC_ID, partition_id=0, replicas=[1, 2], isr=[1], leader=1, leader_epoch=0,
                partition_epoch=0, directories=[TOPIC_ID, TOPIC_ID], eligible_leader_replicas=[2],
            ),
            2,
        ),
        (s.PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=0, leader=2, isr=[2, 1]), 2),
    ]  # fmt: skip
    values = [encode_metadata_record(record, version) for record, version in records]
    folder = tmp_path / "__cluster_metadata-0"
    with LogWriter(folder) as log:
        leader = s.LeaderChangeMessage(version=0, leader_id=1)
        rows = [Record(0, TIME_MS, b"\0\0\0\2", encode(leader, 0))]
        log.append(encode_records(rows, control=True, partition_leader_epoch=1))
        log.append(
            encode_records([Record(1 + k, TIME_MS, None, value) for k, value in enumerate(values)], codec="none")
        )
    snapshot = write_snapshot(
        folder,
        SnapshotId(6, 1),
        values,
        time_ms=TIME_MS,
        last_contained_log_timestamp=TIME_MS,
        kraft_version=s.KRaftVersionRecord(version=0, kraft_version=1),
        batch_bytes=100,
    )
    paths = [*segment_files(folder), snapshot]
    for options, detail in (
        (("--cluster-metadata-decoder",), Detail(metadata=True)),
        (("--cluster-metadata-decoder", "--skip-record-metadata"), Detail(metadata=True, skip_record_metadata=True)),
    ):
        theirs, complaints = dump_log(paths, *options)
        assert complaints == ""
        assert theirs == our_lines(paths, detail)
        assert sum('"type":"PARTITION_RECORD"' in line for line in theirs) == 2
