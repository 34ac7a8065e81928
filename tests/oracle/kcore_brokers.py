"""kcore's own brokers as processes, beside real ones, and what a cluster says of a topic."""

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from kcore.errors import KcoreError
from kcore.net.connect import connect
from kcore.protocol_errors import Errors
from kcore.schema.cluster_metadata import MetadataRequest, MetadataRequestTopic
from kcore.schema.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from storage import building

PROGRAM = (sys.executable, "-c", "from kcore.cli import main; main()", "broker", "zk")
WITHIN_S = 60.0


class KcoreBroker:
    """One broker; its log directory stays when it ends."""

    def __init__(self, broker_id: int, port: int, folder: Path, zookeeper: str) -> None:
        self.broker_id, self.port, self.log_dir = broker_id, port, folder / f"kcore-{broker_id}"
        self.output = folder / f"kcore-{broker_id}.log"
        self._command = [
            *PROGRAM,
            *("--zookeeper", zookeeper, "--listen", self.address, "--broker-id", str(broker_id)),
            *("--log-dir", str(self.log_dir), "--session-timeout", "6000"),
            *("--config", "replica.lag.time.max.ms=4000"),
        ]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Returns when it is registered."""
        before = self.said().count("is registered")
        with self.output.open("ab") as output:
            self._process = subprocess.Popen(self._command, stdout=output, stderr=output, start_new_session=True)
        until(lambda: self.said().count("is registered") > before, lambda: self.said()[-2000:])

    def said(self) -> str:
        return self.output.read_text() if self.output.exists() else ""

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
        assert self._process is not None
        self._signal(signal.SIGTERM)
        return self._process.wait(60)

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)


class Seen(NamedTuple):
    """A partition as a broker tells clients."""

    leader: int
    isr: frozenset[int]


def until(holds: Callable[[], object], story: Callable[[], object], within_s: float = WITHIN_S) -> None:
    """Waits; an assertion with the story if it does not come about."""
    end = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < end, story()
        time.sleep(0.1)


def topic_at(address: str, topic: str) -> dict[int, Seen]:
    """What the broker at an address tells of a topic's partitions; nothing while it does not answer."""

    async def ask() -> dict[int, Seen]:
        host, port = address.split(":")
        async with await connect(host, int(port)) as connection:
            request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
            [told] = (await connection.send(request)).topics
            return {each.partition_index: Seen(each.leader_id, frozenset(each.isr_nodes)) for each in told.partitions}

    try:
        return asyncio.run(ask())
    except KcoreError:
        return {}


def produce_to(address: str, topic: str, partition: int, *values: bytes) -> int:
    """With acks=1, to the leader at an address: where the records lie."""

    async def ask() -> int:
        host, port = address.split(":")
        async with await connect(host, int(port)) as connection:
            data = PartitionProduceData(index=partition, records=building.batch(0, values))
            topics = [TopicProduceData(name=topic, partition_data=[data])]
            answer = await connection.send(ProduceRequest(acks=1, timeout_ms=1_000, topic_data=topics), 9)
            told = answer.responses[0].partition_responses[0]
            assert told.error_code == Errors.NONE, told
            return int(told.base_offset)

    return asyncio.run(ask())
