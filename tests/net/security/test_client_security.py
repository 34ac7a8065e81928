"""TLS with certificates made for the test, SASL against the other side of the same library."""

import asyncio
import ssl
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import trustme
from scramp import ScramException, ScramMechanism

from kcore import schema as s
from kcore.errors import AuthenticationError, DisconnectedError, FrameError, NetworkError, RequestTimeoutError
from kcore.metadata.principal import ANONYMOUS, KafkaPrincipal
from kcore.net.connect import connect
from kcore.net.limits.connection_limits import Limits
from kcore.net.security.client_security import MECHANISMS, Sasl, Security
from kcore.net.security.principal import principal_of_certificate
from kcore.net.server import RequestContext, serve
from kcore.protocol_errors import Errors
from kcore.scram import MOST_ITERATIONS, salted_password
from net.authority import client_tls, server_tls
from net.loops import HEARTBEAT, fenced, raw_server, story, until

APIS = {"BrokerHeartbeat": (0, 1)}
SASL_APIS = {**APIS, "SaslHandshake": (0, 1), "SaslAuthenticate": (0, 2)}
PASSWORD = "geheim, wirklich=ja"


class Files(NamedTuple):
    """PEM files: who signs, a server and its key, a client with its key in one file, somebody else who signs."""

    ca: Path
    server: Path
    server_key: Path
    client: Path
    other_ca: Path


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    files = Files(*(tmp_path_factory.mktemp("tls") / name for name in Files._fields))
    ca = trustme.CA()
    ca.cert_pem.write_to_path(str(files.ca))
    server = ca.issue_cert("localhost", "127.0.0.1")
    server.cert_chain_pems[0].write_to_path(str(files.server))
    server.private_key_pem.write_to_path(str(files.server_key))
    client = ca.issue_cert(
        "client@example.org",
        common_name="al=ice, #1",
        organization_name="Acme + Sons",
        organization_unit_name="dev",
    )
    client.private_key_and_cert_chain_pem.write_to_path(str(files.client))
    trustme.CA().cert_pem.write_to_path(str(files.other_ca))
    return files


@story
async def test_tls(files: Files) -> None:
    async with await serve("127.0.0.1", 0, fenced, APIS, tls=server_tls(files.server, files.server_key)) as server:
        for host in ("127.0.0.1", "localhost"):
            async with await connect(host, server.port, security=Security(client_tls(files.ca))) as connection:
                calls = [connection.send(s.BrokerHeartbeatRequest(broker_id=i)) for i in range(100)]
                assert [(await call).throttle_time_ms for call in calls] == list(range(100))
                large = s.BrokerHeartbeatRequest(unknown_tagged_fields=((99, bytes(3_000_000)),))
                assert (await connection.send(large)).is_fenced
    assert not server.metrics.errors


@story
async def test_the_name_in_the_certificate(files: Files) -> None:
    async with await serve("127.0.0.1", 0, fenced, APIS, tls=server_tls(files.server, files.server_key)) as server:
        wrong = Security(client_tls(files.ca), server_name="elsewhere.example.org")
        with pytest.raises(AuthenticationError, match=f"TLS to 127.0.0.1:{server.port}: .*elsewhere"):
            await connect("127.0.0.1", server.port, security=wrong)
        security = Security(client_tls(files.ca, verify_name=False), server_name="elsewhere.example.org")
        async with await connect("127.0.0.1", server.port, security=security) as connection:
            assert (await connection.send(HEARTBEAT)).is_fenced


@story
async def test_an_authority_that_is_not_trusted(files: Files) -> None:
    async with await serve("127.0.0.1", 0, fenced, APIS, tls=server_tls(files.server, files.server_key)) as server:
        for context in (client_tls(files.other_ca), client_tls()):
            with pytest.raises(AuthenticationError, match="certificate verify failed"):
                await connect("127.0.0.1", server.port, security=Security(context))


