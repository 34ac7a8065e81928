"""A control request: its receivers, its columns, and its encoded bytes, which the receivers share."""

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from kcore.errors import UnsupportedVersionError
from kcore.schema.structure import Message
from kcore.types import Int32s, Int64s
from kcore.wire.column_codec import encode_columns, encode_rows
from kcore.wire.columns import Columns, Rows
from kcore.wire.fanout import Fanout

ENCODED_TOGETHER: Final = 4_096  # Partitions of a group that are encoded together: some 400 kB.


class ControlRequest:
    """One message for one or more brokers, whose copies differ only in the broker epoch (KIP-380)."""

    __slots__ = (
        *("__weakref__", "_columns", "_group", "_place"),
        *("broker_epochs", "broker_ids", "message", "partitions", "version"),
    )

    def __init__(
        self, message: type[Message], version: int, broker_ids: Int32s, broker_epochs: Int64s, columns: Columns
    ) -> None:
        self.message, self.version = message, version
        self.broker_ids, self.broker_epochs = broker_ids, broker_epochs
        self.partitions: int = len(columns.topic_states.partition_states)
        self._columns: Columns | None = columns
        self._group: RequestGroup | None = None
        self._place = 0

    @classmethod
    def of_group(cls, group: "RequestGroup", place: int) -> "ControlRequest":
        """The request at this index of a group."""
        made = cls.__new__(cls)
        made.message, made.version = group.message, group.version
        made.broker_ids, made.broker_epochs = (
            group.broker_ids[place : place + 1],
            group.broker_epochs[place : place + 1],
        )
        made.partitions = group.counts[place]
        made._columns, made._group, made._place = None, group, place
        return made

    @property
    def columns(self) -> Columns:
        """The message as columns; its broker epoch is a placeholder."""
        if self._columns is None:
            assert self._group is not None
            self._columns = self._group.columns(self._place)
        return self._columns

    def fanout(self, client_id: str | None = None) -> Fanout:
        """The body, encoded once for all receivers; `buffers(epoch)` of the result are the bytes for one receiver."""
        if self._group is None:
            return Fanout(self.message, self.version, encode_columns(self.columns, self.version), client_id)
        return Fanout(self.message, self.version, self._group.body(self._place), client_id)


class RequestGroup:
    """The requests of one kind for one event, one a broker. They are small, so many are encoded together.

    The columns of a request are built only when it must be merged with another. Encoded bytes are kept until they are
    sent; `ENCODED_TOGETHER` bounds them.
    """

    def __init__(
        self,
        message: type[Message],
        version: int,
        broker_ids: Int32s,
        broker_epochs: Int64s,
        begins: Int32s,
        fields: Callable[[int, int], dict[str, Any]],
    ) -> None:
        """Request r has the partitions `begins[r]` to `begins[r + 1]`.

        `fields(a, b)` gives the columns of the requests a to b, a row for each request.
        """
        self.message, self.version, self.broker_ids, self.broker_epochs = message, version, broker_ids, broker_epochs
        self.counts: list[int] = np.diff(begins).tolist()
        self._fields = fields
        self._chunks = begins[:-1] // ENCODED_TOGETHER
        self._encoded: set[int] = set()
        self._bodies: dict[int, bytes] = {}

    def requests(self) -> list[ControlRequest]:
        """All requests, in the order of the brokers."""
        return [ControlRequest.of_group(self, place) for place in range(len(self.counts))]

    def columns(self, place: int) -> Columns:
        """The columns of one request."""
        return Columns.of_columns(self.message, self._fields(place, place + 1), None)

    def body(self, place: int) -> bytes:
        """The bytes of one request. They leave the cache, so that a second call encodes the request again."""
        chunk = int(self._chunks[place])
        if chunk not in self._encoded:
            self._encoded.add(chunk)
            self._encode(chunk)
        body = self._bodies.pop(place, None)
        return encode_columns(self.columns(place), self.version) if body is None else body

    def _encode(self, chunk: int) -> None:
        first, last = np.searchsorted(self._chunks, [chunk, chunk + 1]).tolist()
        try:
            rows = Rows(**self._fields(first, last))
            data, ends = encode_rows(self.message, self.version, rows, last - first)
        except UnsupportedVersionError:
            return  # LeaderAndIsr 0 and 1 have no topics: each request is encoded by itself.
        begin = 0
        for place, end in enumerate(ends.tolist(), first):
            self._bodies[place] = data[begin:end]
            begin = end
