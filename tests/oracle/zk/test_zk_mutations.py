"""Real 3.9.1 brokers in ZooKeeper mode apply what kcore's controller wrote into znodes."""

import asyncio
import hashlib
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from kcore import schema
from kcore.controller.zk.zk_controller_config import ControllerConfig
from kcore.errors import AuthenticationError
from kcore.measure.processes.local_process import free_ports
from kcore.measure.processes.zk_cluster import ZkBrokers, ZookeeperProcess
from kcore.metadata.principal import KafkaPrincipal
from kcore.metadata.zookeeper.znode_acls import CHANGES, resource_path
from kcore.metadata.zookeeper.znode_names import sanitized
from kcore.metadata.zookeeper.znode_tokens import token_path
from kcore.net.connect import connect
from kcore.net.connection import Connection
from kcore.net.limits.connection_limits import Limits
from kcore.net.request_context import ClientSession, RequestContext
from kcore.net.security.client_security import Sasl, Security
from kcore.node.zk.acls import AclAuthorizerSettings
from kcore.protocol_errors import Errors
from kcore.schema.acls import AclCreation, CreateAclsRequest, DeleteAclsFilter, DeleteAclsRequest
from kcore.schema.delegation_tokens import CreateDelegationTokenRequest, DescribeDelegationTokenRequest
from kcore.schema.headers import RequestHeader
from kcore.schema.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kcore.schema.quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    DescribeClientQuotasRequest,
    EntityData,
    OpData,
)
from kcore.schema.scram import AlterUserScramCredentialsRequest, ScramCredentialUpsertion
from kcore.schema.structure import Message
from kcore.schema.topics import CreatableTopic
from kcore.server.zk_controller.zk_controller_server import ControllerServer
from kcore.zookeeper.client import ZookeeperClient
from net.loops import story
from oracle.kafka_tools import run_tool
from storage import building

ALL, TOPIC, CLUSTER, LITERAL, PREFIXED, READ, WRITE, DESCRIBE, DENY, ALLOW = 2, 2, 4, 3, 4, 3, 4, 8, 2, 3
MOST_TRIES = 100
ACL_COMMAND = "kafka.admin.AclCommand"
PATIENT = Limits(request_s=60)
ANONYMOUS = "User:ANONYMOUS"


@asynccontextmanager
async def cluster(
    *, has_authorizer: bool = False, config: dict[str, Any] | None = None, sasl_port: int | None = None
) -> AsyncIterator[tuple[ZookeeperProcess, ZkBrokers, Connection, ControllerServer]]:
    """A broker under kcore's controller. Everybody is User:ANONYMOUS, which has all rights to the cluster itself."""
    settings = AclAuthorizerSettings(frozenset({ANONYMOUS})) if has_authorizer else None
    made = ControllerConfig(1000, auto_leader_rebalance_enable=False, authorizer=settings, **(config or {}))
    kind = "authorizer.class.name=kafka.security.authorizer.AclAuthorizer\nsuper.users=User:admin\n"
    async with AsyncExitStack() as stack:
        zookeeper = stack.enter_context(ZookeeperProcess())
        server = await stack.enter_async_context(ControllerServer(made, zookeeper.address))
        connection = await stack.enter_async_context(await connect("127.0.0.1", server.port, limits=PATIENT))
        await until(lambda: server.active.is_active)
        if has_authorizer:
            await create(connection, entry("kafka-cluster", ALL, kind=CLUSTER))
        properties = kind if has_authorizer else ""
        brokers = ZkBrokers(zookeeper.address, 1, properties=properties)
        stack.push_async_callback(asyncio.to_thread, brokers.close)
        if sasl_port is not None:
            listeners = SASL.format(plain=brokers[1].port, sasl=sasl_port, module=MODULE)
            brokers[1].configure(properties + listeners)
        await asyncio.to_thread(brokers.start)
        await until(lambda: server.active.table.brokers.live.sum() == 1)
        yield zookeeper, brokers, connection, server


async def until(condition: Callable[[], Any]) -> None:
    while not condition():
        await asyncio.sleep(0.02)


def entry(
    name: str,
    operation: int,
    permission: int = ALLOW,
    *,
    kind: int = TOPIC,
    pattern: int = LITERAL,
    who: str = ANONYMOUS,
) -> AclCreation:
    return AclCreation(
        resource_type=kind,
        resource_name=name,
        resource_pattern_type=pattern,
        principal=who,
        host="*",
        operation=operation,
        permission_type=permission,
    )


async def create(connection: Connection, *rows: AclCreation) -> None:
    response = await connection.send(CreateAclsRequest(creations=[*rows]), 3)
    assert {(each.error_code, each.error_message) for each in response.results} == {(Errors.NONE, "")}


async def delete(connection: Connection, name: str) -> int:
    row = DeleteAclsFilter(
        resource_type_filter=TOPIC,
        resource_name_filter=name,
        pattern_type_filter=1,
        principal_filter=None,
        host_filter=None,
        operation=1,
        permission_type=1,
    )
    [found] = (await connection.send(DeleteAclsRequest(filters=[row]), 3)).filter_results
    assert found.error_code == Errors.NONE
    return len(found.matching_acls)


