"""Authentication: TLS from PEM files, and the tokens of SASL mechanisms (RFC 4616, RFC 5802). No sockets here."""

import ssl
from collections.abc import Generator
from dataclasses import dataclass, field
from os import PathLike
from typing import Final, TypeAlias

from kcore.errors import AuthenticationError
from kcore.extras import needs

PemPath: TypeAlias = str | PathLike[str]

MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


@dataclass(frozen=True, slots=True)
class Sasl:
    """One of MECHANISMS and the credentials for it."""

    mechanism: str
    username: str
    password: str = field(repr=False)

    def __post_init__(self) -> None:
        if self.mechanism not in MECHANISMS:
            raise AuthenticationError(f"SASL {self.mechanism}: kcore has {', '.join(MECHANISMS)}")


@dataclass(frozen=True, slots=True)
class Security:
    """What a listener asks for: with neither it is PLAINTEXT, with both SASL_SSL.

    `server_name` is the name that the certificate must have, where that is not the host that is connected to.
    """

    tls: ssl.SSLContext | None = None
    sasl: Sasl | None = None
    server_name: str | None = None


def client_tls(
    ca: PemPath | None = None,
    certificate: PemPath | None = None,
    key: PemPath | None = None,
    *,
    verify_name: bool = True,
) -> ssl.SSLContext:
    """Trusts the authorities in `ca` (those of the system without it); shows its own certificate where it has one.

    PEM files; a key may lie in the certificate's. `verify_name=False` is Kafka's empty
    ssl.endpoint.identification.algorithm. OSError where a file cannot be read or is not PEM.
    """
    context = ssl.create_default_context(cafile=ca)
    context.check_hostname = verify_name
    if certificate is not None:
        context.load_cert_chain(certificate, key)
    return context


def server_tls(certificate: PemPath, key: PemPath | None = None, *, client_ca: PemPath | None = None) -> ssl.SSLContext:
    """Shows that certificate; with `client_ca` clients must show one too (ssl.client.auth=required). PEM files."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=client_ca)
    context.load_cert_chain(certificate, key)
    if client_ca is not None:
        context.verify_mode = ssl.CERT_REQUIRED
    return context


class Exchange:
    """A client's side of a mechanism: `next_token(answer)` until it is None, the first time with no answer.

    AuthenticationError if the server does not prove that it knows the password, or breaks the protocol.
    """

    def __init__(self, sasl: Sasl) -> None:
        self._steps = _plain(sasl) if sasl.mechanism == "PLAIN" else _scram(sasl)
        self._begun = False

    def next_token(self, answer: bytes = b"") -> bytes | None:
        try:
            if self._begun:
                return self._steps.send(answer)
            self._begun = True
            return next(self._steps)
        except StopIteration:
            return None


def check_mechanism(mechanism: str) -> None:
    """MissingExtraError if a client's side of that mechanism needs a package that is not installed."""
    if mechanism != "PLAIN":
        with needs("scram"):
            import scramp  # noqa: F401


def _plain(sasl: Sasl) -> Generator[bytes, bytes, None]:
    yield f"\0{sasl.username}\0{sasl.password}".encode()


def _scram(sasl: Sasl) -> Generator[bytes, bytes, None]:
    with needs("scram"):  # Slow to import, and few listeners ask for it.
        from scramp import ScramClient, ScramException

    try:
        client = ScramClient([sasl.mechanism], sasl.username, sasl.password)
        server_first = yield client.get_client_first().encode()
        client.set_server_first(server_first.decode())
        server_final = yield client.get_client_final().encode()
        client.set_server_final(server_final.decode())
    except (ScramException, UnicodeDecodeError) as error:
        raise AuthenticationError(f"SASL {sasl.mechanism}: {error}") from error
