"""How long the tables take: to make, to index, to change. Run with `pytest bench/test_tables.py --benchmark-enable`.

`extra_info` has nanoseconds a partition handled; take ratios, not absolutes, on a shared machine.
"""

from collections.abc import Callable

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from kcore.measure.workloads.generate import generate, scramble
from kcore.metadata.table.broker_index import BrokerIndex
from kcore.metadata.table.changes import PartitionChanges
from kcore.metadata.table.partition_table import PartitionTable

SIZES = [(100_000, 100), (1_000_000, 100), (1_000_000, 1000)]


@pytest.fixture(scope="module", params=SIZES, ids=lambda size: f"{size[0]}-{size[1]}")
def table(request: pytest.FixtureRequest) -> PartitionTable:
    partitions, brokers = request.param
    return generate(partitions, brokers, 3, partitions // 100, seed=1)


def measure(benchmark: BenchmarkFixture, handled: int, run: Callable[[], object]) -> None:
    benchmark.pedantic(run, rounds=5, warmup_rounds=1)
    if benchmark.stats:
        benchmark.extra_info["ns a partition"] = round(benchmark.stats["min"] * 1e9 / handled, 2)


def leader_changes(table: PartitionTable, rows: np.ndarray) -> PartitionChanges:
    """The leader steps out of the ISR of `rows`, and the next replica takes over."""
    isr = table.brokers.ids[table.replicas__ps[rows, 1:]]
    return PartitionChanges(
        rows=rows,
        leaders=isr[:, 0].copy(),
        isr_offsets=np.arange(0, 2 * len(rows) + 1, 2, dtype=np.int32),
        isr=isr.reshape(-1),
        leader_epochs=table.leader_epoch__p[rows] + 1,
        partition_epochs=table.partition_epoch__p[rows] + 1,
        recovery=np.zeros(len(rows), np.int8),
    )


def test_generate(benchmark: BenchmarkFixture) -> None:
    measure(benchmark, 1_000_000, lambda: generate(1_000_000, 100, 3, 10_000, seed=1))


def test_scramble(benchmark: BenchmarkFixture) -> None:
    table = generate(100_000, 100, 3, 1000, seed=1)
    measure(benchmark, len(table), lambda: scramble(table, seed=2))


def test_from_arrays(benchmark: BenchmarkFixture, table: PartitionTable) -> None:
    replicas = table.brokers.ids[table.replicas__ps]
    measure(benchmark, len(table), lambda: PartitionTable.from_arrays(replicas))


def test_build_index(benchmark: BenchmarkFixture, table: PartitionTable) -> None:
    measure(benchmark, len(table), lambda: BrokerIndex(table.replicas__ps, len(table.brokers)))


def test_apply_one_broker_of_all(benchmark: BenchmarkFixture, table: PartitionTable) -> None:
    table = table.copy()
    changes = leader_changes(table, table.index.rows(5).copy())
    measure(benchmark, len(changes), lambda: table.apply(changes, check_epochs=False))


def test_reassign_one_topic(benchmark: BenchmarkFixture, table: PartitionTable) -> None:
    """There and back: a hundred partitions change all their brokers."""
    table, rows = table.copy(), table.rows_of_topic("topic-00003")
    before = table.brokers.ids[table.replicas__ps[rows]]
    after = (before + 7) % len(table.brokers)

    def there_and_back() -> None:
        table.set_replicas(rows, after)
        table.set_replicas(rows, before)

    measure(benchmark, 2 * len(rows), there_and_back)


def test_add_and_remove_a_topic(benchmark: BenchmarkFixture, table: PartitionTable) -> None:
    table = table.copy()
    replicas = table.brokers.ids[table.replicas__ps[:100]]

    def come_and_go() -> None:
        table.add_topic("fresh", replicas)
        table.remove_topic("fresh")

    measure(benchmark, len(replicas), come_and_go)