async def a_topic(connection: Connection) -> None:
    topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
    response = await connection.send(schema.CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7)
    assert [each.error_code for each in response.topics] == [Errors.NONE]


async def ask(port: int, request: Message, version: int) -> Any:
    async with await connect("127.0.0.1", port, limits=PATIENT) as connection:
        return await connection.send(request, version)


async def produced(port: int) -> Errors:
    data = PartitionProduceData(index=0, records=building.batch(0, [b"a"]))
    request = ProduceRequest(acks=1, timeout_ms=5_000, topic_data=[TopicProduceData(name="t", partition_data=[data])])
    response = await ask(port, request, 9)
    return Errors(response.responses[0].partition_responses[0].error_code)


async def comes_to(port: int, error: Errors) -> None:
    """A producer's answers become this one."""
    while (found := await produced(port)) is not error:
        retriable = (Errors.NOT_LEADER_OR_FOLLOWER, Errors.UNKNOWN_TOPIC_OR_PARTITION)
        assert found in (Errors.NONE, Errors.TOPIC_AUTHORIZATION_FAILED, *retriable)
        await asyncio.sleep(0.05)


@story
async def test_a_producer_gets_and_loses_its_right() -> None:
    async with cluster(has_authorizer=True) as (_, brokers, connection, _):
        await a_topic(connection)
        port = brokers[1].port
        await comes_to(port, Errors.TOPIC_AUTHORIZATION_FAILED)
        await create(connection, entry("t", WRITE))
        await comes_to(port, Errors.NONE)
        await create(connection, entry("t", WRITE, DENY, pattern=PREFIXED))
        await comes_to(port, Errors.TOPIC_AUTHORIZATION_FAILED)
        assert await delete(connection, "t") == 2
        await create(connection, entry("*", WRITE))
        await comes_to(port, Errors.NONE)


@story
async def test_acls_lie_in_zookeeper_as_a_broker_writes_them(tmp_path: Path) -> None:
    """The same entries made through kcore and through a broker: the same bytes, notes included."""
    async with cluster(has_authorizer=True) as (zookeeper, brokers, connection, _):
        for name, who in (("ours", connection), ("theirs", None)):
            rows = [
                *(entry(name, operation, who="User:al ice") for operation in (READ, DESCRIBE)),
                entry(name, WRITE, DENY, who="User:CN=b,O=c"),
                entry(name, 11, pattern=PREFIXED),
            ]
            if who is not None:
                await create(connection, *rows)
            else:
                response = await ask(brokers[1].port, CreateAclsRequest(creations=rows), 3)
                assert {each.error_code for each in response.results} == {0}
        async with ZookeeperClient(zookeeper.address) as client:
            for pattern in (LITERAL, PREFIXED):
                paths = [resource_path((TOPIC, pattern, name)) for name in ("ours", "theirs")]
                ours, theirs = await client.read_nodes(paths)
                assert ours is not None and theirs is not None and ours.data == theirs.data
                [names] = await client.read_children([CHANGES[pattern]])
                notes = await client.read_nodes([f"{CHANGES[pattern]}/{name}" for name in sorted(names or ())])
                texts = [node.data for node in notes if node is not None]
                assert texts[-2].replace(b"ours", b"theirs") == texts[-1]
        printed = await asyncio.to_thread(
            run_tool, ACL_COMMAND, "--bootstrap-server", brokers[1].address, "--list", "--topic", "ours"
        )
        assert "al ice" in printed and "permissionType=DENY" in printed
        assert await delete(connection, "theirs") == 4, "what the broker wrote is known here by its notes"


def quotas(entity: dict[str, str | None], **values: float | None) -> AlterClientQuotasRequest:
    entry = AlterClientQuotasRequestEntryData(
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()],
        ops=[OpData(key=key, value=value or 0.0, remove=value is None) for key, value in values.items()],
    )
    return AlterClientQuotasRequest(entries=[entry])


async def described_quotas(connection: Connection) -> set[tuple[Any, ...]]:
    response = await connection.send(DescribeClientQuotasRequest(components=[], strict=False), 1)
    assert response.error_code == Errors.NONE
    return {
        (
            tuple(sorted((part.entity_type, part.entity_name or "") for part in each.entity)),
            tuple(sorted((value.key, value.value) for value in each.values)),
        )
        for each in response.entries
    }


@story
async def test_a_producer_is_throttled_by_its_quota_and_no_longer_without() -> None:
    async with cluster() as (_, brokers, connection, _):
        await a_topic(connection)
        port = brokers[1].port
        await comes_to(port, Errors.NONE)

        async def throttled_ms() -> int:
            batch = building.batch(0, [b"a" * 1000])
            data = PartitionProduceData(index=0, records=batch)
            topic = TopicProduceData(name="t", partition_data=[data])
            response = await ask(port, ProduceRequest(acks=1, timeout_ms=5_000, topic_data=[topic]), 9)
            return int(response.throttle_time_ms)

        for value, is_throttled in ((200.0, True), (None, False)):
            response = await connection.send(quotas({"user": "ANONYMOUS"}, producer_byte_rate=value), 1)
            assert [each.error_code for each in response.entries] == [Errors.NONE]
            while (await throttled_ms() > 0) is not is_throttled:
                await asyncio.sleep(0.05)


