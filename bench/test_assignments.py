"""A million assignments through a broker's queue of AssignReplicasToDirs, kcore's and Kafka's: queued, sent, answered.

Run with `pytest bench/test_assignments.py --benchmark-enable`; `--assignments` says how many. The controller answers at
once without errors. The times include encoding and decoding, but no network, no controller and no time of the peer.
`extra_info` has assignments per second of wall clock and of CPU time, and the CPU seconds. The CPU seconds are split by
parts for kcore, whose queue has one thread, and are a total for Kafka's queue, which has two threads.

one_by_one is as `AssignmentsManager.onAssignment`; in at_once the broker also compares what it found with the image.
Kafka's AssignmentsManager 4.3.1 runs in a JVM of its own, several rounds: in the first it is not compiled yet. Its last
request waits 100 ms for more, as kcore's would: there that wait is not in the time.
"""

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from kcore.broker.directories.assignments import BATCHING_MS, ImagePlacements
from kcore.broker.directories.broker_directories import BrokerDirectories
from kcore.broker.directories.failures import DirectoryFailures
from kcore.broker.directories.found import FoundReplica
from kcore.broker.directories.outputs import TopicIdPartition
from kcore.collector import rare_collections
from kcore.controller.kraft.leaders.directories import answered
from kcore.measure.processes.jars import kafka_jars
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.table.broker_registration import BrokerRegistration
from kcore.metadata.table.broker_table import BrokerTable
from kcore.metadata.table.directory_table import UNASSIGNED
from kcore.metadata.table.partition_table import PartitionTable
from kcore.metadata.table.topic_table import TopicTable
from kcore.protocol_errors import Errors
from kcore.schema.log_dirs import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse
from kcore.spark.java import java_home
from kcore.steps import finished
from kcore.types import Uuid
from kcore.wire.codec import decode, encode

PER_TOPIC = 100
ROUNDS, HEAP = 5, "3g"  # For Kafka's queue.
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
    return encode(finished(answered(request, repeat(int(Errors.NONE)))), 0)


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


def rates(count: int, clock_s: float, cpu_s: float) -> dict[str, int]:
    return {"assignments a second": round(count / clock_s), "assignments a second of CPU": round(count / cpu_s)}


@pytest.mark.parametrize("enqueue", [one_by_one, at_once])
def test_assignments(
    benchmark: BenchmarkFixture, pytestconfig: Any, enqueue: Callable[[BrokerDirectories, list[TopicIdPartition]], None]
) -> None:
    count = pytestconfig.getoption("--assignments")
    broker, partitions = a_broker(image_of(count), count)
    spent = dict.fromkeys(("enqueue", "request", "encode", "answer"), 0.0)
    clock_s = 0.0

    def timed(part: str, work: Callable[[], Any]) -> Any:
        nonlocal clock_s
        begin, begin_s = time.process_time(), time.perf_counter()
        done = work()
        spent[part] += time.process_time() - begin
        clock_s += time.perf_counter() - begin_s
        return done

    def run() -> None:
        timed("enqueue", partial(enqueue, broker, partitions))
        now_ms = 1_000
        while (request := timed("request", partial(broker.next_request, now_ms))) is not None:
            timed("encode", partial(encode, request, 0))
            timed("answer", partial(answer, broker, all_well(request), now_ms))
            now_ms += BATCHING_MS
        assert broker.queue.queued == 0

    benchmark.pedantic(run, rounds=1)
    benchmark.extra_info.update({part: round(seconds, 2) for part, seconds in spent.items()})
    benchmark.extra_info |= rates(count, clock_s, sum(spent.values()))


def test_assignments_of_kafka(benchmark: BenchmarkFixture, pytestconfig: Any) -> None:
    count, rounds = pytestconfig.getoption("--assignments"), list[dict[str, float]]()
    program = Path(__file__).with_name("Assignments.java")
    command = [str(java_home() / "bin" / "java"), f"-Xmx{HEAP}", "-cp", f"{kafka_jars('4.3.1')}/*", str(program)]
    with subprocess.Popen(
        [*command, str(count), str(PER_TOPIC)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        commands, answers = process.stdin, process.stdout
        assert answers.readline() == "ready\n"

        def run() -> None:
            print(file=commands, flush=True)
            rounds.append(json.loads(answers.readline()))

        benchmark.pedantic(run, rounds=ROUNDS)
        commands.close()
    assert {each["assignments"] for each in rounds} == {count}
    first, fastest = rounds[0], min(rounds, key=lambda each: each["seconds"])
    benchmark.extra_info.update({name: round(value, 2) for name, value in fastest.items()})
    benchmark.extra_info |= rates(count, fastest["seconds"] - fastest["peer"], fastest["cpu"] - fastest["peer"])
    benchmark.extra_info["the first round's"] = rates(
        count, first["seconds"] - first["peer"], first["cpu"] - first["peer"]
    )
