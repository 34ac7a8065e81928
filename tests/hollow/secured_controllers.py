"""Controllers of `test_fleet` behind TLS and SASL, and the settings of their clients."""

import datetime
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from hollow.test_fleet import APIS, Controller
from kcore.measure.hollow.quorum_client import Quorum
from kcore.net.security.jaas import MODULES
from kcore.net.security.sasl_mechanisms import NoCredentials, PlainUsers
from kcore.net.security.sasl_server import SaslListener
from kcore.net.security.tls import TlsContext, TlsSettings
from kcore.net.server import serve
from kcore.protocol_errors import Errors
from kcore.schema.sasl import SaslHandshakeRequest, SaslHandshakeResponse
from kcore.scram import ScramCredential, scram_credential
from kcore.server.properties.security import client_security_of
from net.authority import Authority
from net.loops import QUICK

USER, PASSWORD = "storm", "swordfish"
OF_SASL = {"SaslHandshake": (0, 1), "SaslAuthenticate": (0, 2)}
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


class Users(NoCredentials):
    """One user of SCRAM; counts how often its credential is read, which is once for an authentication."""

    def __init__(self) -> None:
        self.password, self.request_count = PASSWORD, 0
        self._known: dict[tuple[str, str], ScramCredential] = {}

    def scram(self, mechanism: str, username: str) -> ScramCredential | None:
        self.request_count += 1
        key = mechanism, self.password
        if key not in self._known:
            self._known[key] = scram_credential(mechanism, self.password.encode(), b"salt", 4096)
        return self._known[key] if username == USER else None


@dataclass
class Behind:
    """How the controllers of a test are secured."""

    tls: TlsSettings | None = None
    mechanisms: tuple[str, ...] = ()
    max_reauth_ms: Mapping[str, int] = field(default_factory=dict)
    users: Users = field(default_factory=Users)

    @asynccontextmanager
    async def controllers(self, count: int = 1) -> AsyncIterator[list[Controller]]:
        nodes = [Controller(3001 + at) for at in range(count)]
        tls = None if self.tls is None else TlsContext(self.tls, TlsSettings.server_context)
        sasl = None
        if self.mechanisms:
            plain = PlainUsers({USER: PASSWORD})
            sasl = SaslListener(
                self.mechanisms, lambda: 0, plain, self.users, self.max_reauth_ms, failure_delay_s=0.001
            )
        for node in nodes:
            too_late = SaslHandshakeResponse(error_code=Errors.ILLEGAL_SASL_STATE)
            node.answers[SaslHandshakeRequest] = too_late
            node.server = await serve("127.0.0.1", 0, node, APIS | OF_SASL, limits=QUICK, tls=tls, sasl=sasl)
        try:
            yield nodes
        finally:
            for node in nodes:
                assert node.server is not None
                await node.server.close()


def quorum_at(nodes: list[Controller], client: Mapping[str, str]) -> Quorum:
    addresses = [f"localhost:{node.server.port}" for node in nodes if node.server]
    return Quorum(addresses, random=Random(1), security=client_security_of(client))


@asynccontextmanager
async def opened(nodes: list[Controller], client: Mapping[str, str]) -> AsyncIterator[Quorum]:
    quorum = quorum_at(nodes, client)
    await quorum.open()
    try:
        yield quorum
    finally:
        await quorum.close()


def trusting(authority: Authority, protocol: str = "SSL", **more: str) -> dict[str, str]:
    """The properties of a client; in `more`, `_` stands for the dots of a name."""
    store = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(authority.trusted)}
    return {"security.protocol": protocol, **store, **{name.replace("_", "."): value for name, value in more.items()}}


def showing(path: Path, password: str | None = None) -> dict[str, str]:
    """The properties of a client with a certificate."""
    own = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(path)}
    return own if password is None else own | {"ssl.key.password": password}


def user(mechanism: str, password: str = PASSWORD) -> dict[str, str]:
    """The properties of a client with a user."""
    jaas = f'{MODULES[mechanism]} required username="{USER}" password="{password}";'
    return {"sasl.mechanism": mechanism, "sasl.jaas.config": jaas}


def self_signed(path: Path, *, is_authority: bool, days: tuple[int, int] = (-1, 9_999)) -> Path:
    """A certificate that signs itself, with its key; `days`: from and until, counted from today."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "self")])
    today = datetime.datetime.now(datetime.UTC)
    begin, end = (today + datetime.timedelta(days=each) for each in days)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(begin)
        .not_valid_after(end)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path.write_bytes(secret + made.public_bytes(pem))
    return path
