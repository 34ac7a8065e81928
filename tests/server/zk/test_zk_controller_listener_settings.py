"""A controller of ZooKeeper mode over SASL_SSL: users and tokens in ZooKeeper, brokers that authenticate it."""

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from kcore import schema as s
from kcore.controller.zk.zk_controller_config import ControllerConfig
from kcore.errors import AuthenticationError, DisconnectedError, NetworkError
from kcore.metadata.principal import KafkaPrincipal, Token
from kcore.metadata.table.broker_table import Endpoint
from kcore.metadata.zookeeper import znode_tokens, znodes
from kcore.metadata.zookeeper.znode_operations import Create
from kcore.net.connect import connect
from kcore.net.connection import Connection
from kcore.net.security.client_security import Sasl, Security
from kcore.net.security.jaas import MODULES
from kcore.net.security.sasl_mechanisms import PlainUsers
from kcore.net.security.sasl_server import SaslListener
from kcore.net.security.tls import TlsContext, TlsSettings
from kcore.node.zk.acls import acl_authorizer_settings
from kcore.protocol_errors import Errors
from kcore.schema.delegation_tokens import CreatableRenewers
from kcore.schema.find_coordinator import Coordinator
from kcore.schema.quotas import AlterClientQuotasRequest, AlterClientQuotasRequestEntryData, EntityData, OpData
from kcore.schema.scram import ScramCredentialUpsertion
from kcore.schema.topics import CreatableTopic
from kcore.scram import salted_password
from kcore.server.properties.values import SettingsError
from kcore.server.zk_controller.zk_controller_listener_settings import ZkControllerSettings, zk_controller_settings
from kcore.server.zk_controller.zk_controller_server import ControllerServer
from kcore.server.zk_node.credentials import ZkCredentials, credential_in
from net.authority import Authority, client_tls
from net.limits.test_muting import muted
from net.loops import story, until
from net.token_client import show_token
from server.brokers import APIS, FakeBroker
from server.security.test_request_quotas import stop_the_clocks
from server.zookeepers import Client, Zookeeper, stand_in

US, BROKER = 1000, 1
PASSWORD = "swordfish"
SASL_SSL = 3
PROPERTIES = """broker.id=7
log.dirs=/nowhere
zookeeper.connect=nowhere
inter.broker.listener.name=SECURE
listeners=SECURE://:9092
listener.security.protocol.map=SECURE:SASL_SSL,CONTROL:SASL_SSL,PLAINTEXT:PLAINTEXT
authorizer.class.name=kafka.security.authorizer.AclAuthorizer
super.users=User:admin
delegation.token.secret.key=a secret
ssl.keystore.type=PEM
ssl.keystore.location={keystore}
ssl.truststore.type=PEM
ssl.truststore.location={trusted}
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512
sasl.mechanism.inter.broker.protocol=PLAIN
listener.name.secure.plain.sasl.jaas.config={plain} required username="controller" password="{password}" \
user_admin="{password}";
listener.name.secure.scram-sha-256.sasl.jaas.config={scram} required;
listener.name.secure.scram-sha-512.sasl.jaas.config={scram} required;
listener.name.control.plain.sasl.jaas.config={plain} required username="commander" password="{password}";
listener.name.control.scram-sha-256.sasl.jaas.config={scram} required;
listener.name.control.scram-sha-512.sasl.jaas.config={scram} required;
"""
SCRAM_USER = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(autouse=True)
def zookeeper_of_dicts(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch)


def properties(authority: Authority, **others: str) -> dict[str, str]:
    text = PROPERTIES.format(
        keystore=authority.keystore("controller"),
        trusted=authority.trusted,
        plain=MODULES["PLAIN"],
        scram=MODULES["SCRAM-SHA-256"],
        password=PASSWORD,
    )
    return dict(line.split("=", 1) for line in text.splitlines()) | {
        name.replace("_", "."): value for name, value in others.items()
    }


def of_brokers(authority: Authority, *users: str) -> dict[str, Any]:
    """The requirements of a broker's listener."""
    tls = TlsContext(TlsSettings(str(authority.keystore("broker"))), TlsSettings.server_context)
    known = PlainUsers(dict.fromkeys(users, PASSWORD))
    return {"tls": tls, "sasl": SaslListener(("PLAIN",), lambda: 0, known)}


