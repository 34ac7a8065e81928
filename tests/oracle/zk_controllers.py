"""kcore's own controllers as processes, and what each member of a cluster says of it."""

import asyncio
import json
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from kcore.errors import NetworkError
from kcore.measure.processes.zk_cluster import ZkBrokers, ZookeeperProcess
from kcore.metadata.zookeeper import znodes
from kcore.metadata.zookeeper.znode_operations import Delete
from kcore.net.connect import connect
from kcore.net.limits.connection_limits import Limits
from kcore.schema.cluster_metadata import MetadataRequest, MetadataResponse
from kcore.zookeeper.client import ZookeeperClient
from oracle.kafka_tools import CONSOLE_CONSUMER, VERIFIABLE_PRODUCER, consume, run_tool, tool_command
from oracle.kcore_brokers import KcoreBrokers

COMMAND = (sys.executable, "-c", "from kcore.cli import main; main()", "controller", "zk")
TOPIC = "orders"
METADATA_AGE = "metadata.max.age.ms=5000"  # New partitions are found so soon.
PRODUCER = f"enable.idempotence=true\nretries=2147483647\ndelivery.timeout.ms=120000\n{METADATA_AGE}\n"
PROPERTIES = "default.replication.factor=3\noffsets.topic.replication.factor=3\nmin.insync.replicas=2\n"
GENEROUS_S = 90  # For whatever has to come true; no time is asserted.
LISTENS = re.compile(r"listens at 127\.0\.0\.1:(\d+)")

# By topic and partition: leader, leader epoch, replicas, ISR.
Partitions = dict[tuple[str, int], tuple[int, int, tuple[int, ...], tuple[int, ...]]]


class Controller:
    """One `kcore controller zk`."""

    def __init__(self, zookeeper: str, folder: Path, broker_id: int = 1000, *options: str) -> None:
        self.broker_id, self.log = broker_id, folder / f"controller-{broker_id}-{time.monotonic_ns()}.log"
        where = ("--zookeeper", zookeeper, "--listen", "127.0.0.1:0", "--broker-id", str(broker_id))
        command = (*COMMAND, *where, "--verbose", *options)
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
        try:
            self.port = int(self.await_log(LISTENS)[1])
        except BaseException:
            self.kill()  # Nobody else would: it would go on to stand for election.
            raise

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def await_log(self, pattern: str | re.Pattern[str]) -> re.Match[str]:
        """Until it has said something."""
        until(lambda: self.process.poll() is not None or re.search(pattern, self.log.read_text()), str(pattern))
        found = re.search(pattern, text := self.log.read_text())
        assert found, f"controller {self.broker_id} has ended:\n{text[-3000:]}"
        return found

    def pause(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """Its exit code after SIGTERM."""
        self.process.terminate()
        return self.process.wait(GENEROUS_S)

    def faults(self) -> list[str]:
        """The log lines that an operator should be woken for."""
        return [line for line in self.log.read_text().splitlines() if " ERROR " in line or line.startswith("Traceback")]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


class Tool:
    """One of Kafka's tools that goes on for a while; a line of its output is an item."""

    def __init__(self, folder: Path, main: str, *arguments: object) -> None:
        self.log = folder / f"{main.rpartition('.')[2]}-{time.monotonic_ns()}.log"
        command = tool_command(main, *arguments)
        with self.log.open("wb") as out, self.log.with_suffix(".err").open("wb") as errors:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=errors)

    def lines(self) -> list[str]:
        """All whole lines so far."""
        return self.log.read_text().splitlines(keepends=True)

    def events(self) -> list[dict[str, Any]]:
        """The lines that are JSON."""
        return [json.loads(line) for line in self.lines() if line.startswith("{") and line.endswith("\n")]

    def stop(self) -> None:
        """SIGTERM, and waits."""
        self.process.terminate()
        self.process.wait(GENEROUS_S)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


def until(condition: Callable[[], Any], what: str) -> Any:
    """Waits until the condition is true, and returns its value."""
    end = time.monotonic() + GENEROUS_S
    while not (found := condition()):
        assert time.monotonic() < end, f"not in {GENEROUS_S} s: {what}"
        time.sleep(0.1)
    return found


async def metadata_of(port: int) -> MetadataResponse:
    """The node's metadata of the whole cluster."""
    async with await connect("127.0.0.1", port, limits=Limits(connect_s=5, request_s=5)) as connection:
        response: MetadataResponse = await connection.send(MetadataRequest(topics=None), 12)
        return response


