"""KIP-590's routing in the form of its document: each of its sentences, over sockets, with kcore's controller."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from kcore.controller.zk.zk_controller_config import ControllerConfig
from kcore.errors import DecodeError
from kcore.metadata.principal import KafkaPrincipal
from kcore.metadata.table.broker_table import Endpoint
from kcore.metadata.zookeeper import znodes
from kcore.net.connect import connect
from kcore.net.limits.connection_limits import CLIENT_VALUES
from kcore.net.request_context import ClientSession
from kcore.net.security.client_security import Security
from kcore.net.server import RequestContext, serve
from kcore.net.versions import api_name, response_of
from kcore.node.tokens import OfTokens
from kcore.node.zk.acls import AclAuthorizerSettings
from kcore.protocol_errors import Errors
from kcore.schema.acls import AclCreation, CreateAclsRequest, DeleteAclsFilter, DeleteAclsRequest
from kcore.schema.configs import (
    AlterConfigsRequest,
    AlterConfigsRequestAlterableConfig,
    AlterConfigsRequestAlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)
from kcore.schema.delegation_tokens import (
    CreateDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)
from kcore.schema.headers import RequestHeader, ResponseHeader
from kcore.schema.quotas import AlterClientQuotasRequest, AlterClientQuotasRequestEntryData, EntityData, OpData
from kcore.schema.structure import Message
from kcore.server.broker.broker_connections import Dialer
from kcore.server.pipeline import RequestPipeline, Route, layout_of, request_of
from kcore.server.security.audit import AuditLog
from kcore.server.zk_broker.document_forwarding import DocumentForwarding
from kcore.server.zk_controller.document_requests import DocumentRequests
from kcore.server.zk_controller.zk_controller_server import ControllerServer
from kcore.server.zk_node.document_routing import (
    BUMPED,
    CLIENT_ADDRESS,
    DocumentRouting,
    client_of,
    proxied,
    refused,
)
from kcore.wire.codec import decode_from, encode
from net.loops import context_in, raw_server, story, until
from net.security.test_tls_listener import ALICE, listener
from server.zookeepers import Zookeeper, stand_in

US = 1000
NO_CLUSTER = Errors.CLUSTER_AUTHORIZATION_FAILED
ROUTING = DocumentRouting("3.0")
TOPIC: dict[str, Any] = {"resource_type": 2, "resource_name": "t", "configs": []}
MUTATIONS: list[Message] = [
    AlterConfigsRequest(resources=[AlterConfigsRequestAlterConfigsResource(**TOPIC)]),
    IncrementalAlterConfigsRequest(resources=[IncrementalAlterConfigsRequestAlterConfigsResource(**TOPIC)]),
    CreateAclsRequest(
        creations=[
            AclCreation(
                resource_type=2,
                resource_name="t",
                resource_pattern_type=3,
                principal="User:u",
                host="*",
                operation=3,
                permission_type=3,
            )
        ]
    ),
    DeleteAclsRequest(
        filters=[
            DeleteAclsFilter(
                resource_type_filter=2,
                resource_name_filter="t",
                pattern_type_filter=3,
                principal_filter=None,
                host_filter=None,
                operation=1,
                permission_type=1,
            )
        ]
    ),
    AlterClientQuotasRequest(
        entries=[
            AlterClientQuotasRequestEntryData(
                entity=[EntityData(entity_type="user", entity_name="u")],
                ops=[OpData(key="producer_byte_rate", value=1.0)],
            )
        ]
    ),
    CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=-1),
    RenewDelegationTokenRequest(hmac=b"", renew_period_ms=1),
    ExpireDelegationTokenRequest(hmac=b"", expiry_time_period_ms=1),
]
EACH = pytest.mark.parametrize("request_", MUTATIONS, ids=lambda each: api_name(type(each)))


def every_node(session: ClientSession) -> bool:
    return True


@pytest.fixture(autouse=True)
def zookeeper_of_dicts(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch)


@asynccontextmanager
async def controller(
    zookeeper: Zookeeper,
    audit: AuditLog | None = None,
    protocol: str = "3.9",
    super_users: tuple[str, ...] = ("User:ANONYMOUS", "User:alice"),
) -> AsyncIterator[ControllerServer]:
    """Without super users it has no authorizer."""
    settings = AclAuthorizerSettings(super_users=frozenset(super_users)) if super_users else None
    config = ControllerConfig(
        US, inter_broker_protocol=protocol, authorizer=settings, delegation_token_secret_key="secret"
    )
    async with ControllerServer(config, zookeeper, audit=audit, routing=ROUTING) as server:  # type: ignore[arg-type]
        await until(lambda: server.active.is_active)
        yield server


@asynccontextmanager
async def broker(controller_port: int | None, **security: Any) -> AsyncIterator[int]:
    """The port of a node with a broker's relay."""
    where = None if controller_port is None else Endpoint(controller_port, "127.0.0.1", "PLAINTEXT", 0)
    apis = {"SaslHandshake": (0, 1), "SaslAuthenticate": (0, 2)} | {
        api_name(kind): (kind.versions.lowest, kind.versions.highest) for kind in BUMPED
    }

    async def handle(context: Any, request: Any) -> None:
        raise AssertionError("all mutations are the relay's")

    policy = DocumentForwarding(lambda: where, every_node)
    pipeline = RequestPipeline(handle, every_node, routes=[Route(policy.takes, policy.ask)])
    async with await serve("127.0.0.1", 0, handle, apis, parts=pipeline.parts, **security) as server:
        yield server.port


