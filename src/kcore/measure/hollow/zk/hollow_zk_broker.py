"""A ZooKeeper-mode broker without replicas: it takes control requests, records when they arrive, and answers them.

A storm runs its brokers on the compiled loop (`receivers.py`); this module is the slower version in Python.
"""

import time
from typing import Any, Final, NamedTuple

import numpy as np

from kcore.broker.zk_control.broker import Broker
from kcore.broker.zk_control.control_requests import CONTROL_REQUESTS
from kcore.errors import FrameError
from kcore.measure.hollow.zk.bodies import LOWEST, Bodies, Received
from kcore.net.server import RequestContext, Server, serve
from kcore.protocol_errors import Errors
from kcore.schema import (
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from kcore.schema.headers import ResponseHeader
from kcore.schema.structure import Message
from kcore.wire.codec import encode
from kcore.wire.column_codec import encode_columns
from kcore.wire.columns import Columns, Rows, Strings


class Arrival(NamedTuple):
    """The arrival of a control request."""

    at_ns: int  # by time.monotonic_ns, when the whole of it was here
    message: type[Message]
    partitions: int
    bytes: int


class HollowBroker:
    """A broker's successive incarnations at one listener."""

    def __init__(self, broker_id: int, bodies: Bodies | None = None) -> None:
        """`bodies`: shared by the brokers of a cluster."""
        self.broker_id = broker_id
        self.port = 0
        self.arrivals: list[Arrival] = []
        self._bodies = bodies or Bodies()
        self._mind = Broker(broker_id, -1)
        self._server: Server | None = None

    async def open(self) -> None:
        """Listens on the loopback interface; `port` has the port."""
        self._server = await serve("127.0.0.1", 0, _nobody, {}, relay=self)
        self.port = self._server.port

    async def close(self) -> None:
        if self._server is not None:
            await self._server.close()

    @property
    def epoch(self) -> int:
        """The broker epoch of the running incarnation (KIP-380)."""
        return self._mind.broker_epoch

    def registered(self, epoch: int) -> None:
        """Begins a new incarnation, which refuses requests for older ones (KIP-380)."""
        self._mind = Broker(self.broker_id, epoch)

    # As `net.server.Relay`: whole frames, so that columns are made of requests and no object a partition.

    def takes(self, api_key: int, version: int) -> bool:
        return api_key in CONTROL_REQUESTS and version >= LOWEST[CONTROL_REQUESTS[api_key]]

    async def ask(self, connection_id: int, frame: bytes) -> bytes:
        """The answer to one request."""
        at_ns = time.monotonic_ns()
        received = self._bodies.read(frame)
        refusal = self._mind.refusal(received.head)
        if refusal is Errors.NONE:
            self.arrivals.append(Arrival(at_ns, received.head.message, received.partitions, len(frame)))
        return _answer(received, refusal)

    def forget(self, connection_id: int) -> None:
        """Does nothing: the broker keeps no state per connection."""


async def _nobody(context: RequestContext, message: Any) -> None:
    raise FrameError(f"a hollow broker answers no {type(message).__name__}")


_RESPONSES: Final[dict[type[Message], type[Message]]] = {
    LeaderAndIsrRequest: LeaderAndIsrResponse,
    StopReplicaRequest: StopReplicaResponse,
    UpdateMetadataRequest: UpdateMetadataResponse,
}


def _answer(received: Received, error: Errors) -> bytes:
    response = _RESPONSES[received.head.message]
    head = ResponseHeader(correlation_id=received.correlation_id)
    body = acknowledgement(received.columns, received.version, error)
    return encode(head, response.header_version(received.version)) + body


def acknowledgement(request: Columns, version: int, error: Errors) -> bytes:
    """The body of the answer to a control request: everything done, or everything refused."""
    if request.message is UpdateMetadataRequest:
        return encode(UpdateMetadataResponse(error_code=error), version)
    topics = request.topic_states
    states = topics.partition_states
    errors: dict[str, Any] = {
        "partition_index": states.partition_index,
        "error_code": np.full(len(states), error, np.int16),
    }
    if request.message is LeaderAndIsrRequest:
        by_partition = Rows(states.row_offsets, **errors)
        by_topic = Rows(topics.row_offsets, topic_id=topics.topic_id, partition_errors=by_partition)
        return encode_columns(Columns(LeaderAndIsrResponse, error_code=int(error), topics=by_topic), version)
    names = np.repeat(np.array(topics.topic_name.tolist(), object), np.diff(states.row_offsets))
    rows = Rows(np.array([0, len(states)], np.int32), topic_name=Strings.of(names.tolist()), **errors)
    return encode_columns(Columns(StopReplicaResponse, error_code=int(error), partition_errors=rows), version)
