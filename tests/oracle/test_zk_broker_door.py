"""kcore's broker of ZooKeeper mode beside Kafka's of 3.9.1, over SASL_SSL with SCRAM: who may do what.

Brokers 1 and 2 are Kafka's, one of them the controller; broker 3 is kcore's. Users and ACLs are in ZooKeeper.
"""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from kcore.controller.zk.admin.scram import credential_of
from kcore.metadata import znodes
from kcore.metadata.znode_operations import Create
from kcore.net.jaas import MODULES
from kcore.net.sasl_mechanisms import salted_password
from kcore.processes.machine import free_ports
from kcore.processes.zk_cluster import ZkBrokers, ZookeeperProcess
from kcore.schema.scram import ScramCredentialUpsertion
from kcore.server.broker.zk_front import APIS
from kcore.zookeeper.client import ZookeeperClient
from net.authority import Authority
from oracle.kafka_tools import ACLS, CONSOLE_CONSUMER, TOPICS, run_tool, try_tool
from oracle.kcore_brokers import PROGRAM, KcoreBroker, until
from oracle.test_broker_door import TABLE, asked, without_objects, written_to
from oracle.test_door import PASSWORD

TOPIC: Final = "t"
SECURE: Final = """listeners=SECURE://127.0.0.1:{port}
advertised.listeners=SECURE://127.0.0.1:{port}
listener.security.protocol.map=SECURE:SASL_SSL
inter.broker.listener.name=SECURE
sasl.enabled.mechanisms=SCRAM-SHA-512
sasl.mechanism.inter.broker.protocol=SCRAM-SHA-512
listener.name.secure.scram-sha-512.sasl.jaas.config={scram} required username="broker" password="{password}";
ssl.keystore.type=PEM
ssl.keystore.location={keystore}
ssl.truststore.type=PEM
ssl.truststore.location={trusted}
authorizer.class.name=kafka.security.authorizer.AclAuthorizer
super.users=User:broker;User:admin
"""
# What both kinds of broker answer themselves in ZooKeeper mode.
ASKED: Final = [name for name in TABLE if name.split(" ")[0] in APIS]


class Cluster:
    """All of it."""

    def __init__(self, folder: Path, authority: Authority, brokers: ZkBrokers, own: KcoreBroker) -> None:
        self.folder, self.authority, self.brokers, self.own = folder, authority, brokers, own
        self.bootstrap = f"{brokers.bootstrap},{own.address}"

    def user(self, name: str) -> tuple[object, ...]:
        """Options of a tool that comes to all brokers as that user."""
        config = self.folder / f"{name}.properties"
        config.write_text(
            "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\nssl.truststore.type=PEM\n"
            f"ssl.truststore.location={self.authority.trusted}\n"
            f'sasl.jaas.config={MODULES["SCRAM-SHA-512"]} required username="{name}" password="{PASSWORD}";\n'
        )
        return ("--bootstrap-server", self.bootstrap, "--command-config", config)


async def make_users(zookeeper: str, *names: str) -> None:
    """As `kafka-configs.sh --zookeeper` makes them before there is a broker."""
    salted = salted_password("SCRAM-SHA-512", PASSWORD.encode(), bytes(16), 4096)
    upsertion = ScramCredentialUpsertion(name="", mechanism=2, iterations=4096, salt=bytes(16), salted_password=salted)
    data = znodes.encode_config({"SCRAM-SHA-512": credential_of(upsertion)})
    async with ZookeeperClient(zookeeper) as client:
        await client.make_path(f"{znodes.CONFIG}/users")
        await client.write([Create(f"{znodes.CONFIG}/users/{name}", data) for name in names])


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("zk-door")
    authority = Authority(folder / "authority")
    words = {"keystore": authority.keystore("node"), "trusted": authority.trusted, "password": PASSWORD}
    secure = SECURE.replace("{scram}", MODULES["SCRAM-SHA-512"])
    with ZookeeperProcess(tick_ms=500) as zookeeper:
        asyncio.run(make_users(zookeeper.address, "broker", "admin", "alice", "bob"))
        brokers = ZkBrokers(zookeeper.address, 2)
        for broker in brokers.brokers:
            broker.configure(secure.format(port=broker.port, **words))
        [port] = free_ports(1)
        own = KcoreBroker(3, port, folder, zookeeper.address)
        file = folder / "kcore.properties"
        file.write_text(secure.format(port=port, **words))
        own._command = [
            *(*PROGRAM, "--zookeeper", zookeeper.address, "--broker-id", "3", "--security", str(file)),
            *("--log-dir", str(own.log_dirs[0]), "--session-timeout", "6000"),
        ]
        with brokers:
            try:
                own.start()
                made = Cluster(folder, authority, brokers, own)
                create = ("--create", "--topic", TOPIC, "--replica-assignment", "1:2:3,3:1:2,2:3:1")
                run_tool(TOPICS, *made.user("admin"), *create)
                yield made
            finally:
                own.kill()


def test_both_kinds_replicate_and_ask_for_rights(cluster: Cluster) -> None:
    """Partition p is led by another broker each, and followed by both kinds."""
    admin = cluster.user("admin")
    for partition, port in enumerate((cluster.brokers[1].port, cluster.own.port, cluster.brokers[2].port)):
        written_to(port, cluster.authority, partition)
    whole = ("--describe", "--under-replicated-partitions")
    until(lambda: run_tool(TOPICS, *admin, *whole).strip() == "", lambda: run_tool(TOPICS, *admin, "--describe"))
    described = run_tool(TOPICS, *admin, "--describe", "--topic", TOPIC)
    assert all(f"Leader: {leader}" in described for leader in (1, 2, 3))
    at, _, config = cluster.user("alice")[1:4]
    alice = ("--bootstrap-server", at, "--consumer.config", config, "--topic", TOPIC)
    reads = (CONSOLE_CONSUMER, *alice, *("--partition", 1, "--offset", "earliest", "--max-messages", 1))
    reads = (*reads, "--timeout-ms", 20_000)
    assert try_tool(*reads)[1].split() == []  # The tool's log, which says why, is nobody's here.
    rule = ("--add", "--allow-principal", "User:alice", "--topic", TOPIC, "--operation", "Read")
    run_tool(ACLS, *admin, *rule)
    until(lambda: try_tool(*reads)[1].split() == ["v"], lambda: "alice may not read")


def test_both_kinds_of_broker_say_the_same(cluster: Cluster) -> None:
    async def told(port: int) -> dict[str, list[str]]:
        found = {}
        for name in ASKED:
            make, version = TABLE[name]
            found[name] = await asked(port, cluster.authority, "bob", make(), version)
        return found

    ports = cluster.own.port, cluster.brokers[1].port
    kcore, kafka = (without_objects(asyncio.run(told(port))) for port in ports)
    wrong = [f"{name}: kcore {kcore[name]}, Kafka {kafka[name]}" for name in kafka if kcore[name] != kafka[name]]
    assert not wrong, "\n".join(wrong)
    assert len(ASKED) >= 25


def test_nobody_complained(cluster: Cluster) -> None:
    text = cluster.own.said()
    assert " ERROR " not in text and "Traceback" not in text and PASSWORD not in text
