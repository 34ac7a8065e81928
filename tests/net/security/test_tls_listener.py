"""Servers that authenticate clients: kcore's own client, librdkafka, and unauthenticated clients."""

import asyncio
import logging
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from kcore import schema as s
from kcore.errors import AuthenticationError, DisconnectedError
from kcore.metadata.principal import KafkaPrincipal
from kcore.net.connect import connect
from kcore.net.limits.connection_limits import Limits
from kcore.net.security.client_security import MECHANISMS, Sasl, Security
from kcore.net.security.sasl_mechanisms import PlainUsers, Token
from kcore.net.security.sasl_server import SaslListener
from kcore.net.security.tls import TlsContext, TlsSettings
from kcore.net.server import RequestContext, Server, ServerParts, serve
from kcore.protocol_errors import Errors
from kcore.schema.cluster_metadata import MetadataResponseBroker
from kcore.scram import ScramCredential, scram_credential
from net.authority import Authority, client_tls
from net.loops import HEARTBEAT, fenced, framed, read_frame, request_frame, story, until

APIS = {"BrokerHeartbeat": (0, 1), "SaslHandshake": (0, 1), "SaslAuthenticate": (0, 2)}
PASSWORD = "swordfish"
ALICE = {each: Sasl(each, "alice", PASSWORD) for each in MECHANISMS}


class Users:
    def secret(self) -> bytes | None:
        return None

    def scram(self, mechanism: str, username: str) -> ScramCredential | None:
        return scram_credential(mechanism, PASSWORD.encode(), bytes(16), 4096) if username == "alice" else None

    def token(self, token_id: str) -> Token | None:
        return None


def listener(**others: Any) -> SaslListener:
    return SaslListener(MECHANISMS, lambda: 0, PlainUsers({"alice": PASSWORD}), Users(), **others)


class Seen:
    """A handler that remembers who asked."""

    def __init__(self) -> None:
        self.contexts: list[RequestContext] = []
        self.port = 0

    async def __call__(self, context: RequestContext, message: Any) -> Any:
        self.contexts.append(context)
        if isinstance(message, s.MetadataRequest):
            broker = MetadataResponseBroker(node_id=1, host="127.0.0.1", port=self.port)
            return s.MetadataResponse(brokers=[broker], cluster_id="of the test", controller_id=-1)
        if isinstance(message, s.SaslHandshakeRequest):
            return s.SaslHandshakeResponse(error_code=Errors.ILLEGAL_SASL_STATE.value)
        return await fenced(context, message)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


def tls_of(authority: Authority) -> TlsContext:
    return TlsContext(TlsSettings(str(authority.keystore("server"))), TlsSettings.server_context)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("over_tls", [False, True])
