"""Brokers of a few lines: they answer control requests and remember them."""

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any

import numpy as np

from kcore import schema as s
from kcore.controller.zk.requests.control_request import ControlRequest
from kcore.metadata.table.broker_table import BrokerTable, Endpoint
from kcore.net.server import RequestContext, Server, serve
from kcore.net.versions import response_of
from kcore.wire.codec import encode
from kcore.wire.column_codec import decode_columns

APIS = {"UpdateMetadata": (8, 8), "LeaderAndIsr": (7, 7), "StopReplica": (4, 4)}
VERSIONS = {s.UpdateMetadataRequest: 8, s.LeaderAndIsrRequest: 7, s.StopReplicaRequest: 4}
LISTENER = "PLAINTEXT"


class FakeBroker:
    """Stores the requests that it gets; `on_request` may delay or refuse them."""

    def __init__(self) -> None:
        self.seen: list[Any] = []
        self.principals: set[str] = set()  # The principals of requests.
        self.in_flight = self.most_in_flight = 0
        self.server: Server | None = None

    async def open(
        self, stack: AsyncExitStack, port: int = 0, apis: Mapping[str, tuple[int, int]] = APIS, **security: Any
    ) -> "FakeBroker":
        """`security`: options of `serve`."""
        self.server = await serve("127.0.0.1", port, self._handle, apis, **security)
        await stack.enter_async_context(self.server)
        return self

    @property
    def port(self) -> int:
        assert self.server is not None
        return self.server.port

    async def on_request(self, request: Any) -> None:
        """Nothing is in its way."""

    async def _handle(self, context: RequestContext, request: Any) -> Any:
        self.seen.append(request)
        self.principals.add(str(context.principal))
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            await self.on_request(request)
        finally:
            self.in_flight -= 1
        return response_of(type(request))()


def control_request(message: Any, brokers: BrokerTable, broker_ids: Sequence[int]) -> ControlRequest:
    """The same for all of them, as the table knows their epochs."""
    version = VERSIONS[type(message)]
    columns = decode_columns(type(message), version, encode(message, version))
    rows = brokers.rows(list(broker_ids))
    return ControlRequest(type(message), version, np.array(broker_ids, np.int32), brokers.epochs[rows], columns)


def table_of(ports: dict[int, int], epochs: dict[int, int]) -> BrokerTable:
    """Live brokers by id."""
    endpoints = [[Endpoint(port, "127.0.0.1", LISTENER, 0)] for port in ports.values()]
    return BrokerTable.from_arrays(list(ports), epochs=[epochs[each] for each in ports], endpoints=endpoints)
