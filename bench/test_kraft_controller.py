"""How long the KRaft controller's loop is held by requests for many topics, and a follower by their records.

Run with `pytest bench/test_kraft_controller.py --benchmark-enable`; `--topics` says how many. `extra_info`: parts of
the work on it; the longest, the last and a follower's longest slice, in ms of the processor.
"""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from kcore.collector import rare_collections
from kcore.controller.kraft.activation import Bootstrap
from kcore.controller.kraft.controller import KraftController
from kcore.controller.kraft.kraft_context import RequestInfo
from kcore.controller.kraft.kraft_controller_config import KraftControllerConfig
from kcore.controller.kraft.outputs import Clocks
from kcore.controller.kraft.tasks import all_tasks
from kcore.node.kraft.node_config import NodeConfig
from kcore.raft.log.batches import split_batches
from kcore.raft.state_machine import AppendBatches
from kcore.replication.java_random import JavaRandom
from kcore.schema import broker_lifecycle as brokers
from kcore.schema import configs, partitions, topics
from kcore.schema.structure import Message
from kcore.types import Uuid

BROKERS = range(1, 7)


class Pair:
    """The active controller, and one that replays what it appends."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.active, self.follower = self._controller(), self._controller()
        self._follow(self.active.on_leader(1, 0))
        for broker in BROKERS:
            request = brokers.BrokerRegistrationRequest(
                broker_id=broker,
                cluster_id="a cluster",
                incarnation_id=Uuid(bytes([broker] * 16)),
                listeners=[brokers.Listener(name="A", host="h", port=9092)],
                features=[brokers.Feature(name="metadata.version", min_supported_version=1, max_supported_version=30)],
                log_dirs=[Uuid(bytes([9, broker] * 8))],
            )
            self.ask(request, 4)
            self.beat(broker)

    def _controller(self) -> KraftController:
        numbers = iter(range(1_000, 1 << 60))
        config = KraftControllerConfig(NodeConfig(1, "a cluster"))
        bootstrap = Bootstrap.of_features({"metadata.version": 30}, "a benchmark")
        clocks = Clocks(lambda: self.now_ms, lambda: self.now_ms)
        new_uuid = lambda: Uuid(next(numbers).to_bytes(16))  # noqa: E731
        return KraftController(config, bootstrap, all_tasks(config), clocks, JavaRandom(1), new_uuid)

    def ask(self, request: Message, version: int) -> list[float]:
        """How long each part took, in ms of the processor; behind them, each slice of the follower is in `slices`."""
        return self.work(lambda: self.active.on_request(request, RequestInfo(version, self.now_ms), None))

    def work(self, event: Callable[[], Any]) -> list[float]:
        """The same for any event of the active controller."""
        parts, outputs = [], list[Any]()

        def part(event: Callable[[], Any]) -> None:
            begin = time.thread_time()
            outputs.extend(event())
            parts.append((time.thread_time() - begin) * 1e3)

        part(event)
        while self.active.is_busy:
            part(self.active.on_work)
        self._follow(outputs)
        return parts

    def lose(self, lost: int) -> list[float]:
        """All brokers but one send heartbeats, and the session of that one ends."""
        self.now_ms += self.active.config.broker_session_timeout_ms // 2
        for broker in {*BROKERS} - {lost}:
            self.beat(broker)
        self.work(self.active.on_timer)
        self.now_ms += self.active.config.broker_session_timeout_ms // 2 + 1
        return self.work(self.active.on_timer)

    def beat(self, broker: int) -> None:
        end, epoch = self.active.image.end_offset, int(self.active.image.brokers.epochs[broker - 1])
        self.ask(brokers.BrokerHeartbeatRequest(broker_id=broker, broker_epoch=epoch, current_metadata_offset=end), 1)

    def _follow(self, outputs: Any) -> None:
        self.slices = [0.0]
        for append in (each for each in outputs if isinstance(each, AppendBatches)):
            offset = append.expected_offset
            assert offset == self.follower.image.end_offset
            for batch in split_batches(append.batches, check_crc=False)[0]:
                data, end = bytes(batch.data), batch.last_offset + 1
                event: Callable[[], Any] = lambda data=data, end=end: self.follower.on_committed(data, end)  # noqa: E731
                while event is not None:
                    begin = time.thread_time()
                    has_more = event()
                    self.slices.append((time.thread_time() - begin) * 1e3)
                    event = self.follower.on_work if has_more else None  # type: ignore[assignment]
        self.active.on_committed(b"", self.active.image.end_offset)


def creation(names: list[str], count: int = 1) -> Message:
    made = [
        topics.CreatableTopic(name=name, num_partitions=count, replication_factor=3, assignments=[], configs=[])
        for name in names
    ]
    return topics.CreateTopicsRequest(topics=made)


def grown(name: str, count: int) -> partitions.CreatePartitionsTopic:
    return partitions.CreatePartitionsTopic(name=name, count=count, assignments=None)


def growth(names: list[str]) -> Message:
    return partitions.CreatePartitionsRequest(topics=[grown(name, 2) for name in names])


def elections(names: list[str]) -> Message:
    each = [partitions.TopicPartitions(topic=name, partitions=[0]) for name in names]
    return partitions.ElectLeadersRequest(topic_partitions=each)


def moves(names: list[str]) -> Message:
    target = [partitions.ReassignablePartition(partition_index=0, replicas=[2, 4, 6])]
    moved = [partitions.ReassignableTopic(name=name, partitions=target) for name in names]
    return partitions.AlterPartitionReassignmentsRequest(topics=moved)


def deletion(names: list[str]) -> Message:
    return topics.DeleteTopicsRequest(topics=[topics.DeleteTopicState(name=name) for name in names])


def settings(names: list[str]) -> Message:
    """Some 200 bytes a topic."""
    given = {
        "retention.ms": "1000000",
        "segment.bytes": "10000000",
        "cleanup.policy": "compact",
        "retention.bytes": "1",
    }
    changes = [configs.IncrementalAlterConfigsRequestAlterableConfig(name=each, value=given[each]) for each in given]
    topic = configs.ConfigResourceType.TOPIC
    resources = [
        configs.IncrementalAlterConfigsRequestAlterConfigsResource(
            resource_type=topic, resource_name=name, configs=changes
        )
        for name in names
    ]
    return configs.IncrementalAlterConfigsRequest(resources=resources)


@pytest.fixture(autouse=True)
def collections_as_in_the_process() -> Iterator[None]:
    with rare_collections():
        yield


def report(benchmark: BenchmarkFixture, pair: Pair, event: Callable[[], list[float]]) -> None:
    parts: list[float] = benchmark.pedantic(event, rounds=1)
    figures = {"longest part": max(parts), "last part": parts[-1], "longest slice of a follower": max(pair.slices)}
    benchmark.extra_info.update({"parts": len(parts), **{name: round(value, 1) for name, value in figures.items()}})
    assert pair.follower.image == pair.active.image


@pytest.mark.parametrize(
    ("request_of", "version"),
    [(creation, 7), (growth, 3), (elections, 2), (moves, 1), (settings, 1), (deletion, 6)],
    ids=["create", "grow", "elect", "reassign", "settings", "delete"],
)
def test_many_topics(
    benchmark: BenchmarkFixture, pytestconfig: pytest.Config, request_of: Callable[[list[str]], Message], version: int
) -> None:
    names = [f"t{number}" for number in range(pytestconfig.getoption("--topics"))]
    pair = Pair()
    if request_of is not creation:
        pair.ask(creation(names), 7)
    request = request_of(names)
    report(benchmark, pair, lambda: pair.ask(request, version))


@pytest.mark.parametrize(
    ("request_of", "version"),
    [
        (lambda count: creation(["big"], count), 7),
        (lambda count: partitions.CreatePartitionsRequest(topics=[grown("big", 2 * count)]), 3),
        (lambda count: partitions.ElectLeadersRequest(topic_partitions=None), 2),
        (lambda count: deletion(["big"]), 6),
    ],
    ids=["create", "grow", "elect all", "delete"],
)
def test_one_topic(
    benchmark: BenchmarkFixture, pytestconfig: pytest.Config, request_of: Callable[[int], Message], version: int
) -> None:
    count = pytestconfig.getoption("--topics")
    pair, request = Pair(), request_of(count)
    if not isinstance(request, topics.CreateTopicsRequest):
        pair.ask(creation(["big"], count), 7)
    report(benchmark, pair, lambda: pair.ask(request, version))


def test_all_reassignments_are_listed(benchmark: BenchmarkFixture, pytestconfig: pytest.Config) -> None:
    names = [f"t{number}" for number in range(pytestconfig.getoption("--topics"))]
    pair = Pair()
    pair.ask(creation(names), 7)
    pair.ask(moves(names), 1)
    listing = partitions.ListPartitionReassignmentsRequest(topics=None)
    report(benchmark, pair, lambda: pair.ask(listing, 0))


def test_a_lost_broker(benchmark: BenchmarkFixture, pytestconfig: pytest.Config) -> None:
    """It leads a sixth of four times as many partitions."""
    pair = Pair()
    pair.ask(creation(["big"], 4 * pytestconfig.getoption("--topics")), 7)
    report(benchmark, pair, lambda: pair.lose(3))
    assert not pair.active.image.brokers.live[2]
