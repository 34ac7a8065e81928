"""A cluster of kcore's controllers and brokers over a real ZooKeeper, rolled to the routing of KIP-590's document.

Once in plaintext, where everybody is anonymous, and once with SCRAM users of that ZooKeeper and an authorizer: alice
has all rights from her address, mallory has none.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from kcore.broker.replicas.broker_config import BrokerConfig
from kcore.controller.zk.zk_controller_config import ControllerConfig
from kcore.errors import NetworkError
from kcore.measure.processes.local_process import free_ports
from kcore.measure.processes.zk_cluster import ZookeeperProcess
from kcore.metadata.acl_codes import (
    ALLOW,
    ALTER,
    ALTER_CONFIGS,
    CLUSTER,
    CLUSTER_NAME,
    LITERAL,
    PREFIXED,
    TOPIC,
)
from kcore.net.connect import connect
from kcore.net.security.client_security import Sasl, Security
from kcore.net.security.jaas import MODULES
from kcore.net.versions import api_name, response_of
from kcore.node.zk.acls import AclAuthorizerSettings, acl_authorizer_settings
from kcore.node.zk.admin.tokens import TokenRules
from kcore.protocol_errors import Errors
from kcore.schema.acls import AclCreation, CreateAclsRequest
from kcore.schema.delegation_tokens import (
    CreateDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)
from kcore.schema.quotas import AlterClientQuotasRequest
from kcore.schema.structure import Message
from kcore.schema.topics import CreatableTopic, CreateTopicsRequest
from kcore.server.pipeline import layout_of
from kcore.server.security.audit import AuditLog
from kcore.server.zk_broker.zk_broker_listener_settings import ZkBrokerListenerSettings, zk_broker_listener_settings
from kcore.server.zk_broker.zk_broker_server import ZkBrokerServer
from kcore.server.zk_controller.zk_controller_listener_settings import (
    OPEN,
    ZkControllerSettings,
    zk_controller_settings,
)
from kcore.server.zk_controller.zk_controller_server import ControllerServer
from kcore.server.zk_node.document_routing import BUMPED, DocumentRouting
from kcore.wire.codec import decode_from
from net.loops import until
from oracle.kcore_brokers import KcoreBroker
from oracle.zk.test_listener_security import PASSWORD
from oracle.zk.test_zk_broker_listeners import make_users
from oracle.zk_controllers import Controller
from server.zk.test_document_routing import MUTATIONS, asked, errors_of, frame_of, lines

ROUTING: Final = DocumentRouting("3.0")
OLD, NEW = "2.8", "3.9"
HERE, CLIENTS = "127.0.0.1", "127.0.0.2"
EVERYBODY: Final = AclAuthorizerSettings(super_users=frozenset({"User:ANONYMOUS"}))
SECURE: Final = """listeners=SECURE://127.0.0.1:0
listener.security.protocol.map=SECURE:SASL_PLAINTEXT
inter.broker.listener.name=SECURE
sasl.enabled.mechanisms=SCRAM-SHA-512
sasl.mechanism.inter.broker.protocol=SCRAM-SHA-512
listener.name.secure.scram-sha-512.sasl.jaas.config={scram} required username="{name}" password="{password}";
authorizer.class.name=kafka.security.authorizer.AclAuthorizer
super.users=User:broker;User:controller;User:admin
delegation.token.secret.key=secret
"""
FROM: ContextVar[str | None] = ContextVar("FROM", default=None)  # The address of a client's next connections.
Check = Callable[[str, Message], None]


class Kind(NamedTuple):
    """A cluster, and who asks it; a name None comes in plaintext."""

    broker: ZkBrokerListenerSettings
    controller: ZkControllerSettings
    authorizer: AclAuthorizerSettings | None
    clients: tuple[str | None, ...]
    admin: str | None


def secure() -> Kind:
    def properties(name: str) -> dict[str, str]:
        text = SECURE.format(scram=MODULES["SCRAM-SHA-512"], name=name, password=PASSWORD)
        return dict(line.split("=", 1) for line in text.splitlines())

    settings = zk_controller_settings(properties("controller"))
    authorizer = acl_authorizer_settings(settings.others)
    return Kind(zk_broker_listener_settings(properties("broker")), settings, authorizer, ("mallory", "alice"), "admin")


def plain() -> Kind:
    settings = ZkControllerSettings("PLAINTEXT", None, OPEN, {}, "secret")
    return Kind(
        ZkBrokerListenerSettings(authorizer=EVERYBODY, tokens=TokenRules("secret")), settings, EVERYBODY, (None,), None
    )


def principal(name: str | None) -> str:
    return f"User:{name or 'ANONYMOUS'}"


@contextmanager
def addresses_of_clients() -> Iterator[None]:
    """Clients are at another address than nodes."""
    loop = asyncio.get_running_loop()
    create = loop.create_connection

    def create_from(*arguments: Any, **options: Any) -> Any:
        return create(*arguments, **options, **({} if FROM.get() is None else {"local_addr": (FROM.get(), 0)}))

    loop.create_connection = create_from  # type: ignore[assignment]
    yield
    del loop.create_connection  # type: ignore[method-assign]


@asynccontextmanager
async def controller(
    zookeeper: str, number: int, protocol: str, audit: AuditLog, kind: Kind
) -> AsyncIterator[ControllerServer]:
    config = ControllerConfig(
        number,
        inter_broker_protocol=protocol,
        inter_broker_listener_name=kind.controller.listener,
        authorizer=kind.authorizer,
        delegation_token_secret_key=kind.controller.token_key,
    )
    options: dict[str, Any] = {
        "audit": audit,
        "routing": ROUTING,
        "listener_settings": kind.controller.listener_settings,
    }
    async with ControllerServer(config, zookeeper, **options) as server:
        yield server


@asynccontextmanager
async def broker(zookeeper: str, number: int, protocol: str, folder: Path, kind: Kind) -> AsyncIterator[ZkBrokerServer]:
    config, path = BrokerConfig(number, inter_broker_protocol=protocol), folder / str(number)
    path.mkdir(exist_ok=True)
    audit = AuditLog(folder / f"audit-{number}")
    made = ZkBrokerServer(config, zookeeper, [path], routing=ROUTING, listener_settings=kind.broker, audit=audit)
    async with made as server:
        await until(lambda: server.runtime.manager.cluster.controller_id >= 0)
        yield server
    audit.close()


async def asked_by(name: str | None, port: int, request: Message, version: int) -> Any:
    """The response to a client with that name."""
    token = FROM.set(CLIENTS)
    try:
        if name is None:
            return await asked(port, request, version)
        kind, layout = type(request), layout_of(type(request), version)
        security = Security(sasl=Sasl("SCRAM-SHA-512", name, PASSWORD))
        async with await connect(HERE, port, security=security) as connection:
            body = await connection.send_bytes(kind.api_key, layout, head=frame_of(request, version))
            return decode_from(response_of(kind), layout, body)[0]
    finally:
        FROM.reset(token)


def wanted(name: str | None, request: Message) -> Errors:
    """Kafka's error. In plaintext nobody is known by name, so nobody gets a token; whoever is known may have one."""
    is_of_tokens = "DelegationToken" in api_name(type(request))
    if name is None:
        return Errors.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED if is_of_tokens else Errors.NONE
    if name == "alice" or isinstance(request, CreateDelegationTokenRequest):
        return Errors.NONE
    if is_of_tokens:
        return Errors.DELEGATION_TOKEN_OWNER_MISMATCH
    is_of_topic = "Configs" in api_name(type(request))
    return Errors.TOPIC_AUTHORIZATION_FAILED if is_of_topic else Errors.CLUSTER_AUTHORIZATION_FAILED


