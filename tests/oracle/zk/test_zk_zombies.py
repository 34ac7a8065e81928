"""Processes that were paused until others took their place: what they do when they come back counts nowhere.

The tests are one story over three real Kafka 3.9.1 brokers: each begins where the last one ended.
"""

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from kcore import schema as s
from kcore.measure.processes.zk_cluster import ZkBrokers, ZookeeperProcess
from kcore.metadata.table.partition_state import ReplicaAssignment
from kcore.metadata.zookeeper import znodes
from kcore.metadata.zookeeper.znode_operations import Create
from kcore.metadata.zookeeper.znodes import TopicAssignment
from kcore.net.connect import connect
from kcore.net.limits.connection_limits import Limits
from kcore.protocol_errors import Errors
from kcore.schema.alter_partition import (
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    BrokerState,
)
from kcore.schema.produce import PartitionProduceData, PartitionProduceResponse, TopicProduceData
from kcore.server.zk_controller.zk_controller_server import random_topic_id
from kcore.storage.checkpoints import TopicPartition
from kcore.storage.tools.diverge import SAME
from kcore.storage.tools.diverge_dirs import diverge_log_dirs
from kcore.wire.record_building import encode_records
from kcore.wire.records import Record
from kcore.zookeeper.client import ZookeeperClient
from oracle.kafka_tools import TOPICS, VERIFIABLE_PRODUCER, consume, run_tool
from oracle.zk_controllers import Controller, Partitions, Tool, disagreement, partitions_in_zookeeper, until

TOPIC, DELETED = "led", "deleted"
SHORT = ("--take-over", "--session-timeout", "3000")
PRODUCER = "enable.idempotence=true\nretries=2147483647\ndelivery.timeout.ms=120000\nmetadata.max.age.ms=5000\n"
# Brokers' sessions outlive the controllers', so that a broker may be paused meanwhile.
PROPERTIES = """min.insync.replicas=2
offsets.topic.replication.factor=3
zookeeper.session.timeout.ms=9000
replica.lag.time.max.ms=6000
"""


@dataclass
class Cluster:
    """Two kcore controllers, of which the first one of the list is in charge, over three brokers."""

    folder: Path
    zookeeper: ZookeeperProcess
    brokers: ZkBrokers
    controllers: list[Controller]

    def tool(self, main: str, *arguments: object) -> str:
        return run_tool(main, "--bootstrap-server", self.brokers.bootstrap, *arguments)

    def agree(self) -> None:
        until(lambda: not disagreement(self.zookeeper.address, self.brokers, self.controllers[0]), "all agree")

    def ask_zookeeper(self, question: Callable[[ZookeeperClient], Coroutine[Any, Any, Any]]) -> Any:
        async def run() -> Any:
            async with ZookeeperClient(self.zookeeper.address) as client:
                return await question(client)

        return asyncio.run(run())

    def node(self, path: str) -> Any:
        [found] = self.ask_zookeeper(lambda client: client.read_nodes([path]))
        return found

    def partitions(self) -> Partitions:
        found: Partitions = self.ask_zookeeper(partitions_in_zookeeper)
        return found

    def written(self) -> dict[str, Any]:
        """The znodes of the controller, the topics and all partition states, with versions that every write changes."""
        places = self.partitions()
        paths = [znodes.CONTROLLER, znodes.CONTROLLER_EPOCH, *(znodes.topic_path(topic) for topic, _ in places)]
        paths += [znodes.state_path(*place) for place in places]
        nodes = self.ask_zookeeper(lambda client: client.read_nodes(paths))
        [names] = self.ask_zookeeper(lambda client: client.read_children([znodes.TOPICS]))
        return {**dict.fromkeys(names), **dict(zip(paths, nodes, strict=True))}

    def write_topics(self, topics: dict[str, list[list[int]]]) -> None:
        """As brokers do for topics that make themselves: one after the other."""

        async def write(client: ZookeeperClient) -> None:
            for name, assignment in topics.items():
                replicas = {index: ReplicaAssignment(tuple(each)) for index, each in enumerate(assignment)}
                data = znodes.encode_topic(TopicAssignment(random_topic_id(), replicas))
                await client.write([Create(znodes.topic_path(name), data)])

        self.ask_zookeeper(write)

    def replace_the_paused(self) -> Controller:
        """The second controller takes over once the session of the first, which is paused, has ended."""
        zombie, second = self.controllers
        until(lambda: (node := self.node(znodes.CONTROLLER)) and holder_of(node) == second.broker_id, "it takes over")
        self.controllers = [second, zombie]
        self.agree()
        return zombie

    def comes_back(self, zombie: Controller) -> None:
        """Nothing that it does counts: it resigns and stands by."""
        self.agree()
        before = self.written()
        zombie.resume()
        zombie.await_log(rf"has resigned(?s:.*)controller {self.controllers[0].broker_id} is active")
        self.agree()
        after = self.written()
        assert after.keys() == before.keys()
        changed = {path: node for path, node in after.items() if node != before[path]}
        epoch = znodes.decode_controller_epoch(self.node(znodes.CONTROLLER_EPOCH).data)
        assert [path for path, node in changed.items() if not is_state_of(path, node, epoch)] == []
        assert asyncio.run(shutdown_asked_of(zombie)) is Errors.NOT_CONTROLLER