@story
async def test_a_client_must_show_its_certificate(files: Files) -> None:
    tls = server_tls(files.server, files.server_key, client_ca=files.ca)
    async with await serve("127.0.0.1", 0, fenced, APIS, tls=tls) as server:
        security = Security(client_tls(files.ca, files.client))
        async with await connect("127.0.0.1", server.port, security=security) as connection:
            assert (await connection.send(HEARTBEAT)).is_fenced
        with pytest.raises((AuthenticationError, DisconnectedError)):  # TLS 1.3 tells only after the handshake.
            await connect("127.0.0.1", server.port, security=Security(client_tls(files.ca)))


@story
async def test_one_side_has_tls_and_the_other_has_not(files: Files) -> None:
    async with await serve("127.0.0.1", 0, fenced, APIS, tls=server_tls(files.server, files.server_key)) as server:
        with pytest.raises((FrameError, DisconnectedError)):
            await connect("127.0.0.1", server.port)
    async with await serve("127.0.0.1", 0, fenced, APIS) as server:
        with pytest.raises((AuthenticationError, DisconnectedError)):
            await connect("127.0.0.1", server.port, security=Security(client_tls(files.ca)))
        assert server.metrics.errors == {"FrameError": 1}


@story
async def test_a_client_that_begins_no_handshake_makes_room_for_others(
    files: Files,
) -> None:
    tls = server_tls(files.server, files.server_key, client_ca=files.ca)
    limits = Limits(connections=3)
    security = Security(client_tls(files.ca, files.client))
    async with await serve("127.0.0.1", 0, fenced, APIS, tls=tls, limits=limits) as server:
        async with await connect("127.0.0.1", server.port, security=security) as known:
            for _ in range(10):
                silent = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(5)]
                async with await connect("127.0.0.1", server.port, security=security) as other:
                    assert (await other.send(HEARTBEAT)).is_fenced
                assert (await known.send(HEARTBEAT)).is_fenced
                for _, writer in silent:
                    writer.transport.abort()
        assert server.metrics.errors["evicted"] >= 10


@story
async def test_silence_instead_of_a_handshake(files: Files) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with raw_server(talk) as port:
        with pytest.raises(RequestTimeoutError, match=r"is not ready within 0\.1 s"):
            await connect("127.0.0.1", port, security=Security(client_tls(files.ca)), limits=Limits(connect_s=0.1))


def test_files_that_are_no_certificates(files: Files, tmp_path: Path) -> None:
    (tmp_path / "empty.pem").touch()
    with pytest.raises(ssl.SSLError):
        server_tls(files.server, files.client)
    for broken in (tmp_path / "empty.pem", tmp_path / "missing.pem"):
        with pytest.raises(OSError):
            client_tls(broken)


