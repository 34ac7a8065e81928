"""kcore's own brokers as processes, and what a cluster says of a topic."""

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, Self

from kcore.errors import KcoreError
from kcore.measure.processes.local_process import free_ports
from kcore.net.connect import connect
from kcore.protocol_errors import Errors
from kcore.schema.cluster_metadata import MetadataRequest, MetadataRequestTopic
from kcore.schema.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from oracle.kafka_tools import CONSOLE_CONSUMER, VERIFIABLE_PRODUCER, run_tool, tool_command
from storage import building

PROGRAM = (sys.executable, "-c", "from kcore.cli import main; main()", "broker", "zk")
WITHIN_S = 60.0
OPTIONS = ("--session-timeout", "6000", "--config", "replica.lag.time.max.ms=4000")
# As careful as a producer can be: each record once, in order, over every failover.
PRODUCER = (
    "retries=1000000\nenable.idempotence=true\ndelivery.timeout.ms=90000\nlinger.ms=0\nmetadata.max.age.ms=1000\n"
)


class KcoreBroker:
    """One broker; its log directories stay when it ends."""

    def __init__(
        self, broker_id: int, port: int, folder: Path, zookeeper: str, *options: str, directories: int = 1
    ) -> None:
        """`options` in place of OPTIONS."""
        self.broker_id, self.port, self.name = broker_id, port, f"kcore's broker {broker_id}"
        beside = [folder / f"kcore-{broker_id}-{number}" for number in range(2, directories + 1)]
        self.log_dirs = [folder / f"kcore-{broker_id}", *beside]
        self.log = folder / f"kcore-{broker_id}.log"
        self._command = [
            *PROGRAM,
            *("--zookeeper", zookeeper, "--listen", self.address, "--broker-id", str(broker_id)),
            *(each for path in self.log_dirs for each in ("--log-dir", str(path))),
            *(options or OPTIONS),
        ]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Returns when it is registered."""
        before = self.said().count("is registered")
        self.launch()
        until(lambda: not self.is_running or self.said().count("is registered") > before, lambda: self.said()[-2000:])
        assert self.is_running, f"{self.name} has ended:\n{self.said()[-2000:]}"

    def launch(self) -> None:
        """Without waiting for anything."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log, start_new_session=True)

    def said(self) -> str:
        return self.log.read_text() if self.log.exists() else ""

    def pause(self) -> None:
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def kill(self) -> None:
        """As kill -9."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def terminate(self) -> int:
        """SIGTERM, and its exit code."""
        self._signal(signal.SIGTERM)
        return self.wait()

    def wait(self) -> int:
        """Its exit code once it has ended by itself."""
        assert self._process is not None
        return self._process.wait(WITHIN_S)

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)


class KcoreBrokers:
    """Brokers of one cluster, with the ids from 1 on, as ZkBrokers has real ones."""

    def __init__(self, zookeeper: str, folder: Path, *options: str, count: int = 3) -> None:
        ports = enumerate(free_ports(count), 1)
        self.brokers = [KcoreBroker(each, port, folder, zookeeper, *options) for each, port in ports]

    @property
    def bootstrap(self) -> str:
        """bootstrap.servers of all of them."""
        return ",".join(broker.address for broker in self.brokers)

    def __getitem__(self, broker_id: int) -> KcoreBroker:
        return self.brokers[broker_id - 1]

    def start(self) -> None:
        for broker in self.brokers:
            broker.start()

    def close(self) -> None:
        for broker in self.brokers:
            broker.kill()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Seen(NamedTuple):
    """A partition as a broker tells clients."""

    leader: int
    isr: frozenset[int]
    offline: frozenset[int] = frozenset()


def until(holds: Callable[[], object], story: Callable[[], object], within_s: float = WITHIN_S) -> None:
    """Waits; an assertion with the story if it does not come about."""
    end = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < end, story()
        time.sleep(0.1)


def topic_at(address: str, topic: str) -> dict[int, Seen]:
    """A topic's partitions in the Metadata response of the broker at an address; empty if it does not answer."""

    async def ask() -> dict[int, Seen]:
        host, port = address.split(":")
        async with await connect(host, int(port)) as connection:
            request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
            [found] = (await connection.send(request)).topics
            return {
                each.partition_index: Seen(each.leader_id, frozenset(each.isr_nodes), frozenset(each.offline_replicas))
                for each in found.partitions
            }

    try:
        return asyncio.run(ask())
    except KcoreError:
        return {}


