"""A quorum of three KRaft controllers over SASL_SSL: authentication and authorization, with test certificates."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from random import Random
from typing import Any

import pytest

from kcore import schema as s
from kcore.constants import METADATA_TOPIC
from kcore.controller.kraft.activation import Bootstrap
from kcore.errors import AuthenticationError, DisconnectedError
from kcore.measure.processes.local_process import free_ports
from kcore.metadata.acl_codes import ALLOW, ALTER, CLUSTER, CLUSTER_ACTION, CLUSTER_NAME, CREATE, DESCRIBE
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.principal import KafkaPrincipal
from kcore.net.connect import connect
from kcore.net.connection import Connection
from kcore.net.request_context import ClientSession
from kcore.net.security.client_security import Sasl, Security
from kcore.net.security.jaas import MODULES
from kcore.protocol_errors import Errors
from kcore.raft.log.memory_log import MemoryLog
from kcore.raft.node import REQUEST_HANDLERS
from kcore.raft.raft_config import RaftConfig
from kcore.schema.acls import AclCreation
from kcore.schema.delegation_tokens import CreatableRenewers
from kcore.schema.describe_quorum import DescribeQuorumRequestPartitionData, DescribeQuorumRequestTopicData
from kcore.schema.metadata_records_security import DelegationTokenRecord
from kcore.schema.quotas import AlterClientQuotasRequest, AlterClientQuotasRequestEntryData, EntityData, OpData
from kcore.schema.scram import ScramCredentialUpsertion
from kcore.schema.structure import Message
from kcore.schema.topics import CreatableTopic
from kcore.scram import salted_password
from kcore.server.broker.forwarding import principal_bytes
from kcore.server.kraft_controller.kraft_controller_server import KraftServer
from kcore.server.kraft_controller.kraft_controller_settings import settings_of
from kcore.server.quorum_node.elections import MemoryElections
from kcore.server.security.log_credentials import LogCredentials
from kcore.types import Uuid
from kcore.wire.codec import decode_from
from net.authority import Authority, client_tls
from net.token_client import show_token
from server.kraft.test_kraft_server import enveloped

pytestmark = pytest.mark.usefixtures("either_answer_loop")

CLUSTER_ID = "a-cluster-of-the-tests"
IDS = (11, 12, 13)
PASSWORD = "swordfish"
PROPERTIES = """process.roles=controller
controller.quorum.voters={voters}
controller.listener.names=CONTROLLER
listeners=CONTROLLER://127.0.0.1:{port}
listener.security.protocol.map=CONTROLLER:{protocol}
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users={super_users}
delegation.token.secret.key=a secret
ssl.keystore.type=PEM
ssl.keystore.location={keystore}
ssl.truststore.type=PEM
ssl.truststore.location={trusted}
ssl.client.auth=required
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512
sasl.mechanism.controller.protocol=PLAIN
listener.name.controller.plain.sasl.jaas.config={plain} required username="controller" password="{password}" \
user_controller="{password}" user_admin="{password}";
listener.name.controller.scram-sha-256.sasl.jaas.config={scram} required;
listener.name.controller.scram-sha-512.sasl.jaas.config={scram} required;
"""
Story = Callable[[list[KraftServer], Authority], Awaitable[None]]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Authority]:
    yield Authority(tmp_path_factory.mktemp("authority"))


def properties(authority: Authority, protocol: str, super_users: str, node_id: int, ports: list[int]) -> dict[str, str]:
    """The properties of one controller."""
    text = PROPERTIES.format(
        voters=",".join(f"{each}@127.0.0.1:{port}" for each, port in zip(IDS, ports, strict=True)),
        port=ports[IDS.index(node_id)],
        protocol=protocol,
        super_users=super_users,
        keystore=authority.keystore(f"node-{node_id}"),
        trusted=authority.trusted,
        plain=MODULES["PLAIN"],
        scram=MODULES["SCRAM-SHA-256"],
        password=PASSWORD,
    )
    return dict(line.split("=", 1) for line in text.splitlines()) | {"node.id": str(node_id)}


def quorum(
    story: Story,
    authority: Authority,
    protocol: str = "SASL_SSL",
    super_users: str = "",
    running: tuple[int, ...] = IDS,
    extra: dict[str, str] | None = None,
) -> None:
    """The story of a quorum whose controllers have all registered, or of those of them that run."""

    async def run() -> None:
        ports = free_ports(len(IDS))
        async with AsyncExitStack() as stack, asyncio.timeout(60):
            servers = []
            for node_id in running:
                users = super_users or "User:controller;User:admin"
                settings = settings_of(properties(authority, protocol, users, node_id, ports) | (extra or {}))
                raft = RaftConfig(
                    CLUSTER_ID,
                    node_id,
                    Uuid(node_id.to_bytes(16)),
                    {settings.listener: settings.advertised},
                    Random(node_id).randrange,
                    voters=settings.voters,
                    listener=settings.listener,
                    **settings.raft,
                )
                server = KraftServer(
                    settings.controller_config(CLUSTER_ID, "4.3.1", frozenset()),
                    raft,
                    MemoryLog(),
                    MemoryElections(),
                    Bootstrap.of_features({"metadata.version": 30}, "a test"),
                    host="127.0.0.1",
                    port=ports[IDS.index(node_id)],
                    stop_ms=100,
                    security=settings.security,
                )
                servers.append(await stack.enter_async_context(server))
            while running == IDS and any({*server.controller.image.controllers} != {*IDS} for server in servers):
                await asyncio.sleep(0.01)
            await story(servers, authority)

    asyncio.run(run())


def active(servers: list[KraftServer]) -> KraftServer:
    [found] = [server for server in servers if server.controller.epoch is not None]
    return found


async def as_user(server: KraftServer, authority: Authority, mechanism: str, name: str, password: str) -> Connection:
    security = Security(client_tls(authority.trusted), Sasl(mechanism, name, password))
    return await connect("127.0.0.1", server.port, security=security)


async def make_user(admin: Connection, name: str) -> None:
    for code, mechanism in ((1, "SCRAM-SHA-256"), (2, "SCRAM-SHA-512")):
        salted = salted_password(mechanism, PASSWORD.encode(), bytes(16), 4096)
        upsertion = ScramCredentialUpsertion(
            name=name, mechanism=code, iterations=4096, salt=bytes(16), salted_password=salted
        )
        answer = await admin.send(s.AlterUserScramCredentialsRequest(upsertions=[upsertion]))
        assert [each.error_code for each in answer.results] == [0]


async def allow(admin: Connection, principal: str, operation: int) -> None:
    creation = AclCreation(
        resource_type=CLUSTER,
        resource_name=CLUSTER_NAME,
        resource_pattern_type=3,
        principal=principal,
        host="*",
        operation=operation,
        permission_type=ALLOW,
    )
    answer = await admin.send(s.CreateAclsRequest(creations=[creation]))
    assert [each.error_code for each in answer.results] == [0]


def create(name: str) -> Message:
    return s.CreateTopicsRequest(topics=[CreatableTopic(name=name, num_partitions=1, replication_factor=1)])


def raft_requests() -> list[Message]:
    """Requests of voters and observers, as an unauthorized client sends them."""
    described = s.DescribeQuorumRequest(
        topics=[
            DescribeQuorumRequestTopicData(
                topic_name=METADATA_TOPIC, partitions=[DescribeQuorumRequestPartitionData(partition_index=0)]
            )
        ]
    )
    return [described if kind is s.DescribeQuorumRequest else kind() for kind in REQUEST_HANDLERS]


def error_of(answer: Any) -> Errors:
    return Errors.of(answer.error_code)


def test_users_of_the_log_come_to_every_node_and_need_rights(authority: Authority) -> None:
    async def story(servers: list[KraftServer], authority: Authority) -> None:
        admin = await as_user(active(servers), authority, "PLAIN", "admin", PASSWORD)
        async with admin:
            registered = active(servers).controller.image.controllers[IDS[0]]
            assert [each.security_protocol for each in registered.end_points] == [3]
            await make_user(admin, "alice")
            while any((2, "alice") not in each.controller.image.scram for each in servers):
                await asyncio.sleep(0.01)
            for server in servers:
                for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
                    async with await as_user(server, authority, mechanism, "alice", PASSWORD) as connection:
                        assert connection.versions is not None
                async with await as_user(server, authority, "PLAIN", "admin", PASSWORD) as connection:
                    response = await connection.send(s.DescribeClusterRequest(endpoint_type=2))
                    assert response.controller_id == active(servers).controller.config.node.node_id, "whoever is asked"
                with pytest.raises(AuthenticationError, match="invalid credentials with SASL mechanism SCRAM-SHA-512"):
                    await as_user(server, authority, "SCRAM-SHA-512", "alice", "wrong")
                with pytest.raises(AuthenticationError, match="Invalid username or password"):
                    await as_user(server, authority, "PLAIN", "alice", PASSWORD)
            async with await as_user(active(servers), authority, "SCRAM-SHA-512", "alice", PASSWORD) as alice:
                answer = await alice.send(create("t"))
                assert answer.topics[0].error_code == Errors.TOPIC_AUTHORIZATION_FAILED
                await allow(admin, "User:alice", CREATE)
                answer = await alice.send(create("t"))
                assert answer.topics[0].error_code == Errors.INVALID_REPLICATION_FACTOR, "no broker is there"

    quorum(story, authority)


def test_a_stranger_is_no_voter(authority: Authority) -> None:
    """Raft's requests need CLUSTER_ACTION, or another right of the cluster."""

    async def story(servers: list[KraftServer], authority: Authority) -> None:
        leader = active(servers)
        epoch = leader.node.epoch
        async with await as_user(leader, authority, "PLAIN", "admin", PASSWORD) as admin:
            await make_user(admin, "mallory")
            async with await as_user(leader, authority, "SCRAM-SHA-256", "mallory", PASSWORD) as mallory:
                for request in raft_requests():
                    answer = await mallory.send(request)
                    assert error_of(answer) is Errors.CLUSTER_AUTHORIZATION_FAILED, type(request).__name__
                refused = [s.DescribeQuorumRequest, s.AddRaftVoterRequest, s.RemoveRaftVoterRequest]
                for right, allowed in (
                    (CLUSTER_ACTION, [s.VoteRequest]),
                    (DESCRIBE, refused[:1]),
                    (ALTER, refused[1:]),
                ):
                    await allow(admin, "User:mallory", right)
                    refused = [each for each in refused if each not in allowed]
                    for kind in (*allowed, *refused):
                        [request] = [each for each in raft_requests() if isinstance(each, kind)]
                        found = error_of(await mallory.send(request))
                        assert (found is Errors.CLUSTER_AUTHORIZATION_FAILED) is (kind in refused), kind.__name__
        assert active(servers) is leader and leader.node.epoch == epoch

    quorum(story, authority)


