"""How long the KRaft controller's loop is held by requests for many topics, and a follower by their records.

Run with `pytest bench/test_kraft_controller.py --benchmark-enable`; `--topics` says how many. `extra_info`: parts of
the decision; the longest, the last (encoded, appended, replayed) and a follower's longest slice, in ms.
"""

import time
from collections.abc import Callable
from typing import Any

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from kcore.controller.kraft.activation import Bootstrap
from kcore.controller.kraft.config import KraftControllerConfig
from kcore.controller.kraft.context import RequestInfo
from kcore.controller.kraft.controller import KraftController
from kcore.controller.kraft.outputs import Clocks
from kcore.controller.kraft.tasks import all_tasks
from kcore.raft.batches import split_batches
from kcore.raft.state_machine import AppendBatches
from kcore.replication.java_random import JavaRandom
from kcore.schema import broker_lifecycle as brokers
from kcore.schema import partitions, topics
from kcore.schema.structure import Message
from kcore.types import Uuid

BROKERS = range(1, 7)


class Pair:
    """The active controller, and one that replays what it appends."""

    def __init__(self) -> None:
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
            end, epoch = self.active.image.end_offset, int(self.active.image.brokers.epochs[broker - 1])
            beat = brokers.BrokerHeartbeatRequest(broker_id=broker, broker_epoch=epoch, current_metadata_offset=end)
            self.ask(beat, 1)

    def _controller(self) -> KraftController:
        numbers = iter(range(1_000, 1 << 60))
        config = KraftControllerConfig(1, "a cluster")
        bootstrap = Bootstrap.of_features({"metadata.version": 30}, "a benchmark")
        clocks = Clocks(lambda: 0, lambda: 0)
        new_uuid = lambda: Uuid(next(numbers).to_bytes(16))  # noqa: E731
        return KraftController(config, bootstrap, all_tasks(config), clocks, JavaRandom(1), new_uuid)

    def ask(self, request: Message, version: int) -> list[float]:
        """How long each part took, in ms; behind them, each slice of the follower is in `slices`."""
        parts, outputs = [], list[Any]()

        def part(event: Callable[[], Any]) -> None:
            begin = time.perf_counter()
            outputs.extend(event())
            parts.append((time.perf_counter() - begin) * 1e3)

        part(lambda: self.active.on_request(request, RequestInfo(version, 0), None))
        while self.active.is_busy:
            part(self.active.on_work)
        self._follow(outputs)
        return parts

    def _follow(self, outputs: Any) -> None:
        self.slices = [0.0]
        for append in (each for each in outputs if isinstance(each, AppendBatches)):
            offset = append.expected_offset
            assert offset == self.follower.image.end_offset
            for batch in split_batches(append.batches, check_crc=False)[0]:
                begin = time.perf_counter()
                self.follower.on_committed(bytes(batch.data), batch.last_offset + 1)
                self.slices.append((time.perf_counter() - begin) * 1e3)
        self.active.on_committed(b"", self.active.image.end_offset)


def creation(names: list[str], count: int = 1) -> Message:
    made = [
        topics.CreatableTopic(name=name, num_partitions=count, replication_factor=3, assignments=[], configs=[])
        for name in names
    ]
    return topics.CreateTopicsRequest(topics=made)


def growth(names: list[str]) -> Message:
    grown = [partitions.CreatePartitionsTopic(name=name, count=2, assignments=None) for name in names]
    return partitions.CreatePartitionsRequest(topics=grown)


def elections(names: list[str]) -> Message:
    each = [partitions.TopicPartitions(topic=name, partitions=[0]) for name in names]
    return partitions.ElectLeadersRequest(topic_partitions=each)


def moves(names: list[str]) -> Message:
    target = [partitions.ReassignablePartition(partition_index=0, replicas=[2, 4, 6])]
    moved = [partitions.ReassignableTopic(name=name, partitions=target) for name in names]
    return partitions.AlterPartitionReassignmentsRequest(topics=moved)


def deletion(names: list[str]) -> Message:
    return topics.DeleteTopicsRequest(topics=[topics.DeleteTopicState(name=name) for name in names])


@pytest.mark.parametrize(
    ("request_of", "version"),
    [(creation, 7), (growth, 3), (elections, 2), (moves, 1), (deletion, 6)],
    ids=["create", "grow", "elect", "reassign", "delete"],
)
def test_many_topics(
    benchmark: BenchmarkFixture, pytestconfig: pytest.Config, request_of: Callable[[list[str]], Message], version: int
) -> None:
    names = [f"t{number}" for number in range(pytestconfig.getoption("--topics"))]
    pair = Pair()
    if request_of is not creation:
        pair.ask(creation(names), 7)
    request = request_of(names)
    parts: list[float] = benchmark.pedantic(pair.ask, (request, version), rounds=1)
    told = {"longest part": max(parts), "last part": parts[-1], "longest slice of a follower": max(pair.slices)}
    benchmark.extra_info.update({"parts": len(parts), **{name: round(value, 1) for name, value in told.items()}})
    assert pair.follower.image == pair.active.image