@asynccontextmanager
async def controller(zookeeper: Zookeeper, settings: ZkControllerSettings) -> AsyncIterator[ControllerServer]:
    config = ControllerConfig(
        US,
        inter_broker_listener_name=settings.listener,
        control_plane_listener_name=settings.control_plane,
        authorizer=acl_authorizer_settings(settings.others),
        delegation_token_secret_key=settings.token_key,
    )
    async with ControllerServer(config, zookeeper, listener_settings=settings.listener_settings) as server:  # type: ignore[arg-type]
        await until(lambda: server.active.is_active)
        yield server


async def as_user(
    server: ControllerServer,
    authority: Authority,
    name: str,
    mechanism: str = "SCRAM-SHA-512",
    password: str = PASSWORD,
) -> Connection:
    security = Security(client_tls(authority.trusted), Sasl(mechanism, name, password))
    return await connect("127.0.0.1", server.port, security=security)


async def make_user(admin: Connection, name: str, mechanisms: dict[int, str] = SCRAM_USER) -> None:
    for code, mechanism in mechanisms.items():
        salted = salted_password(mechanism, PASSWORD.encode(), bytes(16), 4096)
        upsertion = ScramCredentialUpsertion(
            name=name, mechanism=code, iterations=4096, salt=bytes(16), salted_password=salted
        )
        answer = await admin.send(s.AlterUserScramCredentialsRequest(upsertions=[upsertion]))
        assert [each.error_code for each in answer.results] == [0]


def create(name: str) -> s.CreateTopicsRequest:
    return s.CreateTopicsRequest(topics=[CreatableTopic(name=name, num_partitions=1, replication_factor=1)])


@story
async def test_users_in_zookeeper_come_with_scram_and_need_rights(authority: Authority) -> None:
    settings = zk_controller_settings(properties(authority))
    async with controller(Zookeeper(), settings) as server:
        async with await as_user(server, authority, "admin", "PLAIN") as admin:
            await make_user(admin, "alice")
            for mechanism in SCRAM_USER.values():
                await until(lambda mechanism=mechanism: server._watched.users.scram(mechanism, "alice"))
                async with await as_user(server, authority, "alice", mechanism) as alice:
                    answer = await alice.send(create("t"))
                    assert answer.topics[0].error_code == Errors.TOPIC_AUTHORIZATION_FAILED
                    assert (await alice.send(s.ElectLeadersRequest())).error_code == (
                        Errors.CLUSTER_AUTHORIZATION_FAILED
                    )
                with pytest.raises(AuthenticationError, match="invalid credentials"):
                    await as_user(server, authority, "alice", mechanism, "wrong")
            answer = await admin.send(create("t"))
            assert answer.topics[0].error_code == Errors.INVALID_REPLICATION_FACTOR, "there are no brokers"
        with pytest.raises(NetworkError):
            await connect("127.0.0.1", server.port)
        async with await connect("127.0.0.1", server.port, security=Security(client_tls(authority.trusted))) as nobody:
            with pytest.raises(DisconnectedError):
                await nobody.send(s.MetadataRequest(topics=None))


@story
async def test_users_that_are_removed_or_made_by_others_count_at_once(authority: Authority) -> None:
    """Also those that were there before, and all of them behind the end of a session."""
    zookeeper, settings = Zookeeper(), zk_controller_settings(properties(authority))
    async with controller(zookeeper, settings) as server, await as_user(server, authority, "admin", "PLAIN") as admin:
        await make_user(admin, "bob smith", {2: "SCRAM-SHA-512"})
    path = f"{znodes.CONFIG}/users/bob%20smith"
    credentials = zookeeper.tree.nodes[path].data
    zookeeper.tree.create(f"{znodes.CONFIG}/users/carol", b'{"version":1,"config":{"SCRAM-SHA-512":"salt=!"}}')
    zookeeper.tree.create(f"{znodes.CONFIG}/users/<default>", credentials)
    async with controller(zookeeper, settings) as server:
        for nobody in ("<default>", "carol", "dave"):
            with pytest.raises(AuthenticationError, match="invalid credentials"):
                await as_user(server, authority, nobody)
        async with await as_user(server, authority, "bob smith"):
            pass
        zookeeper.tree.delete(path)
        note = znodes.encode_config_change("users/bob%20smith")
        zookeeper.tree.apply(Create(f"{znodes.CONFIG_CHANGES}/config_change_", note, sequential=True))
        zookeeper.tell()
        await until(lambda: server._watched.users.scram("SCRAM-SHA-512", "bob smith") is None)
        zookeeper.tree.create(f"{znodes.CONFIG}/users/dave", credentials)
        zookeeper.expire()
        await until(lambda: server._watched.users.scram("SCRAM-SHA-512", "dave"))


