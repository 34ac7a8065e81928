"""Clusters from a running ZooKeeper and from real Kafka brokers equal the clusters that other sources describe."""

import asyncio
from collections.abc import Sequence

from cases import DATA
from kcore.measure.processes.zk_cluster import ZookeeperProcess
from kcore.metadata.table.equality import same_partitions
from kcore.metadata.zookeeper.znode_operations import Create, Node, SetData
from kcore.metadata.zookeeper.zookeeper_dump import parse_znodes
from kcore.sources.load import load_cluster
from kcore.zookeeper.client import ZookeeperClient
from oracle.kafka_tools import CONFIGS
from oracle.kraft_clusters import KraftCluster

DUMP = DATA / "samples/zk39-scenario/1-created.zk.txt"


async def write(hosts: str, nodes: Sequence[tuple[str, Node]]) -> None:
    async with ZookeeperClient(hosts) as client:
        for path, node in nodes:
            await client.write([Create(path, node.data)])
            for version in range(node.version):
                await client.write([SetData(path, node.data, version)])


def test_a_running_zookeeper_with_a_chroot() -> None:
    nodes = {"/config": Node(b"", 0, 0), "/config/topics": Node(b"", 0, 0)} | parse_znodes(DUMP.read_text())
    nodes["/config/topics/t1"] = Node(b'{"version":1,"config":{"retention.ms":"5"}}', 0, 0)
    below = [("/a", Node(b"", 0, 0)), *((f"/a{path}", nodes[path]) for path in sorted(nodes) if path != "/")]
    with ZookeeperProcess() as zookeeper:
        asyncio.run(write(zookeeper.address, below))
        image = load_cluster(f"zk://{zookeeper.address}/a")
    assert same_partitions(image.table, load_cluster(DUMP).table)
    assert image.brokers.live.all() and image.configs[2, "t1"] == {"retention.ms": "5"}


def test_running_brokers() -> None:
    of_brokers = "broker.rack=rack-{address}\n"
    with KraftCluster(brokers=3, log_dirs=2, of_brokers=of_brokers) as cluster:
        cluster.place("orders", "1:2,2:3,3:1", "--config", "retention.ms=60000")
        alter = ("--alter", "--entity-type", "brokers", "--entity-default", "--add-config", "log.cleaner.threads=1")
        cluster.tool(CONFIGS, "--bootstrap-server", cluster.bootstrap, *alter)
        live = load_cluster(f"127.0.0.1:1,{cluster.bootstrap}")
        data = cluster.folder / str(
            cluster.controllers[0].properties.read_text().partition("log.dirs=")[2].splitlines()[0]
        )
        logged = load_cluster(data)
    assert live.topic_ids == logged.topic_ids and live.brokers.ids.tolist() == [1, 2, 3]
    assert [live.brokers[each].rack for each in (1, 2, 3)] == [logged.brokers[each].rack for each in (1, 2, 3)]
    for partition in range(3):
        found, wanted = (image.partition("orders", partition) for image in (live, logged))
        assert found.replicas == wanted.replicas and found.isr == wanted.isr and found.leader == wanted.leader
        assert found.leader_epoch == wanted.leader_epoch
        assert all(any(each) for each in found.directories)
    assert [len(live.brokers[each].directories) for each in (1, 2, 3)] == [2, 2, 2]
    assert live.configs[2, "orders"] == logged.configs[2, "orders"] == {"retention.ms": "60000"}
    assert live.configs[4, ""] == logged.configs[4, ""]
    assert live.features == logged.features