async def each_mutation(kind: Kind, port: int, *, is_bumped: bool, check: Check) -> None:
    """Every client sends every request; `check` looks at each request's audit line. The tokens are alice's."""
    hmac = b""
    for known in MUTATIONS:
        request = known
        if isinstance(known, RenewDelegationTokenRequest):
            request = RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=60_000)
        elif isinstance(known, ExpireDelegationTokenRequest):
            request = ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=-1)
        for name in kind.clients:
            version = BUMPED[type(request)] - (not is_bumped)
            answer = await asked_by(name, port, request, version)
            assert errors_of(answer) == [wanted(name, request)], (name, answer)
            if isinstance(request, CreateDelegationTokenRequest) and name is not None:
                assert (answer.principal_name, len(answer.hmac)) == (name, 64)
                hmac = answer.hmac
            check(principal(name), request)


class AuditLines:
    """The lines about mutations that a log has got since it was looked at last: one for each."""

    def __init__(self, path: Path, **through: str) -> None:
        self._path, self._through = path, through
        self._seen = len(self._lines())

    def _lines(self) -> list[dict[str, Any]]:
        names = {api_name(kind) for kind in BUMPED}
        return [each for each in lines(self._path) if each["request"] in names]

    def __call__(self, who: str, request: Message) -> None:
        [line] = self._lines()[self._seen :]
        self._seen += 1
        found = {key: line.get(key) for key in ("request", "principal", "address", "through", "through_address")}
        through = {"through": None, "through_address": None} | self._through
        named = {"request": api_name(type(request)), "principal": who, "address": CLIENTS}
        if who == "User:ANONYMOUS" and "DelegationToken" in named["request"] and self._through:
            # An anonymous client may not forward a request for a token: the audit line names the broker itself.
            named, through = named | {"address": HERE}, dict.fromkeys(through)
        assert found == named | through

    def nothing(self) -> None:
        assert len(self._lines()) == self._seen

    def refusals(self, count: int) -> None:
        """Mutations that a controller refused, because it is not the active one."""
        found = self._lines()[self._seen :]
        self._seen += count
        assert [[*each["outcome"]] for each in found] == [["NOT_CONTROLLER"]] * count