@pytest.mark.parametrize("allows_others", [True, False])
def test_who_is_not_known_yet_is_neither_refused_nor_let_in(authority: Authority, allows_others: bool) -> None:
    """One of three voters knows neither users nor ACLs: both are in a log whose end no leader has told it."""

    async def story(servers: list[KraftServer], authority: Authority) -> None:
        [alone] = servers
        assert not alone.has_loaded()
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            with pytest.raises(DisconnectedError):  # No AuthenticationError: that is final.
                await as_user(alone, authority, mechanism, "alice", PASSWORD)
        for request in (*raft_requests(), s.DescribeAclsRequest(), create("t"), s.EnvelopeRequest()):
            async with await as_user(alone, authority, "PLAIN", "guest", PASSWORD) as guest:
                with pytest.raises(DisconnectedError):
                    await guest.send(request)
        async with await as_user(alone, authority, "PLAIN", "admin", PASSWORD) as admin:
            answer = await admin.send(create("t"))
            assert answer.topics[0].error_code == Errors.NOT_CONTROLLER

    plain = MODULES["PLAIN"]
    users = (
        f'{plain} required username="controller" password="{PASSWORD}" user_admin="{PASSWORD}" user_guest="{PASSWORD}";'
    )
    extra = {
        "listener.name.controller.plain.sasl.jaas.config": users,
        "allow.everyone.if.no.acl.found": str(allows_others).lower(),
    }
    quorum(story, authority, running=IDS[:1], extra=extra)


