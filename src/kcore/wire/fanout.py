"""Sends one request to many brokers: encodes the body once and inserts each broker's epoch (KIP-380) without a copy."""

from functools import cache, lru_cache
from struct import pack

from kcore.errors import EncodeError
from kcore.schema.headers import RequestHeader
from kcore.schema.kinds import Kind
from kcore.schema.structure import Message
from kcore.types import is_whole
from kcore.wire.codec import encode
from kcore.wire.column_codec import encode_columns
from kcore.wire.columns import Columns
from kcore.wire.layout import DTYPES
from kcore.wire.plan import plan

CORRELATION_ID = slice(4, 8)  # The same place in every RequestHeader, after the API's key and version.
EPOCH_BYTES = 8


class Fanout:
    """A request body that all brokers share except for the broker epoch.

    `buffers` are for a socket's `writev`; `bytes_for` returns one piece. With a `correlation_id`, a frame's size and
    the request header precede the body. A version without broker epoch is shared whole.
    """

    def __init__(self, message: type[Message], version: int, body: bytes, client_id: str | None = None) -> None:
        self.message, self.version, self.body = message, version, body
        self._begin, self._end = epoch_place(message, version)
        self._tail = memoryview(body)[self._end :]
        self._client_id = client_id

    def buffers(self, broker_epoch: int, correlation_id: int | None = None) -> list[bytes | memoryview]:
        """The buffers to write to a broker: a few bytes for this broker, then the part that all brokers share."""
        head = self.body[: self._begin]
        if self._end > self._begin:
            if not is_whole(broker_epoch) or not -(2**63) <= broker_epoch < 2**63:
                raise EncodeError(f"broker_epoch: {broker_epoch!r:.60} is no int64")
            head += pack(">q", broker_epoch)
        if correlation_id is not None:
            head = self._frame(correlation_id) + head
        return [head, self._tail]

    def bytes_for(self, broker_epoch: int, correlation_id: int | None = None) -> bytes:
        """The bytes of `buffers` in one piece, with one copy of the body."""
        return b"".join(self.buffers(broker_epoch, correlation_id))

    def _frame(self, correlation_id: int) -> bytes:
        if not is_whole(correlation_id) or not -(2**31) <= correlation_id < 2**31:
            raise EncodeError(f"correlation_id: {correlation_id!r:.60} is no int32")
        header = request_header(self.message, self.version, self._client_id)
        header = header[: CORRELATION_ID.start] + pack(">i", correlation_id) + header[CORRELATION_ID.stop :]
        return pack(">i", len(header) + len(self.body)) + header


def encode_fanout(columns: Columns, version: int, client_id: str | None = None) -> Fanout:
    """Encode a request for many brokers; errors as `encode_columns`. The request's own `broker_epoch` is ignored."""
    body = encode_columns(columns, version)
    return Fanout(columns.message, version, body, client_id)


@lru_cache(maxsize=1024)  # There may be many client ids.
def request_header(message: type[Message], version: int, client_id: str | None) -> bytes:
    """The header of the request with correlation id 0; version 0 of the header has no client id."""
    header_version = message.header_version(version)
    header = RequestHeader(
        request_api_key=message.api_key,
        request_api_version=version,
        correlation_id=0,
        client_id=client_id if header_version else None,
    )
    return encode(header, header_version)


@cache
def epoch_place(message: type[Message], version: int) -> tuple[int, int]:
    """The place of the broker epoch in the body; (0, 0) if the body has none."""
    place = 0
    for step in plan(message, version).in_line:
        if step.field.name == "broker_epoch":
            return place, place + EPOCH_BYTES
        if step.step.kind not in DTYPES or step.step.kind is Kind.UUID:
            break
        place += DTYPES[step.step.kind].itemsize
    return 0, 0
