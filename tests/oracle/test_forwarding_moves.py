"""The active controller is killed while brokers forward: clients are answered by the next one, and nothing is lost.

Three controllers are kcore's; one broker is kcore's, the other Kafka's. Each client asks one of them alone.
"""

import asyncio
from pathlib import Path
from typing import Final

from kcore.errors import KcoreError
from kcore.net.connect import connect
from kcore.net.limits.connection_limits import Limits
from kcore.protocol_errors import Errors
from kcore.schema.cluster_metadata import MetadataRequest, MetadataRequestTopic
from kcore.schema.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
)
from kcore.schema.topics import CreatableTopic, CreateTopicsRequest
from oracle.kraft_clusters import KraftCluster, Node

LIMITS: Final = Limits(connect_s=60, request_s=120)  # The brokers give up before.
KILLS: Final = 3
BETWEEN: Final = 5  # Answers at each broker between two kills.
WITHIN_S: Final = 240.0


class Cluster(KraftCluster):
    """Broker 1 is kcore's, 2 is Kafka's."""

    def __init__(self) -> None:
        super().__init__(controllers=3, brokers=2, real=[], kcore_brokers=[1])


class Client:
    """Creates one topic after the other, at one broker."""

    def __init__(self, node: Node) -> None:
        self._node, self.made, self.answers = node, list[str](), list[Errors]()

    async def work(self, stop: asyncio.Event) -> None:
        """On one connection: a broker that loses its controller keeps its clients."""
        async with await connect("127.0.0.1", self._node.port, limits=LIMITS) as connection:
            while not stop.is_set():
                name = f"at-{self._node.node_id}-{len(self.made)}"
                topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
                response = await connection.send(CreateTopicsRequest(topics=[topic], timeout_ms=30_000))
                self.made.append(name)
                self.answers.append(Errors.of(response.topics[0].error_code))


async def leader(cluster: Cluster) -> int:
    """The active controller, as the first to answer says."""
    row = DescribeQuorumRequestPartitionData(partition_index=0)
    request = DescribeQuorumRequest(
        topics=[DescribeQuorumRequestTopicData(topic_name="__cluster_metadata", partitions=[row])]
    )
    while True:
        for node in cluster.controllers:
            try:
                async with await connect("127.0.0.1", node.port) as connection:
                    [partition] = (await connection.send(request)).topics[0].partitions
            except KcoreError:
                continue
            if partition.error_code == Errors.NONE and partition.leader_id >= 0:
                return int(partition.leader_id)
        await asyncio.sleep(0.1)


async def known_at(node: Node, names: list[str]) -> bool:
    topics = [MetadataRequestTopic(name=each) for each in names]
    request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
    async with await connect("127.0.0.1", node.port, limits=LIMITS) as connection:
        response = await connection.send(request, 9)
    return {each.error_code for each in response.topics} == {0}


async def killed(cluster: Cluster) -> list[Client]:
    clients, stop = [Client(node) for node in cluster.brokers], asyncio.Event()

    async def progress() -> None:
        wanted = [len(each.made) + BETWEEN for each in clients]
        while any(len(each.made) < count for each, count in zip(clients, wanted, strict=True)):
            assert not any(each.done() for each in tasks), [each.exception() for each in tasks if each.done()]
            await asyncio.sleep(0.05)

    tasks = [asyncio.create_task(each.work(stop)) for each in clients]
    async with asyncio.timeout(WITHIN_S):
        for _ in range(KILLS):
            await progress()
            active = await leader(cluster)
            [node] = [each for each in cluster.controllers if each.node_id == active]
            await asyncio.to_thread(node.kill)
            await progress()
            await asyncio.to_thread(node.start)
        stop.set()
        await asyncio.gather(*tasks)
        for node in cluster.brokers:
            names = [name for each in clients for name in each.made]
            while not await known_at(node, names):
                await asyncio.sleep(0.2)
    return clients


def test_a_killed_controller_costs_clients_of_brokers_nothing(tmp_path: Path) -> None:
    """A request whose answer was lost is asked again: then the topic may be there already."""
    with Cluster() as cluster:
        clients = asyncio.run(killed(cluster))
        for each in clients:
            assert {*each.answers} <= {Errors.NONE, Errors.TOPIC_ALREADY_EXISTS}, each.answers
            assert each.answers.count(Errors.TOPIC_ALREADY_EXISTS) <= KILLS
        for node in cluster.controllers:
            assert "Traceback" not in node.log.read_text()
