"""A million assignments through a broker's queue of AssignReplicasToDirs: compared, queued, sent, answered.

Run with `pytest bench/test_assignments.py --benchmark-enable`; `--assignments` says how many. `extra_info`: seconds of
the processor of each part, and assignments in a second of it. The codec is in it, network and controller are not.
"""

import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import repeat
from typing import Any

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from kcore.broker.directories.broker_directories import BrokerDirectories
from kcore.broker.directories.failures import DirectoryFailures
from kcore.broker.directories.found import FoundReplica
from kcore.broker.directories.image_placements import ImagePlacements
from kcore.broker.directories.outputs import TopicIdPartition
from kcore.collector import rare_collections
from kcore.controller.kraft.decision import all_parts
from kcore.controller.kraft.leaders.directories import answered
from kcore.metadata.broker_registration import BrokerRegistration
from kcore.metadata.broker_table import BrokerTable
from kcore.metadata.directory_table import UNASSIGNED
from kcore.metadata.image import ClusterImage
from kcore.metadata.partition_table import PartitionTable
from kcore.metadata.topics import TopicTable
from kcore.protocol_errors import Errors
from kcore.schema.log_dirs import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse
from kcore.types import Uuid
from kcore.wire.codec import decode, encode

PER_TOPIC = 100
DIRECTORIES = [Uuid((1 << 64 | number).to_bytes(16)) for number in range(3)]


@pytest.fixture(autouse=True)
def few_collections() -> Iterator[None]:
    """As in a broker's process."""
    with rare_collections():
        yield


def image_of(count: int) -> ClusterImage:
    """One broker, and so many replicas of its that are in no directory yet."""
    brokers = BrokerTable.from_arrays(np.arange(1))
    brokers.put(BrokerRegistration(0, 1, directories=tuple(DIRECTORIES)))
    numbers = np.arange(count, dtype=np.int32)
    names = [f"topic-{number}" for number in range(-(-count // PER_TOPIC))]
    ids = [Uuid((number * 0x9E3779B97F4A7C15 % 2**64 << 64 | number + 1).to_bytes(16)) for number in range(len(names))]
    table = PartitionTable.from_arrays(
        np.zeros((count, 1), np.int32),
        topics=TopicTable(names, ids),
        topic_rows=numbers // PER_TOPIC,
        brokers=brokers,
        directories=np.full((count, 1), UNASSIGNED, np.int32),
    )
    return ClusterImage(table, features={"metadata.version": 30})


def all_well(request: AssignReplicasToDirsRequest) -> bytes:
    """The bytes of the controller's answer; not counted."""
    return encode(all_parts(answered(request, repeat(int(Errors.NONE)))), 0)


def a_broker(image: ClusterImage, count: int) -> tuple[BrokerDirectories, list[TopicIdPartition]]:
    """Its replicas are found, a third of them in each directory."""
    made = BrokerDirectories(0, DirectoryFailures(DIRECTORIES, 3), ImagePlacements(image, 0), lambda: 1.0)
    made.queue.broker_epoch, made.queue.is_supported = 1, True
    partitions = [(image.topics.ids[number // PER_TOPIC], number % PER_TOPIC) for number in range(count)]
    for number, partition in enumerate(partitions):
        made.on_found(partition, FoundReplica(DIRECTORIES[number % 3], None))
    return made, partitions


def one_by_one(broker: BrokerDirectories, partitions: list[TopicIdPartition]) -> None:
    for number, partition in enumerate(partitions):
        broker.queue.enqueue(partition, DIRECTORIES[number % 3], "a benchmark", 0)


def at_once(broker: BrokerDirectories, partitions: list[TopicIdPartition]) -> None:
    """As after the start."""
    broker.catch_up(partitions, 0)


def answer(broker: BrokerDirectories, response: bytes, now_ms: int) -> None:
    broker.on_response(decode(AssignReplicasToDirsResponse, 0, response), now_ms)


@pytest.mark.parametrize("enqueue", [one_by_one, at_once])
def test_assignments(
    benchmark: BenchmarkFixture, pytestconfig: Any, enqueue: Callable[[BrokerDirectories, list[TopicIdPartition]], None]
) -> None:
    count = pytestconfig.getoption("--assignments")
    broker, partitions = a_broker(image_of(count), count)
    spent = dict.fromkeys(("enqueue", "request", "encode", "answer"), 0.0)

    def timed(part: str, work: Callable[[], Any]) -> Any:
        begin = time.process_time()
        done = work()
        spent[part] += time.process_time() - begin
        return done

    def run() -> None:
        timed("enqueue", partial(enqueue, broker, partitions))
        now_ms = 1_000
        while (request := timed("request", partial(broker.next_request, now_ms))) is not None:
            timed("encode", partial(encode, request, 0))
            timed("answer", partial(answer, broker, all_well(request), now_ms))
            now_ms += 100
        assert broker.queue.queued == 0

    benchmark.pedantic(run, rounds=1)
    benchmark.extra_info.update({part: round(seconds, 2) for part, seconds in spent.items()})
    benchmark.extra_info["assignments a second"] = round(count / sum(spent.values()))
