"""A server of the protocol: a handler answers one request of each connection at a time, as Kafka mutes a channel.

`acceptor.py` accepts connections while the limits allow. `limits/held_bytes.py` limits the bytes of all connections,
`limits/bounded_log.py` the log.
"""

import socket
import ssl
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import TracebackType
from typing import Self

from kcore.errors import UnsupportedVersionError
from kcore.net.accepted_sockets import AcceptedSocket, AcceptedSockets
from kcore.net.acceptor import Acceptor
from kcore.net.address import address_text, network_errors
from kcore.net.adoption import Returned
from kcore.net.connection_metrics import Metrics
from kcore.net.connection_states import ClientConnection
from kcore.net.direct_connections import DirectConnections, is_supported
from kcore.net.limits.admission import RateOf
from kcore.net.limits.connection_limits import Limits
from kcore.net.listener import bound_sockets
from kcore.net.request_context import ClientSession, RequestContext
from kcore.net.requests import Handler, Router, ServedApis, ServerParts
from kcore.net.security.sasl_server import SaslListener
from kcore.net.security.tls import TlsContext
from kcore.net.served_requests import Serving
from kcore.net.server_connections import ServerConnections
from kcore.net.versions import API_VERSIONS
from kcore.schema.index import message_class
from kcore.schema.structure import Message
from kcore.schema.versions import Versions

__all__ = ["Handler", "RequestContext", "Router", "Server", "ServerParts", "serve"]


async def serve(
    host: str | None,
    port: int,
    handler: Handler,
    apis: Mapping[str, Versions | tuple[int, int]],
    *,
    tls: ssl.SSLContext | TlsContext | None = None,
    sasl: SaslListener | None = None,
    limits: Limits | None = None,
    metrics: Metrics | None = None,
    parts: ServerParts | None = None,
    listener_name: str | None = None,
    rate_of: RateOf | None = None,
    before_listening: Callable[[], None] | None = None,
) -> "Server":
    """Starts a server that listens; `async with` closes it. For port 0 it uses a free port, `server.port`.

    `apis` has names such as "Metadata", each with the lowest and highest version; the server answers ApiVersions from
    it. The handler returns the response, or None if the request has none (Produce with acks 0); an exception closes the
    connection. It gets neither requests that `parts` answer nor, with `sasl`, requests of unauthenticated clients.
    `listener_name` is in each request's context; its default is the name of the protocol, as in Kafka. `rate_of`: the
    limit of an address's new connections per second.
    `before_listening` is called when the address is bound, before any client is served; if it raises, the address is
    released. Raises NetworkError if the address cannot be bound, UnknownMessageError, UnsupportedVersionError.
    """
    served, limits = _served(apis), limits or Limits()
    with network_errors(address_text(host or "", port), limits.connect_s, failed="cannot listen at"):
        sockets = await bound_sockets(host, port)
    try:
        if before_listening is not None:
            before_listening()
        return Server(
            *(sockets, handler, served, limits, metrics or Metrics(), parts or ServerParts()),
            tls=tls,
            sasl=sasl,
            listener_name=listener_name,
            rate_of=rate_of,
        )
    except BaseException:
        for each in sockets:
            each.close()
        raise


def _served(apis: Mapping[str, Versions | tuple[int, int]]) -> dict[int, tuple[type[Message], Versions]]:
    """The served requests and their versions by API key; ApiVersions is always served."""
    served: dict[int, tuple[type[Message], Versions]] = {}
    for name, range_ in {"ApiVersions": API_VERSIONS, **apis}.items():
        request, versions = message_class(f"{name}Request"), Versions(*range_)
        if versions.lowest not in request.versions or versions.highest not in request.versions:
            raise UnsupportedVersionError(f"{name} {versions}: kcore has versions {request.versions}")
        served[request.api_key] = request, versions
    return served


class Server:
    """A server with its connections, which `serve` starts."""

    def __init__(
        self,
        sockets: list[socket.socket],
        handler: Handler,
        served: Mapping[int, tuple[type[Message], Versions]],
        limits: Limits,
        metrics: Metrics,
        parts: ServerParts,
        *,
        tls: ssl.SSLContext | TlsContext | None,
        sasl: SaslListener | None,
        listener_name: str | None,
        rate_of: RateOf | None,
    ) -> None:
        """Accepts connections on the listening `sockets` from now on. An adopter serves only plaintext listeners."""
        if tls is not None or sasl is not None:
            parts = replace(parts, adopter=None)
        self.limits, self.metrics = limits, metrics
        transport = "PLAINTEXT" if tls is None else "SSL"
        self.protocol = transport if sasl is None else f"SASL_{transport}"  # One of Kafka's SecurityProtocols.
        self._listener_name = listener_name or self.protocol
        self.connections = ServerConnections(limits, metrics, self._resume)
        self.apis = ServedApis(handler, served, parts, limits, metrics, self.connections.log)
        # They serve new connections, if there is an adopter.
        self.direct_connections: DirectConnections | None = None
        if parts.adopter is not None and is_supported():
            self.direct_connections = DirectConnections(self.apis, self.connections, parts.urgent)
        self.accepted = AcceptedSockets(Serving(self.apis, self.connections, sasl, tls is not None), tls)
        self.acceptor = Acceptor(sockets, self.connections, self._session_of, self._begin, rate_of)
        self.port = self.acceptor.listener.port

    async def close(self) -> None:
        """Stops accepting, waits for running requests and for their responses, at most `limits.close_s` each."""
        self.connections.closing = True
        self.acceptor.close()
        self.accepted.close()
        if self.direct_connections is not None:
            self.direct_connections.close()
        self.connections.finish()
        await self.connections.wait_gone()
        await self.accepted.wait_gone()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        await self.close()

    def _session_of(self, address: str) -> ClientSession:
        return ClientSession(self._listener_name, address, self.protocol)

    def _begin(self, accepted: AcceptedSocket) -> None:
        if self.direct_connections is not None:
            self.direct_connections.join(accepted.client, accepted.socket)
        else:
            self.accepted.wait(accepted)

    def _resume(self, client: ClientConnection, connection: socket.socket, returned: Returned) -> None:
        self.accepted.resume(client, connection, returned)
