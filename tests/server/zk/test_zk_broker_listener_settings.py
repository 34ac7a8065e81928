"""Listeners, authentication and rights at ZooKeeper-mode brokers: users, tokens and ACLs in znodes."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from kcore import schema as s
from kcore.errors import AuthenticationError, DisconnectedError
from kcore.metadata.acl_codes import (
    ALLOW,
    ALTER_CONFIGS,
    CLUSTER,
    CLUSTER_NAME,
    CREATE,
    DESCRIBE,
    DESCRIBE_CONFIGS,
    LITERAL,
    READ,
    TOPIC,
    WRITE,
)
from kcore.metadata.principal import KafkaPrincipal, Token
from kcore.metadata.zookeeper import znode_acls, znode_tokens, znodes
from kcore.metadata.zookeeper.znode_acls import AclBinding
from kcore.metadata.zookeeper.znode_brokers import decode_broker
from kcore.net.connect import connect
from kcore.net.connection import Connection
from kcore.net.security.client_security import Sasl, Security
from kcore.net.security.jaas import MODULES
from kcore.node.tokens import secret_of
from kcore.node.zk.admin.scram import credential_of
from kcore.protocol_errors import Errors
from kcore.schema.acls import AclCreation, DeleteAclsFilter
from kcore.schema.cluster_metadata import MetadataRequestTopic
from kcore.schema.quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    DescribeClientQuotasRequest,
    EntityData,
    OpData,
)
from kcore.schema.scram import ScramCredentialUpsertion
from kcore.scram import salted_password
from kcore.server.broker.topic_creation import OrdinaryTopics
from kcore.server.properties.values import SettingsError
from kcore.server.zk_broker.zk_broker_listener_settings import ZkBrokerListenerSettings, zk_broker_listener_settings
from kcore.storage.properties import parse_properties
from net.authority import Authority, client_tls
from net.loops import story, until
from net.token_client import show_token
from server.broker.test_broker_listeners import NO_CLUSTER, NO_TOPIC, fetch, first_error, produce
from server.replicas import CONTROLLER, Brokers
from server.zk.test_control_request_authorization import order

PASSWORD = "swordfish"
KEY = "a secret"
PROPERTIES = """broker.id=1
zookeeper.connect=nowhere
listeners=SECURE://127.0.0.1:0,CLIENTS://127.0.0.1:0,CONTROL://127.0.0.1:0
listener.security.protocol.map=SECURE:SASL_SSL,CLIENTS:SASL_PLAINTEXT,CONTROL:SSL
inter.broker.listener.name=SECURE
control.plane.listener.name=CONTROL
authorizer.class.name=kafka.security.authorizer.AclAuthorizer
super.users=User:broker;User:CN=controller,OU=tests,O=kcore
delegation.token.secret.key={key}
delegation.token.max.lifetime.ms=120000
delegation.token.expiry.time.ms=60000
ssl.keystore.type=PEM
ssl.keystore.location={keystore}
ssl.truststore.type=PEM
ssl.truststore.location={trusted}
listener.name.control.ssl.client.auth=required
sasl.enabled.mechanisms=SCRAM-SHA-256
sasl.mechanism.inter.broker.protocol=SCRAM-SHA-256
listener.name.secure.scram-sha-256.sasl.jaas.config={scram} required username="broker" password="{password}";
listener.name.clients.scram-sha-256.sasl.jaas.config={scram} required;
"""
EVERY_ACL: dict[str, Any] = {
    **{"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1},
    **{"resource_name_filter": None, "principal_filter": None, "host_filter": None},
}
CREATION = s.CreateAclsRequest(
    creations=[
        AclCreation(
            resource_type=TOPIC,
            resource_name="t",
            resource_pattern_type=LITERAL,
            principal="User:alice",
            host="*",
            operation=WRITE,
            permission_type=ALLOW,
        )
    ]
)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


def properties(authority: Authority, **others: str) -> dict[str, str]:
    text = PROPERTIES.format(
        key=KEY,
        keystore=authority.keystore("broker"),
        trusted=authority.trusted,
        scram=MODULES["SCRAM-SHA-256"],
        password=PASSWORD,
    )
    return parse_properties(text.encode()) | {name.replace("_", "."): value for name, value in others.items()}


def user() -> bytes:
    """The znode of one with that password."""
    salted = salted_password("SCRAM-SHA-256", PASSWORD.encode(), bytes(16), 4096)
    upsertion = ScramCredentialUpsertion(name="", mechanism=1, iterations=4096, salt=bytes(16), salted_password=salted)
    return znodes.encode_config({"SCRAM-SHA-256": credential_of(upsertion)})


@asynccontextmanager
async def brokers_in(
    folder: Path, authority: Authority, listener_settings: ZkBrokerListenerSettings | None = None
) -> AsyncIterator[Brokers]:
    """Ordered by a controller that shows a certificate at their control plane."""
    async with AsyncExitStack() as stack:
        brokers = Brokers(stack, folder)
        for name in ("broker", "alice"):
            brokers.tree.nodes[f"{znodes.CONFIG}/users/{name}"] = user(), 0, 0, 0
        brokers.protocol, brokers.orders = 3, "CONTROL"
        brokers.security = Security(client_tls(authority.trusted, authority.keystore("controller")))
        listener_settings = listener_settings or zk_broker_listener_settings(properties(authority))
        await brokers.open(server={"listener_settings": listener_settings, "ordinary_topics": OrdinaryTopics()})
        try:
            yield brokers
        finally:
            for server in brokers.servers.values():
                server.runtime.manager.cluster.controller_id = -1  # No server would answer the controlled shutdown.


async def as_user(
    brokers: Brokers, authority: Authority, name: str, listener: str = "SECURE", password: str = PASSWORD
) -> Connection:
    sasl = Sasl("SCRAM-SHA-256", name, password)
    security = Security(client_tls(authority.trusted), sasl) if listener == "SECURE" else Security(sasl=sasl)
    return await connect("127.0.0.1", brokers.servers[1].listening.ports[listener], security=security)


async def allow(brokers: Brokers, operation: int, kind: int = CLUSTER, name: str = CLUSTER_NAME) -> None:
    """Alice has that right of the resource from now on, and no other."""
    resource = kind, LITERAL, name
    right = AclBinding(*resource, "User:alice", "*", operation, ALLOW)
    change = f"{znode_acls.CHANGES[LITERAL]}/acl_changes_{len(brokers.tree.nodes):010}"
    brokers.tree.nodes[znode_acls.resource_path(resource)] = znode_acls.encode_acls([right]), 0, 0, 0
    brokers.tree.nodes[change] = znode_acls.encode_acl_change(resource), 0, 0, 0
    brokers.tree.fire(znode_acls.CHANGES[LITERAL])
    await until(lambda: all(right in [*each.watched.acls.of_pattern(resource)] for each in brokers.servers.values()))


@story
async def test_the_znode_names_each_listener_with_its_protocol(tmp_path: Path, authority: Authority) -> None:
    async with brokers_in(tmp_path, authority) as brokers:
        found = decode_broker(1, brokers.tree.nodes[znodes.broker_path(1)][0]).endpoints
        ports = brokers.servers[1].listening.ports
        assert {each.listener: (each.port, each.security_protocol) for each in found} == {
            "SECURE": (ports["SECURE"], 3),
            "CLIENTS": (ports["CLIENTS"], 2),
            "CONTROL": (ports["CONTROL"], 1),
        }


@story
async def test_users_of_znodes_come_and_need_rights_and_replicas_follow(tmp_path: Path, authority: Authority) -> None:
    async with brokers_in(tmp_path, authority) as brokers:
        await brokers.elect(1)
        for listener in ("SECURE", "CLIENTS"):
            async with await as_user(brokers, authority, "alice", listener) as alice:
                assert first_error(await alice.send(produce(), 9)) is NO_TOPIC
                assert first_error(await alice.send(fetch(2), 12)) is NO_TOPIC
            with pytest.raises(AuthenticationError, match="invalid credentials"):
                await as_user(brokers, authority, "alice", listener, "wrong")
        await allow(brokers, WRITE, TOPIC, "t")
        async with await as_user(brokers, authority, "alice") as alice:
            assert first_error(await alice.send(produce(), 9)) is Errors.NONE, "both have it"
            assert first_error(await alice.send(fetch(), 12)) is NO_TOPIC
        assert brokers.servers[2].runtime.manager.partitions["t", 0].log.end_offset == 1
        await allow(brokers, READ, TOPIC, "t")
        async with await as_user(brokers, authority, "alice") as alice:
            assert first_error(await alice.send(fetch(), 12)) is Errors.NONE


@story
async def test_control_requests_need_the_control_plane_and_the_right(tmp_path: Path, authority: Authority) -> None:
    async with brokers_in(tmp_path, authority) as brokers:
        async with await as_user(brokers, authority, "broker") as other:
            response = await other.send(order(CONTROLLER, 1), 7)
            assert response.error_code == NO_CLUSTER, "a super user, at another listener"
        port = brokers.servers[1].listening.ports["CONTROL"]
        stranger = Security(client_tls(authority.trusted, authority.keystore("stranger")))
        async with await connect("127.0.0.1", port, security=stranger) as connection:
            assert (await connection.send(order(CONTROLLER, 1), 7)).error_code == NO_CLUSTER
        assert brokers.servers[1].control.controller_epoch == 0
        assert (await brokers.ask(1, order(CONTROLLER, 1), 7)).error_code == 0


@story
async def test_changes_of_settings_acls_and_quotas_need_rights(tmp_path: Path, authority: Authority) -> None:
    setting = s.configs.IncrementalAlterConfigsRequestAlterableConfig(
        name="retention.ms", config_operation=0, value="1"
    )
    resource = s.configs.IncrementalAlterConfigsRequestAlterConfigsResource(
        resource_type=2, resource_name="t", configs=[setting]
    )
    change = s.IncrementalAlterConfigsRequest(resources=[resource])
    scram = s.DescribeUserScramCredentialsRequest(users=None)
    of_quotas, quota = DescribeClientQuotasRequest(components=[]), quota_of(1024.0)
    description, deletion = (
        s.DescribeAclsRequest(**EVERY_ACL),
        s.DeleteAclsRequest(filters=[DeleteAclsFilter(**EVERY_ACL)]),
    )
    async with brokers_in(tmp_path, authority) as brokers:
        await brokers.elect(1)
        async with await as_user(brokers, authority, "alice") as alice:
            assert first_error(await alice.send(change)) is NO_TOPIC
            for request in (scram, CREATION, deletion, description, of_quotas, quota):
                assert first_error(await alice.send(request)) is NO_CLUSTER, request
        await allow(brokers, ALTER_CONFIGS, TOPIC, "t")
        await allow(brokers, DESCRIBE)
        async with await as_user(brokers, authority, "alice") as alice:
            assert first_error(await alice.send(change)) is not NO_TOPIC
            assert first_error(await alice.send(scram)) is Errors.NONE
            assert (await alice.send(description)).error_code == 0
        await allow(brokers, ALTER_CONFIGS)
        async with await as_user(brokers, authority, "alice") as alice:
            assert first_error(await alice.send(quota)) is Errors.NONE
        await allow(brokers, DESCRIBE_CONFIGS)
        async with await as_user(brokers, authority, "alice") as alice:
            [entry] = (await alice.send(of_quotas)).entries
            assert [(each.key, each.value) for each in entry.values] == [("producer_byte_rate", 1024.0)]
        assert znodes.decode_config("", brokers.tree.nodes["/config/users/u"][0]) == {"producer_byte_rate": "1024"}


@story
async def test_acls_that_a_broker_writes_count_there_and_at_the_others(tmp_path: Path, authority: Authority) -> None:
    async with brokers_in(tmp_path, authority) as brokers:
        await brokers.elect(1)
        async with await as_user(brokers, authority, "broker") as admin:
            assert first_error(await admin.send(CREATION)) is Errors.NONE
            brokers.tree.fire(znode_acls.CHANGES[LITERAL])
            async with await as_user(brokers, authority, "alice") as alice:
                assert first_error(await alice.send(produce(), 9)) is Errors.NONE
            resource = TOPIC, LITERAL, "t"
            await until(lambda: [*brokers.servers[2].watched.acls.of_pattern(resource)])
            [response] = (await admin.send(s.DescribeAclsRequest(**EVERY_ACL))).resources
            assert (response.resource_name, [each.principal for each in response.acls]) == ("t", ["User:alice"])
            gone = DeleteAclsFilter(**EVERY_ACL)
            [deleted] = (await admin.send(s.DeleteAclsRequest(filters=[gone]))).filter_results
            assert len(deleted.matching_acls) == 1
            async with await as_user(brokers, authority, "alice") as alice:
                assert first_error(await alice.send(produce(), 9)) is NO_TOPIC
            unknown = DeleteAclsFilter(**EVERY_ACL | {"resource_type_filter": 0})
            with pytest.raises(DisconnectedError):  # No request at all: of no known type.
                await admin.send(s.DeleteAclsRequest(filters=[unknown]))


def quota_of(rate: float) -> AlterClientQuotasRequest:
    entity, operation = EntityData(entity_type="user", entity_name="u"), OpData(key="producer_byte_rate", value=rate)
    return AlterClientQuotasRequest(entries=[AlterClientQuotasRequestEntryData(entity=[entity], ops=[operation])])


@story
async def test_tokens_are_made_renewed_shown_and_ended(tmp_path: Path, authority: Authority) -> None:
    """At any broker, in znodes that have no secret: broker 2 works it out, too."""
    create = s.CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=-1)
    describe = s.DescribeDelegationTokenRequest(owners=None)
    of_broker = s.CreateDelegationTokenRequest(
        owner_principal_type="User", owner_principal_name="broker", renewers=[], max_lifetime_ms=-1
    )
    async with brokers_in(tmp_path, authority) as brokers:
        async with await as_user(brokers, authority, "alice") as alice:
            refused = await alice.send(of_broker)
            assert first_error(refused) is Errors.DELEGATION_TOKEN_AUTHORIZATION_FAILED
            assert (refused.principal_name, refused.token_requester_principal_name) == ("broker", "alice")
            made = await alice.send(create)
            assert (made.error_code, made.principal_name) == (0, "alice")
            assert (
                made.max_timestamp_ms - made.issue_timestamp_ms
                == 2 * made.expiry_timestamp_ms - 2 * made.issue_timestamp_ms
            )
            path = znode_tokens.token_path(made.token_id)
            assert b"hmac" not in brokers.tree.nodes[path][0]
            renewed = await alice.send(s.RenewDelegationTokenRequest(hmac=made.hmac, renew_period_ms=90_000))
            assert (renewed.error_code, renewed.expiry_timestamp_ms > made.expiry_timestamp_ms) == (0, True)
            brokers.tree.fire(znode_tokens.CHANGES)
        ports = brokers.servers[2].listening.ports
        security = Security(client_tls(authority.trusted), Sasl("SCRAM-SHA-256", "broker", PASSWORD))
        async with await connect("127.0.0.1", ports["SECURE"], security=security) as admin:
            [response] = (await admin.send(describe)).tokens  # A super user sees all.
            assert (response.token_id, response.hmac, response.principal_name) == (made.token_id, made.hmac, "alice")
            expire = s.ExpireDelegationTokenRequest(hmac=made.hmac, expiry_time_period_ms=-1)
            assert first_error(await admin.send(expire)) is Errors.DELEGATION_TOKEN_OWNER_MISMATCH
        await until(lambda: brokers.servers[1].watched.users.token(made.token_id))
        security = Security(client_tls(authority.trusted))
        port = brokers.servers[1].listening.ports["SECURE"]
        async with await connect("127.0.0.1", port, security=security) as bearer:
            await show_token(bearer, made.token_id, made.hmac)
            for request in (create, describe, expire):
                assert first_error(await bearer.send(request)) is Errors.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        async with await as_user(brokers, authority, "alice") as alice:
            assert first_error(await alice.send(expire)) is Errors.NONE
            assert (await alice.send(describe)).tokens == []
        assert path not in brokers.tree.nodes


@story
async def test_a_broker_that_migrates_leaves_tokens_to_the_controller(tmp_path: Path, authority: Authority) -> None:
    """Writes while the quorum's controller reads the znodes would be lost, so they are refused as in Kafka."""
    async with brokers_in(tmp_path, authority) as brokers:
        handlers: Any = brokers.servers[1].handlers.mode
        handlers._security = handlers._security._replace(migrates=True)
        async with await as_user(brokers, authority, "alice") as alice:
            create = s.CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=-1)
            assert first_error(await alice.send(create)) is Errors.NOT_CONTROLLER
            assert first_error(await alice.send(s.DescribeDelegationTokenRequest(owners=None))) is Errors.NONE


