"""The open listeners of a broker."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

from kcore.net.connection_metrics import Metrics
from kcore.net.server import Server, serve
from kcore.schema.api_versions import ApiVersionsResponse
from kcore.server.broker.broker_request_handlers import BrokerRequestHandlers
from kcore.server.broker.cluster_link import ClusterLink
from kcore.server.clock import wall_ms
from kcore.server.pipeline import RequestPipeline, Route
from kcore.server.properties.listeners import BrokerListeners
from kcore.server.security.audit import AuditLog


class BrokerListening:
    """Opens all listeners of a broker with the same APIs and request handlers."""

    def __init__(
        self,
        listeners: BrokerListeners,
        handlers: BrokerRequestHandlers[Any],
        link: ClusterLink,
        audit: AuditLog | None = None,
        *,
        identity: tuple[str, int] | None = None,
    ) -> None:
        """`audit`: gets a line for each request.

        `identity`: the ids of the cluster and of this broker, which clients may name in ApiVersions (KIP-1242).
        """
        self.listeners = listeners
        self.ports: dict[str, int] = {}  # The ports by listener name, once the listeners are open.
        self.servers: list[Server] = []
        self.metrics = Metrics()
        self._handlers, self._link, self._audit, self._identity = handlers, link, audit, identity

    @property
    def port(self) -> int:
        """The port of the inter-broker listener."""
        return self.ports[self.listeners.inter_broker]

    async def open(
        self,
        stack: AsyncExitStack,
        apis: Mapping[str, tuple[int, int]],
        routes: Sequence[Route],
        advertised: Callable[[ApiVersionsResponse], ApiVersionsResponse],
    ) -> None:
        """Opens all listeners; `stack` closes them. `advertised` changes the ApiVersions answer.

        Raises OSError if an address is in use; TlsError.
        """
        handlers = self._handlers
        pipeline = RequestPipeline(
            *(handlers.handle, handlers.is_node),
            refuse=handlers.mode.refuse,
            routes=routes,
            throttle=self._link.throttle,
            audit=self._audit,
        )
        parts = replace(pipeline.parts, identity=self._identity, advertised=advertised)
        for each in self.listeners.each:
            server = await serve(
                each.listen.host or None,
                each.listen.port,
                pipeline.handle,
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
