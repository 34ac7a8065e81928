"""Questions about losses: each pair of brokers, one lost broker, a restart plan; and the load of their snapshot.

    .venv/bin/python -m pytest bench/test_whatif.py --benchmark-enable

`extra_info` has microseconds a pair of brokers.
"""

from collections.abc import Callable
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from kcore import schema as s
from kcore.measure.workloads.generate import generate
from kcore.schema.metadata_records_brokers import BrokerEndpoint
from kcore.storage.raft.metadata_log import load_metadata
from kcore.storage.raft.snapshot import SnapshotId, write_snapshot
from kcore.types import Uuid
from kcore.whatif import WhatIf, what_if
from kcore.wire.metadata_frames import encode_metadata_record

SIZES = [(100_000, 100), (1_000_000, 1_000)]
PER_TOPIC = 100
LEVEL = "4.3-IV0@4.3.1"


@pytest.fixture(scope="module", params=SIZES, ids=lambda size: "-".join(map(str, size)))
def asked(request: pytest.FixtureRequest) -> WhatIf:
    partitions, brokers = request.param
    table = generate(partitions, brokers, 3, partitions // PER_TOPIC, seed=1, racks=brokers // 10)
    return what_if(table, release=LEVEL, min_isr=2)


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A snapshot of 1,000 brokers and a million partitions."""
    table = generate(1_000_000, 1_000, 3, 1_000_000 // PER_TOPIC, seed=1, racks=100)
    values = [encode_metadata_record(s.FeatureLevelRecord(name="metadata.version", feature_level=25), 0)]
    for broker_id, rack in zip(table.brokers.ids.tolist(), table.brokers.racks, strict=True):
        end_points = [BrokerEndpoint(name="PLAINTEXT", host="h", port=9092, security_protocol=0)]
        record = s.RegisterBrokerRecord(
            broker_id=broker_id, broker_epoch=1, end_points=end_points, rack=rack, fenced=False
        )
        values.append(encode_metadata_record(record, 1))
    ids = [Uuid((topic + 1).to_bytes(16)) for topic in range(table.topics.count)]
    values += [
        encode_metadata_record(s.TopicRecord(name=name, topic_id=topic_id), 0)
        for name, topic_id in zip(table.topics.names, ids, strict=True)
    ]
    numbers, topics = table.partition_index__p.tolist(), table.topic_row__p.tolist()
    for row, replicas in enumerate(table.brokers.ids[table.replicas__ps].tolist()):
        partition = s.PartitionRecord(
            partition_id=numbers[row], topic_id=ids[topics[row]], replicas=replicas, isr=replicas, leader=replicas[0]
        )
        values.append(encode_metadata_record(partition, 0))
    folder = tmp_path_factory.mktemp("snapshot")
    return write_snapshot(folder, SnapshotId(1_100_000, 1), values, time_ms=0, last_contained_log_timestamp=0)


def measure(benchmark: BenchmarkFixture, decide: Callable[[], object]) -> None:
    benchmark.pedantic(decide, rounds=3)


def test_lost_broker(benchmark: BenchmarkFixture, asked: WhatIf) -> None:
    measure(benchmark, lambda: asked.lose([7]))


def test_restart_plan(benchmark: BenchmarkFixture, asked: WhatIf) -> None:
    measure(benchmark, asked.restart_plan)


def test_pairs(benchmark: BenchmarkFixture) -> None:
    table = generate(*SIZES[0], 3, SIZES[0][0] // PER_TOPIC, seed=1, racks=10)
    question = what_if(table, release=LEVEL, min_isr=2)
    measure(benchmark, question.pairs)
    if benchmark.stats:
        count = len(question.pairs())
        benchmark.extra_info["us a pair"] = round(benchmark.stats["min"] * 1e6 / count, 1)


def test_load_snapshot(benchmark: BenchmarkFixture, snapshot: Path) -> None:
    measure(benchmark, lambda: load_metadata(snapshot))
