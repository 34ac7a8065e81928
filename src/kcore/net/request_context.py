"""The context of a request beside the message: principal, client address, listener."""

import asyncio
from collections.abc import Awaitable
from contextvars import ContextVar
from typing import Final, NamedTuple, TypeVar

from kcore.metadata.principal import ANONYMOUS, KafkaPrincipal
from kcore.net.limits.stopwatch import Stopwatch
from kcore.schema.headers import RequestHeader

T = TypeVar("T")
PLAINTEXT: Final = "PLAINTEXT"  # A SecurityProtocol, as SSL, SASL_PLAINTEXT and SASL_SSL are.


class ClientSession:
    """A client's connection, as all of its requests see it (Session of Kafka's network package)."""

    def __init__(self, listener_name: str, client_address: str, security_protocol: str = PLAINTEXT) -> None:
        self.listener_name, self.security_protocol = listener_name, security_protocol
        self.client_address = client_address  # Without the port.
        self.principal = ANONYMOUS
        self.is_token_authenticated = False  # The principal showed a delegation token.
        self.client_id: str | None = None  # The client id of the last counted request.
        self.watch: Stopwatch | None = None  # The running request's, where the time of requests is counted.
        self.mute_ms = 0  # Throttle time: after the answer the server reads nothing from the client for so long.

    def authenticated(self, principal: KafkaPrincipal, *, is_token: bool = False) -> None:
        """A SASL exchange has ended well: requests from now on are this principal's, whatever TLS showed.

        `is_token`: it showed a delegation token.
        """
        self.principal = principal
        self.is_token_authenticated = is_token


# The session of the current request, for a relay, which gets no context; None outside of requests.
SESSION: ContextVar[ClientSession | None] = ContextVar("SESSION", default=None)


class RequestContext(NamedTuple):
    """The header of a request and the session that sent it (RequestContext of Kafka)."""

    peer: str  # Address and port, for the log.
    connection_id: int  # Unique within this server.
    header: RequestHeader
    session: ClientSession
    gone: "asyncio.Future[None] | None" = None  # Done once the client has disconnected: the response cannot be sent.

    @property
    def version(self) -> int:
        """The version of the request."""
        return self.header.request_api_version

    @property
    def principal(self) -> KafkaPrincipal:
        """The user that SASL authenticated, else the subject of the TLS certificate, else ANONYMOUS."""
        return self.session.principal

    @property
    def listener_name(self) -> str:
        """The name of the listener that the client connected to."""
        return self.session.listener_name

    @property
    def client_address(self) -> str:
        """The IP address of the client."""
        return self.session.client_address

    async def while_here(self, response: Awaitable[T]) -> T | None:
        """Waits for the response, which may take long; None, and it is cancelled, if the client disconnects before."""
        waiting = asyncio.ensure_future(response)
        if self.gone is None or waiting.done():
            return await waiting
        try:
            await asyncio.wait((waiting, self.gone), return_when=asyncio.FIRST_COMPLETED)
            return await waiting if waiting.done() else None
        finally:
            waiting.cancel()
