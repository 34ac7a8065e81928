"""The open listeners of a broker."""

from collections.abc import Callable, Collection, Mapping
from contextlib import AsyncExitStack

from kcore.net.connection_metrics import Metrics
from kcore.net.requests import ServerParts
from kcore.net.server import Relay, Server, serve
from kcore.schema.api_versions import ApiVersionsResponse
from kcore.server.broker.broker_request_handlers import BrokerRequestHandlers
from kcore.server.broker.cluster_link import ClusterLink
from kcore.server.clock import wall_ms
from kcore.server.properties.listeners import BrokerListeners
from kcore.server.security.audit import AuditLog
from kcore.server.security.audited import AuditedRelay, audited
from kcore.server.security.throttled import ThrottledRelay, throttled


class BrokerListening:
    """Opens all listeners of a broker with the same APIs and request handlers."""

    def __init__(
        self,
        listeners: BrokerListeners,
        handlers: BrokerRequestHandlers,
        link: ClusterLink,
        audit: AuditLog | None = None,
        *,
        of_nodes: Collection[int] = (),
        identity: tuple[str, int] | None = None,
    ) -> None:
        """`audit`: gets a line for each request. `of_nodes`: API keys of requests that only cluster nodes send.

        `identity`: the ids of the cluster and of this broker, which clients may name in ApiVersions (KIP-1242).
        """
        self.listeners = listeners
        self.ports: dict[str, int] = {}  # The ports by listener name, once the listeners are open.
        self.servers: list[Server] = []
        self.metrics = Metrics()
        self._handlers, self._link, self._audit = handlers, link, audit
        self._of_nodes, self._identity = of_nodes, identity

    @property
    def port(self) -> int:
        """The port of the inter-broker listener."""
        return self.ports[self.listeners.inter_broker]

    async def open(
        self,
        stack: AsyncExitStack,
        apis: Mapping[str, tuple[int, int]],
        relay: Relay,
        advertised: Callable[[ApiVersionsResponse], ApiVersionsResponse],
    ) -> None:
        """Opens all listeners; `stack` closes them. `advertised` changes the ApiVersions answer.

        Raises OSError if an address is in use; TlsError.
        """
        throttle, is_node, audit = self._link.throttle, self._handlers.is_node, self._audit
        handler = throttled(audited(self._handlers.handle, audit, wall_ms), throttle, is_node)
        throttled_relay = ThrottledRelay(relay, throttle, is_node, self._of_nodes)
        parts = ServerParts(
            relay=throttled_relay if audit is None else AuditedRelay(throttled_relay, audit, wall_ms),
            throttle=throttle,
            is_node=is_node,
            identity=self._identity,
            advertised=advertised,
        )
        for each in self.listeners.each:
            server = await serve(
                each.listen.host or None,
                each.listen.port,
                handler,
                apis,
                tls=each.security.server_tls(),
                sasl=each.security.server_sasl(self._link.credentials, wall_ms),
                limits=each.limits,
                metrics=self.metrics,
                parts=parts,
                listener_name=each.name,
            )
            stack.push_async_callback(server.close)
            self.servers.append(server)
            self.ports[each.name] = server.port
