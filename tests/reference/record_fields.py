"""Slow twin of `kcore._ext.records.decode`: the records of one batch that is not compressed, one field at a time."""

import struct
from typing import Any

from reference.records import FIELDS


class Wrong(Exception):
    """The problem and its offset."""


class Reader:
    """Bytes, their end, and the reader's position."""

    def __init__(self, data: bytes, at: int, end: int) -> None:
        self.data = data
        self.at = at
        self.end = end

    def varint(self, bits: int) -> int:
        start = self.at
        value = 0
        for shift in range(0, bits, 7):
            if self.at == self.end:
                raise Wrong("a varint that the bytes end in", start)
            byte = self.data[self.at]
            self.at += 1
            value += (byte & 127) << shift
            if byte < 128:
                value %= 2**bits  # Bits beyond the width are dropped.
                return value // 2 if value % 2 == 0 else -(value + 1) // 2
        raise Wrong("a varint too long for its field", start)

    def span(self) -> bytes | None:
        start = self.at
        length = self.varint(32)
        if length < 0:
            return None
        if length > self.end - self.at:
            raise Wrong("a length beyond the bytes", start)
        self.at += length
        return self.data[self.at - length : self.at]


def records(data: bytes, position: int) -> list[dict[str, Any]]:
    """The records of the batch at `position`. Raises Wrong."""
    header = {name: struct.unpack_from(form, data, position + place)[0] for name, place, form in FIELDS}
    end = position + 12 + header["batch_length"]
    if header["count"] == 0:
        return []  # Whatever is behind the header.
    if header["count"] < 0:
        raise Wrong("a record batch with a negative count", position + 57)
    if header["count"] * 7 > end - position - 61:
        raise Wrong("a record batch with more records than bytes", position + 57)
    reader = Reader(data, position + 61, end)
    found = [record(reader, header) for _ in range(header["count"])]
    if reader.at != end:
        raise Wrong("bytes behind a batch's last record", reader.at)
    return found


def record(reader: Reader, header: dict[str, Any]) -> dict[str, Any]:
    start = reader.at
    length = reader.varint(32)
    if length < 0:
        raise Wrong("a record of negative length", start)
    if length > reader.end - reader.at:
        raise Wrong("a length beyond the bytes", start)
    body = Reader(reader.data, reader.at, reader.at + length)
    reader.at = body.end
    if body.at == body.end:
        raise Wrong("a record shorter than its fields", body.at)
    body.at += 1
    timestamp_delta = body.varint(64)
    offset_delta = body.varint(32)
    key, key_end = body.span(), body.at
    value = body.span()
    headers = headers_of(body)
    if body.at != body.end:
        raise Wrong("a record longer than its fields", body.at)
    log_append_time = header["attributes"] & 8
    return {
        "offset": int64(header["base_offset"] + offset_delta),
        "timestamp": header["max_timestamp"] if log_append_time else int64(header["base_timestamp"] + timestamp_delta),
        "timestamp_delta": timestamp_delta,
        "sequence": sequence(header["base_sequence"], offset_delta),
        "key": key,
        "value": value,
        "headers": headers,
        "control_type": control_type(header["attributes"], key, key_end),
    }


def headers_of(body: Reader) -> list[tuple[bytes, bytes | None]]:
    start = body.at
    count = body.varint(32)
    if count < 0:
        raise Wrong("a negative number of headers", start)
    headers: list[tuple[bytes, bytes | None]] = []
    while len(headers) < count:
        start = body.at
        key = body.span()
        if key is None:
            raise Wrong("a header without a key", start)
        headers.append((key, body.span()))
    return headers


def control_type(attributes: int, key: bytes | None, key_end: int) -> int | None:
    if not attributes & 32:
        return None
    if key is None or len(key) < 4:
        raise Wrong("a control record without a type", key_end - len(key or b""))
    if key[0] >= 128:
        raise Wrong("a control record of negative version", key_end - len(key))
    return int.from_bytes(key[2:4], "big", signed=True)


def sequence(base: int, delta: int) -> int:
    """Sequences go from 2**31 - 1 on to 0."""
    if base < 0:
        return -1
    return base + delta if base + delta < 2**31 else base + delta - 2**31


def int64(value: int) -> int:
    return (value + 2**63) % 2**64 - 2**63
