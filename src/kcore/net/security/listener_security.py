"""TLS and SASL settings of a listener: for its clients, and for the server's own connections to other servers.

As in Kafka, the same settings are for both. A server presents the same certificate to its clients and to other servers.
The login module of a mechanism has the users' passwords, and the server's own user and password.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from kcore.net.request_context import PLAINTEXT
from kcore.net.security.client_security import Sasl, Security
from kcore.net.security.jaas import Login
from kcore.net.security.sasl_mechanisms import PLAIN, Credentials, PlainUsers
from kcore.net.security.sasl_server import FAILURE_DELAY_S, LARGEST_RECEIVE, SaslListener
from kcore.net.security.tls import TlsContext, TlsSettings

PROTOCOLS: Final = (PLAINTEXT, "SSL", "SASL_PLAINTEXT", "SASL_SSL")  # In the order of their ids (SecurityProtocol).


@dataclass(frozen=True, slots=True)
class ListenerSecurity:
    """The settings of one listener: PLAINTEXT without TLS and mechanisms, SASL_SSL with both."""

    tls: TlsSettings | None = None
    mechanisms: tuple[str, ...] = ()  # sasl.enabled.mechanisms
    logins: Mapping[str, Login] = field(default_factory=dict)  # By mechanism.
    own_mechanism: str | None = None  # The mechanism of the server's own connections to other servers.
    max_reauth_ms: Mapping[str, int] = field(default_factory=dict)  # By mechanism; 0: sessions do not end.
    max_receive_bytes: int = LARGEST_RECEIVE
    failure_delay_s: float = FAILURE_DELAY_S

    @property
    def protocol(self) -> str:
        """The listener's security protocol, one of PROTOCOLS."""
        transport = PLAINTEXT if self.tls is None else "SSL"
        return f"SASL_{transport}" if self.mechanisms or self.own_mechanism else transport

    @property
    def own_sasl(self) -> Sasl | None:
        """The mechanism, user and password of the connections to other servers; None without SASL."""
        if self.own_mechanism is None:
            return None
        own = self.logins[self.own_mechanism].own
        assert own is not None
        return Sasl(self.own_mechanism, *own)

    def as_text(self) -> "ListenerSecurity":
        """The same settings without files, for another machine; TlsError for an unreadable file."""
        return self if self.tls is None else replace(self, tls=self.tls.as_text())

    def server_tls(self) -> TlsContext | None:
        """The argument `tls` of `kcore.net.server.serve`; raises TlsError for invalid certificates or keys."""
        return None if self.tls is None else TlsContext(self.tls, TlsSettings.server_context)

    def server_sasl(self, credentials: Credentials, wall_ms: Callable[[], int]) -> SaslListener | None:
        """The argument `sasl` of `kcore.net.server.serve`. `wall_ms` returns the time in ms since 1970."""
        if not self.mechanisms:
            return None
        return SaslListener(
            self.mechanisms,
            wall_ms,
            self.logins[PLAIN].users if PLAIN in self.logins else PlainUsers({}),
            credentials,
            self.max_reauth_ms,
            self.max_receive_bytes,
            self.failure_delay_s,
        )

    def outgoing(self) -> Callable[[], Security] | None:
        """A function whose result is the argument `security` of `connect`, for each new connection to another server.

        None for PLAINTEXT. Raises TlsError for invalid certificates or keys.
        """
        if self.tls is None and self.own_mechanism is None:
            return None
        sasl = self.own_sasl
        if self.tls is None:
            return lambda: Security(sasl=sasl)
        context = TlsContext(self.tls, TlsSettings.client_context)
        return lambda: Security(context.current(), sasl)
