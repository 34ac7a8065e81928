"""kcore's broker is asked first for a coordinator: it has the controller make the topic, Kafka's broker coordinates.

The clients are librdkafka's, and know the address of kcore's broker alone.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from kcore.controller.zk.zk_controller_config import ControllerConfig
from kcore.measure.processes.local_process import free_ports
from kcore.measure.processes.zk_cluster import ZkBrokers, ZookeeperProcess
from kcore.net.connect import connect
from kcore.protocol_errors import Errors
from kcore.schema.find_coordinator import FindCoordinatorRequest
from kcore.server.zk_controller.zk_controller_server import ControllerServer
from net.loops import until
from oracle.kcore_brokers import OPTIONS, KcoreBroker
from oracle.kraft.test_kraft_broker import Mixed
from oracle.librdkafka_clients import configuration

GROUPS: Final = "__consumer_offsets"
TRANSACTIONS: Final = "__transaction_state"
WITHIN_S: Final = 90.0
EVERYWHERE: Final = {  # Kafka's brokers take the numbers of partitions from their settings, and must have the same.
    "offsets.topic.num.partitions": 3,
    "offsets.topic.replication.factor": 1,
    "transaction.state.log.num.partitions": 2,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
}
OF_KCORE: Final = {"offsets.topic.segment.bytes": 20_000_000, "transaction.state.log.segment.bytes": 30_000_000}


NAMED_PARTITIONS: Final = 4


def lines_of(settings: Mapping[str, int]) -> str:
    return "".join(f"{name}={value}\n" for name, value in settings.items())


def found_by(address: str) -> list[tuple[int, ...]]:
    """The coordinators of a group and of a transaction, by the broker there, and who it says leads these topics."""

    async def ask() -> list[tuple[int, ...]]:
        host, port = address.split(":")
        found: list[tuple[int, ...]] = []
        async with await connect(host, int(port)) as connection:
            for key_type in (0, 1):
                request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=["one", "two"])
                answer = await connection.send(request, 4)
                assert {each.error_code for each in answer.coordinators} == {Errors.COORDINATOR_NOT_AVAILABLE}
                async with asyncio.timeout(WITHIN_S):
                    while any(each.error_code for each in answer.coordinators):
                        await asyncio.sleep(0.1)
                        answer = await connection.send(request, 4)
                found.append(tuple(each.node_id for each in answer.coordinators))
        return found

    return asyncio.run(ask())


def committed(address: str, topic: str, values: list[str]) -> None:
    """Each in a transaction of its own."""
    producer = Producer(configuration(address, transactional_id=f"x-{topic}"))
    producer.init_transactions(WITHIN_S)
    for value in values:
        producer.begin_transaction()
        producer.produce(topic, value)
        producer.commit_transaction(WITHIN_S)


def read_in_group(address: str, topic: str, count: int) -> list[str]:
    """By the member of a group, which commits them."""
    consumer = Consumer(configuration(address, group_id=f"g-{topic}", auto_offset_reset="earliest"))
    consumer.subscribe([topic])
    found: list[str] = []
    end_s = time.monotonic() + WITHIN_S
    while len(found) < count and time.monotonic() < end_s:
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            found.append((message.value() or b"").decode())
    consumer.commit(asynchronous=False)
    consumer.close()
    return found


def partitions_of(address: str, topic: str) -> list[tuple[int, ...]]:
    """Their replicas."""
    found = AdminClient(configuration(address)).list_topics(timeout=WITHIN_S).topics
    return [tuple(each.replicas) for each in found[topic].partitions.values()] if topic in found else []


def awaited(address: str, topic: str, count: int) -> list[tuple[int, ...]]:
    """Once that broker knows so many: each learns of a topic in its own time."""
    end_s = time.monotonic() + WITHIN_S
    while len(found := partitions_of(address, topic)) < count and time.monotonic() < end_s:
        time.sleep(0.1)
    return found


def settings_of(address: str, topic: str) -> dict[str, str]:
    """Those that the topic has of its own. The client asks any broker: some may not know the topic yet."""
    admin, end_s = AdminClient(configuration(address)), time.monotonic() + WITHIN_S
    while True:
        [described] = admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]).values()
        try:
            return {name: each.value for name, each in described.result(WITHIN_S).items() if each.source == 1}
        except KafkaException:
            if time.monotonic() > end_s:
                raise
            time.sleep(0.1)


def clients_are_served(address: str, other: str, coordinator: int) -> None:
    """`address`: of kcore's broker; `other`: of Kafka's, which is to coordinate."""
    admin = AdminClient(configuration(other))
    [made] = admin.create_topics([NewTopic("t", 1, 1)]).values()
    made.result(WITHIN_S)
    assert partitions_of(other, GROUPS) == partitions_of(other, TRANSACTIONS) == []
    assert found_by(address) == [(coordinator, coordinator)] * 2
    assert awaited(other, GROUPS, 3) == [(coordinator,)] * 3
    assert awaited(other, TRANSACTIONS, 2) == [(coordinator,)] * 2
    groups = settings_of(other, GROUPS)
    assert (groups["cleanup.policy"], groups["segment.bytes"]) == ("compact", "20000000")
    transactions = settings_of(other, TRANSACTIONS)
    assert (transactions["min.insync.replicas"], transactions["segment.bytes"]) == ("1", "30000000")
    assert transactions["compression.type"] == "uncompressed"
    committed(address, "t", ["a", "b", "c"])
    assert read_in_group(address, "t", 3) == ["a", "b", "c"]


def named_is_created(address: str, other: str) -> None:
    """Metadata: a producer names a topic that nobody knows, at kcore's broker."""
    producer = Producer(configuration(address))
    producer.produce("named", "a")
    assert producer.flush(WITHIN_S) == 0
    assert len(awaited(other, "named", NAMED_PARTITIONS)) == NAMED_PARTITIONS