def produce_to(address: str, topic: str, partition: int, *values: bytes) -> int:
    """With acks=1, to the leader at an address: where the records lie."""
    error, offset = try_to_produce(address, topic, partition, *values)
    assert error is Errors.NONE, error
    return offset


def try_to_produce(address: str, topic: str, partition: int, *values: bytes, acks: int = 1) -> tuple[Errors, int]:
    """Produces to the leader at an address: the error of its answer, and the offset of the first record."""

    async def ask() -> tuple[Errors, int]:
        host, port = address.split(":")
        async with await connect(host, int(port)) as connection:
            data = PartitionProduceData(index=partition, records=building.batch(0, values))
            topics = [TopicProduceData(name=topic, partition_data=[data])]
            answer = await connection.send(ProduceRequest(acks=acks, timeout_ms=10_000, topic_data=topics), 9)
            produced = answer.responses[0].partition_responses[0]
            return Errors(produced.error_code), int(produced.base_offset)

    return asyncio.run(ask())


@contextmanager
def producing(folder: Path, bootstrap: str, topic: str, run: int) -> Iterator[list[str]]:
    """Kafka's verifiable producer with acks=all; at the end all acknowledged values are there.

    `run` begins every value, so that the values of two producers differ.
    """
    properties = folder / "producer.properties"
    properties.write_text(PRODUCER)
    output = folder / f"produced-{run}.json"
    to = ("--bootstrap-server", bootstrap, "--topic", topic, "--throughput", 200, "--acks", -1)
    prefix = ("--value-prefix", run)
    acknowledged: list[str] = []
    with output.open("wb") as printed:
        command = tool_command(VERIFIABLE_PRODUCER, *to, *prefix, "--producer.config", properties)
        process = subprocess.Popen(command, stdout=printed, stderr=subprocess.STDOUT)
        try:
            until(lambda: "producer_send_success" in output.read_text(), output.read_text)
            yield acknowledged
        finally:
            process.terminate()
            process.wait(120)
    lines = [json.loads(line) for line in output.read_text().splitlines() if line.startswith("{")]
    acknowledged += [line["value"] for line in lines if line["name"] == "producer_send_success"]


def consumed(bootstrap: str, topic: str, partitions: int, wanted: Sequence[str] = ()) -> list[list[str]]:
    """By Kafka's consumer, from the first offset of each partition; with a long wait if something wanted is missing."""
    from_all = ("--bootstrap-server", bootstrap, "--topic", topic, "--offset", "earliest")
    for wait_ms in (6_000, 60_000):
        wait = ("--timeout-ms", wait_ms)
        found = [
            run_tool(CONSOLE_CONSUMER, *from_all, "--partition", partition, *wait, timeout_s=240).split()
            for partition in range(partitions)
        ]
        if {*wanted} <= {value for values in found for value in values}:
            break
    return found


def check(there: Sequence[Sequence[str]], acknowledged: Sequence[str], run: int) -> None:
    """Each record of that run that was acknowledged is there, once, and in the order in which it was sent."""
    found = [[value for value in values if value.startswith(f"{run}.")] for values in there]
    counts = Counter(value for values in found for value in values)
    lost = [value for value in acknowledged if value not in counts]
    assert len(acknowledged) > 100  # As many as a fast machine leaves time for.
    assert lost == []
    assert [value for value, count in counts.items() if count > 1] == []
    assert all(values == sorted(values, key=lambda value: int(value.split(".")[1])) for values in found)
