"""Slow twin of `kcore._ext.records.scan`: batch headers of magic 2, one field at a time."""

import struct
from typing import Any

from reference.crc32c import crc32c

# Name, place in the batch, form. A batch is: 12 bytes that batchLength does not count, 49 bytes of header, records.
FIELDS = (
    ("base_offset", 0, ">q"),
    ("batch_length", 8, ">i"),
    ("partition_leader_epoch", 12, ">i"),
    ("magic", 16, ">b"),
    ("crc", 17, ">I"),
    ("attributes", 21, ">h"),
    ("last_offset_delta", 23, ">i"),
    ("base_timestamp", 27, ">q"),
    ("max_timestamp", 35, ">q"),
    ("producer_id", 43, ">q"),
    ("producer_epoch", 51, ">h"),
    ("base_sequence", 53, ">i"),
    ("count", 57, ">i"),
)


def scan(data: bytes) -> tuple[list[dict[str, Any]], int, tuple[str, int] | None]:
    """The headers, where reading ended, and the problem there with the offset of the wrong field."""
    headers: list[dict[str, Any]] = []
    position = 0
    while position < len(data):
        if problem := problem_at(data, position):
            return headers, position, problem
        header = {name: struct.unpack_from(form, data, position + place)[0] for name, place, form in FIELDS}
        end = position + 12 + header["batch_length"]
        header["position"] = position
        header["crc_matches"] = crc32c(data[position + 21 : end]) == header["crc"]
        headers.append(header)
        position = end
    return headers, position, None


def problem_at(data: bytes, position: int) -> tuple[str, int] | None:
    """Why there is no batch at `position`."""
    if len(data) - position < 17:
        return "a torn record batch", position
    if data[position + 16] != 2:
        return "a record batch whose magic is not 2", position + 16
    (batch_length,) = struct.unpack_from(">i", data, position + 8)
    if batch_length < 49:
        return "a record batch shorter than its header", position + 8
    if len(data) - position < 12 + batch_length:
        return "a torn record batch", position
    return None


def index_entries(
    batches: list[dict[str, Any]], base_offset: int, interval: int, closed: bool
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """(offset, position), (timestamp, offset), offsets relative to the segment: `LogSegment.append`, batch by batch."""
    index: list[tuple[int, int]] = []
    timeindex: list[tuple[int, int]] = []
    largest = (-1, 0)
    bytes_since_entry = 0
    for batch in batches:
        last_offset = batch["base_offset"] + batch["last_offset_delta"] - base_offset
        if batch["max_timestamp"] > largest[0]:
            largest = (batch["max_timestamp"], last_offset)
        if bytes_since_entry > interval:
            index.append((last_offset, batch["position"]))
            append_time(timeindex, largest)
            bytes_since_entry = 0
        bytes_since_entry += 12 + batch["batch_length"]
    if closed:
        append_time(timeindex, largest)
    return index, timeindex


def append_time(timeindex: list[tuple[int, int]], largest: tuple[int, int]) -> None:
    if largest[0] > (timeindex[-1][0] if timeindex else -1):
        timeindex.append(largest)
