"""Records that are alike, with tags, nulls and arrays inside, are the same columns and bytes as one by one."""

import zlib
from typing import Any

import numpy as np
import pytest

import kcore
from kcore import DecodeError
from kcore.schema import message_class
from kcore.wire.plan import plan
from reference.columns import write
from wire.growing import DIALS, GROWING, Dials, message_row
from wire.test_columns import grouped, plain_rows

VERSIONS = [
    (name, version)
    for name in GROWING
    for versions in [message_class(name).versions]
    for version in sorted({versions.lowest, (versions.lowest + versions.highest) // 2, versions.highest})
]


def drawn(name: str, version: int, dials: Dials) -> tuple[dict[str, Any], bytes]:
    """A message and its bytes, written one value at a time."""
    wire_plan = plan(message_class(name), version)
    row = message_row(wire_plan, dials, zlib.crc32(f"{name} {version} {dials}".encode()))
    return row, write(wire_plan, row)


@pytest.mark.parametrize("dials", DIALS)
@pytest.mark.parametrize(("name", "version"), VERSIONS)
def test_columns_are_the_message(name: str, version: int, dials: str) -> None:
    row, data = drawn(name, version, DIALS[dials])
    columns = kcore.decode_columns(name, version, data)
    expected = grouped(message_class(name), row)
    assert plain_rows(columns, expected) == expected
    assert kcore.encode_columns(columns, version) == data
    assert kcore.encode(kcore.decode(name, version, data), version) == data


def offset_of_error(decode: Any, name: str, version: int, data: bytes | bytearray) -> int | None:
    try:
        decode(name, version, data)
    except DecodeError as error:
        return error.offset
    return None


@pytest.mark.parametrize("dials", ["alike", "alike, tags and nulls", "counts differ"])
@pytest.mark.parametrize("name", GROWING)
def test_bytes_that_are_wrong_are_told_as_one_by_one(name: str, dials: str) -> None:
    """Cut short or with a flipped bit, in the middle of a run or at its ends: the object view walks value by value."""
    version = message_class(name).versions.highest
    _, data = drawn(name, version, DIALS[dials])
    rng = np.random.default_rng(11)
    for cut in rng.integers(0, len(data), 30):
        assert offset_of_error(kcore.decode_columns, name, version, data[:cut]) is not None
    for bit in rng.integers(0, len(data) * 8, 150):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        found = offset_of_error(kcore.decode_columns, name, version, flipped)
        assert found == offset_of_error(kcore.decode, name, version, flipped)
        if found is None:
            columns = kcore.decode_columns(name, version, flipped)
            assert kcore.encode_columns(columns, version) == kcore.encode(kcore.decode(name, version, flipped), version)
