"""kcore's broker of ZooKeeper mode beside Kafka's of 3.9.1, over SASL_SSL with SCRAM: who may do what.

Brokers 1 and 2 are Kafka's, one of them the controller; broker 3 is kcore's. Users and ACLs are in ZooKeeper.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from kcore.measure.processes.local_process import free_ports
from kcore.measure.processes.zk_cluster import ZkBrokers, ZookeeperProcess
from kcore.metadata.acl_codes import ALLOW, ALTER, LITERAL
from kcore.metadata.acl_codes import TOPIC as RESOURCE_TOPIC
from kcore.metadata.zookeeper import znodes
from kcore.metadata.zookeeper.znode_operations import Create
from kcore.net.connect import connect
from kcore.net.connection import Connection
from kcore.net.security.client_security import Sasl, Security
from kcore.net.security.jaas import MODULES
from kcore.node.zk.admin.scram import credential_of
from kcore.protocol_errors import Errors
from kcore.schema.acls import (
    AclCreation,
    CreateAclsRequest,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DescribeAclsRequest,
)
from kcore.schema.delegation_tokens import (
    CreateDelegationTokenRequest,
    DescribeDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)
from kcore.schema.quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    DescribeClientQuotasRequest,
    EntityData,
    OpData,
)
from kcore.schema.scram import ScramCredentialUpsertion
from kcore.schema.structure import Message
from kcore.scram import salted_password
from kcore.server.zk_broker.zk_broker_request_handlers import APIS
from kcore.zookeeper.client import ZookeeperClient
from net.authority import Authority, client_tls
from oracle.brokers.test_broker_listeners import TABLE, asked, without_objects, written_to
from oracle.kafka_tools import CONSOLE_CONSUMER, TOPICS, run_tool, try_tool
from oracle.kcore_brokers import PROGRAM, KcoreBroker, until
from oracle.zk.test_listener_security import LIMITS, PASSWORD
from server.broker.test_broker_tokens import show_token

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
delegation.token.secret.key=a-key-of-the-cluster
"""
EVERY_ACL: Final[dict[str, Any]] = {
    **{"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1},
    **{"resource_name_filter": None, "principal_filter": None, "host_filter": None},
}
MORE: Final[dict[str, tuple[Callable[[], Message], int]]] = {  # Requests that KRaft's brokers forward.
    "CreateAcls of a topic": (lambda: a_creation(ALTER), 3),
    "CreateAcls of nothing": (lambda: a_creation(1), 3),
    "DeleteAcls": (lambda: DeleteAclsRequest(filters=[DeleteAclsFilter(**EVERY_ACL)]), 3),
    "AlterClientQuotas": (lambda: a_quota(1.0), 1),
    "DescribeClientQuotas": (lambda: DescribeClientQuotasRequest(components=[]), 1),
    "CreateDelegationToken of another": (
        lambda: CreateDelegationTokenRequest(
            owner_principal_type="User", owner_principal_name="alice", renewers=[], max_lifetime_ms=-1
        ),
        3,
    ),
    "RenewDelegationToken": (lambda: RenewDelegationTokenRequest(hmac=b"x", renew_period_ms=1), 2),
    "ExpireDelegationToken": (lambda: ExpireDelegationTokenRequest(hmac=b"x", expiry_time_period_ms=1), 2),
}
# The requests that both kinds of broker answer themselves in ZooKeeper mode, where groups have no settings.
ASKED: Final = [name for name in TABLE if name.split(" ")[0] in APIS and name != "DescribeConfigs of a group"]
ACL_COMMAND: Final = "kafka.admin.AclCommand"  # In Kafka 3.9.1.


def a_creation(operation: int) -> CreateAclsRequest:
    creation = AclCreation(
        resource_type=RESOURCE_TOPIC,
        resource_name="u",
        resource_pattern_type=LITERAL,
        principal="User:u",
        host="*",
        operation=operation,
        permission_type=ALLOW,
    )
    return CreateAclsRequest(creations=[creation])


def a_quota(rate: float) -> AlterClientQuotasRequest:
    entity, operation = EntityData(entity_type="user", entity_name="u"), OpData(key="producer_byte_rate", value=rate)
    return AlterClientQuotasRequest(entries=[AlterClientQuotasRequestEntryData(entity=[entity], ops=[operation])])


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
    folder = tmp_path_factory.mktemp("zk-listener")
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
    run_tool(ACL_COMMAND, *admin, *rule)
    until(lambda: try_tool(*reads)[1].split() == ["v"], lambda: "alice may not read")


def test_both_kinds_of_broker_say_the_same(cluster: Cluster) -> None:
    async def answers_of(port: int) -> dict[str, list[str]]:
        found = {}
        for name in (*ASKED, *MORE):
            make, version = (TABLE | MORE)[name]
            found[name] = await asked(port, cluster.authority, "bob", make(), version)
        return found

    ports = cluster.own.port, cluster.brokers[1].port
    kcore, kafka = (without_objects(asyncio.run(answers_of(port))) for port in ports)
    wrong = [f"{name}: kcore {kcore[name]}, Kafka {kafka[name]}" for name in kafka if kcore[name] != kafka[name]]
    assert not wrong, "\n".join(wrong)
    assert len(ASKED) >= 25


@asynccontextmanager
async def as_user(cluster: Cluster, port: int, name: str) -> AsyncIterator[Connection]:
    security = Security(client_tls(cluster.authority.trusted), Sasl("SCRAM-SHA-512", name, PASSWORD))
    async with await connect("127.0.0.1", port, security=security, limits=LIMITS) as connection:
        yield connection


async def token_is_shared(cluster: Cluster, writer: int, reader: int) -> None:
    """Made at one port and known at the other; the bearer comes there."""
    every = DescribeDelegationTokenRequest(owners=None)
    async with as_user(cluster, writer, "alice") as at_writer, as_user(cluster, reader, "alice") as at_reader:
        made = await at_writer.send(CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=-1), 3)
        assert (made.error_code, made.principal_name) == (Errors.NONE, "alice")

        async def described() -> dict[str, bytes]:
            return {each.token_id: each.hmac for each in (await at_reader.send(every, 3)).tokens}

        while (await described()).get(made.token_id) != made.hmac:
            await asyncio.sleep(0.05)
        renewed = await at_reader.send(RenewDelegationTokenRequest(hmac=made.hmac, renew_period_ms=3_600_000), 2)
        assert renewed.error_code == Errors.NONE and renewed.expiry_timestamp_ms < made.expiry_timestamp_ms
        security = Security(client_tls(cluster.authority.trusted))
        async with await connect("127.0.0.1", reader, security=security, limits=LIMITS) as bearer:
            await show_token(bearer, made.token_id, made.hmac, "SCRAM-SHA-512")
            assert (await bearer.send(every, 3)).error_code == Errors.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        expire = ExpireDelegationTokenRequest(hmac=made.hmac, expiry_time_period_ms=-1)
        assert (await at_writer.send(expire, 2)).error_code == Errors.NONE
        while made.token_id in await described():
            await asyncio.sleep(0.05)