async def mutated_before(kind: Kind, server: ZkBrokerServer, active: ControllerServer, folder: Path) -> None:
    """A broker of the old protocol does all by itself, and its own log names the client."""
    of_controller, of_broker = (
        AuditLines(folder / "audit"),
        AuditLines(folder / f"audit-{server.runtime.manager.broker_id}"),
    )
    await each_mutation(kind, server.port, is_bumped=False, check=of_broker)
    for request in MUTATIONS:
        if BUMPED[type(request)] > type(request).versions.highest:  # No version of Kafka's: it comes with the roll.
            with pytest.raises((asyncio.IncompleteReadError, NetworkError)):
                await asked_by(kind.clients[0], server.port, request, BUMPED[type(request)])
    of_controller.nothing()
    await each_mutation(kind, active.port, is_bumped=False, check=of_controller)


async def mutated_behind(
    kind: Kind, server: ZkBrokerServer, active: ControllerServer, standby: ControllerServer, folder: Path
) -> None:
    """A broker of the new protocol hands on once, and both logs name the client."""
    node = principal(kind.admin and "broker")
    of_controller = AuditLines(folder / "audit", through=node, through_address=HERE)
    of_broker = AuditLines(folder / f"audit-{server.runtime.manager.broker_id}")

    def check(who: str, request: Message) -> None:
        of_controller(who, request)
        of_broker(who, request)

    await each_mutation(kind, server.port, is_bumped=False, check=check)
    refusing: tuple[Any, ...] = (server, standby)
    for each in refusing:
        for request in MUTATIONS:
            for name in kind.clients:
                answer = await asked_by(name, each.port, request, BUMPED[type(request)])
                assert errors_of(answer) == [Errors.NOT_CONTROLLER]
    of_controller.refusals(len(MUTATIONS) * len(kind.clients))  # Both controllers write to one file.
    await each_mutation(kind, active.port, is_bumped=True, check=AuditLines(folder / "audit"))


async def no_token_of_another(kind: Kind, *nodes: Any) -> None:
    """Version 3 of CreateDelegationToken has an owner, in both forms."""
    request = CreateDelegationTokenRequest(
        owner_principal_type="User", owner_principal_name="alice", renewers=[], max_lifetime_ms=-1
    )
    for node in nodes if "mallory" in kind.clients else ():
        answer = await asked_by("mallory", node.port, request, 3)
        assert answer.error_code == Errors.DELEGATION_TOKEN_AUTHORIZATION_FAILED
        assert (answer.principal_name, answer.token_requester_principal_name) == ("alice", "mallory")


def right(operation: int, resource_type: int, name: str, pattern_type: int) -> AclCreation:
    return AclCreation(
        resource_type=resource_type,
        resource_name=name,
        resource_pattern_type=pattern_type,
        principal="User:alice",
        host=CLIENTS,
        operation=operation,
        permission_type=ALLOW,
    )


async def prepared(kind: Kind, active: ControllerServer) -> None:
    """Alice's rights; there are still some after DeleteAcls of what is literally t."""
    rights = [right(each, CLUSTER, CLUSTER_NAME, LITERAL) for each in (ALTER, ALTER_CONFIGS)]
    rights.append(right(ALTER_CONFIGS, TOPIC, "t", PREFIXED))
    made = await asked_by(kind.admin, active.port, CreateAclsRequest(creations=rights), 2)
    assert {*errors_of(made)} == {Errors.NONE}


