"""The one state at a million partitions, RF 3, with directories: a record and a decision, undo, records, a snapshot.

Run with `pytest bench/test_state.py --benchmark-enable`. `extra_info` has what a change or the longest slice takes.
"""

import time

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from kcore.metadata.image.image import ClusterImage
from kcore.metadata.image.image_writer import records_of
from kcore.metadata.table.broker_registration import BrokerRegistration
from kcore.metadata.table.broker_table import BrokerTable
from kcore.metadata.table.changes import KraftChanges
from kcore.metadata.table.partition_table import PartitionTable
from kcore.metadata.table.partition_values import records_of_changes
from kcore.metadata.table.topic_table import TopicTable
from kcore.replication.kraft_changes import KraftSettings
from kcore.replication.kraft_events import broker_unfenced, leaders_elected
from kcore.replication.levels import level_of
from kcore.schema import PartitionChangeRecord
from kcore.types import Uuid
from kcore.wire.columns import Vectors

PARTITIONS = 1_000_000
PER_TOPIC = 100
BROKERS = 100
CHANGES = 100_000
TIME_MS = 1_750_000_000_000


def image_of(partitions: int) -> ClusterImage:
    numbers = np.arange(partitions, dtype=np.int32)
    replicas = np.stack([(numbers + k) % BROKERS for k in range(3)], axis=1)
    brokers = BrokerTable.from_arrays(np.arange(BROKERS))
    for broker in range(BROKERS):
        brokers.put(BrokerRegistration(broker, 1, directories=(Uuid((1 << 64 | broker).to_bytes(16)),)))
    directories = np.array([brokers.directories[broker][0] for broker in range(BROKERS)], np.int32)[replicas]
    topics = [f"topic-{number:05}" for number in range(partitions // PER_TOPIC)]
    ids = [Uuid((number * 0x9E3779B97F4A7C15 % 2**64 << 64 | number + 1).to_bytes(16)) for number in range(len(topics))]
    table = PartitionTable.from_arrays(
        replicas,
        topics=TopicTable(topics, ids),
        topic_rows=numbers // PER_TOPIC,
        brokers=brokers,
        directories=directories,
    )
    return ClusterImage(table, features={"metadata.version": 30})


@pytest.fixture(scope="module")
def image() -> ClusterImage:
    return image_of(PARTITIONS)


def lost_leaders(image: ClusterImage) -> KraftChanges:
    """The first replica of 100,000 partitions goes out of the ISR, and the second leads."""
    rows = np.arange(0, PARTITIONS, PARTITIONS // CHANGES, dtype=np.int32)
    isr = image.brokers.ids[image.table.replicas__ps[rows, 1:]]
    offsets = np.arange(0, 2 * len(rows) + 1, 2, dtype=np.int32)
    return KraftChanges(rows, leaders=isr[:, 0].copy(), isr=Vectors(offsets, isr.reshape(-1)))


def test_one_record_and_a_decision_over_it(benchmark: BenchmarkFixture, image: ClusterImage) -> None:
    table, settings = image.table, KraftSettings(level_of("4.3.1"))
    topic_id, row = image.topics.ids[7], np.array([7 * PER_TOPIC], np.int32)
    change = PartitionChangeRecord(topic_id=topic_id, partition_id=0, isr=table.state(int(row[0])).replicas, leader=-1)

    def apply_and_decide() -> None:
        image.apply(change)
        assert len(leaders_elected(table, settings, row)) == 1

    benchmark.pedantic(apply_and_decide, rounds=200, warmup_rounds=20)


def test_a_broker_comes_back(benchmark: BenchmarkFixture, image: ClusterImage) -> None:
    """All partitions without a leader are looked for: one pass over a column."""
    benchmark.pedantic(broker_unfenced, (image.table, KraftSettings(level_of("4.3.1")), 5), rounds=10, warmup_rounds=2)


def test_changes_into_batches(benchmark: BenchmarkFixture, image: ClusterImage) -> None:
    changes = lost_leaders(image)

    def encode() -> int:
        records = records_of_changes(image.table, changes, "4.3.1")
        return sum(len(batch) for batch in records.batches(0, epoch=1, timestamp=TIME_MS))

    assert benchmark.pedantic(encode, rounds=20, warmup_rounds=2) > 30 * CHANGES
    if benchmark.stats:
        benchmark.extra_info["ns a change"] = round(benchmark.stats["min"] * 1e9 / CHANGES, 1)


@pytest.mark.parametrize("journal", [False, True])
def test_apply_changes(benchmark: BenchmarkFixture, image: ClusterImage, journal: bool) -> None:
    twin = image.copy()
    if journal:
        twin.keep_journal()
    changes, offsets = lost_leaders(image), iter(range(1 << 30))

    def apply() -> None:
        offset = next(offsets)
        twin.commit(offset)
        twin.begin(offset)
        twin.apply_changes(changes, offset)

    benchmark.pedantic(apply, rounds=10, warmup_rounds=2)


def test_undo_of_changes(benchmark: BenchmarkFixture, image: ClusterImage) -> None:
    twin, changes = image.copy(), lost_leaders(image)
    twin.keep_journal()

    def decide() -> tuple[tuple[int], dict[str, int]]:
        twin.begin(5)
        twin.apply_changes(changes, 5)
        return (5,), {}

    benchmark.pedantic(twin.revert_to, setup=decide, rounds=10)
    assert not (twin.table.leader_epoch__p[changes.rows] - image.table.leader_epoch__p[changes.rows]).any()


def test_snapshot(benchmark: BenchmarkFixture, image: ClusterImage) -> None:
    slices: list[float] = []

    def write() -> int:
        slices.clear()
        size, began = 0, time.perf_counter()
        for piece in records_of(image):
            size += sum(len(batch) for batch in piece.batches(0, epoch=1, timestamp=TIME_MS))
            slices.append(time.perf_counter() - began)
            began = time.perf_counter()
        return size

    assert benchmark.pedantic(write, rounds=3, warmup_rounds=1) > 60 * PARTITIONS
    benchmark.extra_info["longest slice, ms"] = round(max(slices) * 1e3, 1)


def test_memory_of_ten_million(benchmark: BenchmarkFixture) -> None:
    """Columns and indexes; the process as a whole has grown by as much (0.52 GB) when this was written."""
    image = benchmark.pedantic(image_of, (10 * PARTITIONS,), rounds=1)
    total = image.memory_bytes()["total"]
    benchmark.extra_info["MB"] = total // 1_000_000
    assert total <= 1_300_000_000
