"""The context that a request's handler gets beside the message: principal, client address, listener."""

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Final, NamedTuple, TypeVar

from kcore.metadata.principal import ANONYMOUS, KafkaPrincipal
from kcore.net.limits.stopwatch import Stopwatch
from kcore.schema.headers import RequestHeader

T = TypeVar("T")
PLAINTEXT: Final = "PLAINTEXT"  # One of Kafka's SecurityProtocols, with SSL, SASL_PLAINTEXT and SASL_SSL.


class ClientSession:
    """The properties of a client's connection that all its requests share (Session of Kafka's network package)."""

    __slots__ = (
        *("client_address", "client_id", "is_token_authenticated", "listener_name"),
        *("mute_ms", "principal", "security_protocol", "watch"),
    )

    def __init__(self, listener_name: str, client_address: str, security_protocol: str = PLAINTEXT) -> None:
        self.listener_name, self.security_protocol = listener_name, security_protocol
        self.client_address = client_address  # Without the port.
        self.principal = ANONYMOUS
        self.is_token_authenticated = False  # The client authenticated with a delegation token.
        self.client_id: str | None = None  # The client id of the last counted request.
        self.watch: Stopwatch | None = None  # The connection's stopwatch, if request times are counted.
        self.mute_ms = 0  # Throttle time: for so long after the answer the server reads nothing from the client.

    def started_watch(self, clock_ns: Callable[[], int]) -> Stopwatch:
        """The stopwatch, which measures the next request; that request is charged for SASL, as in Kafka."""
        if self.watch is None:
            self.watch = Stopwatch(clock_ns)
        self.watch.asker = None
        return self.watch

    def authenticated(self, principal: KafkaPrincipal, *, is_token: bool = False) -> None:
        """Sets the principal of further requests after a SASL exchange; it replaces the principal of a certificate.

        `is_token`: the client authenticated with a delegation token.
        """
        self.principal = principal
        self.is_token_authenticated = is_token


# The client of the current request, for the log; empty outside of requests.
PEER: ContextVar[str] = ContextVar("PEER", default="")


class RequestContext(NamedTuple):
    """A request's bytes, its header and the session that sent it (RequestContext of Kafka)."""

    peer: str  # The client's address and port, for the log.
    connection_id: int  # Unique within this server.
    header: RequestHeader
    session: ClientSession
    gone: "asyncio.Future[None] | None" = None  # Done once the client has disconnected: the response cannot be sent.
    frame: bytes = b""  # The request with its header, without its size.
    body_at: int = 0  # The position of the request in `frame`, behind the header.
    began_s: float = 0.0  # When the whole request had arrived, by the event loop's clock.
    through: "RequestContext | None" = None  # The request of the node that has forwarded this one; None: none has.

    @property
    def api_key(self) -> int:
        """The API key of the request."""
        return self.header.request_api_key

    @property
    def version(self) -> int:
        """The version of the request."""
        return self.header.request_api_version

    @property
    def principal(self) -> KafkaPrincipal:
        """The user that SASL has authenticated, or the subject of the TLS certificate; ANONYMOUS without either."""
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
        """Awaits a response that may take long; cancels it and returns None if the client disconnects before."""
        waiting = asyncio.ensure_future(response)
        if self.gone is None or waiting.done():
            return await waiting
        try:
            await asyncio.wait((waiting, self.gone), return_when=asyncio.FIRST_COMPLETED)
            return await waiting if waiting.done() else None
        finally:
            waiting.cancel()
