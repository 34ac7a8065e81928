"""A hollow ZooKeeper-mode broker in Python, the slow twin of `kcore._ext.hollow.Receivers`.

It takes control requests, records when they arrive, and answers them.
"""

import time
from struct import Struct
from typing import Any, Final, NamedTuple

import numpy as np

from kcore.broker.zk_control.broker import Broker
from kcore.broker.zk_control.control_requests import CONTROL_REQUESTS, RequestHead
from kcore.errors import FrameError
from kcore.measure.hollow.zk.layouts import LOWEST
from kcore.measure.hollow.zk.receivers import Arrival
from kcore.net.requests import KEY_AND_VERSION, Ask
from kcore.net.server import RequestContext, Server, ServerParts, serve
from kcore.protocol_errors import Errors
from kcore.schema import (
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from kcore.schema.headers import RequestHeader, ResponseHeader
from kcore.schema.structure import Message
from kcore.wire.codec import decode_from, encode
from kcore.wire.column_codec import decode_columns, encode_columns
from kcore.wire.columns import Columns, Rows, Strings

KRAFT_SINCE: Final = {LeaderAndIsrRequest: 7, StopReplicaRequest: 4, UpdateMetadataRequest: 8}  # KIP-866
HEAD: Final = Struct(">iiq")  # Controller id, controller epoch, broker epoch
HEAD_WITH_KRAFT: Final = Struct(">i?iq")
RESPONSES: Final[dict[type[Message], type[Message]]] = {
    LeaderAndIsrRequest: LeaderAndIsrResponse,
    StopReplicaRequest: StopReplicaResponse,
    UpdateMetadataRequest: UpdateMetadataResponse,
}


class Received(NamedTuple):
    """A control request."""

    version: int
    correlation_id: int
    head: RequestHead
    columns: Columns


class HollowBroker:
    """A broker's successive incarnations at one listener."""

    def __init__(self, broker_id: int) -> None:
        self.broker_id = broker_id
        self.port = 0
        self.arrivals: list[Arrival] = []
        self._broker = Broker(broker_id, -1)
        self._server: Server | None = None

    async def open(self) -> None:
        """Listens on the loopback interface; `port` has the port."""
        self._server = await serve("127.0.0.1", 0, nobody, {}, parts=ServerParts(router=self))
        self.port = self._server.port

    async def close(self) -> None:
        if self._server is not None:
            await self._server.close()

    def registered(self, epoch: int) -> None:
        """Begins a new incarnation, which refuses requests for older ones (KIP-380)."""
        self._broker = Broker(self.broker_id, epoch)

    # As `net.server.Router`: whole frames, so that columns are made of requests and no object a partition.

    def route(self, api_key: int, version: int) -> Ask | None:
        """The function that answers control requests."""
        is_ours = api_key in CONTROL_REQUESTS and version >= LOWEST[CONTROL_REQUESTS[api_key]]
        return self.ask if is_ours else None

    async def ask(self, context: RequestContext) -> bytes:
        """The answer to one request."""
        at_ns = time.monotonic_ns()
        received = read(context.frame)
        refusal = self._broker.refusal(received.head)
        if refusal is Errors.NONE:
            partitions = len(received.columns.topic_states.partition_states)
            self.arrivals.append(Arrival(at_ns, received.head.message, partitions, len(context.frame)))
        return answer(received, refusal)

    def forget(self, connection_id: int) -> None:
        """Does nothing: the broker keeps no state per connection."""


async def nobody(context: RequestContext, message: Any) -> None:
    raise FrameError(f"a hollow broker answers no {type(message).__name__}")


def read(frame: bytes) -> Received:
    """Raises DecodeError or FrameError if the frame is no control request of these versions."""
    api_key, version = KEY_AND_VERSION.unpack_from(frame)
    request = CONTROL_REQUESTS[api_key]
    header, at = decode_from(RequestHeader, request.header_version(version), frame)
    layout = HEAD_WITH_KRAFT if version >= KRAFT_SINCE[request] else HEAD
    if len(frame) < at + layout.size:
        raise FrameError(f"a control request of {len(frame)} bytes")
    controller_id, *_, controller_epoch, broker_epoch = layout.unpack_from(frame, at)
    head = RequestHead(request, controller_id, controller_epoch, broker_epoch)
    return Received(version, header.correlation_id, head, decode_columns(request, version, memoryview(frame)[at:]))


def answer(received: Received, error: Errors) -> bytes:
    response = RESPONSES[received.head.message]
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
