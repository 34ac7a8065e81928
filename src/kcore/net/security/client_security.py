"""The TLS and SASL settings of a client's connection."""

import ssl
from dataclasses import dataclass, field
from typing import Final

from kcore.errors import AuthenticationError

MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


@dataclass(frozen=True, slots=True)
class Sasl:
    """A SASL mechanism, one of MECHANISMS, and the client's user and password."""

    mechanism: str
    username: str
    password: str = field(repr=False)

    def __post_init__(self) -> None:
        if self.mechanism not in MECHANISMS:
            raise AuthenticationError(f"SASL {self.mechanism}: kcore has {', '.join(MECHANISMS)}")
        try:
            f"{self.username}{self.password}".encode()
        except UnicodeEncodeError:
            raise AuthenticationError(f"SASL {self.mechanism}: a name or a password that is no text") from None


@dataclass(frozen=True, slots=True)
class Security:
    """TLS and SASL settings for a connection to a server: PLAINTEXT without either, SASL_SSL with both.

    `server_name` is the name that the server's certificate must have, if it differs from the host of the connection.
    """

    tls: ssl.SSLContext | None = None
    sasl: Sasl | None = None
    server_name: str | None = None
