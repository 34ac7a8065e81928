"""Frames metadata records as the log stores them: frame version, type and version before the message.

As in Kafka's MetadataRecordSerde, these are three unsigned varints; the first is 1.
"""

from typing import NamedTuple, cast

import numpy as np

from kcore.errors import DecodeError, EncodeError
from kcore.schema.index import METADATA_RECORDS
from kcore.schema.structure import MetadataRecord
from kcore.types import Int32s, Int64s
from kcore.wire.buffers import bytes_of
from kcore.wire.codec import decode, encode

FRAME_VERSION = 1
HIGHEST = 2**15 - 1  # Kafka's type and version are shorts.
VARINT_BYTES = 5
FRAME_BYTES = 3  # Bytes of a frame header whose numbers are all below 128.


class FrameHeader(NamedTuple):
    """The type and version before a record's message, and the places of both and of the message."""

    api_key: int
    version: int
    type_at: int
    version_at: int
    message_at: int


def frame_header(view: memoryview) -> FrameHeader:
    """The header of a record's frame; DecodeError for another frame version, or for an invalid number."""
    frame_version, type_at = _read_varint(view, 0)
    if frame_version != FRAME_VERSION:
        raise DecodeError(f"a frame of version {frame_version}, not {FRAME_VERSION}", 0)
    api_key, version_at = _read_varint(view, type_at)
    version, message_at = _read_varint(view, version_at)
    return FrameHeader(api_key, version, type_at, version_at, message_at)


def decode_metadata_record(data: bytes | bytearray | memoryview) -> tuple[MetadataRecord, int]:
    """The record in all of `data`, and its version.

    DecodeError with its offset for another frame version, an unknown record or version, or an error of `decode`.
    """
    view = bytes_of(data)
    api_key, version, at, version_at, start = frame_header(view)
    if api_key not in METADATA_RECORDS:
        raise DecodeError(f"no metadata record is of type {api_key}", at)
    record = METADATA_RECORDS[api_key]
    if version not in record.versions:
        raise DecodeError(f"{record.__name__} has versions {record.versions}, not {version}", version_at)
    try:
        return cast(MetadataRecord, decode(record, version, view[start:])), version
    except DecodeError as error:
        raise DecodeError(f"{record.__name__}: {error.message}", start + error.offset) from None


def frame_columns(data: memoryview, begins: Int64s, lengths: Int32s) -> tuple[Int32s, Int32s]:
    """Type and version of many records; `begins` and `lengths` are their places in `data`, in bytes.

    Both are -1 if a frame header is not three bytes and of the usual version; only decoding shows whether it is valid.
    """
    usual = lengths >= FRAME_BYTES
    if not usual.any():
        return np.full(len(begins), -1, np.int32), np.full(len(begins), -1, np.int32)
    head = np.frombuffer(data, np.uint8)[np.where(usual, begins, 0)[:, None] + np.arange(FRAME_BYTES)].astype(np.int32)
    usual &= (head[:, 0] == FRAME_VERSION) & (head < 0x80).all(axis=1)
    return np.where(usual, head[:, 1], -1), np.where(usual, head[:, 2], -1)


def encode_metadata_record(record: MetadataRecord, version: int) -> bytes:
    """The record as the log stores it. Errors: those of `encode`; EncodeError if it is not a metadata record."""
    if not isinstance(record, MetadataRecord):
        raise EncodeError(f"expected a metadata record, not {type(record).__name__}")
    message = encode(record, version)
    return varint(FRAME_VERSION) + varint(record.api_key) + varint(version) + message


def _read_varint(view: memoryview, at: int) -> tuple[int, int]:
    """The number and its end."""
    number = 0
    for i, byte in enumerate(view[at : at + VARINT_BYTES]):
        number |= (byte & 0x7F) << 7 * i
        if byte < 0x80:
            if number > HIGHEST:
                raise DecodeError(f"{number} is more than a short", at)
            return number, at + i + 1
    raise DecodeError("the bytes end inside a varint" if len(view) < at + VARINT_BYTES else "a varint is too long", at)


def varint(number: int) -> bytes:
    return bytes([number]) if number < 0x80 else bytes([number & 0x7F | 0x80]) + varint(number >> 7)
