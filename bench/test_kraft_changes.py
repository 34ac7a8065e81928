"""How long KRaft's decisions take, wrapper included. Run with `pytest bench/test_kraft_changes.py --benchmark-enable`.

`extra_info` has nanoseconds a partition: of those that the event looks at.
"""

from collections.abc import Callable

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from kcore.measure.workloads.generate import generate
from kcore.metadata.table.broker_registration import BrokerRegistration
from kcore.metadata.table.broker_table import BrokerTable
from kcore.metadata.table.column_list import PARTITION_COLUMNS
from kcore.metadata.table.partition_table import PartitionTable
from kcore.replication import kraft_events as events
from kcore.replication import kraft_moves as moves
from kcore.replication.kraft_changes import KraftSettings, Setting
from kcore.replication.levels import level_of
from kcore.types import Int32s, Uuid

LOST = 7
DIRECTORIES = 4  # A broker.
LEVEL = level_of("4.3.1")
PLAIN = KraftSettings(LEVEL)
ELR = KraftSettings(LEVEL, elr_enabled=True, min_isr=Setting(np.full(1, 2, np.int32)))
STRICT = KraftSettings(LEVEL, elr_enabled=True, min_isr=Setting(np.full(1, 3, np.int32)))


@pytest.fixture(
    scope="module", params=[(100_000, 100), (1_000_000, 100), (1_000_000, 1000)], ids="{0[0]}-{0[1]}".format
)
def table(request: pytest.FixtureRequest) -> PartitionTable:
    partitions, brokers = request.param
    return generate(partitions, brokers, 3, partitions // 100, seed=1)


@pytest.fixture(scope="module")
def with_directories(table: PartitionTable) -> PartitionTable:
    """The same cluster, each replica in one of its broker's directories."""
    brokers = BrokerTable.from_arrays([])
    for broker in table.brokers.ids.tolist():
        uuids = tuple(Uuid(bytes([1, number, *[0] * 10, *broker.to_bytes(4, "big")])) for number in range(DIRECTORIES))
        brokers.put(BrokerRegistration(broker, 1, directories=uuids))
    columns = {column.name: getattr(table, column.name).copy() for column in PARTITION_COLUMNS}
    chosen = np.random.default_rng(3).integers(0, DIRECTORIES, table.replicas__ps.shape, np.int32)
    columns["directories__ps"] = 3 + table.replicas__ps.astype(np.int32) * DIRECTORIES + chosen
    return PartitionTable(columns, table.topics.copy(), brokers)


def measure(benchmark: BenchmarkFixture, handled: int, decide: Callable[[], object]) -> None:
    benchmark.pedantic(decide, rounds=30, warmup_rounds=1)
    if benchmark.stats:
        benchmark.extra_info["ns a partition"] = round(benchmark.stats["min"] * 1e9 / handled, 2)


def held(table: PartitionTable) -> Int32s:
    return table.index.rows(table.brokers.row(LOST))


@pytest.mark.parametrize("settings", [PLAIN, ELR, STRICT], ids=["plain", "elr", "below-min-isr"])
def test_broker_fenced(benchmark: BenchmarkFixture, table: PartitionTable, settings: KraftSettings) -> None:
    measure(benchmark, len(held(table)), lambda: events.brokers_fenced(table, settings, [LOST]))


@pytest.mark.parametrize("settings", [PLAIN, ELR], ids=["plain", "elr"])
def test_broker_fenced_with_directories(
    benchmark: BenchmarkFixture, with_directories: PartitionTable, settings: KraftSettings
) -> None:
    decide = lambda: events.brokers_fenced(with_directories, settings, [LOST])  # noqa: E731
    measure(benchmark, len(held(with_directories)), decide)


def test_rack_fenced(benchmark: BenchmarkFixture, table: PartitionTable) -> None:
    """A tenth of the brokers at once."""
    rack = list(range(0, len(table.brokers), 10))
    touched = sum(len(table.index.rows(table.brokers.row(broker))) for broker in rack)
    measure(benchmark, touched, lambda: events.brokers_fenced(table, ELR, rack))


def test_directory_failed(benchmark: BenchmarkFixture, with_directories: PartitionTable) -> None:
    [failed, *_] = with_directories.brokers.directories[with_directories.brokers.row(LOST)]
    assert with_directories.directories__ps is not None
    rows = np.flatnonzero((with_directories.directories__ps == failed).any(axis=1)).astype(np.int32)
    decide = lambda: events.replicas_lost(with_directories, ELR, LOST, rows)  # noqa: E731
    measure(benchmark, len(held(with_directories)), decide)


def test_broker_unfenced(benchmark: BenchmarkFixture, table: PartitionTable) -> None:
    """Nobody is without a leader: what the look for such partitions costs."""
    measure(benchmark, len(table), lambda: events.broker_unfenced(table, ELR, LOST))


def test_isrs_altered(benchmark: BenchmarkFixture, table: PartitionTable) -> None:
    """The leader of a hundredth of the partitions asks for an ISR without the last member."""
    rows = np.arange(0, len(table), 100, dtype=np.int32)
    isr = table.isr__pi[rows][:, :2].copy()
    recovery = np.zeros(len(rows), np.int8)
    measure(benchmark, len(rows), lambda: events.isrs_altered(table, ELR, rows, isr, recovery))


def test_reassignments_begun(benchmark: BenchmarkFixture, table: PartitionTable) -> None:
    """The last replica of a hundredth of the partitions moves to the next broker."""
    rows = np.arange(0, len(table), 100, dtype=np.int32)
    replicas = table.replicas__ps[rows].copy()
    replicas[:, 2] = (replicas.max(axis=1) + 1) % len(table.brokers)
    replicas[:, 2] = np.where(
        (replicas[:, :2] == replicas[:, 2:]).any(axis=1), (replicas[:, 2] + 1) % len(table.brokers), replicas[:, 2]
    )
    measure(benchmark, len(rows), lambda: moves.reassignments_begun(table, ELR, rows, replicas))


def test_records(benchmark: BenchmarkFixture, table: PartitionTable) -> None:
    """From a decision to the fields of its records."""
    fenced = events.brokers_fenced(table, STRICT, [LOST])
    measure(benchmark, len(fenced), fenced.records)