def children_of(zookeeper: str, path: str) -> list[str] | None:
    """The names below a znode."""

    async def read() -> list[str] | None:
        async with ZookeeperClient(zookeeper) as client:
            [names] = await client.read_children([path])
            return names

    return asyncio.run(read())


def partitions_of(response: MetadataResponse) -> Partitions:
    return {
        (str(topic.name), each.partition_index): (
            each.leader_id,
            each.leader_epoch,
            tuple(each.replica_nodes),
            tuple(each.isr_nodes),
        )
        for topic in response.topics
        for each in topic.partitions
    }


async def partitions_in_zookeeper(client: ZookeeperClient) -> Partitions:
    """By the znodes."""
    [topics] = await client.read_children([znodes.TOPICS])
    nodes = await client.read_nodes([znodes.topic_path(topic) for topic in topics or ()])
    found: Partitions = {}
    for topic, node in zip(topics or (), nodes, strict=True):
        if node is None:
            continue
        assignment = znodes.decode_topic(topic, node.data).partitions
        paths = {index: znodes.state_path(topic, index) for index in assignment}
        for (index, path), state_node in zip(paths.items(), await client.read_nodes([*paths.values()]), strict=True):
            if state_node is not None:
                state = znodes.decode_state(path, state_node.data)
                replicas = tuple(assignment[index].replicas)
                found[topic, index] = (state.leader, state.leader_epoch, replicas, state.isr)
    return found


async def views(zookeeper: str, ports: Mapping[str, int]) -> tuple[int, list[int], Partitions, dict[str, Any]]:
    """The controller's id, the ids of registered brokers, ZooKeeper's partitions, and the view of each port."""
    async with ZookeeperClient(zookeeper) as client:
        [node] = await client.read_nodes([znodes.CONTROLLER])
        controller = znodes.decode_controller(node.data).broker_id if node else -1
        [names] = await client.read_children([znodes.BROKER_IDS])
        partitions = await partitions_in_zookeeper(client)
    said = {}
    for name, port in ports.items():
        try:
            said[name] = await metadata_of(port)
        except NetworkError as error:
            said[name] = str(error)
    return controller, sorted(map(int, names or ())), partitions, said


def disagreement(zookeeper: str, brokers: ZkBrokers | KcoreBrokers, controller: Controller | None) -> str:
    """The first disagreement between ZooKeeper, the brokers and the controller, in words, or ""."""
    running = [broker for broker in brokers.brokers if broker.is_running]
    ports = {broker.name: broker.port for broker in running}
    if controller is not None:
        ports["kcore's table"] = controller.port
    holder, registered, partitions, said = asyncio.run(views(zookeeper, ports))
    if controller is not None and holder != controller.broker_id:
        return f"broker {holder} controls"
    if registered != [broker.broker_id for broker in running]:
        return f"brokers {registered} are registered"
    for name, response in said.items():
        if isinstance(response, str):
            return f"{name}: {response}"
        if (seen := partitions_of(response)) != partitions:
            return f"{name} has {_differences(seen, partitions)}"
        if response.controller_id != holder:
            return f"{name} takes broker {response.controller_id} for the controller, not {holder}"
        listed = {each.node_id for each in response.brokers} - ({holder} if controller is not None else set())
        if listed != set(registered):
            return f"{name} lists {sorted(listed)}, and {registered} are registered"
    wrong = {place: state for place, state in partitions.items() if not _is_sound(state, registered)}
    return f"{wrong} are not sound" if wrong else ""


def _is_sound(state: tuple[int, int, tuple[int, ...], tuple[int, ...]], live: Sequence[int]) -> bool:
    leader, _, replicas, isr = state
    return leader in isr and set(isr) == set(replicas) & set(live)


def _differences(seen: Partitions, wanted: Partitions) -> str:
    places = sorted(place for place in {*seen, *wanted} if seen.get(place) != wanted.get(place))
    return ", ".join(f"{place}: {seen.get(place)}, ZooKeeper {wanted.get(place)}" for place in places[:5])


def agree(zookeeper: str, brokers: ZkBrokers, controller: Controller | None) -> None:
    """Waits until ZooKeeper, the controller's table and every broker's view are the same, the ISRs whole.

    Without a controller of ours it is a real broker's, and the brokers must agree with ZooKeeper.
    """
    end = time.monotonic() + GENEROUS_S
    while found := disagreement(zookeeper, brokers, controller):
        assert time.monotonic() < end, found
        time.sleep(0.2)
    if controller is not None:
        assert controller.faults() == []


