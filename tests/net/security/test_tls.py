"""TLS as server.properties asks for it: PEM in files and as text, and files that change."""

import asyncio
import os
import socket
import ssl
from pathlib import Path

import pytest

from kcore.errors import AuthenticationError, DisconnectedError, NetworkError
from kcore.net.connect import connect
from kcore.net.security.client_security import Security
from kcore.net.security.tls import VERSIONS, TlsContext, TlsError, TlsSettings, as_lines
from kcore.net.server import RequestContext, serve
from net.authority import Authority, client_tls
from net.loops import HEARTBEAT, fenced, story

APIS = {"BrokerHeartbeat": (0, 1)}


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "authority")


def parts(path: Path) -> tuple[str, str]:
    """Key and certificates, each as text."""
    text = path.read_text()
    at = text.index("-----BEGIN CERTIFICATE")
    return text[:at], text[at:]


async def names_seen(settings: TlsSettings, *clients: Security) -> list[str]:
    """The principal of each client, as the server sees it; what the client gets where it is not let in."""
    seen: list[str] = []

    async def handler(context: RequestContext, message: object) -> object:
        seen.append(str(context.principal))
        return await fenced(context, message)

    async with await serve(
        "127.0.0.1", 0, handler, APIS, tls=TlsContext(settings, TlsSettings.server_context)
    ) as server:
        for client in clients:
            try:
                async with await connect("127.0.0.1", server.port, security=client) as connection:
                    await connection.send(HEARTBEAT)
            except (AuthenticationError, DisconnectedError) as error:
                seen.append(type(error).__name__)
    return seen


@pytest.mark.parametrize("way", ["files", "text", "one line", "encrypted"])
@story
async def test_a_server_shows_its_certificate_and_asks_for_the_clients(way: str, authority: Authority) -> None:
    password = b"swordfish" if way == "encrypted" else None
    keystore = authority.keystore("server", password=password)
    key, chain = parts(keystore)
    trusted = authority.trusted.read_text()
    if way == "one line":
        key, chain, trusted = (" ".join(each.split("\n")) for each in (key, chain, trusted))
    settings = TlsSettings(
        keystore=None if "text" in way or "line" in way else str(keystore),
        certificate_chain=chain if "text" in way or "line" in way else None,
        key=key if "text" in way or "line" in way else None,
        key_password="swordfish" if password else None,
        truststore=None if "line" in way else str(authority.trusted),
        certificates=trusted if "line" in way else None,
        client_auth="required",
    )
    client = client_tls(authority.trusted, authority.keystore("client"))
    names = await names_seen(settings, Security(client), Security(settings.client_context()))
    assert names == ["User:CN=client,OU=tests,O=kcore", "User:CN=server,OU=tests,O=kcore"]


@pytest.mark.parametrize(("asked", "without"), [("none", "User:ANONYMOUS"), ("requested", "User:ANONYMOUS")])
@story
async def test_clients_without_a_certificate_are_anonymous(asked: str, without: str, authority: Authority) -> None:
    settings = TlsSettings(str(authority.keystore("server")), truststore=str(authority.trusted), client_auth=asked)  # type: ignore[arg-type]
    stranger = Authority(authority.folder / "another").keystore("client")
    names = await names_seen(
        settings,
        Security(client_tls(authority.trusted)),
        Security(client_tls(authority.trusted, authority.keystore("client"))),
        Security(client_tls(authority.trusted, stranger)),
    )
    assert names[0] == without
    assert names[1].startswith("User:CN=client" if asked == "requested" else without)
    assert (names[2] == without) == (asked == "none")


def refusal(port: int, context: ssl.SSLContext) -> str:
    """The reason that a client of that context has for its failure; empty if the connection ends without one."""
    with socket.create_connection(("127.0.0.1", port)) as bare:
        try:
            with context.wrap_socket(bare, server_hostname="localhost") as secured:
                secured.recv(1)  # With TLS 1.3 the server sees the client's certificate after the client's handshake.
        except ssl.SSLEOFError:
            return ""
        except ssl.SSLError as error:
            return error.reason
        return ""


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
@story
async def test_a_refused_client_gets_an_alert_that_says_why(version: str, authority: Authority) -> None:
    server_key, trusted = str(authority.keystore("server")), str(authority.trusted)
    settings = TlsSettings(server_key, truststore=trusted, client_auth="required", versions=(version,))
    stranger = client_tls(authority.trusted, Authority(authority.folder / "another").keystore("client"))
    missing = client_tls(authority.trusted)
    other = client_tls(authority.trusted, authority.keystore("client"))
    other.minimum_version = other.maximum_version = next(VERSIONS[each] for each in VERSIONS if each != version)
    alerts: set[str] = set()
    async with await serve("127.0.0.1", 0, fenced, APIS, tls=settings.server_context()) as server:
        for client in (stranger, missing, other):
            alerts.add(await asyncio.to_thread(refusal, server.port, client))
    required = "TLSV13_ALERT_CERTIFICATE_REQUIRED" if version == "TLSv1.3" else "SSLV3_ALERT_HANDSHAKE_FAILURE"
    assert alerts == {"TLSV1_ALERT_UNKNOWN_CA", required, "TLSV1_ALERT_PROTOCOL_VERSION"}