@story
async def test_requests_are_those_of_who_has_authenticated(
    over_tls: bool, mechanism: str, authority: Authority
) -> None:
    seen, tls = Seen(), tls_of(authority) if over_tls else None
    shown = client_tls(authority.trusted, authority.keystore("client")) if over_tls else None
    async with await serve("127.0.0.1", 0, seen, APIS, tls=tls, sasl=listener()) as server:
        async with await connect("127.0.0.1", server.port, security=Security(shown, ALICE[mechanism])) as connection:
            large = s.BrokerHeartbeatRequest(unknown_tagged_fields=((99, bytes(1_000_000)),))
            assert (await connection.send(large)).is_fenced, "its size is bounded no more"
        [context] = seen.contexts
        assert (context.principal, context.session.is_token_authenticated) == (KafkaPrincipal("alice"), False)
        protocol = "SASL_SSL" if over_tls else "SASL_PLAINTEXT"
        assert context.session.security_protocol == context.listener_name == server.protocol == protocol
        assert not server.metrics.errors


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize(("username", "password"), [("alice", "Swordfish"), ("bob", PASSWORD)])
@story
async def test_a_failed_authentication_is_answered_late_and_closed(
    mechanism: str, username: str, password: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    seen = Seen()
    async with await serve("127.0.0.1", 0, seen, APIS, sasl=listener(failure_delay_s=0.05)) as server:
        begin_s = asyncio.get_running_loop().time()
        with pytest.raises(AuthenticationError, match="SASL_AUTHENTICATION_FAILED"):
            await connect("127.0.0.1", server.port, security=Security(sasl=Sasl(mechanism, username, password)))
        assert asyncio.get_running_loop().time() - begin_s >= 0.05
        await until(lambda: not server.connections.served)
        assert server.metrics.errors == {"authentication": 1} and not seen.contexts
    assert PASSWORD.lower() not in caplog.text.lower()


@story
async def test_nothing_is_answered_to_who_has_not_authenticated() -> None:
    seen = Seen()
    async with await serve("127.0.0.1", 0, seen, APIS, sasl=listener(failure_delay_s=0)) as server:
        async with await connect("127.0.0.1", server.port) as connection:
            with pytest.raises(DisconnectedError):
                await connection.send(HEARTBEAT)
        assert not seen.contexts


@story
async def test_before_authentication_only_the_served_versions_of_api_versions_are_answered() -> None:
    apis = {**APIS, "ApiVersions": (0, 2)}
    async with (
        await serve("127.0.0.1", 0, Seen(), apis, sasl=listener()) as server,
        await connect("127.0.0.1", server.port) as connection,
    ):
        assert connection.versions is not None and connection.versions.by_key[18] == (0, 2)
        assert connection.metrics.requests == 2, "the first was refused"


class Direct:
    """Takes heartbeats without a task."""

    def __init__(self) -> None:
        self.taken = 0

    def takes(self, api_key: int) -> bool:
        return api_key == HEARTBEAT.api_key

    def begin(self, context: RequestContext, request: Any, answer: Any) -> None:
        self.taken += 1
        answer(s.BrokerHeartbeatResponse(is_fenced=True))


class Greedy:
    """Would answer every connection itself."""

    def plan(self, direct: Any, response: Any) -> Any:
        raise AssertionError("it was offered a connection")


@story
async def test_requests_without_a_task_wait_for_the_end_of_the_exchange_and_stay_here() -> None:
    direct = Direct()
    parts, sasl = ServerParts(direct=direct, adopter=Greedy()), listener(failure_delay_s=0)
    async with await serve("127.0.0.1", 0, Seen(), APIS, sasl=sasl, parts=parts) as server:
        async with await connect("127.0.0.1", server.port) as stranger:
            with pytest.raises(DisconnectedError):
                await stranger.send(HEARTBEAT)
        assert direct.taken == 0
        async with await connect("127.0.0.1", server.port, security=Security(sasl=ALICE["PLAIN"])) as connection:
            assert (await connection.send(HEARTBEAT)).is_fenced
        assert direct.taken == 1


@story
async def test_a_session_ends() -> None:
    """Also for requests without a task."""
    for direct in (None, Direct()):
        parts, sasl = ServerParts(direct=direct), listener(max_reauth_ms={"PLAIN": 150})
        async with (
            await serve("127.0.0.1", 0, Seen(), APIS, sasl=sasl, parts=parts) as server,
            await connect("127.0.0.1", server.port, security=Security(sasl=ALICE["PLAIN"])) as connection,
        ):
            assert (await connection.send(HEARTBEAT)).is_fenced
            await asyncio.sleep(0.2)
            with pytest.raises(DisconnectedError):
                await connection.send(HEARTBEAT)


@story
async def test_a_stranger_may_send_little() -> None:
    """Whatever size it announces before, and no memory is kept for it."""
    async with await serve("127.0.0.1", 0, Seen(), APIS, sasl=listener(max_receive_bytes=1000)) as server:
        for size in (1001, 2**31 - 1, -1):
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(size.to_bytes(4, "big", signed=True))
            assert await reader.read() == b""
            writer.close()
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(request_frame(s.SaslHandshakeRequest(mechanism="PLAIN"), 1, 1))
        await read_frame(reader)
        writer.write(request_frame(s.SaslAuthenticateRequest(auth_bytes=bytes(2000)), 2, 2))
        assert await reader.read() == b""
        writer.close()
        assert server.metrics.errors == {"FrameError": 4}


@story
async def test_a_request_right_behind_the_last_token_is_answered() -> None:
    """The request is larger than the limit for clients that are not authenticated."""
    seen = Seen()
    async with await serve("127.0.0.1", 0, seen, APIS, sasl=listener(max_receive_bytes=1000)) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        large = s.BrokerHeartbeatRequest(broker_id=1, unknown_tagged_fields=((99, bytes(100_000)),))
        writer.write(
            request_frame(s.SaslHandshakeRequest(mechanism="PLAIN"), 1, 1)
            + request_frame(s.SaslAuthenticateRequest(auth_bytes=f"\0alice\0{PASSWORD}".encode()), 2, 2)
            + request_frame(large, 1, 3)
        )
        for correlation_id in (1, 2, 3):
            assert (await read_frame(reader))[:4] == correlation_id.to_bytes(4, "big")
        writer.close()
    assert [str(each.principal) for each in seen.contexts] == ["User:alice"]


@story
async def test_who_has_authenticated_stays_when_strangers_come() -> None:
    async with await serve("127.0.0.1", 0, Seen(), APIS, limits=Limits(connections=3), sasl=listener()) as server:
        async with await connect("127.0.0.1", server.port, security=Security(sasl=ALICE["PLAIN"])) as known:
            for _ in range(5):
                strangers = [await connect("127.0.0.1", server.port) for _ in range(4)]
                assert (await known.send(HEARTBEAT)).is_fenced
                for each in strangers:
                    each.abort()
        assert server.metrics.errors["evicted"] >= 5


@story
async def test_strangers_cost_a_bounded_number_of_lines(caplog: pytest.LogCaptureFixture) -> None:
    async with await serve("127.0.0.1", 0, Seen(), APIS, sasl=listener(failure_delay_s=0)) as server:
        for _ in range(60):
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(framed(b"GET / HTTP/1.1\r\nPassword: hunter2"))
            assert await reader.read() == b""
            writer.close()
        assert server.metrics.errors["authentication"] == 60
    assert len(caplog.records) < 40 and "hunter2" not in caplog.text


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("over_tls", [False, True])
@story
async def test_librdkafka_authenticates(over_tls: bool, mechanism: str, authority: Authority) -> None:
    seen = Seen()
    apis = {**APIS, "Metadata": (0, 12)}
    tls = tls_of(authority) if over_tls else None
    async with await serve("127.0.0.1", 0, seen, apis, tls=tls, sasl=listener()) as server:
        seen.port = server.port
        for password in (PASSWORD, "wrong"):
            seen.contexts.clear()
            found = await asyncio.to_thread(cluster_id, server, authority, mechanism, password)
            if password == PASSWORD:
                assert found == "of the test" and {str(each.principal) for each in seen.contexts} == {"User:alice"}
            else:
                assert found != "of the test" and not seen.contexts


def cluster_id(server: Server, authority: Authority, mechanism: str, password: str) -> str:
    settings = {
        "bootstrap.servers": f"127.0.0.1:{server.port}",
        "security.protocol": server.protocol,
        "sasl.mechanisms": mechanism,
        "sasl.username": "alice",
        "sasl.password": password,
        "ssl.ca.location": str(authority.trusted),
        "log_level": 0,
    }
    try:
        return str(AdminClient(settings).list_topics(timeout=5 if password == PASSWORD else 2).cluster_id)
    except Exception as error:
        return str(error)