@story
async def test_quotas_lie_in_zookeeper_as_a_broker_writes_them() -> None:
    async with cluster() as (zookeeper, brokers, connection, _):
        for name, port in (("our s*", None), ("their s*", brokers[1].port)):
            for request in (
                quotas({"user": name}, producer_byte_rate=1024.0, request_percentage=12.5),
                quotas({"user": name}, producer_byte_rate=None, controller_mutation_rate=12345678.9),
                quotas({"user": name, "client-id": "c/~"}, consumer_byte_rate=7.0),
                quotas({"client-id": name}, request_percentage=0.0001, consumer_byte_rate=3.0),
            ):
                response = await (connection.send(request, 1) if port is None else ask(port, request, 1))
                assert [each.error_code for each in response.entries] == [Errors.NONE]
        of_address = quotas({"ip": "127.0.0.1"}, connection_creation_rate=99.0)
        for request in (quotas({"user": None}, producer_byte_rate=2.0), of_address):
            response = await connection.send(request, 1)
            assert [each.error_code for each in response.entries] == [Errors.NONE]
        async with ZookeeperClient(zookeeper.address) as client:
            for path in ("users/{}", "users/{}/clients/c%2F%7E", "clients/{}"):
                paths = [f"/config/{path.format(sanitized(name))}" for name in ("our s*", "their s*")]
                ours, theirs = await client.read_nodes(paths)
                assert ours is not None and theirs is not None and ours.data == theirs.data, path
        async with await connect("127.0.0.1", brokers[1].port) as to_broker:
            assert await described_quotas(to_broker) == await described_quotas(connection)


MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
SASL = """listeners=PLAINTEXT://127.0.0.1:{plain},SASL_PLAINTEXT://127.0.0.1:{sasl}
advertised.listeners=PLAINTEXT://127.0.0.1:{plain},SASL_PLAINTEXT://127.0.0.1:{sasl}
sasl.enabled.mechanisms=SCRAM-SHA-256
listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config={module} required;
delegation.token.secret.key=a-key-of-the-cluster
"""


@story
async def test_a_user_of_scram_comes_in_and_sees_its_token_as_a_broker_writes_them() -> None:
    """Credentials and a token that kcore wrote are a broker's own; a token that the broker wrote looks the same."""
    options = {"delegation_token_secret_key": "a-key-of-the-cluster"}
    [sasl] = free_ports(1)
    async with cluster(config=options, sasl_port=sasl) as (zookeeper, _, connection, server):
        salted = hashlib.pbkdf2_hmac("sha256", b"secret", b"a salt of 16 B..", 4096)
        upsertion = ScramCredentialUpsertion(
            name="al ice", mechanism=1, iterations=4096, salt=b"a salt of 16 B..", salted_password=salted
        )
        response = await connection.send(AlterUserScramCredentialsRequest(upsertions=[upsertion], deletions=[]), 0)
        assert [each.error_code for each in response.results] == [Errors.NONE]
        security = Security(sasl=Sasl("SCRAM-SHA-256", "al ice", "secret"))
        for tried in range(MOST_TRIES):  # The broker reads the note when it gets to it.
            try:
                as_alice = await connect("127.0.0.1", sasl, security=security, limits=PATIENT)
                break
            except AuthenticationError:
                if tried == MOST_TRIES - 1:
                    raise
                await asyncio.sleep(0.1)
        async with as_alice, ZookeeperClient(zookeeper.address) as client:
            request = CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=-1)
            theirs = await as_alice.send(request, 3)
            assert theirs.error_code == Errors.NONE
            session = ClientSession("PLAINTEXT", "127.0.0.1")
            session.authenticated(KafkaPrincipal("al ice"))
            header = RequestHeader(request_api_version=3)
            context = RequestContext("a test", 0, header, session)
            ours: Any = await server._handlers._handle(context, request)
            assert ours.error_code == Errors.NONE
            nodes = await client.read_nodes([token_path(each.token_id) for each in (ours, theirs)])
            texts = [re.sub(rb"\d{13}", b"TIME", node.data) for node in nodes if node is not None]
            assert texts[0].replace(ours.token_id.encode(), b"ID") == texts[1].replace(theirs.token_id.encode(), b"ID")
            for _ in range(MOST_TRIES):
                seen = await as_alice.send(DescribeDelegationTokenRequest(owners=None), 3)
                if {each.token_id for each in seen.tokens} == {ours.token_id, theirs.token_id}:
                    break
                await asyncio.sleep(0.1)
            assert {each.hmac for each in seen.tokens} == {ours.hmac, theirs.hmac}