@story
async def test_a_client_without_the_right_creates_no_topic(tmp_path: Path, authority: Authority) -> None:
    """The controller takes the request for the broker's, which may make every topic."""
    request = s.MetadataRequest(topics=[MetadataRequestTopic(name="new")])
    async with brokers_in(tmp_path, authority) as brokers:
        await allow(brokers, DESCRIBE, TOPIC, "new")
        async with await as_user(brokers, authority, "alice") as alice:
            assert first_error(await alice.send(request, 9)) is NO_TOPIC
            assert brokers.servers[1].runtime.requests.topic_creation._in_flight == set()
        await allow(brokers, CREATE)
        async with await as_user(brokers, authority, "alice") as alice:
            assert first_error(await alice.send(request, 9)) is Errors.UNKNOWN_TOPIC_OR_PARTITION
            assert brokers.servers[1].runtime.requests.topic_creation._in_flight == {"new"}


@story
async def test_a_token_of_a_znode_is_its_owner(tmp_path: Path, authority: Authority) -> None:
    owner = KafkaPrincipal("alice", "User")
    token = Token("t1", owner, owner, (), 0, 2**62, 2**62)
    async with brokers_in(tmp_path, authority) as brokers:
        await brokers.elect(1)
        brokers.tree.nodes[znode_tokens.token_path("t1")] = znode_tokens.encode_token(token), 0, 0, 0
        note = f"{znode_tokens.CHANGES}/token_change_0000000001"
        brokers.tree.nodes[note] = b"t1", 0, 0, 0
        brokers.tree.fire(znode_tokens.CHANGES)
        await until(lambda: brokers.servers[1].watched.users.token("t1"))
        port, security = brokers.servers[1].listening.ports["SECURE"], Security(client_tls(authority.trusted))
        async with await connect("127.0.0.1", port, security=security) as connection:
            await show_token(connection, "t1", secret_of(KEY.encode(), "t1"))
            assert first_error(await connection.send(produce(), 9)) is NO_TOPIC