@story
async def test_a_delegation_token_is_made_over_sasl_and_makes_no_other(authority: Authority) -> None:
    zookeeper, settings = Zookeeper(), zk_controller_settings(properties(authority))
    async with controller(zookeeper, settings) as server, await as_user(server, authority, "admin", "PLAIN") as admin:
        renewer = CreatableRenewers(principal_type="User", principal_name="admin")
        asked = s.CreateDelegationTokenRequest(renewers=[renewer], max_lifetime_ms=-1)
        made = await admin.send(asked)
        assert made.error_code == Errors.NONE
        await until(lambda: server._watched.users.token(made.token_id))
        security = Security(client_tls(authority.trusted))
        async with await connect("127.0.0.1", server.port, security=security) as connection:
            assert 0 < await show_token(connection, made.token_id, made.hmac) <= 24 * 3600 * 1000
            answer = await connection.send(create("t"))
            assert answer.topics[0].error_code == Errors.INVALID_REPLICATION_FACTOR, "its owner is a super user"
            again = await connection.send(asked)
            assert again.error_code == Errors.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        ended = await admin.send(s.ExpireDelegationTokenRequest(hmac=made.hmac, expiry_time_period_ms=-1))
        assert ended.error_code == Errors.NONE
        await until(lambda: server._watched.users.token(made.token_id) is None)
        zookeeper.tree.create(znode_tokens.token_path("none"), b"{}")
        token = Token("later", KafkaPrincipal("a"), KafkaPrincipal("a"), (), 1, 3, 2)
        zookeeper.tree.create(znode_tokens.token_path("later"), znode_tokens.encode_token(token))
        zookeeper.expire()
        await until(lambda: server._watched.users.token("later"))
        found = server._watched.users.token("later")
        assert found is not None and (found.owner, found.expiration_ms) == (KafkaPrincipal("a"), 2)
        assert server._watched.users.token("none") is None


@pytest.mark.parametrize("control_plane", ["", "CONTROL"])
@story
async def test_brokers_know_who_orders(control_plane: str, authority: Authority) -> None:
    """On the listener between brokers, or on that for control requests; each has a login of its own."""
    zookeeper = Zookeeper()
    settings = zk_controller_settings(properties(authority, control_plane_listener_name=control_plane))
    async with AsyncExitStack() as stack:
        user = "commander" if control_plane else "controller"
        broker = await FakeBroker().open(stack, **of_brokers(authority, user))
        server = await stack.enter_async_context(controller(zookeeper, settings))
        name = control_plane or "SECURE"
        zookeeper.register(BROKER, Endpoint(broker.port, "127.0.0.1", name, SASL_SSL))
        zookeeper.write_topic("t", [BROKER])
        await until(lambda: any(isinstance(each, s.LeaderAndIsrRequest) for each in broker.seen))
        assert broker.principals == {f"User:{user}"}
        [ours] = [each for each in broker.seen[0].live_brokers if each.id == US]
        assert [(each.listener, each.security_protocol, each.port) for each in ours.endpoints] == [
            (each, SASL_SSL, server.port) for each in ("SECURE", control_plane) if each
        ], "brokers look for it at their control plane"


@story
async def test_a_session_that_ends_is_begun_anew(authority: Authority) -> None:
    """connections.max.reauth.ms of the brokers: no order is sent on a connection whose session is over."""
    zookeeper, settings = Zookeeper(), zk_controller_settings(properties(authority))
    security = of_brokers(authority, "controller")
    listener = security["sasl"]
    security["sasl"] = SaslListener(("PLAIN",), lambda: 0, listener.users, max_reauth_ms={"PLAIN": 400})
    async with AsyncExitStack() as stack:
        broker = await FakeBroker().open(stack, **security)
        server = await stack.enter_async_context(controller(zookeeper, settings))
        zookeeper.register(BROKER, Endpoint(broker.port, "127.0.0.1", "SECURE", SASL_SSL))
        for number in range(3):
            zookeeper.write_topic(f"t-{number}", [BROKER])
            await until(lambda number=number: sum(isinstance(x, s.LeaderAndIsrRequest) for x in broker.seen) > number)
            await asyncio.sleep(0.5)
        assert server.metrics.request_retries == 0
        assert broker.server is not None and broker.server.metrics.connections_opened >= 3