class AskedFirst(Mixed):
    """Broker 1 is kcore's, whose directories are cordoned; 3 is Kafka's."""

    def start(self) -> None:
        del self.brokers[1]
        for node in self.brokers:
            with node.properties.open("a") as text:
                text.write(lines_of(EVERYWHERE | OF_KCORE if self.is_kcore(node) else EVERYWHERE))
        super().start()


@pytest.mark.parametrize("controllers", ["kafka", "kcore"])
def test_of_kraft(controllers: str) -> None:
    with AskedFirst(real_controllers=controllers == "kafka") as cluster:
        kcore, real = cluster.brokers
        clients_are_served(kcore.address, real.address, 3)
        # Metadata: a producer names a topic that nobody knows.
        producer = Producer(configuration(kcore.address))
        producer.produce("named", "a")
        assert producer.flush(WITHIN_S) == 0
        assert awaited(real.address, "named", 1) == [(3,)]
        assert cluster.faults() == []


@asynccontextmanager
async def zookeeper_mode(folder: Path, *, is_kcores: bool) -> AsyncIterator[tuple[ZkBrokers, KcoreBroker]]:
    """Broker 1 is Kafka's, and the controller unless that is kcore's; 11 is kcore's."""
    async with AsyncExitStack() as stack:
        zookeeper = stack.enter_context(ZookeeperProcess())
        if is_kcores:
            config = ControllerConfig(1000, auto_leader_rebalance_enable=False)
            server = await stack.enter_async_context(ControllerServer(config, zookeeper.address))
            await until(lambda: server.active.is_active)
        brokers = ZkBrokers(zookeeper.address, 1, properties=lines_of(EVERYWHERE))
        stack.push_async_callback(asyncio.to_thread, brokers.close)
        await asyncio.to_thread(brokers.start)
        settings = EVERYWHERE | OF_KCORE
        settings |= {"num.partitions": NAMED_PARTITIONS}  # Kafka's brokers and kcore's controller would have one.
        given = [each for name, value in settings.items() for each in ("--config", f"{name}={value}")]
        kcore = KcoreBroker(11, free_ports(1)[0], folder, zookeeper.address, *OPTIONS, *given)
        stack.callback(kcore.kill)
        await asyncio.to_thread(kcore.start)
        yield brokers, kcore


@pytest.mark.covers("KIP-590 12")
def test_of_zookeeper_mode_under_kcores_controller(tmp_path: Path) -> None:
    async def story() -> None:
        async with zookeeper_mode(tmp_path, is_kcores=True) as (brokers, kcore):
            await asyncio.to_thread(clients_are_served, kcore.address, brokers[1].address, 1)
            await asyncio.to_thread(named_is_created, kcore.address, brokers[1].address)

    asyncio.run(story())


@pytest.mark.covers("KIP-590 12")
def test_of_zookeeper_mode_under_kafkas_controller(tmp_path: Path) -> None:
    """It may place the topics on kcore's broker, too: that they are made as kcore's broker says is what counts."""

    async def find(kcore: KcoreBroker) -> None:
        async with await connect("127.0.0.1", kcore.port) as connection:
            for key_type in (0, 1):
                request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=["one"])
                [coordinator] = (await connection.send(request, 4)).coordinators
                assert coordinator.error_code == Errors.COORDINATOR_NOT_AVAILABLE

    async def story() -> None:
        async with zookeeper_mode(tmp_path, is_kcores=False) as (brokers, kcore):
            other = brokers[1].address
            await find(kcore)
            for topic, count, segments in ((GROUPS, 3, "20000000"), (TRANSACTIONS, 2, "30000000")):
                assert len(await asyncio.to_thread(awaited, other, topic, count)) == count
                settings = await asyncio.to_thread(settings_of, other, topic)
                assert settings["segment.bytes"] == segments
            await asyncio.to_thread(named_is_created, kcore.address, other)

    asyncio.run(asyncio.wait_for(story(), 2 * WITHIN_S))