def frame_of(
    request: Message, version: int, principal_tag: bytes | None = None, address_tag: bytes | None = None
) -> bytes:
    kind, layout = type(request), layout_of(type(request), version)
    tags = [(tag, value) for tag, value in ((0, principal_tag), (CLIENT_ADDRESS, address_tag)) if value is not None]
    header = RequestHeader(
        request_api_key=kind.api_key,
        request_api_version=version,
        correlation_id=7,
        client_id="c",
        unknown_tagged_fields=tags,
    )
    return bytes(encode(header, kind.header_version(layout))) + bytes(encode(request, layout))


async def asked(port: int, request: Message, version: int) -> Any:
    """The response, of a client that knows the document's versions."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    frame = frame_of(request, version)
    writer.write(len(frame).to_bytes(4) + frame)
    try:
        data = await reader.readexactly(int.from_bytes(await reader.readexactly(4)))
    finally:
        writer.transport.abort()
    return answer_in(data, request, version)


def errors_of(response: Any) -> list[int]:
    """The error codes of all items, or the one of the whole response."""
    if "error_code" in type(response).__slots__:
        return [response.error_code]
    items = next(value for name in type(response).__slots__ if isinstance(value := getattr(response, name), list))
    return [each.error_code for each in items]


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(each) for each in path.read_text().splitlines()]


@pytest.mark.covers("KIP-590 9")
def test_the_versions_are_the_documents() -> None:
    assert {api_name(kind): version for kind, version in BUMPED.items()} == {
        "AlterConfigs": 2,
        "IncrementalAlterConfigs": 2,
        "CreateAcls": 3,
        "DeleteAcls": 3,
        "AlterClientQuotas": 1,
        "CreateDelegationToken": 3,
        "RenewDelegationToken": 3,
        "ExpireDelegationToken": 3,
    }


@pytest.mark.covers("KIP-590 5")
@EACH
@story
async def test_an_old_version_goes_to_the_controller_once_as_the_new_one(request_: Message) -> None:
    kind = type(request_)
    seen: list[bytes] = []

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await reader.readexactly(int.from_bytes(await reader.readexactly(4))))

    async with raw_server(one) as port, broker(port) as at:
        with pytest.raises(asyncio.IncompleteReadError):
            await asked(at, request_, BUMPED[kind] - 1)
    [frame] = seen  # Not again, though nobody answered.
    found = context_in(frame)
    assert found.version == BUMPED[kind]
    assert client_of(found.header) == ("ANONYMOUS", "127.0.0.1")
    assert (found.header.client_id, request_of(found, every_node)) == ("c", request_)


@pytest.mark.covers("KIP-590 6", "KIP-590 7", "KIP-590 8")
@EACH
@story
async def test_the_new_version_is_refused_by_who_is_not_the_controller(request_: Message) -> None:
    kind, zookeeper = type(request_), Zookeeper()
    async with broker(None) as at:
        response = await asked(at, request_, BUMPED[kind])
        assert {*errors_of(response)} == {Errors.NOT_CONTROLLER}
    async with controller(zookeeper) as server:
        zookeeper.elected(1)
        await until(lambda: not server.active.is_active)
        response = await asked(server.port, request_, BUMPED[kind])
        assert {*errors_of(response)} == {Errors.NOT_CONTROLLER}, "a standby hands it on to nobody"
        async with broker(server.port) as at:
            response = await asked(at, request_, BUMPED[kind] - 1)
            assert {*errors_of(response)} == {Errors.NOT_CONTROLLER}, "nor is it forwarded twice"


@pytest.mark.covers("KIP-590 1", "KIP-590 2", "KIP-590 3", "KIP-590 4")
@EACH
@story
async def test_the_controller_handles_the_new_version_and_what_brokers_proxy(request_: Message) -> None:
    kind, zookeeper = type(request_), Zookeeper()
    wanted = Errors.NONE
    if "DelegationToken" in api_name(kind):
        wanted = Errors.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED  # Nobody is known by name here.
    async with controller(zookeeper) as server, broker(server.port) as at:
        zookeeper.write_topic("t", [1])
        await until(lambda: "t" in server.active.table.topics)
        for port, version in ((server.port, BUMPED[kind]), (at, BUMPED[kind] - 1)):
            response = await asked(port, request_, version)
            assert {*errors_of(response)} == {wanted}, response
    if kind is AlterClientQuotasRequest:
        assert znodes.decode_config("", zookeeper.tree.nodes["/config/users/u"].data) == {"producer_byte_rate": "1"}


@pytest.mark.covers("KIP-590 4")
@pytest.mark.parametrize("is_incremental", [True, False])
@story
async def test_the_settings_of_every_broker_are_the_controllers_to_change(is_incremental: bool) -> None:
    """kcore's brokers have throttles; without the routing each changes its own."""
    throttle, zookeeper = "leader.replication.throttled.rate", Zookeeper()

    def request_of(broker_id: str) -> Message:
        where = {"resource_type": 4, "resource_name": broker_id}
        if is_incremental:
            change = IncrementalAlterConfigsRequestAlterableConfig(name=throttle, config_operation=0, value="77")
            of_broker = IncrementalAlterConfigsRequestAlterConfigsResource(**where, configs=[change])
            return IncrementalAlterConfigsRequest(resources=[of_broker])
        setting = AlterConfigsRequestAlterableConfig(name=throttle, value="77")
        return AlterConfigsRequest(
            resources=[AlterConfigsRequestAlterConfigsResource(**where, configs=[setting])], validate_only=False
        )

    async with controller(zookeeper) as server, broker(server.port) as at:
        zookeeper.write_topic("t", [1])
        await until(lambda: "t" in server.active.table.topics)
        known = str(server.active.table.brokers.ids[0])
        version = BUMPED[type(request_of(known))]
        assert errors_of(await asked(at, request_of(known), version - 1)) == [Errors.NONE]
        assert errors_of(await asked(at, request_of(""), version - 1)) == [Errors.NONE]
        for name in (known, "<default>"):
            assert znodes.decode_config("", zookeeper.tree.nodes[f"/config/brokers/{name}"].data) == {throttle: "77"}
        for wrong in ("7777", str(US), "x"):
            assert errors_of(await asked(at, request_of(wrong), version - 1)) == [Errors.INVALID_REQUEST]
        if is_incremental:
            assert errors_of(await asked(server.port, request_of(known), 1)) == [Errors.INVALID_REQUEST]


