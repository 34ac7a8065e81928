"""Slow twin of `kcore._ext.records.validate`: the records of one batch as LogValidator reads them, one field at a time.

The twin reads decompressed records: recorded answers cover damaged streams.
"""

from dataclasses import dataclass, field
from typing import Any

INVALID_RECORD, UNKNOWN_SERVER_ERROR = 0, 1
NO_KEY, OUT_OF_RANGE, LOG_APPEND_TIME = 0, 1, 2


class Underflow(Exception):
    """BufferUnderflowException."""


class IllegalArgument(Exception):
    """IllegalArgumentException."""


class Invalid(Exception):
    """InvalidRecordException."""


@dataclass
class Result:
    """The kernel's result."""

    refusal: int | None = None
    errors: list[tuple[int, int, int]] = field(default_factory=list)
    first_timestamp: int = -1
    max_timestamp: int = -1
    rebuilt: bytes | None = None


class Buffer:
    """A ByteBuffer, or with `ends_in_ff` an InputStream, which reads as 0xff behind its end."""

    def __init__(self, data: bytes, ends_in_ff: bool = False) -> None:
        self.data, self.at, self.ends_in_ff = data, 0, ends_in_ff

    @property
    def remaining(self) -> int:
        return len(self.data) - self.at

    def byte(self) -> int:
        if self.at == len(self.data):
            if self.ends_in_ff:
                return 0xFF
            raise Underflow
        self.at += 1
        return self.data[self.at - 1]

    def varint(self, bits: int = 32) -> int:
        value = 0
        for shift in range(0, 35 if bits == 32 else 70, 7):
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                value &= (1 << bits) - 1  # Bits beyond the width are dropped.
                return value >> 1 if value % 2 == 0 else -(value >> 1) - 1
        raise IllegalArgument

    def span(self) -> bytes | None:
        length = self.varint()
        if length < 0:
            return None
        if length > self.remaining:
            raise Invalid if self.ends_in_ff else IllegalArgument
        self.at += length
        return self.data[self.at - length : self.at]


def record_of(buffer: Buffer) -> tuple[int, int, bytes | None, bytes | None, list[tuple[bytes, bytes | None]]]:
    """Timestamp delta, offset delta, key, value and headers."""
    try:
        buffer.byte()  # Attributes.
        deltas = buffer.varint(64), buffer.varint()
        key, value = buffer.span(), buffer.span()
        count = buffer.varint()
        if count < 0 or (count > buffer.remaining and not buffer.ends_in_ff):
            raise Invalid
        headers = []
        for _ in range(count):
            header_key = buffer.span()
            if header_key is None:
                raise Invalid
            headers.append((header_key, buffer.span()))
        return *deltas, key, value, headers
    except (Underflow, IllegalArgument):
        raise Invalid from None


def next_record(data: Buffer, is_compressed: bool, is_kept: bool, most: int = 2**31 - 1) -> Any:
    """The next record. `is_kept`: the batch stays as it is, so that a compressed record's size is not compared with its
    bytes. `most`: the largest size of a compressed record."""
    stream = Buffer(data.data, ends_in_ff=is_compressed)
    stream.at = data.at
    try:
        size = stream.varint()
    except Underflow:
        raise Invalid from None
    except IllegalArgument:
        if is_compressed:
            raise Invalid from None
        raise
    data.at = stream.at
    if is_compressed and size > most:
        raise Invalid
    if is_compressed and is_kept:
        record = record_of(stream)
        data.at = stream.at
        return record
    if (is_compressed and size < 0) or size > data.remaining:
        raise Invalid
    body = Buffer(data.data[data.at : data.at + size] if is_compressed else data.data[data.at :])
    record = record_of(body)
    if body.at != size:
        raise Invalid
    data.at += size
    return record


def error_of(key: bytes | None, timestamp: int, has_append_time: bool, rules: dict[str, Any]) -> int | None:
    if rules["is_compacted"] and key is None:
        return NO_KEY
    window = rules["window"]
    if window is not None and timestamp != -1:
        now, before, after = window
        return OUT_OF_RANGE if timestamp < now - before or timestamp > now + after else None
    return LOG_APPEND_TIME if has_append_time else None


def varint_bytes(value: int) -> bytes:
    zigzag = value * 2 if value >= 0 else -value * 2 - 1
    out = b""
    while zigzag >= 0x80:
        out += bytes([zigzag & 0x7F | 0x80])
        zigzag >>= 7
    return out + bytes([zigzag])


def put(value: bytes | None) -> bytes:
    return varint_bytes(-1) if value is None else varint_bytes(len(value)) + value


def rebuilt(record: Any, timestamp_delta: int, index: int) -> bytes:
    _, _, key, value, headers = record
    body = b"\0" + varint_bytes(timestamp_delta) + varint_bytes(index) + put(key) + put(value)
    body += varint_bytes(len(headers))
    for header_key, header_value in headers:
        body += put(header_key.decode("utf-8", "replace").encode()) + put(header_value)
    return put(body)


def validate(data: bytes, count: int, is_compressed: bool, is_kept: bool, rules: dict[str, Any]) -> Result:
    """`data`: the records, decompressed; `is_kept`: they are not rewritten, otherwise they are written uncompressed."""
    result, buffer, is_sequential, written = Result(), Buffer(data), True, []
    try:
        for index in range(count):
            record = next_record(buffer, is_compressed, is_kept, rules["most_of_record"])
            timestamp = rules["append_time"]
            if timestamp is None:
                timestamp = rules["base_timestamp"] + record[0]
            result.first_timestamp = timestamp if index == 0 else result.first_timestamp
            result.max_timestamp = max(result.max_timestamp, timestamp)
            is_sequential &= record[1] == index
            error = error_of(record[2], timestamp, rules["append_time"] is not None, rules)
            if error is not None:
                result.errors.append((index, error, timestamp))
            written.append((timestamp, record))
            if index == count - 1 and buffer.remaining:
                raise Invalid
    except (Invalid, IllegalArgument) as thrown:
        result.refusal = INVALID_RECORD if isinstance(thrown, Invalid) else UNKNOWN_SERVER_ERROR
        return result
    if result.errors:
        return result
    if is_kept:
        result.refusal = UNKNOWN_SERVER_ERROR if is_compressed and not is_sequential else None
    elif any(timestamp < -1 for timestamp, _ in written):
        result.refusal = UNKNOWN_SERVER_ERROR
    else:
        result.rebuilt = b"".join(
            rebuilt(record, timestamp - result.first_timestamp, index)
            for index, (timestamp, record) in enumerate(written)
        )
    return result
