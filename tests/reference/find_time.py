"""Slow twin of `kcore._ext.records.find_time`: the first record of a batch that is not older than a time.

The twin reads records that are decompressed already, as the twin of `validate` does.
"""

import struct

from reference.log_validator import Buffer, Invalid, next_record
from reference.records import FIELDS, problem_at

CODEC, LOG_APPEND_TIME = 0x07, 0x08  # In a batch's attributes.


def find_time(batch: bytes, records: bytes, timestamp: int, start_offset: int) -> tuple[int, int] | None:
    """Time and offset of the record. Invalid or IllegalArgument for a batch that cannot be read as far as that.

    `records`: those of the batch, decompressed.
    """
    if problem_at(batch, 0):
        raise Invalid
    header = {name: struct.unpack_from(form, batch, place)[0] for name, place, form in FIELDS}
    buffer = Buffer(records)
    for _ in range(header["count"]):
        delta, offset_delta, *_ = next_record(buffer, is_compressed=bool(header["attributes"] & CODEC), is_kept=True)
        offset = as_long(header["base_offset"] + offset_delta)
        time = as_long(header["base_timestamp"] + delta)
        if header["attributes"] & LOG_APPEND_TIME:
            time = header["max_timestamp"]
        if time >= timestamp and offset >= start_offset:
            return time, offset
    return None


def as_long(value: int) -> int:
    """As Java adds longs."""
    return (value + 2**63) % 2**64 - 2**63
