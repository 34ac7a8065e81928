"""Reads control requests: the head of each is decoded, and equal bodies are decoded once for all brokers.

An UpdateMetadata has the same body for every broker except the broker epoch. Kafka's controller sends every broker one
for each partition of a reassignment. Decoding each copy would take longer than Kafka takes to send it.
"""

from collections import OrderedDict
from struct import Struct
from typing import Final, NamedTuple

from kcore.broker.zk_control.control_requests import CONTROL_REQUESTS, RequestHead
from kcore.errors import FrameError
from kcore.net.requests import KEY_AND_VERSION
from kcore.schema import LeaderAndIsrRequest, StopReplicaRequest, UpdateMetadataRequest
from kcore.schema.headers import RequestHeader
from kcore.schema.structure import Message
from kcore.wire.codec import decode_from
from kcore.wire.column_codec import decode_columns
from kcore.wire.columns import Columns

LOWEST: Final = {LeaderAndIsrRequest: 5, StopReplicaRequest: 3, UpdateMetadataRequest: 7}  # Kafka 2.8
_KRAFT_SINCE: Final = {LeaderAndIsrRequest: 7, StopReplicaRequest: 4, UpdateMetadataRequest: 8}  # KIP-866
_HEAD: Final = Struct(">iiq")  # Controller id, controller epoch, broker epoch
_HEAD_WITH_KRAFT: Final = Struct(">i?iq")
_KEPT: Final = 8  # Decoded bodies: brokers are a few requests apart.


class Received(NamedTuple):
    """A control request."""

    version: int
    correlation_id: int
    head: RequestHead
    columns: Columns  # Decoded from an equal body, perhaps with another broker's epoch.

    @property
    def partitions(self) -> int:
        """The number of partitions in the request."""
        return len(self.columns.topic_states.partition_states)


class Bodies:
    """Reads requests; brokers that receive the same bodies share it."""

    def __init__(self) -> None:
        self._decoded: OrderedDict[tuple[type[Message], int, bytes], Columns] = OrderedDict()

    def read(self, frame: bytes) -> Received:
        """Raises DecodeError or FrameError if the frame is no control request of these versions."""
        api_key, version = KEY_AND_VERSION.unpack_from(frame)
        request = CONTROL_REQUESTS[api_key]
        header, at = decode_from(RequestHeader, request.header_version(version), frame)
        layout = _HEAD_WITH_KRAFT if version >= _KRAFT_SINCE[request] else _HEAD
        if len(frame) < at + layout.size:
            raise FrameError(f"a control request of {len(frame)} bytes")
        controller_id, *_, controller_epoch, broker_epoch = layout.unpack_from(frame, at)
        head = RequestHead(request, controller_id, controller_epoch, broker_epoch)
        return Received(version, header.correlation_id, head, self._columns(request, version, frame, at, layout.size))

    def _columns(self, request: type[Message], version: int, frame: bytes, at: int, head_bytes: int) -> Columns:
        if request is not UpdateMetadataRequest:
            return decode_columns(request, version, memoryview(frame)[at:])
        key = request, version, frame[at + head_bytes :]
        columns = self._decoded.get(key)
        if columns is None:
            columns = self._decoded[key] = decode_columns(request, version, memoryview(frame)[at:])
            if len(self._decoded) > _KEPT:
                self._decoded.popitem(last=False)
        return columns