@pytest.mark.parametrize("authorizer", ["kafka.security.authorizer.AclAuthorizer", ""])
@story
async def test_what_is_relayed_comes_from_the_controller_and_is_little(authorizer: str, authority: Authority) -> None:
    """A broker takes it for the controller's own request: it is checked before, and all else is not passed on."""

    class Coordinating(FakeBroker):
        async def _handle(self, context: Any, request: Any) -> Any:
            answer = await super()._handle(context, request)
            if not isinstance(request, s.FindCoordinatorRequest):
                return answer
            found = [Coordinator(key=key, node_id=1, host="h", port=1) for key in request.coordinator_keys]
            return s.FindCoordinatorResponse(coordinators=found)

    zookeeper, settings = Zookeeper(), zk_controller_settings(properties(authority, authorizer_class_name=authorizer))
    async with AsyncExitStack() as stack:
        of_sasl = {"SaslHandshake": (0, 1), "SaslAuthenticate": (0, 2)}
        apis = {**APIS, **of_sasl, "FindCoordinator": (4, 4), "OffsetCommit": (0, 8)}
        broker = await Coordinating().open(stack, apis=apis, **of_brokers(authority, "controller"))
        server = await stack.enter_async_context(controller(zookeeper, settings))
        zookeeper.register(BROKER, Endpoint(broker.port, "127.0.0.1", "SECURE", SASL_SSL))
        asked = s.FindCoordinatorRequest(coordinator_keys=["a group"])
        await until(lambda: server._handlers._relay.takes(asked.api_key, 4))
        assert not server._handlers._relay.takes(s.OffsetCommitRequest.api_key, 8)
        admin = await stack.enter_async_context(await as_user(server, authority, "admin", "PLAIN"))
        for _ in range(2):
            [coordinator] = (await admin.send(asked)).coordinators
            assert (coordinator.key, coordinator.host) == ("a group", "h")
        assert broker.principals == {"User:controller"}
        await make_user(admin, "alice", {2: "SCRAM-SHA-512"})
        await until(lambda: server._watched.users.scram("SCRAM-SHA-512", "alice"))
        alice = await stack.enter_async_context(await as_user(server, authority, "alice"))
        [coordinator] = (await alice.send(asked)).coordinators
        assert coordinator.error_code == (Errors.GROUP_AUTHORIZATION_FAILED if authorizer else Errors.NONE)


@story
async def test_certificates_that_are_replaced_are_for_new_clients(authority: Authority, tmp_path: Path) -> None:
    keystore = tmp_path / "node.pem"
    keystore.write_bytes(authority.keystore("old").read_bytes())
    others = Authority(tmp_path / "others")
    given = properties(authority) | {"ssl.keystore.location": str(keystore)}
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(controller(Zookeeper(), zk_controller_settings(given)))
        admin = await stack.enter_async_context(await as_user(server, authority, "admin", "PLAIN"))
        keystore.write_bytes(others.keystore("new").read_bytes())

        async def comes() -> bool:
            try:
                async with await as_user(server, others, "admin", "PLAIN"):
                    return True
            except NetworkError:
                await asyncio.sleep(0.2)
                return False

        while not await comes():
            pass
        assert (await admin.send(s.ElectLeadersRequest())).error_code == Errors.NONE


@story
async def test_quotas_of_addresses_hold_at_the_controller(authority: Authority) -> None:
    """connection_creation_rate of AlterClientQuotas, of an address or of all; taken back, there is none."""
    zookeeper = Zookeeper()
    rate = b'{"version":1,"config":{"connection_creation_rate":"7"}}'
    zookeeper.tree.create(f"{znodes.CONFIG}/ips/10.0.0.1", rate, parents=True)
    async with (
        controller(zookeeper, zk_controller_settings({})) as server,
        await connect("127.0.0.1", server.port) as connection,
    ):
        assert server._handlers._server is not None
        rate_of = server._handlers._server.acceptor.quotas._rate_of
        assert (rate_of("10.0.0.1"), rate_of("127.0.0.1")) == (7, None)
        for name, value in ((None, 500.0), ("localhost", 600.0)):
            await alter(connection, name, value)
        await until(lambda: (rate_of("10.0.0.2"), rate_of("127.0.0.1"), rate_of("10.0.0.1")) == (500, 600, 7))
        await alter(connection, None, None)
        await until(lambda: rate_of("10.0.0.2") is None)