class SaslServer:
    """A handler that knows one user and lets nobody else ask."""

    def __init__(self, mechanism: str, password: str = PASSWORD, iterations: int = 4096) -> None:
        self.mechanism = mechanism
        self.known = False
        self.contexts: list[RequestContext] = []
        self.steps: list[tuple[Callable[[str], None], Callable[[], str]]] = []
        if mechanism.startswith("SCRAM"):
            hashed = ScramMechanism(mechanism).make_auth_info(password, iteration_count=iterations)
            users = {"a=d,min": hashed}
            scram = ScramMechanism(mechanism).make_server(users.__getitem__)
            self.steps.append((scram.set_client_first, scram.get_server_first))
            self.steps.append((scram.set_client_final, scram.get_server_final))

    async def __call__(self, context: RequestContext, message: Any) -> Any:
        if isinstance(message, s.SaslHandshakeRequest):
            error = Errors.NONE if message.mechanism == self.mechanism else Errors.UNSUPPORTED_SASL_MECHANISM
            return s.SaslHandshakeResponse(error_code=error.value, mechanisms=[self.mechanism])
        if isinstance(message, s.SaslAuthenticateRequest):
            try:
                token = self.answer(message.auth_bytes)
                if self.known:
                    context.session.authenticated(KafkaPrincipal("a=d,min"))
                return s.SaslAuthenticateResponse(auth_bytes=token)
            except (ScramException, KeyError):
                code = Errors.SASL_AUTHENTICATION_FAILED.value
                return s.SaslAuthenticateResponse(error_code=code, error_message="Invalid credentials")
        assert self.known
        self.contexts.append(context)
        return await fenced(context, message)

    def answer(self, token: bytes) -> bytes:
        if self.mechanism == "PLAIN":
            if token != b"\0a=d,min\0" + PASSWORD.encode():
                raise KeyError
            self.known = True
            return b""
        take, give = self.steps.pop(0)
        take(token.decode())
        self.known = not self.steps
        return give().encode()


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("over_tls", [False, True])
@story
async def test_a_request_carries_the_user_that_sasl_authenticated(files: Files, mechanism: str, over_tls: bool) -> None:
    """Over TLS, too, where the client shows a certificate besides."""
    handler = SaslServer(mechanism)
    tls = server_tls(files.server, files.server_key, client_ca=files.ca) if over_tls else None
    async with await serve("127.0.0.1", 0, handler, SASL_APIS, tls=tls, listener_name="INTERNAL") as server:
        shown = client_tls(files.ca, files.client) if over_tls else None
        security = Security(shown, Sasl(mechanism, "a=d,min", PASSWORD))
        async with await connect("127.0.0.1", server.port, security=security) as connection:
            await connection.send(HEARTBEAT)
    [context] = handler.contexts
    client = str(context.principal), context.listener_name, context.client_address
    assert client == ("User:a=d,min", "INTERNAL", "127.0.0.1")


@pytest.mark.parametrize("mechanism", MECHANISMS)
@story
async def test_nobody_is_authenticated_before_the_exchange_has_ended_nor_on_another_connection(mechanism: str) -> None:
    seen: list[KafkaPrincipal] = []
    sasl = SaslServer(mechanism)

    async def handler(context: RequestContext, message: Any) -> Any:
        seen.append(context.principal)
        return await (fenced if isinstance(message, s.BrokerHeartbeatRequest) else sasl)(context, message)

    async with await serve("127.0.0.1", 0, handler, SASL_APIS) as server:
        security = Security(sasl=Sasl(mechanism, "a=d,min", PASSWORD))
        async with await connect("127.0.0.1", server.port, security=security) as connection:
            assert {*seen} == {ANONYMOUS}  # The handshake, and each step of the exchange.
            async with await connect("127.0.0.1", server.port) as other:
                seen.clear()
                await connection.send(HEARTBEAT)
                await other.send(HEARTBEAT)
                await connection.send(HEARTBEAT)
    assert seen == [KafkaPrincipal("a=d,min"), ANONYMOUS, KafkaPrincipal("a=d,min")]


@story
async def test_a_request_carries_the_subject_of_the_clients_certificate(files: Files) -> None:
    seen: list[RequestContext] = []

    async def handler(context: RequestContext, message: Any) -> Any:
        seen.append(context)
        return await fenced(context, message)

    tls = server_tls(files.server, files.server_key, client_ca=files.ca)
    security = Security(client_tls(files.ca, files.client))
    async with (
        await serve("127.0.0.1", 0, handler, APIS, tls=tls) as server,
        await connect("127.0.0.1", server.port, security=security) as connection,
    ):
        await connection.send(HEARTBEAT)
    assert str(seen[0].principal) == "User:CN=al\\=ice\\, \\#1,OU=dev,O=Acme \\+ Sons"
    assert (seen[0].listener_name, seen[0].client_address) == ("SSL", "127.0.0.1")