async def topic_made(kind: Kind, active: ControllerServer) -> None:
    topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
    security = None if kind.admin is None else Security(sasl=Sasl("SCRAM-SHA-512", kind.admin, PASSWORD))
    async with await connect(HERE, active.port, security=security) as connection:
        response = await connection.send(CreateTopicsRequest(topics=[topic], timeout_ms=5_000))
    assert response.topics[0].error_code in (Errors.NONE, Errors.TOPIC_ALREADY_EXISTS)


async def rolled(zookeeper: str, folder: Path, kind: Kind) -> None:
    """The controllers are rolled first, then one broker after the other."""
    if kind.admin is not None:
        await make_users(zookeeper, "broker", "controller", "admin", "alice", "mallory")
    for protocols in ((OLD, OLD), (OLD, NEW), (NEW, NEW)):
        audit = AuditLog(folder / "audit")
        async with controller(zookeeper, 1000, protocols[1], audit, kind) as active:
            await until(lambda active=active: active.active.is_active)
            await prepared(kind, active)
            async with (
                controller(zookeeper, 1001, protocols[1], audit, kind) as standby,
                broker(zookeeper, 1, protocols[0], folder, kind) as one,
                broker(zookeeper, 2, protocols[1], folder, kind) as two,
            ):
                await topic_made(kind, active)
                for server, protocol in ((one, protocols[0]), (two, protocols[1])):
                    await until(lambda server=server: "t" in server.runtime.manager.cluster.table.topics)
                    if protocol == NEW:
                        await mutated_behind(kind, server, active, standby, folder)
                        await no_token_of_another(kind, active)
                    elif protocols[1] == OLD:
                        await mutated_before(kind, server, active, folder)
                        await no_token_of_another(kind, server, active)
                    else:  # Its controllers are of the new protocol already.
                        audited = AuditLines(folder / f"audit-{server.runtime.manager.broker_id}")
                        await each_mutation(kind, server.port, is_bumped=False, check=audited)
        audit.close()


@pytest.mark.covers("KIP-590 11", "KIP-590 1", "KIP-590 10")
@pytest.mark.parametrize("make", [plain, secure])
def test_brokers_of_both_sides_of_the_second_roll(tmp_path: Path, make: Callable[[], Kind]) -> None:
    async def story(zookeeper: str) -> None:
        with addresses_of_clients():
            await asyncio.wait_for(rolled(zookeeper, tmp_path, make()), 150)

    with ZookeeperProcess(tick_ms=500) as zookeeper:
        asyncio.run(story(zookeeper.address))


@pytest.mark.parametrize(("protocol", "is_routed"), [("2.7", False), (NEW, True)])
def test_nodes_route_by_the_document_where_the_command_says_so(tmp_path: Path, protocol: str, is_routed: bool) -> None:
    """With --forwarding document, a broker hands a change of quotas to the controller from protocol 2.8 on."""
    options = ("--forwarding", "document", "--inter-broker-protocol", protocol)
    audits = {node: tmp_path / f"audit-{node}" for node in ("controller", "broker")}

    def audit(node: str) -> tuple[str, ...]:
        return (*options, "--audit", str(audits[node]))

    async def quotas_altered(port: int) -> None:
        [request] = [each for each in MUTATIONS if isinstance(each, AlterClientQuotasRequest)]
        async with asyncio.timeout(60):
            while errors_of(await asked(port, request, 0)) != [
                Errors.NONE
            ]:  # The broker may not know the controller yet.
                await asyncio.sleep(0.1)

    with ZookeeperProcess(tick_ms=500) as zookeeper, ExitStack() as stack:
        process = Controller(zookeeper.address, tmp_path, 1000, *audit("controller"))
        stack.callback(process.kill)
        process.await_log("controller 1000 is active")
        [port] = free_ports(1)
        broker = KcoreBroker(1, port, tmp_path, zookeeper.address, *audit("broker"))
        stack.callback(broker.kill)
        broker.start()
        asyncio.run(quotas_altered(port))
        assert any(each["request"] == "AlterClientQuotas" for each in lines(audits["broker"]))
        assert any(each["request"] == "AlterClientQuotas" for each in lines(audits["controller"])) == is_routed
