"""A real KRaft controller for a test: formatted, started, waited for, stopped, all in one folder."""

import asyncio
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random

from kcore import schema as s
from kcore.errors import KcoreError
from kcore.net.connect import connect
from kcore.net.limits import Limits
from kcore.net.retry import retry
from kcore.schema.describe_quorum import DescribeQuorumRequestPartitionData, DescribeQuorumRequestTopicData
from oracle.kafka_tools import JVM, jars, run_tool

CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
METADATA_TOPIC = "__cluster_metadata"
START_S = 180
STOP_S = 60


@dataclass(frozen=True)
class Controller:
    """One that runs. `ports` are those of its listeners by name; the first is PLAINTEXT."""

    node_id: int
    cluster_id: str
    ports: Mapping[str, int]
    process: subprocess.Popen[bytes]

    @property
    def port(self) -> int:
        return next(iter(self.ports.values()))


@contextmanager
def running_controller(
    folder: Path,
    *,
    node_id: int = 3001,
    listeners: Mapping[str, str] | None = None,
    properties: Mapping[str, str] | None = None,
    format_options: tuple[str, ...] = (),
    heap_mb: int = 256,
) -> Iterator[Controller]:
    """The only voter of a fresh cluster, once it is active; it is stopped at the end.

    `listeners`: security protocols by name; `properties` go on top of ours, `format_options` to kafka-storage format.
    """
    listeners = listeners or {"CONTROLLER": "PLAINTEXT"}
    ports = dict(zip(listeners, free_ports(len(listeners)), strict=True))
    file = folder / "controller.properties"
    all_properties = {**own_properties(node_id, folder, listeners, ports), **(properties or {})}
    file.write_text("".join(f"{key}={value}\n" for key, value in all_properties.items()), encoding="utf-8")
    run_tool("kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", file, "--standalone", *format_options)
    command = [*JVM, f"-Xmx{heap_mb}m", "-cp", f"{jars()}/*", "kafka.Kafka", str(file)]
    with (folder / "controller.log").open("wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
        try:
            controller = Controller(node_id, CLUSTER_ID, ports, process)
            asyncio.run(wait_active(controller))
            yield controller
        finally:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(STOP_S)
            process.kill()
            process.wait()


def own_properties(
    node_id: int, folder: Path, listeners: Mapping[str, str], ports: Mapping[str, int]
) -> dict[str, str]:
    addresses = {name: f"127.0.0.1:{port}" for name, port in ports.items()}
    urls = ",".join(f"{name}://{address}" for name, address in addresses.items())
    return {
        "process.roles": "controller",
        "node.id": str(node_id),
        "controller.quorum.bootstrap.servers": next(iter(addresses.values())),
        "controller.listener.names": ",".join(listeners),
        "listeners": urls,
        "advertised.listeners": urls,
        "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in listeners.items()),
        "log.dirs": str(folder / "metadata"),
        "num.network.threads": "1",
        "num.io.threads": "2",
    }


def free_ports(count: int) -> list[int]:
    """Below the range that the system takes ports for outgoing connections from."""
    random, sockets = Random(), []
    try:
        while len(sockets) < count:
            one = socket.socket()
            sockets.append(one)
            try:
                one.bind(("127.0.0.1", random.randrange(20_000, 32_000)))
            except OSError:
                sockets.remove(one)
                one.close()
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


def quorum_request() -> s.DescribeQuorumRequest:
    partition = DescribeQuorumRequestPartitionData(partition_index=0)
    return s.DescribeQuorumRequest(
        topics=[DescribeQuorumRequestTopicData(topic_name=METADATA_TOPIC, partitions=[partition])]
    )


async def wait_active(controller: Controller) -> None:
    """Until it leads its quorum; an AssertionError if its process ends before."""

    async def leads() -> None:
        assert controller.process.poll() is None, "the controller's process has ended; see controller.log"
        async with await connect("127.0.0.1", controller.port, limits=Limits(connect_s=5)) as connection:
            answer = await connection.send(quorum_request())
        [partition] = answer.topics[0].partitions if answer.topics else [None]
        if partition is None or partition.leader_id != controller.node_id or partition.high_watermark < 1:
            raise NotYetError

    await retry(leads, timeout_s=START_S, random=Random(), retriable=lambda error: True)


class NotYetError(KcoreError):
    """It answers, but does not lead."""