def is_state_of(path: str, node: Any, epoch: int) -> bool:
    """A partition state that the controller of that epoch wrote: an ISR may change at any time."""
    return path.endswith("/state") and znodes.decode_state(path, node.data).controller_epoch == epoch


def holder_of(node: Any) -> int:
    holder: int = znodes.decode_controller(node.data).broker_id
    return holder


async def shutdown_asked_of(controller: Controller) -> Errors:
    async with await connect("127.0.0.1", controller.port) as connection:
        return Errors((await connection.send(s.ControlledShutdownRequest(broker_id=1, broker_epoch=-1))).error_code)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("zombies")
    with (
        ZookeeperProcess(tick_ms=500) as zookeeper,
        Controller(zookeeper.address, folder, 1000, *SHORT) as first,
        Controller(zookeeper.address, folder, 1001, *SHORT) as second,
        ZkBrokers(zookeeper.address, properties=PROPERTIES) as brokers,
    ):
        made = Cluster(folder, zookeeper, brokers, [first, second])
        made.write_topics({TOPIC: [[1, 2, 3], [1, 3, 2], [2, 1, 3]], DELETED: [[2, 3, 1]] * 4})
        until(lambda: len(made.partitions()) == 7, "all partitions have leaders")
        made.agree()
        yield made


def test_orders_of_a_zombie_controller_are_not_followed(cluster: Cluster) -> None:
    """They wait for a broker that is paused, while the controller is paused in its turn."""
    zombie = cluster.controllers[0]
    cluster.brokers[3].pause()
    for number in range(4):
        cluster.write_topics({f"queued-{number}": [[3, 1, 2]]})
        until(lambda place=(f"queued-{number}", 0): place in cluster.partitions(), "it has a leader")
    zombie.pause()
    cluster.brokers[3].resume()
    cluster.replace_the_paused()
    cluster.tool(TOPICS, "--delete", "--topic", DELETED)
    cluster.brokers[2].terminate()
    until(lambda: all(topic != DELETED for topic, _ in cluster.partitions()), "the topic is gone")
    cluster.comes_back(zombie)
    assert re.search("requests dropped|STALE_CONTROLLER_EPOCH", zombie.log.read_text())
    cluster.brokers[2].start()
    cluster.agree()


@pytest.mark.covers("A13")
def test_writes_of_a_zombie_controller_are_refused(cluster: Cluster) -> None:
    """It is paused amid a burst of new topics; some of them are deleted before it comes back."""
    zombie = cluster.controllers[0]
    names = [f"burst-{number}" for number in range(60)]
    cluster.write_topics({name: [[1, 2], [2, 3], [3, 1]] for name in names[:40]})
    zombie.pause()
    had = {topic for topic, _ in cluster.partitions()}
    assert not {*names} <= had, "the pause came too late"
    cluster.write_topics({name: [[1, 2], [2, 3], [3, 1]] for name in names[40:]})
    cluster.replace_the_paused()
    assert {*names} <= {topic for topic, _ in cluster.partitions()}
    cluster.tool(TOPICS, "--delete", "--topic", "burst-[345].")
    until(lambda: not topics_being_deleted(cluster), "the topics are gone")
    cluster.comes_back(zombie)