@story
async def test_quotas_of_clients_hold_at_the_controller() -> None:
    """request_percentage: the controller reads a change from its own notification. Brokers are exempt."""
    async with controller(Zookeeper(), zk_controller_settings({})) as server:
        assert server._handlers._server is not None
        throttle, listening = server._handlers._pipeline.throttle, server._handlers._server
        assert throttle is not None
        stop_the_clocks(throttle)
        async with (
            await connect("127.0.0.1", server.port, client_id="greedy") as greedy,
            await connect("127.0.0.1", server.port, client_id="modest") as modest,
        ):
            entity = [EntityData(entity_type="client-id", entity_name="greedy")]
            for value in (1.0, None):
                change = OpData(key="request_percentage", value=value or 0.0, remove=value is None)
                entries = [AlterClientQuotasRequestEntryData(entity=entity, ops=[change])]
                answer = await modest.send(AlterClientQuotasRequest(entries=entries))
                assert [each.error_code for each in answer.entries] == [0]
                await until(lambda value=value: throttle.is_on is (value is not None))
                for _ in range(5):
                    await greedy.send(s.AlterPartitionRequest(topics=[]))
                    assert not muted(listening)
                for _ in range(5):
                    response = await greedy.send(s.MetadataRequest(topics=[]))
                    assert (await modest.send(s.MetadataRequest(topics=[]))).throttle_time_ms == 0
                assert (response.throttle_time_ms > 0) is (value is not None)
                if value is not None:
                    await until(lambda: muted(listening))
                for each in muted(listening):
                    each.end()


async def alter(connection: Connection, name: str | None, rate: float | None) -> None:
    entity = [EntityData(entity_type="ip", entity_name=name)]
    change = OpData(key="connection_creation_rate", value=rate or 0.0, remove=rate is None)
    entries = [AlterClientQuotasRequestEntryData(entity=entity, ops=[change])]
    answer = await connection.send(AlterClientQuotasRequest(entries=entries))
    assert [each.error_code for each in answer.entries] == [0], answer


def test_a_credential_that_is_none() -> None:
    key = b64encode(bytes(32)).decode()
    good = f"salt=AAAA,stored_key={key},server_key={key},iterations=4096"
    assert credential_in(good, "SCRAM-SHA-256") is not None
    assert credential_in(good.replace("4096", "20000"), "SCRAM-SHA-256") is not None, "old tools wrote such"
    assert credential_in(good, "SCRAM-SHA-512") is None, "its keys have 64 bytes"
    bad = ["", "salt=AAAA", f"{good},more=1", good.replace("4096", "many"), good.replace("t=AAAA", "t=A!AA")]
    bad += [good.replace(key, ""), good.replace(f"stored_key={key}", "stored_key="), good.replace("4096", "4095")]
    assert [text for text in bad if credential_in(text, "SCRAM-SHA-256") is not None] == []


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        ({"security_inter_broker_protocol": "SASL_SSL"}, "give either inter.broker.listener.name or"),
        ({"inter_broker_listener_name": "OTHER"}, "give OTHER one of"),
        ({"sasl_mechanism_inter_broker_protocol": "GSSAPI"}, "GSSAPI"),
        ({"sasl_kerberos_service_name": "kafka"}, "sasl.kerberos.service.name"),
        ({"principal_builder_class": "a.b.C"}, "no classes of Java"),
        ({"control_plane_listener_name": "NOWHERE"}, "give NOWHERE one of"),
        ({"control_plane_listener_name": "PLAINTEXT"}, "must be those of SECURE"),
    ],
)
def test_settings_that_cannot_be(others: dict[str, str], expected: str, authority: Authority) -> None:
    with pytest.raises(SettingsError, match=expected):
        zk_controller_settings(properties(authority, **others))


def test_settings_without_security_are_plaintext_and_secrets_are_not_shown(authority: Authority) -> None:
    assert (
        zk_controller_settings({"broker.id": "1", "log.dirs": "/nowhere"}).listener_settings.security.protocol
        == "PLAINTEXT"
    )
    follower = ZkCredentials(Client(Zookeeper(), on_session=print), "a secret")  # type: ignore[arg-type]
    shown = f"{zk_controller_settings(properties(authority))} {follower}"
    assert PASSWORD not in shown and "a secret" not in shown