@pytest.mark.parametrize("over_tls", [False, True])
@story
async def test_a_client_that_shows_nothing_is_anonymous(files: Files, over_tls: bool) -> None:
    seen: list[RequestContext] = []

    async def handler(context: RequestContext, message: Any) -> Any:
        seen.append(context)
        return await fenced(context, message)

    tls = server_tls(files.server, files.server_key) if over_tls else None
    security = Security(client_tls(files.ca, files.client), server_name="localhost") if over_tls else Security()
    async with (
        await serve("127.0.0.1", 0, handler, APIS, tls=tls) as server,
        await connect("127.0.0.1", server.port, security=security) as connection,
    ):
        await connection.send(HEARTBEAT)
    assert (str(seen[0].principal), seen[0].client_address) == ("User:ANONYMOUS", "127.0.0.1")
    assert seen[0].listener_name == ("SSL" if over_tls else "PLAINTEXT")


CN = "commonName"


@pytest.mark.parametrize(
    ("subject", "name"),
    [  # The texts of X500Principal.getName.
        ([[("countryName", "DE")], [("organizationName", "Acme")], [(CN, "alice")]], "CN=alice,O=Acme,C=DE"),
        ([[(CN, 'Sons, Daughters + "Co" <x>; \\ #')]], 'CN=Sons\\, Daughters \\+ \\"Co\\" \\<x\\>\\; \\\\ \\#'),
        ([[(CN, "  two  ")]], "CN=\\ \\ two\\ \\ "),
        ([[(CN, " ")]], "CN=\\ "),
        ([[(CN, "")]], "CN="),
        ([[(CN, "a  b")]], "CN=a  b"),
        ([[(CN, "v"), ("userId", "u")]], "CN=v+UID=u"),
        ([[("emailAddress", "a@example.org")]], "1.2.840.113549.1.9.1=#160d61406578616d706c652e6f7267"),
        ([[("emailAddress", "a" * 127)]], "1.2.840.113549.1.9.1=#167f" + "61" * 127),
        ([[("emailAddress", "a" * 128)]], "1.2.840.113549.1.9.1=#168180" + "61" * 128),
        ([[("emailAddress", "a" * 255)]], "1.2.840.113549.1.9.1=#1681ff" + "61" * 255),
        ([[("emailAddress", "a" * 256)]], "1.2.840.113549.1.9.1=#16820100" + "61" * 256),
        ([], ""),
    ],
)
def test_a_subject_is_printed_as_java_does(subject: list[list[tuple[str, str]]], name: str) -> None:
    assert str(principal_of_certificate({"subject": subject})) == f"User:{name}"


@pytest.mark.parametrize("mechanism", MECHANISMS)
@story
async def test_sasl(mechanism: str) -> None:
    async with await serve("127.0.0.1", 0, SaslServer(mechanism), SASL_APIS) as server:
        security = Security(sasl=Sasl(mechanism, "a=d,min", PASSWORD))
        async with await connect("127.0.0.1", server.port, security=security) as connection:
            assert (await connection.send(HEARTBEAT)).is_fenced
    assert not server.metrics.errors


@story
async def test_sasl_over_tls_and_no_question_about_versions(files: Files) -> None:
    tls = server_tls(files.server, files.server_key)
    async with await serve(
        "127.0.0.1", 0, SaslServer("SCRAM-SHA-512", iterations=10_000), SASL_APIS, tls=tls
    ) as server:
        security = Security(client_tls(files.ca), Sasl("SCRAM-SHA-512", "a=d,min", PASSWORD))
        async with await connect("127.0.0.1", server.port, security=security, ask_versions=False) as connection:
            assert (await connection.send(HEARTBEAT, 1)).is_fenced


