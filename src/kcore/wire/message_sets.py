"""Reads message sets of magic 0 and 1, from before Kafka 0.11, in plain Python (KIP-31, KIP-32).

A message set is a row of messages. A compressed message is a wrapper: its value is a message set. The columns are those
of record batches: each message outside a wrapper, and each wrapper, is a batch without leader epoch and producer.

Source: LegacyRecord, AbstractLegacyRecordBatch and ByteBufferLogInputStream of Kafka 3.9.1.
"""

import zlib
from array import array
from dataclasses import replace
from struct import Struct
from sys import maxsize
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from kcore.errors import ArgumentError, DecodeError
from kcore.wire.buffers import immutable, read_only
from kcore.wire.legacy_codecs import gunzip, unlz4, unsnap
from kcore.wire.record_batch import (
    BATCH_COLUMNS,
    CODEC_MASK,
    LENGTH_END,
    LOG_APPEND_TIME,
    MAGIC_AT,
    NO_TIMESTAMP,
    TORN,
    RecordBatches,
    check_count,
)
from kcore.wire.record_building import CODECS
from kcore.wire.records import HEADER_COLUMNS, MAX_BYTES, RECORD_COLUMNS, Records

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer as Buffer  # collections.abc.Buffer, from Python 3.12 on.

UNKNOWN_COUNT: Final = -1  # The count of a wrapper that has not been decompressed.
NEWEST_MAGIC: Final = 1  # The newest format that this module reads.
_HEAD: Final = Struct(">qiIbb")  # Offset, size, CRC, magic, attributes.
_INT32: Final = Struct(">i")
_INT64: Final = Struct(">q")
_CRC_AT: Final = 12  # The place of the CRC in a message; it covers the bytes from the magic on.
LEAST_SIZE: Final = 14
_LEAST_SIZES: Final = (LEAST_SIZE, 22)  # Bytes of a message without key and value, by magic, after the size.
_MOST_ATTRIBUTES: Final = 15
_USED_ATTRIBUTES: Final = (CODEC_MASK, CODEC_MASK | LOG_APPEND_TIME)  # By magic.
_CONSTANT: Final = {
    **{"partition_leader_epoch": -1, "producer_id": -1, "producer_epoch": -1, "base_sequence": -1},
    "last_offset_delta": 0,
}
_INT64S: Final = range(-(2**63), 2**63)
_INT32S: Final = range(-(2**31), 2**31)


class Message(NamedTuple):
    """One message, in a wrapper or not. Places count bytes of the buffer that holds it; a length of -1 is null."""

    offset: int  # As stored: relative in a wrapper of magic 1.
    crc: int
    magic: int
    attributes: int
    timestamp: int  # As stored, in milliseconds; -1 in magic 0.
    key: tuple[int, int]
    value: tuple[int, int]
    end: int

    @property
    def codec(self) -> int:
        """The number of the compression type; above 0 for a wrapper."""
        return self.attributes & CODEC_MASK


def is_message(data: "Buffer", position: int = 0) -> bool:
    """True if the bytes at `position` begin as a message of magic 0 or 1 does; its end may be missing."""
    head = bytes(memoryview(data)[position : position + _HEAD.size])
    if len(head) < _HEAD.size:
        return False
    offset, size, _, magic, attributes = _HEAD.unpack(head)
    fits = 0 <= magic <= NEWEST_MAGIC and 0 <= attributes <= _MOST_ATTRIBUTES
    return fits and bool(offset >= 0 and size >= _LEAST_SIZES[magic])


def scan_message_sets(
    data: "Buffer", *, start: int = 0, limit: int = maxsize, check_crc: bool = True, stop: bool = False
) -> RecordBatches:
    """The headers of messages of magic 0 and 1 in a contiguous buffer, as `scan_batches` does for magic 2.

    Nothing is decompressed: until `decode_message_sets` reads a wrapper, its `base_offset` is the offset of its last
    message, and its `count` is -1. DecodeError with its offset for a torn message, and for bytes that are no message of
    magic 0 or 1. With `stop`, reading ends there and `problem` has the error.
    """
    steady = immutable(data, mapped=True)
    check_count("start", start)
    check_count("limit", limit)
    rows = _Headers()
    position, problem = start, None
    while position < len(steady) and len(rows.position) < limit and not problem:
        try:
            found = message_at(steady, position)
        except DecodeError as error:
            problem = error.with_traceback(None)  # Its frames would keep a view of the data, and so the file mapped.
            break
        rows.add(position, found, check_crc and _crc_matches(steady, position, found))
        position = found.end
    if problem and not stop:
        raise problem
    return rows.batches(position, problem)


def _crc_matches(data: memoryview, position: int, message: Message) -> bool:
    return zlib.crc32(data[position + MAGIC_AT : message.end]) == message.crc