@pytest.mark.covers("KIP-590 10")
@story
async def test_the_audit_log_names_the_clients_principal(tmp_path: Path) -> None:
    path, request = tmp_path / "audit", MUTATIONS[4]
    audit = AuditLog(path)
    async with controller(Zookeeper(), audit) as server, broker(server.port, sasl=listener()) as at:
        security = Security(sasl=ALICE["PLAIN"])
        async with await connect("127.0.0.1", at, security=security) as connection:
            assert errors_of(await connection.send(request, 0)) == [Errors.NONE]
        await asked(server.port, request, 1)
    audit.close()
    found = [(each["principal"], each["address"], each.get("through"), each["outcome"]) for each in lines(path)]
    here = "127.0.0.1"
    assert found == [
        ("User:alice", here, "User:ANONYMOUS", {"NONE": 1}),
        ("User:ANONYMOUS", here, None, {"NONE": 1}),
    ]


@story
async def test_the_audit_log_of_a_standby_has_refused_mutations(tmp_path: Path) -> None:
    path, zookeeper = tmp_path / "audit", Zookeeper()
    audit = AuditLog(path)
    async with controller(zookeeper, audit) as server:
        zookeeper.elected(1)
        await until(lambda: not server.active.is_active)
        await asked(server.port, MUTATIONS[4], 1)
    audit.close()
    assert [(each["principal"], each["outcome"]) for each in lines(path)] == [("User:ANONYMOUS", {"NOT_CONTROLLER": 1})]