def test_requests_without_authentication_or_without_tls_are_refused(authority: Authority) -> None:
    async def story(servers: list[KraftServer], authority: Authority) -> None:
        async with await connect(
            "127.0.0.1", servers[0].port, security=Security(client_tls(authority.trusted))
        ) as known:
            with pytest.raises(DisconnectedError):
                await known.send(s.VoteRequest())
        with pytest.raises((DisconnectedError, AuthenticationError)):
            await connect("127.0.0.1", servers[0].port)

    quorum(story, authority)


def test_a_delegation_token_is_made_over_sasl_and_makes_no_other(authority: Authority) -> None:
    async def story(servers: list[KraftServer], authority: Authority) -> None:
        leader = active(servers)
        async with await as_user(leader, authority, "PLAIN", "admin", PASSWORD) as admin:
            asked = s.CreateDelegationTokenRequest(
                renewers=[CreatableRenewers(principal_type="User", principal_name="admin")], max_lifetime_ms=-1
            )
            made = await admin.send(asked)
            assert error_of(made) is Errors.NONE
            connection = await connect("127.0.0.1", leader.port, security=Security(client_tls(authority.trusted)))
            async with connection:
                expires = await show_token(connection, made.token_id, made.hmac)
                assert 0 < expires <= 24 * 3600 * 1000
                answer = await connection.send(create("t"))
                assert answer.topics[0].error_code == Errors.INVALID_REPLICATION_FACTOR, "its owner is a super user"
                again = await connection.send(asked)
                assert error_of(again) is Errors.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED

    quorum(story, authority)