@pytest.mark.parametrize(
    ("name", "value", "response"),
    [
        ("control.plane.listener.name", "OTHER", "it is not among the listeners"),
        ("control.plane.listener.name", "SECURE", "it must differ from the inter-broker listener"),
        ("inter.broker.listener.name", "OTHER", "OTHER: it is not among the listeners"),
        ("security.inter.broker.protocol", "SSL", "give either"),
        ("listeners", "SECURE://:1,SECURE://:2", "SECURE is there twice"),
        ("listeners", "SECURE://:1,CLIENTS://:1", "a different port"),
        ("listeners", "SECURE", "give NAME://HOST:PORT"),
        ("listeners", "SECURE://:1,NEW://:2", "give NEW one of"),
        ("advertised.listeners", "SECURE://a:1,OTHER://b:2", "OTHER is not among the listeners"),
        ("advertised.listeners", "SECURE://0.0.0.0:1", "nobody can connect to 0.0.0.0"),
        ("advertised.listeners", "CLIENTS://a:1", "SECURE: it is not among the advertised.listeners"),
        ("sasl.mechanism.inter.broker.protocol", "GSSAPI", "kcore has PLAIN"),
        ("authorizer.class.name", "com.example.Mine", "supports only kafka.security.authorizer.AclAuthorizer"),
    ],
)
def test_an_invalid_setting_is_reported_in_one_line(authority: Authority, name: str, value: str, response: str) -> None:
    with pytest.raises(SettingsError) as raised:
        zk_broker_listener_settings(properties(authority) | {name: value})
    shown = str(raised.value)
    assert response in shown and "\n" not in shown and PASSWORD not in shown and KEY not in shown


def test_no_secret_is_shown(authority: Authority) -> None:
    listener_settings: Any = zk_broker_listener_settings(properties(authority))
    assert PASSWORD not in repr(listener_settings) + repr(listener_settings.listeners) and KEY not in repr(
        listener_settings
    )
