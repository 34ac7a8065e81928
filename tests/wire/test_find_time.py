"""The kernel that looks for a time in a batch, beside its slow twin."""

import gzip
import struct
from itertools import product
from random import Random
from typing import Any

import pytest

from kcore._ext import records as kernel
from kcore.wire.record_building import encode_records
from kcore.wire.records import Record, decode_records
from reference import find_time as twin
from reference.log_validator import IllegalArgument, Invalid, put, varint_bytes
from reference.records import FIELDS

GZIP, APPEND_TIME = 1, 8
BASE_OFFSET, BASE_TIME, LARGEST = 40, 1_000, 1_002
ENOUGH = 2**30


def record(delta: int, offset_delta: int, value: bytes = b"v") -> bytes:
    return put(b"\0" + varint_bytes(delta) + varint_bytes(offset_delta) + put(None) + put(value) + varint_bytes(0))


def batch_of(records: bytes, **header: int) -> bytes:
    """A batch of magic 2; `header`: the fields that are not 0."""
    fields = {"batch_length": 49 + len(records), "magic": 2, **header}
    data = bytearray(61)
    for name, place, form in FIELDS:
        struct.pack_into(form, data, place, fields.get(name, 0))
    return bytes(data) + records


def outcome(find: Any, *arguments: Any) -> Any:
    try:
        return find(*arguments)
    except (ValueError, Invalid, IllegalArgument):
        return "refused"


def assert_same(batch: bytes, records: bytes, timestamp: int, start_offset: int) -> None:
    wanted = outcome(twin.find_time, batch, records, timestamp, start_offset)
    found = outcome(kernel.find_time, batch, timestamp, start_offset, ENOUGH)
    assert found == ("refused" if wanted == "refused" else (wanted, True)), (batch.hex(), timestamp, start_offset)


@pytest.mark.parametrize("attributes", [0, GZIP, APPEND_TIME, GZIP | APPEND_TIME])
def test_every_small_batch_is_searched_as_the_twin_does(attributes: int) -> None:
    """Up to three records with times in any order, without those that compaction took, and one of a wrong count."""
    for count in range(4):
        for deltas in product((-1, 0, 2), repeat=count):
            for first in (0, 1):
                rows = b"".join(record(delta, first + 2 * at) for at, delta in enumerate(deltas))
                packed = gzip.compress(rows, 1, mtime=0) if attributes & GZIP else rows
                about = {"attributes": attributes, "base_offset": BASE_OFFSET, "base_timestamp": BASE_TIME}
                batch = batch_of(packed, **about, max_timestamp=LARGEST, count=count + (count == 2 and first))
                for timestamp in range(BASE_TIME - 2, BASE_TIME + 4):
                    for start_offset in range(BASE_OFFSET - 1, BASE_OFFSET + 2 * count + 2):
                        assert_same(batch, rows, timestamp, start_offset)


def odd(dice: Random, rows: bytes) -> bytes:
    """The records, one byte of them changed, some added or the rest cut off."""
    data, place = bytearray(rows), dice.randrange(len(rows))
    match dice.randrange(4):
        case 0:
            data[place] ^= 1 << dice.randrange(8)
        case 1:
            data[place] = dice.choice([0, 1, 0x7F, 0x80, 0xFF])
        case 2:
            del data[place:]
        case 3:
            data[place:place] = dice.choice([b"\x80\x80\x80\x80\x80\x01", b"\0", dice.randbytes(3)])
    return bytes(data)


@pytest.mark.parametrize("seed", range(10))
def test_random_batches_are_searched_as_the_twin_does(seed: int) -> None:
    """Whole ones and damaged ones; offsets and times up to where a long overflows."""
    dice = Random(seed)
    edges = [0, 7, -1, BASE_TIME, 2**31, 2**63 - 1, -(2**63)]
    for _ in range(400):
        count, attributes = dice.randrange(1, 6), dice.choice([0, GZIP]) | dice.choice([0, 0, APPEND_TIME])
        deltas = [dice.choice([0, 5, -3, dice.randrange(2**40), 2**63 - 1, -(2**63)]) for _ in range(count)]
        values = [dice.randbytes(dice.choice([0, 3, 200])) for _ in range(count)]
        offsets = [dice.choice([at, at, at, 2**31 - 1, -(2**31)]) for at in range(count)]
        rows = b"".join(map(record, deltas, offsets, values))
        rows = rows if dice.random() < 0.5 else odd(dice, rows)
        packed = gzip.compress(rows, 1) if attributes & GZIP else rows
        names = ("base_offset", "base_timestamp", "max_timestamp")
        header = {name: dice.choice(edges) for name in names} | {"count": count + dice.choice([0, 0, 0, 1, -9])}
        batch = batch_of(packed, attributes=attributes, **header)
        batch = batch if dice.random() < 0.95 else batch[: dice.randrange(len(batch))]
        for _ in range(4):
            assert_same(batch, rows, dice.choice([*edges, *deltas]), dice.choice([*edges, *offsets]))


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_no_more_is_decompressed_than_is_allowed(codec: str) -> None:
    """A record is found if all up to its end may be decompressed, and never if that is more than the budget."""
    dice = Random(codec)
    values = [dice.randbytes(20) * dice.randrange(300) for _ in range(40)]
    rows = [Record(at, BASE_TIME + at, None, value) for at, value in enumerate(values)]
    batch = bytes(encode_records(rows, codec=codec))
    plain = bytes(encode_records(rows, codec="none"))
    size, columns = len(plain) - 61, decode_records(plain)
    ends = [int(at) + len(value) + 1 - 61 for at, value in zip(columns.value_offset, values, strict=True)]
    for at, end in enumerate(ends):
        found = ((BASE_TIME + at, at), True)
        assert kernel.find_time(batch, BASE_TIME + at, 0, size) == found
        if codec == "none":
            assert kernel.find_time(batch, BASE_TIME + at, 0, 0) == found, "nothing is decompressed"
            continue
        assert kernel.find_time(batch, BASE_TIME + at, 0, end - 2) == (None, False)
        assert kernel.find_time(batch, BASE_TIME + at, 0, end + 2**16) == found
        assert kernel.find_time(batch, BASE_TIME + at, 0, dice.randrange(size)) in (found, (None, False))