def message_at(data: memoryview, position: int) -> Message:
    """The message of magic 0 or 1 at `position`, whose CRC is not checked. DecodeError if it is torn or no message."""
    if not is_message(data, position):
        if len(data) - position < _HEAD.size:
            raise DecodeError(TORN, position)
        raise DecodeError("not a message of magic 0 or 1", position + MAGIC_AT)
    offset, size, crc, magic, attributes = _HEAD.unpack_from(data, position)
    end = position + LENGTH_END + size
    if end > len(data):
        raise DecodeError(TORN, position)
    at, timestamp = position + _HEAD.size, NO_TIMESTAMP
    if magic:
        timestamp, at = _INT64.unpack_from(data, at)[0], at + _INT64.size
    key = _span(data, at, end)
    value = _span(data, key[0] + max(0, key[1]), end)
    return Message(offset, crc, magic, attributes & _USED_ATTRIBUTES[magic], timestamp, key, value, end)


def _span(data: memoryview, at: int, end: int) -> tuple[int, int]:
    """The place and length of a key or value, whose length is at `at`; as in Kafka, a negative length is null."""
    if end - at < _INT32.size:
        raise DecodeError("a message shorter than its fields", at)
    [length] = _INT32.unpack_from(data, at)
    if length > end - at - _INT32.size:
        raise DecodeError("a message shorter than its fields", at)
    return at + _INT32.size, max(-1, length)


class _Headers:
    """Collects headers of messages as columns."""

    def __init__(self) -> None:
        self.position, self.offset, self.size = array("q"), array("q"), array("q")
        self.magic, self.attributes, self.crc = array("b"), array("b"), array("q")
        self.timestamp, self.count, self.crc_matches = array("q"), array("b"), array("b")

    def add(self, position: int, message: Message, crc_matches: bool) -> None:
        self.position.append(position)
        self.offset.append(message.offset)
        self.size.append(message.end - position - LENGTH_END)
        self.magic.append(message.magic)
        self.attributes.append(message.attributes)
        self.crc.append(message.crc)
        self.timestamp.append(message.timestamp)
        self.count.append(UNKNOWN_COUNT if message.codec else 1)
        self.crc_matches.append(crc_matches)

    def batches(self, end: int, problem: DecodeError | None) -> RecordBatches:
        made: dict[str, Any] = {
            **{"position": self.position, "base_offset": self.offset, "batch_length": self.size},
            **{"magic": self.magic, "crc": self.crc, "attributes": self.attributes, "count": self.count},
            **{"base_timestamp": self.timestamp, "max_timestamp": self.timestamp, "crc_matches": self.crc_matches},
        }
        constant = {name: np.full(len(self.position), value) for name, value in _CONSTANT.items()}
        columns: dict[str, Any] = {
            name: read_only(np.array((made | constant)[name]).astype(kind)) for name, kind in BATCH_COLUMNS
        }
        return RecordBatches(**columns, end=end, problem=problem)


def decode_message_sets(
    data: "Buffer",
    batches: RecordBatches | None = None,
    *,
    check_crc: bool = True,
    stop: bool = False,
    max_bytes: int = MAX_BYTES,
) -> Records:
    """The records of messages of magic 0 and 1, as `decode_records` gives those of magic 2.

    `batches`: the messages to decode, from `scan_message_sets(data)`; all by default. Records have no headers, no
    sequence, and in magic 0 a timestamp of -1. The returned `batches` have the first offset and the count of each
    wrapper. Messages may be nested once, as in Kafka. DecodeError for a wrong CRC, and for a wrapper that Kafka
    refuses; with `stop`, `problem` has the error.
    """
    steady = immutable(data, mapped=True)
    check_count("max_bytes", max_bytes)
    if batches is None:
        batches = scan_message_sets(steady, check_crc=check_crc, stop=stop)
    elif not isinstance(batches, RecordBatches):
        raise ArgumentError(f"batches are RecordBatches, from scan_message_sets, not {type(batches).__name__}")
    rows, problem = _Rows(steady, max_bytes), batches.problem
    for row, position in enumerate(batches.position.tolist()):
        try:
            if check_crc and not batches.crc_matches[row]:
                raise DecodeError("a message whose CRC does not match", position + _CRC_AT)
            rows.add(position)
        except DecodeError as error:
            problem = error
            break
    if problem and not stop:
        raise problem
    return rows.records(batches, problem)