@contextmanager
def with_chroot(chroot: str) -> Iterator[ZookeeperProcess]:
    """A ZooKeeper that has it: a controller makes none."""

    async def make(address: str) -> None:
        async with ZookeeperClient(address) as client:
            await client.make_path(chroot)

    with ZookeeperProcess() as zookeeper:
        if chroot:
            asyncio.run(make(zookeeper.address))
        yield zookeeper


@dataclass
class Cluster:
    """All that runs; `controller` is kcore's that is in charge. Every message needs two replicas in the ISR."""

    folder: Path
    zookeeper: ZookeeperProcess
    connect: str  # zookeeper.connect
    brokers: ZkBrokers
    controller: Controller
    producer: Tool | None = None
    consumer: Tool | None = None

    @classmethod
    @contextmanager
    def started(cls, folder: Path, properties: str = "", *options: str, chroot: str = "") -> Iterator[Self]:
        """Three brokers and a controller of ours with those options, from before they start."""
        with (
            with_chroot(chroot) as zookeeper,
            Controller(connect := zookeeper.address + chroot, folder, 1000, *options) as controller,
            ZkBrokers(connect, properties=PROPERTIES + properties) as brokers,
        ):
            made = cls(folder, zookeeper, connect, brokers, controller)
            try:
                yield made
            finally:
                for each in (made.producer, made.consumer, made.controller):
                    if each is not None:
                        each.kill()

    def tool(self, main: str, *arguments: object) -> str:
        return run_tool(main, "--bootstrap-server", self.brokers.bootstrap, *arguments)

    def agree(self) -> None:
        agree(self.connect, self.brokers, self.controller)

    def succeed(self, *options: str) -> None:
        """Another controller of ours, with other options, in the place of the one that is stopped."""
        assert self.controller.stop() == 0
        self.controller = Controller(self.connect, self.folder, 1000, "--take-over", *options)
        self.controller.await_log("controller 1000 is active")

    def start_clients(self) -> None:
        """An idempotent producer and a consumer in a group, on TOPIC."""
        settings = self.folder / "producer.properties"
        settings.write_text(PRODUCER)
        where = ("--bootstrap-server", self.brokers.bootstrap, "--topic", TOPIC)
        self.producer = Tool(
            self.folder, VERIFIABLE_PRODUCER, *where, "--throughput", 50, "--producer.config", settings
        )
        self.consumer = Tool(
            *(self.folder, CONSOLE_CONSUMER, *where, "--from-beginning", "--group", "story"),
            *("--consumer-property", METADATA_AGE),
        )

    def acknowledged(self) -> list[str]:
        """Values whose records the brokers acknowledged to the producer."""
        assert self.producer is not None
        return [each["value"] for each in self.producer.events() if each["name"] == "producer_send_success"]

    def consumed(self) -> set[str]:
        assert self.consumer is not None
        return {line.strip() for line in self.consumer.lines() if line.endswith("\n")}

    def clients_go_on(self) -> None:
        """Messages that are sent from now on arrive."""
        before = len(self.acknowledged())
        until(lambda: len(self.acknowledged()) > before + 20, "20 more messages are acknowledged")
        newest = self.acknowledged()[-1]
        until(lambda: newest in self.consumed(), f"message {newest} is consumed")

    def stop_clients(self) -> None:
        """No acknowledged message is missing or there twice."""
        assert self.producer is not None
        self.producer.stop()
        assert [each for each in self.producer.events() if each["name"] == "producer_send_error"] == []
        acknowledged = self.acknowledged()
        until(lambda: {*acknowledged} <= self.consumed(), "the consumer has all")
        where = ("--bootstrap-server", self.brokers.bootstrap, "--topic", TOPIC, "--from-beginning")
        there = Counter(consume(acknowledged, *where))
        assert {value: count for value, count in there.items() if count > 1} == {}
        assert [value for value in acknowledged if value not in there] == []

    def in_zookeeper(self) -> Partitions:
        async def read() -> Partitions:
            async with ZookeeperClient(self.connect) as client:
                return await partitions_in_zookeeper(client)

        return asyncio.run(read())

    def delete(self, path: str) -> None:
        """A znode, as somebody with a ZooKeeper shell would."""

        async def run() -> None:
            async with ZookeeperClient(self.connect) as client:
                await client.write([Delete(path)])

        asyncio.run(run())
