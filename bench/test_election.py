"""How long elections take, wrapper included. Run with `pytest bench/test_election.py --benchmark-enable`.

`extra_info` has nanoseconds a partition: of those with a replica on the lost broker, or of all for full-table kinds.
"""

import sys
from collections.abc import Callable
from subprocess import run

import numba
import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from kcore.measure.workloads.generate import generate, scramble
from kcore.metadata.table.partition_table import PartitionTable
from kcore.replication.elect import elect
from kcore.replication.policy import election_policy

SIZES = [(100_000, 100), (100_000, 1000), (1_000_000, 100), (1_000_000, 1000), (10_000_000, 100)]
LOST = 7


CASES = [(*size, states) for size in SIZES for states in ("uniform", "mixed")]


@pytest.fixture(scope="module", params=CASES, ids=lambda case: "-".join(map(str, case)))
def table(request: pytest.FixtureRequest) -> PartitionTable:
    partitions, brokers, states = request.param
    made = generate(partitions, brokers, 3, partitions // 100, seed=1)
    if states == "mixed":
        scramble(made, seed=2)
    return made


def measure(benchmark: BenchmarkFixture, handled: int, decide: Callable[[], object]) -> None:
    benchmark.pedantic(decide, rounds=30 if handled < 10**6 else 5, warmup_rounds=1)
    if benchmark.stats:
        benchmark.extra_info["ns a partition"] = round(benchmark.stats["min"] * 1e9 / handled, 2)


def affected(table: PartitionTable) -> int:
    return len(table.index.rows(table.brokers.row(LOST)))


def test_broker_lost(benchmark: BenchmarkFixture, table: PartitionTable) -> None:
    measure(benchmark, affected(table), lambda: elect(table, "offline", leaving=[LOST]))


def test_broker_fenced(benchmark: BenchmarkFixture, table: PartitionTable) -> None:
    measure(benchmark, affected(table), lambda: elect(table, "online", leaving=[LOST], level="4.1.2"))


def test_controlled_shutdown(benchmark: BenchmarkFixture, table: PartitionTable) -> None:
    measure(benchmark, affected(table), lambda: elect(table, "controlled-shutdown", leaving=[LOST]))


def test_full_table_one_broker_down(benchmark: BenchmarkFixture, table: PartitionTable) -> None:
    table.brokers.set_gone(LOST)
    measure(benchmark, len(table), lambda: elect(table, "offline"))
    table.brokers.register(LOST, 1)


def test_full_table_every_partition_elects(benchmark: BenchmarkFixture, table: PartitionTable) -> None:
    rows = np.arange(len(table), dtype=np.int32)
    measure(benchmark, len(table), lambda: elect(table, "offline", rows=rows))


def test_policy(benchmark: BenchmarkFixture, table: PartitionTable) -> None:
    @election_policy
    def first_in_sync(replicas: np.ndarray, in_sync: int, online: int) -> int:
        for slot in range(len(replicas)):
            if (in_sync & online) >> slot & 1:
                return slot
        return -1

    measure(benchmark, affected(table), lambda: elect(table, first_in_sync, leaving=[LOST]))


FIRST_CALL = """
from time import perf_counter_ns
from kcore.replication.elect import elect
from kcore.measure.workloads.generate import generate
table = generate(100_000, 100, 3, 1000, seed=1)
start = perf_counter_ns()
elect(table, "offline", leaving=[7])
print((perf_counter_ns() - start) / len(table.index.rows(7)))
"""


def test_first_call(benchmark: BenchmarkFixture) -> None:
    """In a process of its own each time; nothing may be compiled or imported late on this path."""
    figures: list[float] = []

    def first_call() -> None:
        figures.append(float(run([sys.executable, "-c", FIRST_CALL], capture_output=True, check=True).stdout))

    benchmark.pedantic(first_call, rounds=5)
    benchmark.extra_info["ns a partition"] = round(min(figures), 2)


@numba.njit
def _numba_shrink_and_elect(replicas__ps, isr__pi, leader__p, leader_epoch__p, ids, online, lost, rows, out, isr_out):
    """The loser of the bake-off: the same loop over the same columns in Numba, for one broker lost."""
    changes = 0
    members = 0
    for r in range(len(rows)):
        p = rows[r]
        leader = leader__p[p]
        if leader == lost:
            leader = -1
            for s in range(replicas__ps.shape[1]):
                replica = replicas__ps[p, s]
                if leader >= 0 or replica < 0 or not online[replica]:
                    continue
                for i in range(isr__pi.shape[1]):
                    if isr__pi[p, i] == replica:
                        leader = replica
        kept = 0
        for i in range(isr__pi.shape[1]):
            member = isr__pi[p, i]
            if member >= 0 and member != lost:
                isr_out[members + kept] = ids[member]
                kept += 1
        out[0, changes] = p
        out[1, changes] = ids[leader] if leader >= 0 else -1
        out[2, changes] = leader_epoch__p[p] + 1
        members += kept
        out[3, changes] = members
        changes += 1
    return changes


def test_rejected_numba_kernel(benchmark: BenchmarkFixture, table: PartitionTable) -> None:
    lost = table.brokers.row(LOST)
    rows, online = table.index.rows(lost), table.brokers.live.copy()
    online[lost] = False

    def decide() -> None:
        out, isr = np.empty((4, len(rows)), np.int32), np.empty(3 * len(rows), np.int32)
        columns = (table.replicas__ps, table.isr__pi, table.leader__p, table.leader_epoch__p)
        _numba_shrink_and_elect(*columns, table.brokers.ids, online, lost, rows, out, isr)

    measure(benchmark, len(rows), decide)