def test_quotas_of_addresses_hold_at_every_controller(authority: Authority) -> None:
    """connection_creation_rate of AlterClientQuotas (KIP-612)."""

    async def story(servers: list[KraftServer], authority: Authority) -> None:
        async with await as_user(active(servers), authority, "PLAIN", "admin", PASSWORD) as admin:
            for name, rate in ((None, 500.0), ("localhost", 600.0), ("10.0.0.1", 7.0)):
                entity = [EntityData(entity_type="ip", entity_name=name)]
                change = OpData(key="connection_creation_rate", value=rate)
                entry = AlterClientQuotasRequestEntryData(entity=entity, ops=[change])
                answer = await admin.send(AlterClientQuotasRequest(entries=[entry]))
                assert [each.error_code for each in answer.entries] == [0]
        for server in servers:
            assert server.handlers._server is not None
            rate_of = server.handlers._server.acceptor.quotas._rate_of
            while (rate_of("10.0.0.2"), rate_of("127.0.0.1"), rate_of("10.0.0.1")) != (500, 600, 7):
                await asyncio.sleep(0.01)

    quorum(story, authority)


def test_a_token_authenticates_its_owner_where_the_key_is_known() -> None:
    image = ClusterImage()
    image.apply(DelegationTokenRecord(owner="User:a:b", requester="User:c", token_id="id", expiration_timestamp=7))
    assert LogCredentials(lambda: image, None, lambda: True).token("id") is None
    known = LogCredentials(lambda: image, "a secret", lambda: True)
    found = known.token("id")
    assert found is not None and (found.owner, found.expiration_ms) == (KafkaPrincipal("a:b"), 7)
    assert known.token("another") is None
    assert known.scram("SCRAM-SHA-256", "a") is None


def test_certificates_alone_make_principals(authority: Authority) -> None:
    """ssl.client.auth=required without SASL: the controllers are super users by the subjects of their certificates."""

    async def story(servers: list[KraftServer], authority: Authority) -> None:
        leader = active(servers)
        stranger = Security(client_tls(authority.trusted, authority.keystore("stranger")))
        async with await connect("127.0.0.1", leader.port, security=stranger) as connection:
            assert error_of(await connection.send(s.VoteRequest())) is Errors.CLUSTER_AUTHORIZATION_FAILED
        broker = Security(client_tls(authority.trusted, authority.keystore(f"node-{IDS[0]}")))
        async with await connect("127.0.0.1", leader.port, security=broker) as connection:
            envelope = enveloped(s.CreateDelegationTokenRequest(max_lifetime_ms=-1), 3)
            envelope.request_principal = principal_bytes(ClientSession("L", "10.0.0.1"))
            response = await connection.send(envelope)
            _, at = decode_from(s.ResponseHeader, 1, response.response_data)
            inner, _ = decode_from(s.CreateDelegationTokenResponse, 3, response.response_data, at)
            error = Errors.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
            assert error_of(inner) is error, "of a client that showed no certificate, over TLS"

    quorum(story, authority, "SSL", ";".join(f"User:CN=node-{each},OU=tests,O=kcore" for each in IDS))