@pytest.mark.covers("article F two leaders")
def test_a_zombie_leader_acknowledges_nothing_and_follows(cluster: Cluster) -> None:
    settings = cluster.folder / "producer.properties"
    settings.write_text(PRODUCER)
    where = ("--bootstrap-server", cluster.brokers.bootstrap, "--topic", TOPIC)
    producer = Tool(cluster.folder, VERIFIABLE_PRODUCER, *where, "--throughput", 50, "--producer.config", settings)
    try:
        until(lambda: len(acknowledged(producer)) > 50, "messages are acknowledged")
        old = cluster.node(znodes.state_path(TOPIC, 0))
        broker_epoch = cluster.node(znodes.broker_path(1)).czxid
        answer = asyncio.run(produce_to_zombie(cluster, producer))
        assert answer.error_code not in (Errors.NONE, Errors.UNKNOWN_SERVER_ERROR)
        assert alter_partition(cluster, old, broker_epoch) == (Errors.STALE_BROKER_EPOCH, None)
        new_epoch = cluster.node(znodes.broker_path(1)).czxid
        assert alter_partition(cluster, old, new_epoch) == (Errors.NONE, Errors.FENCED_LEADER_EPOCH)
        cluster.agree()
        count = len(acknowledged(producer))
        until(lambda: len(acknowledged(producer)) > count + 20, "the producer goes on")
    finally:
        producer.stop()
    assert [each for each in producer.events() if each["name"] == "producer_send_error"] == []
    there = Counter(consume(acknowledged(producer), *where, "--from-beginning"))
    assert set(there.values()) == {1}
    assert [value for value in acknowledged(producer) if value not in there] == []
    assert "zombie" not in there
    cluster.agree()
    assert differences(cluster) == []


def topics_being_deleted(cluster: Cluster) -> set[str]:
    """Topics that should be gone."""
    return {topic for topic, _ in cluster.partitions() if re.fullmatch("burst-[345].", topic)}


def acknowledged(producer: Tool) -> list[str]:
    return [each["value"] for each in producer.events() if each["name"] == "producer_send_success"]


async def produce_to_zombie(cluster: Cluster, producer: Tool) -> PartitionProduceResponse:
    """The answer of broker 1, which no longer leads, to a producer that still takes it for the leader."""
    broker, address = cluster.brokers[1], cluster.brokers[1].port
    records = encode_records([Record(0, 0, None, b"zombie")])
    topics = [TopicProduceData(name=TOPIC, partition_data=[PartitionProduceData(index=0, records=records)])]
    async with await connect("127.0.0.1", address, limits=Limits(request_s=90)) as connection:
        broker.pause()
        try:
            request = s.ProduceRequest(acks=-1, timeout_ms=60_000, topic_data=topics)
            answer = asyncio.ensure_future(connection.send(request, 9))
            await asyncio.to_thread(others_lead, cluster, producer)
        finally:
            broker.resume()
        [topic] = (await answer).responses
    [partition] = topic.partition_responses
    found: PartitionProduceResponse = partition
    await asyncio.to_thread(until, lambda: cluster.node(znodes.broker_path(1)), "it is registered anew")
    return found


def others_lead(cluster: Cluster, producer: Tool) -> None:
    until(lambda: all(leader != 1 for leader, *_ in cluster.partitions().values()), "others lead")
    count = len(acknowledged(producer))
    until(lambda: len(acknowledged(producer)) > count + 20, "the producer goes on")


def alter_partition(cluster: Cluster, old: Any, broker_epoch: int) -> tuple[Errors, Errors | None]:
    """The controller's answer to broker 1 that wants to lead as it did."""
    state = znodes.decode_state("", old.data)
    wanted = AlterPartitionRequestPartitionData(
        partition_index=0,
        leader_epoch=state.leader_epoch,
        new_isr_with_epochs=[BrokerState(broker_id=1)],
        partition_epoch=old.version,
    )
    topic_id = znodes.decode_topic(TOPIC, cluster.node(znodes.topic_path(TOPIC)).data).topic_id
    topics = [AlterPartitionRequestTopicData(topic_id=topic_id, partitions=[wanted])]
    request = s.AlterPartitionRequest(broker_id=1, broker_epoch=broker_epoch, topics=topics)

    async def ask() -> Any:
        async with await connect("127.0.0.1", cluster.controllers[0].port) as connection:
            return await connection.send(request, 3)

    response = asyncio.run(ask())
    of_partition = [Errors(each.error_code) for topic in response.topics for each in topic.partitions]
    return Errors(response.error_code), of_partition[0] if of_partition else None


def differences(cluster: Cluster) -> list[tuple[object, object]]:
    """Between the replicas of the topic on any two brokers."""
    asked = [TopicPartition(TOPIC, index) for index in range(3)]
    pairs = combinations([broker.log_dirs[0] for broker in cluster.brokers.brokers], 2)
    found = [(place, each) for pair in pairs for place, each in diverge_log_dirs(*pair, partitions=asked).items()]
    return [(place, each) for place, each in found if each.reason != SAME]