@story
async def test_a_server_that_asks_for_many_iterations_keeps_no_other_connection_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A hostile server at one voter's address occupied all threads and so blocked connections to all other voters."""
    let_go, limits = threading.Event(), Limits(connect_s=10.0)

    def salt(mechanism: str, password: bytes, salt: bytes, iterations: int) -> bytes:
        if iterations > MOST_ITERATIONS:
            let_go.wait()
        return salted_password(mechanism, password, salt, 4096)

    async def hostile(context: RequestContext, message: Any) -> Any:
        if isinstance(message, s.SaslHandshakeRequest):
            return s.SaslHandshakeResponse(mechanisms=["SCRAM-SHA-256"])
        nonce = message.auth_bytes.partition(b"r=")[2]
        return s.SaslAuthenticateResponse(auth_bytes=b"r=%sx,s=c2FsdA==,i=%d" % (nonce, MOST_ITERATIONS + 1))

    monkeypatch.setattr("kcore.net.security.sasl_client.salted_password", salt)
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(2))
    security = Security(sasl=Sasl("SCRAM-SHA-256", "a=d,min", PASSWORD))
    async with (
        await serve("127.0.0.1", 0, hostile, SASL_APIS) as false,
        await serve("127.0.0.1", 0, SaslServer("SCRAM-SHA-256"), SASL_APIS) as server,
    ):
        calls = [connect("127.0.0.1", false.port, security=security, limits=limits) for _ in range(5)]
        theirs = [asyncio.create_task(each) for each in calls]
        await until(lambda: false.metrics.responses == 3 * len(theirs))
        try:
            async with await connect("127.0.0.1", server.port, security=security, limits=limits) as connection:
                assert (await connection.send(HEARTBEAT)).is_fenced
        finally:
            let_go.set()
            for each in theirs:
                each.cancel()
            await asyncio.gather(*theirs, return_exceptions=True)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize(("username", "password"), [("a=d,min", "wrong"), ("nobody", PASSWORD)])
@story
async def test_who_is_not_known(mechanism: str, username: str, password: str) -> None:
    async with await serve("127.0.0.1", 0, SaslServer(mechanism), SASL_APIS) as server:
        with pytest.raises(AuthenticationError) as caught:
            await connect("127.0.0.1", server.port, security=Security(sasl=Sasl(mechanism, username, password)))
        assert str(caught.value).startswith(f"SASL {mechanism} to 127.0.0.1:{server.port}: SASL_AUTHENTICATION_FAILED")
        assert password not in str(caught.value)


@story
async def test_a_mechanism_that_the_server_has_not() -> None:
    async with await serve("127.0.0.1", 0, SaslServer("SCRAM-SHA-512"), SASL_APIS) as server:
        with pytest.raises(AuthenticationError, match="UNSUPPORTED_SASL_MECHANISM; its mechanisms: SCRAM-SHA-512"):
            await connect("127.0.0.1", server.port, security=Security(sasl=Sasl("PLAIN", "a", "b")))


@pytest.mark.parametrize("step", range(2))
@pytest.mark.parametrize("lie", [b"", b"e=other-error", b"v=AAAA", b"\xff\xfe", b"r=mine,s=AAAA,i=1", b"x"])
@story
async def test_a_server_that_cannot_prove_that_it_knows_the_password(step: int, lie: bytes) -> None:
    class Liar(SaslServer):
        def answer(self, token: bytes) -> bytes:
            return lie if len(self.steps) == 2 - step else super().answer(token)

    async with await serve("127.0.0.1", 0, Liar("SCRAM-SHA-256"), SASL_APIS) as server:
        with pytest.raises(AuthenticationError, match="SASL"):
            security = Security(sasl=Sasl("SCRAM-SHA-256", "a=d,min", PASSWORD))
            await connect("127.0.0.1", server.port, security=security)


@story
async def test_a_server_that_knows_no_sasl() -> None:
    async with await serve("127.0.0.1", 0, fenced, APIS) as server:
        with pytest.raises(NetworkError):
            security = Security(sasl=Sasl("PLAIN", "a", "b"))
            await connect("127.0.0.1", server.port, security=security, ask_versions=False)


def test_a_password_is_not_shown() -> None:
    assert PASSWORD not in repr(Security(sasl=Sasl("PLAIN", "a", PASSWORD)))
    with pytest.raises(AuthenticationError, match="SASL GSSAPI: kcore has PLAIN"):
        Sasl("GSSAPI", "a", "b")