class _Rows:
    """Collects the records of messages as columns, and the contents of wrappers."""

    def __init__(self, data: memoryview, max_bytes: int) -> None:
        self._data, self._max_bytes = data, max_bytes
        self._decompressed = bytearray()
        self._columns = {name: array("q") for name, _ in RECORD_COLUMNS}
        self._first_offsets, self._last_deltas, self._counts = array("q"), array("i"), array("i")

    def add(self, position: int) -> None:
        """Adds all records of the message at `position`, or none: DecodeError."""
        outer = message_at(self._data, position)
        if not outer.codec:
            self._batch([outer], [outer.offset], outer, 0)
            return
        place, length = outer.value
        if length < 0:
            raise DecodeError("a compressed message without a value", position)
        try:
            contents = _decompressed(
                outer, bytes(self._data[place : place + length]), self._max_bytes - len(self._decompressed)
            )
            inner = _inner(contents)
            offsets = _absolute(inner, outer)
        except ValueError as error:
            said = error.message if isinstance(error, DecodeError) else str(error)
            raise DecodeError(said, position) from None
        self._batch(inner, offsets, outer, len(self._data) + len(self._decompressed))
        self._decompressed += contents

    def _batch(self, messages: list[Message], offsets: list[int], outer: Message, base: int) -> None:
        """Adds a batch; `base` is where the buffer begins that the messages' places count in."""
        number, columns = len(self._counts), self._columns
        for message, offset in zip(messages, offsets, strict=True):
            is_append_time = bool(outer.attributes & LOG_APPEND_TIME)
            columns["batch"].append(number)
            columns["offset"].append(offset)
            columns["timestamp"].append(outer.timestamp if is_append_time and message.magic else message.timestamp)
            columns["timestamp_delta"].append(_wrapped(message.timestamp - outer.timestamp))
            for name, (place, length) in (("key", message.key), ("value", message.value)):
                columns[f"{name}_offset"].append(base + place)
                columns[f"{name}_length"].append(length)
        self._first_offsets.append(offsets[0])
        self._last_deltas.append(outer.offset - offsets[0])
        self._counts.append(len(messages))

    def records(self, batches: RecordBatches, problem: DecodeError | None) -> Records:
        """The records of the first batches, up to the one with the problem."""
        decoded, count = len(self._counts), len(self._columns["offset"])
        constant = {"sequence": -1, "control_type": -1, "header_end": 0}
        made: dict[str, Any] = dict(self._columns) | {name: np.full(count, each) for name, each in constant.items()}
        columns: dict[str, Any] = {name: read_only(np.array(made[name]).astype(kind)) for name, kind in RECORD_COLUMNS}
        columns |= {name: read_only(np.empty(0, kind)) for name, kind in HEADER_COLUMNS}
        exact: dict[str, Any] = {
            "base_offset": read_only(np.array(self._first_offsets)),
            "last_offset_delta": read_only(np.array(self._last_deltas)),
            "count": read_only(np.array(self._counts)),
        }
        end = int(batches.position[decoded]) if decoded < len(batches) else batches.end
        return Records(
            **columns,
            batches=replace(batches.take(slice(decoded)), **exact),
            data=self._data,
            decompressed=memoryview(bytes(self._decompressed)),
            end=end,
            problem=problem,
        )


def _decompressed(outer: Message, value: bytes, most: int) -> bytes:
    """The message set in a wrapper's value. ValueError if it cannot be decompressed."""
    if outer.codec == CODECS.index("gzip"):
        return gunzip(value, most)
    if outer.codec == CODECS.index("snappy"):
        return unsnap(value, most)
    if outer.codec == CODECS.index("lz4"):
        return unlz4(value, most, check_header=outer.magic > 0)
    raise ValueError(f"a compressed message of the unknown codec {outer.codec}")


def _inner(contents: bytes) -> list[Message]:
    """The messages of a wrapper. As in Kafka, the CRCs of inner messages are not checked, and a torn end is ignored."""
    view, found, at = memoryview(contents), list[Message](), 0
    while len(view) - at >= LENGTH_END:
        [size] = _INT32.unpack_from(view, at + LENGTH_END - _INT32.size)
        if size >= LEAST_SIZE and size > len(view) - at - LENGTH_END:
            break
        found.append(message_at(view, at))
        at = found[-1].end
        if found[-1].codec:
            raise ValueError("a compressed message inside a compressed message")
    if not found:
        raise ValueError("a compressed message without messages inside")
    return found


def _absolute(inner: list[Message], outer: Message) -> list[int]:
    """The offsets of a wrapper's messages. In magic 1 they are relative, and the wrapper has that of the last message.

    A wrapper offset of 0 comes from old versions of librdkafka: the offsets are then as they are.
    """
    last = inner[-1].offset
    base = outer.offset - last if outer.magic and outer.offset else 0
    if base < 0:
        raise ValueError(f"a compressed message with the offset {outer.offset}, below its last message's {last}")
    offsets = [base + message.offset for message in inner]
    if max(offsets) not in _INT64S or outer.offset - offsets[0] not in _INT32S:
        raise ValueError("a compressed message whose offsets are too far from its own")
    return offsets


def _wrapped(value: int) -> int:
    """The value as an int64 of Java, which overflows."""
    return (value + 2**63) % 2**64 - 2**63