def named(name: str) -> bytes:
    """The header's tag with a principal's name."""
    return bytes([len(name) + 1]) + name.encode()


async def proxied_answer(
    server: ControllerServer, request: Message, name: str, sender: str = "ANONYMOUS", address: str | None = None
) -> Any:
    """The answer to a request in a new version, with `name` in its header, from the authenticated `sender`."""
    version, address_tag = BUMPED[type(request)], None if address is None else named(address)
    session = ClientSession("PLAINTEXT", "127.0.0.1")
    session.authenticated(KafkaPrincipal(sender))
    ask = server._handlers._pipeline.route(request.api_key, version)
    assert ask is not None
    return answer_in(await ask(context_in(frame_of(request, version, named(name), address_tag), session)), request)


def answer_in(data: bytes, request: Message, version: int | None = None) -> Any:
    """The response in the frame of an answer, whose correlation id is checked."""
    kind = response_of(type(request))
    layout = layout_of(type(request), BUMPED[type(request)] if version is None else version)
    header, at = decode_from(ResponseHeader, kind.header_version(layout), data)
    assert header.correlation_id == 7
    return decode_from(kind, layout, data, at)[0]


@pytest.mark.covers("KIP-590 10")
@EACH
@story
async def test_what_is_proxied_has_the_rights_of_the_client(request_: Message) -> None:
    """The broker that proxies it is a super user; bob has no rights, and his tokens are his own."""
    zookeeper = Zookeeper()
    async with controller(zookeeper, super_users=("User:broker",)) as server:
        response = await proxied_answer(server, request_, "bob", "broker")
        if not isinstance(request_, OfTokens):
            refusals = {Errors.CLUSTER_AUTHORIZATION_FAILED, Errors.TOPIC_AUTHORIZATION_FAILED}
            assert {*errors_of(response)} <= refusals, response
        elif isinstance(request_, CreateDelegationTokenRequest):
            owner, requester = response.principal_name, response.token_requester_principal_name
            assert (response.error_code, owner, requester) == (Errors.NONE, "bob", "bob")
        else:
            assert response.error_code == Errors.DELEGATION_TOKEN_NOT_FOUND


@pytest.mark.covers("KIP-590 10")
@story
async def test_what_is_proxied_comes_from_the_address_of_the_client(tmp_path: Path) -> None:
    """ACLs have hosts; of a broker that does not tell the client's address the broker's counts."""
    path, request = tmp_path / "audit", MUTATIONS[2]
    audit = AuditLog(path)
    async with controller(Zookeeper(), audit, super_users=("User:broker",)) as server:
        right = AclCreation(
            resource_type=4,
            resource_name="kafka-cluster",
            resource_pattern_type=3,
            principal="User:bob",
            host="10.1.2.3",
            operation=7,
            permission_type=3,
        )
        given = await proxied_answer(server, CreateAclsRequest(creations=[right]), "broker", "broker")
        assert errors_of(given) == [Errors.NONE]
        for address, wanted in (("10.1.2.3", Errors.NONE), ("10.1.2.4", NO_CLUSTER), (None, NO_CLUSTER)):
            assert errors_of(await proxied_answer(server, request, "bob", "broker", address)) == [wanted]
    audit.close()
    audited = [(each["principal"], each["address"], each.get("through_address")) for each in lines(path)[1:]]
    through = "127.0.0.1"
    assert audited == [
        ("User:bob", "10.1.2.3", through),
        ("User:bob", "10.1.2.4", through),
        ("User:bob", through, through),
    ]


@pytest.mark.covers("KIP-590 10")
@EACH
@story
async def test_brokers_alone_may_name_another(request_: Message) -> None:
    """That takes CLUSTER_ACTION, as an envelope does."""
    async with controller(Zookeeper(), super_users=("User:admin",)) as server:
        response = await proxied_answer(server, request_, "admin", "bob")
        assert {*errors_of(response)} == {Errors.CLUSTER_AUTHORIZATION_FAILED}


@story
async def test_a_stranger_gets_no_token_in_another_name() -> None:
    async with controller(Zookeeper(), super_users=()) as server:
        for request in (each for each in MUTATIONS if isinstance(each, OfTokens)):
            response = await proxied_answer(server, request, "alice")
            assert response.error_code == Errors.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        response = await proxied_answer(server, MUTATIONS[-3], "alice", "broker")
        assert (response.error_code, response.principal_name) == (Errors.NONE, "alice")