@story
async def test_new_connections_get_certificates_that_were_replaced(authority: Authority) -> None:
    clock = [0.0]
    keystore = authority.keystore("server")
    settings = TlsSettings(str(keystore), truststore=str(authority.trusted), client_auth="required")
    tls = TlsContext(settings, TlsSettings.server_context, lambda: clock[0])
    client = Security(client_tls(authority.trusted, authority.keystore("client")))
    other = Authority(authority.folder / "other")
    new = Security(client_tls(other.trusted, other.keystore("client")))
    async with await serve("127.0.0.1", 0, fenced, APIS, tls=tls) as server:

        async def is_let_in(security: Security) -> bool:
            clock[0] += 1
            try:
                async with await connect("127.0.0.1", server.port, security=security) as connection:
                    return bool((await connection.send(HEARTBEAT)).is_fenced)
            except NetworkError:
                return False

        async with await connect("127.0.0.1", server.port, security=client) as old:
            assert await is_let_in(client) and not await is_let_in(new)
            keystore.write_text("half a")
            assert await is_let_in(client), "what cannot be read changes nothing"
            keystore.unlink()
            assert await is_let_in(client), "nor what is not there"
            os.replace(other.keystore("server"), keystore)
            os.replace(other.trusted, authority.trusted)
            assert await is_let_in(new) and not await is_let_in(client)
            assert (await old.send(HEARTBEAT)).is_fenced, "a connection that is there stays"


def test_files_are_looked_at_once_a_second(authority: Authority) -> None:
    clock, made = [0.0], []

    def make(settings: TlsSettings) -> ssl.SSLContext:
        made.append(clock[0])
        return settings.server_context()

    keystore = authority.keystore("server")
    tls = TlsContext(TlsSettings(str(keystore)), make, lambda: clock[0])
    for _ in range(10):
        clock[0] += 0.3
        authority.keystore("server")
        tls.current()
    assert 2 <= len(made) <= 4


@pytest.mark.parametrize("what", ["missing", "empty", "another's key", "wrong password", "no password", "no PEM"])
def test_what_cannot_be_used_is_one_line_without_secrets(what: str, authority: Authority) -> None:
    """A missing password is not asked for at the terminal."""
    keystore = authority.keystore("server", password=b"swordfish" if "password" in what else None)
    key, chain = parts(keystore)
    settings = TlsSettings(str(keystore), key_password="halibut" if what == "wrong password" else None)
    if what == "missing":
        keystore.unlink()
    elif what == "empty":
        keystore.write_text("")
    elif what == "another's key":
        keystore.write_text(parts(authority.keystore("another"))[0] + chain)
    elif what == "no PEM":
        settings = TlsSettings(certificate_chain="swordfish", key=key)
    with pytest.raises(TlsError) as raised:
        settings.server_context()
    message = str(raised.value)
    assert "\n" not in message and "swordfish" not in message and "halibut" not in message and "BEGIN" not in message


def test_settings_show_no_secret() -> None:
    assert "swordfish" not in repr(TlsSettings(key="swordfish", key_password="swordfish"))


def test_versions_of_tls(authority: Authority) -> None:
    context = TlsSettings(str(authority.keystore("server")), versions=("TLSv1.3",)).server_context()
    assert context.minimum_version is context.maximum_version is ssl.TLSVersion.TLSv1_3
    context = TlsSettings(str(authority.keystore("server"))).server_context()
    assert (context.minimum_version, context.maximum_version) == (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)


@pytest.mark.parametrize("verifies", [False, True])
def test_what_servers_allow_and_clients_check(verifies: bool, authority: Authority) -> None:
    """No renegotiation, which costs a server more than its client; the name, unless a setting says not to."""
    settings = TlsSettings(str(authority.keystore("server")), verifies_name=verifies)
    assert settings.server_context().options & ssl.OP_NO_RENEGOTIATION
    context = settings.client_context()
    assert (context.check_hostname, context.verify_mode) == (verifies, ssl.CERT_REQUIRED)


def test_pem_in_one_line_is_pem() -> None:
    pem = f"-----BEGIN A KEY-----\n{'x' * 64}\n{'y' * 10}==\n-----END A KEY-----\n"
    assert as_lines(f"# for me\n{pem}") == as_lines(" ".join(pem.split("\n"))) == pem


@pytest.mark.parametrize(("given", "password"), [(None, ""), ("secret", "secret")])
def test_a_password_that_is_not_given_is_empty(
    given: str | None, password: str, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without any, OpenSSL waits for one at the terminal."""
    asked: list[str | None] = []

    def load(context: ssl.SSLContext, path: str, password: str | None = None) -> None:
        asked.append(password)

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", load)
    TlsSettings(str(authority.keystore("server")), key_password=given).server_context()
    assert asked == [password]


def test_a_file_that_is_being_replaced_is_not_read(authority: Authority, caplog: pytest.LogCaptureFixture) -> None:
    keystore, now_s = authority.keystore("server"), 0.0
    tls = TlsContext(TlsSettings(str(keystore)), TlsSettings.server_context, lambda: now_s)
    before = tls.current()
    keystore.unlink()
    now_s = 2.0
    assert tls.current() is before and not caplog.records
