"""Messages whose bytes are wrong: columns and objects must report the same error."""

from typing import Any

import numpy as np

import kcore
from kcore import DecodeError


def offset_of_error(decode: Any, name: str, version: int, data: bytes | bytearray) -> int | None:
    try:
        decode(name, version, data)
    except DecodeError as error:
        return error.offset
    return None


def assert_same_as_one_by_one(name: str, version: int, data: bytes, *, cuts: int, flips: int) -> None:
    """Cut messages short or flip a bit, so many times: the object codec finds the same error at the same place."""
    rng = np.random.default_rng(11)
    for cut in rng.integers(0, len(data), cuts):
        assert offset_of_error(kcore.decode_columns, name, version, data[:cut]) is not None
    for bit in rng.integers(0, len(data) * 8, flips):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        found = offset_of_error(kcore.decode_columns, name, version, flipped)
        assert found == offset_of_error(kcore.decode, name, version, flipped)
        if found is None:
            columns = kcore.decode_columns(name, version, flipped)
            assert kcore.encode_columns(columns, version) == kcore.encode(kcore.decode(name, version, flipped), version)