@story
async def test_a_client_of_a_token_gets_no_other_by_a_broker() -> None:
    """The broker refuses, because it forwards only the principal's name and not the token."""
    policy, session = DocumentForwarding(lambda: None, every_node), ClientSession("PLAINTEXT", "127.0.0.1")
    session.authenticated(KafkaPrincipal("alice"), is_token=True)
    for request in (each for each in MUTATIONS if isinstance(each, OfTokens)):
        version = BUMPED[type(request)] - 1
        answer = answer_in(await policy.ask(context_in(frame_of(request, version), session)), request, version)
        assert answer.error_code == Errors.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


@pytest.mark.covers("KIP-590 11")
@story
async def test_before_the_second_roll_no_version_is_routed(tmp_path: Path) -> None:
    async with controller(Zookeeper(), protocol="2.8") as server:
        with pytest.raises(asyncio.IncompleteReadError):
            await asked(server.port, MUTATIONS[1], 2)  # No version of Kafka's.
        async with await connect("127.0.0.1", server.port) as connection:
            assert connection.versions is not None
            assert connection.versions.by_key[IncrementalAlterConfigsRequest.api_key].highest == 1


@pytest.mark.covers("KIP-590 9")
@story
async def test_clients_get_the_new_versions() -> None:
    async with controller(Zookeeper()) as server, await connect("127.0.0.1", server.port) as connection:
        assert connection.versions is not None
        versions = {kind: connection.versions.by_key[kind.api_key].highest for kind in BUMPED}
        assert versions == BUMPED


@pytest.mark.parametrize("tag", [b"", b"\x05abc", b"\x02\xff", b"\0", b"\xff\xff\xff\xff\xff\xff"])
def test_a_name_that_is_no_string_is_refused(tag: bytes) -> None:
    with pytest.raises(DecodeError):
        client_of(context_in(frame_of(MUTATIONS[4], 1, tag)).header)


def test_a_mutation_of_a_stranger_has_fewer_values_than_one_of_a_node() -> None:
    resource = IncrementalAlterConfigsRequestAlterConfigsResource(**TOPIC)
    context = context_in(frame_of(IncrementalAlterConfigsRequest(resources=[resource] * (CLIENT_VALUES + 1)), 0))
    assert request_of(context, every_node)
    with pytest.raises(DecodeError):
        request_of(context, lambda session: False)


def test_a_long_name_is_read_as_it_was_written() -> None:
    for name in ("", "é" * 63, "x" * 126, "x" * 127, "x" * 20_000):
        session = ClientSession("PLAINTEXT", "10.1.2.3")
        session.authenticated(KafkaPrincipal(name))
        frame = b"".join(proxied(context_in(frame_of(MUTATIONS[4], 0), session), MUTATIONS[4]))
        assert client_of(context_in(frame).header) == (name, "10.1.2.3")


@pytest.mark.covers("KIP-590 3", "KIP-590 10")
@EACH
@story
async def test_a_broker_shows_the_controller_who_it_is(request_: Message) -> None:
    """Where the controller's listener asks for it; the client is named in the header all the same."""
    seen: list[tuple[str, str, Message]] = []

    async def handle(context: RequestContext, request: Message) -> Message:
        assert context.through is not None
        seen.append((str(context.through.principal), context.principal.name, request))
        return refused(request, context.version, Errors.POLICY_VIOLATION)

    apis = {"SaslHandshake": (0, 1), "SaslAuthenticate": (0, 2)}
    document = DocumentRequests(lambda: pipeline, lambda: True, every_node)
    pipeline = RequestPipeline(handle, every_node, routes=[document.route()])
    async with await serve("127.0.0.1", 0, handle, apis, parts=pipeline.parts, sasl=listener()) as server:
        where = Endpoint(server.port, "127.0.0.1", "SECURE", 2)
        dialer = Dialer(lambda: Security(sasl=ALICE["PLAIN"]))
        policy, session = DocumentForwarding(lambda: where, every_node, dialer), ClientSession("PLAINTEXT", "::1")
        session.authenticated(KafkaPrincipal("bob"))
        version = BUMPED[type(request_)] - 1
        answer = await policy.ask(context_in(frame_of(request_, version), session))
    assert seen == [("User:alice", "bob", request_)]
    assert {*errors_of(answer_in(answer, request_, version))} == {Errors.POLICY_VIOLATION}
