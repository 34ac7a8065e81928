"""States of 100,000 partitions to and from ZooKeeper: the kernels, and their slow twins beside them.

Run with `pytest bench/test_znodes.py --benchmark-enable`. States and paths by `_ext/znodes` or by Python's json,
requests and answers by `_ext/jute` or by kazoo. Both give the same, which is looked at before time is. `extra_info`
has nanoseconds an item.
"""

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from kazoo.protocol.states import ZnodeStat
from pytest_benchmark.fixture import BenchmarkFixture

from kcore.metadata.table.changes import UnwrittenChanges
from kcore.metadata.zookeeper.znode_states import StateColumns, Texts, decode_states, encode_states, partition_paths
from kcore.zookeeper.operations import SET_DATA, Operations, Results, reads_of, results_of
from reference import jute as kazoos
from reference.znodes import State, path_of, state_of, text_of

STATES, TOPICS, CONTROLLER_EPOCH = 100_000, 1_000, 7
NAMES = [f"topic-{number:05}" for number in range(TOPICS)]
WAYS = pytest.mark.parametrize("way", ["kernel", "twin"])


@pytest.fixture(scope="module")
def states() -> list[State]:
    """Three brokers of a hundred in each ISR, now and then two."""
    dice = random.Random(1)
    sizes = [2 + (dice.random() < 0.9) for _ in range(STATES)]
    isrs = [dice.sample(range(100), size) for size in sizes]
    return [State(isr[0], dice.randrange(500), CONTROLLER_EPOCH, 0, isr) for isr in isrs]


@pytest.fixture(scope="module")
def changes(states: list[State]) -> UnwrittenChanges:
    return UnwrittenChanges(
        rows=np.arange(STATES, dtype=np.int32),
        leaders=np.array([state.leader for state in states], np.int32),
        isr_offsets=np.cumsum([0, *(len(state.isr) for state in states)], dtype=np.int32),
        isr=np.array([broker for state in states for broker in state.isr], np.int32),
        leader_epochs=np.array([state.leader_epoch for state in states], np.int32),
        partition_epochs=np.zeros(STATES, np.int32),
        recovery=np.zeros(STATES, np.int8),
    )


@pytest.fixture(scope="module")
def texts(changes: UnwrittenChanges) -> Texts:
    return encode_states(changes, CONTROLLER_EPOCH)


@pytest.fixture(scope="module")
def paths() -> Texts:
    numbers = np.arange(STATES, dtype=np.int32)
    return partition_paths(NAMES, numbers % TOPICS, numbers // TOPICS)


@pytest.fixture(scope="module")
def writes(paths: Texts, texts: Texts) -> Operations:
    kinds, versions = np.full(STATES, SET_DATA, np.uint8), np.arange(STATES, dtype=np.int32)
    return Operations(kinds, paths, texts, versions)


@pytest.fixture(scope="module")
def answer(texts: Texts) -> bytes:
    """To a read of every state."""
    parts = []
    for row in range(STATES):
        data = texts.at(row)
        stat = ZnodeStat(1 + row, 2 + row, 0, 0, row, 0, 0, 0, len(data), 0, 3 + row)
        parts.append(kazoos.answer([(4, (data, stat))]).removesuffix(kazoos.END))
    return b"".join(parts) + kazoos.END


def measure(benchmark: BenchmarkFixture, way: str, ways: dict[str, Callable[[], Any]]) -> None:
    benchmark.pedantic(ways[way], rounds=30 if way == "kernel" else 3, warmup_rounds=1)
    if benchmark.stats:
        benchmark.extra_info["ns an item"] = round(benchmark.stats["min"] * 1e9 / STATES, 1)


@pytest.mark.benchmark(group="states to JSON")
@WAYS
def test_write_states(
    benchmark: BenchmarkFixture, way: str, states: list[State], changes: UnwrittenChanges, texts: Texts
) -> None:
    def by_json() -> bytes:
        return b"".join(map(text_of, states))

    assert by_json() == texts.text[: texts.offsets[-1]].tobytes()
    measure(benchmark, way, {"kernel": lambda: encode_states(changes, CONTROLLER_EPOCH), "twin": by_json})


@pytest.mark.benchmark(group="states from JSON")
@WAYS
def test_parse_states(benchmark: BenchmarkFixture, way: str, states: list[State], texts: Texts) -> None:
    each = [texts.at(row) for row in range(STATES)]

    def parsed() -> StateColumns:
        return decode_states(texts.text, texts.offsets[:-1], texts.offsets[1:], str)

    def by_json() -> list[State | None]:
        return [state_of(text) for text in each]

    columns = parsed()
    assert by_json() == states
    assert columns.leaders.tolist() == [state.leader for state in states]
    assert columns.isr.tolist() == [broker for state in states for broker in state.isr]
    measure(benchmark, way, {"kernel": parsed, "twin": by_json})


@pytest.mark.benchmark(group="paths")
@WAYS
def test_write_paths(benchmark: BenchmarkFixture, way: str, paths: Texts) -> None:
    numbers = np.arange(STATES, dtype=np.int32)
    topics, partitions = numbers % TOPICS, numbers // TOPICS
    rows = list(zip(topics.tolist(), partitions.tolist(), strict=True))

    def one_by_one() -> list[bytes]:
        return [path_of("/brokers/topics/", NAMES[topic], partition, "/state") for topic, partition in rows]

    assert b"".join(one_by_one()) == paths.text[: paths.offsets[-1]].tobytes()
    measure(benchmark, way, {"kernel": lambda: partition_paths(NAMES, topics, partitions), "twin": one_by_one})


@pytest.mark.benchmark(group="requests that write states")
@WAYS
def test_write_request(benchmark: BenchmarkFixture, way: str, writes: Operations) -> None:
    """In batches, as they go out."""
    rows = [
        (SET_DATA, writes.paths.at(row).decode(), writes.data.at(row), int(writes.versions[row]))
        for row in range(STATES)
    ]

    def in_batches() -> list[bytes]:
        return [writes.request(batch) for batch in writes.batches()]

    def by_kazoo() -> list[bytes]:
        return [kazoos.request(rows[batch[0] : batch[-1] + 1]) for batch in writes.batches()]

    assert by_kazoo() == in_batches()
    measure(benchmark, way, {"kernel": in_batches, "twin": by_kazoo})


@pytest.mark.benchmark(group="requests that read states")
@WAYS
def test_read_request(benchmark: BenchmarkFixture, way: str, paths: Texts) -> None:
    rows = [(4, paths.at(row).decode(), b"", 0) for row in range(STATES)]

    def in_one() -> bytes:
        return reads_of(paths).request(np.arange(STATES))

    assert in_one() == kazoos.request(rows)
    measure(benchmark, way, {"kernel": in_one, "twin": lambda: kazoos.request(rows)})


@pytest.mark.benchmark(group="answers with states")
@WAYS
def test_parse_results(benchmark: BenchmarkFixture, way: str, answer: bytes) -> None:
    def parsed() -> Results:
        return results_of(answer, 0, STATES)

    results, expected = parsed(), kazoos.results(answer, 0)
    begins, ends = results.data.tolist()
    assert [answer[begin:end] for begin, end in zip(begins, ends, strict=True)] == [data for _, data, _ in expected]
    assert results.versions.tolist() == [stat.version for _, _, stat in expected if stat is not None]
    measure(benchmark, way, {"kernel": parsed, "twin": lambda: kazoos.results(answer, 0)})