async def acls_and_quotas_are_shared(cluster: Cluster, writer: int, reader: int) -> None:
    every = DescribeAclsRequest(**EVERY_ACL)
    async with as_user(cluster, writer, "admin") as at_writer, as_user(cluster, reader, "admin") as at_reader:
        response = await at_writer.send(a_creation(ALTER), 3)
        assert [each.error_code for each in response.results] == [Errors.NONE]

        async def known() -> bool:
            return "u" in {each.resource_name for each in (await at_reader.send(every, 3)).resources}

        while not await known():
            await asyncio.sleep(0.05)
        gone = DeleteAclsFilter(**EVERY_ACL | {"resource_name_filter": "u"})
        [deleted] = (await at_reader.send(DeleteAclsRequest(filters=[gone]), 3)).filter_results
        assert (deleted.error_code, len(deleted.matching_acls)) == (Errors.NONE, 1)
        for rate in (float(writer), float(reader)):
            [entry] = (await at_writer.send(a_quota(rate), 1)).entries
            assert entry.error_code == Errors.NONE
            [entry] = (await at_reader.send(DescribeClientQuotasRequest(components=[]), 1)).entries
            assert [(each.key, each.value) for each in entry.values] == [("producer_byte_rate", rate)]


def test_what_either_kind_of_broker_writes_the_other_obeys(cluster: Cluster) -> None:
    """Over the znodes."""

    async def story() -> None:
        ports = cluster.own.port, cluster.brokers[1].port
        for writer, reader in (ports, ports[::-1]):
            await token_is_shared(cluster, writer, reader)
            await acls_and_quotas_are_shared(cluster, writer, reader)

    asyncio.run(asyncio.wait_for(story(), 120))


def test_nobody_complained(cluster: Cluster) -> None:
    text = cluster.own.said()
    assert " ERROR " not in text and "Traceback" not in text and PASSWORD not in text
