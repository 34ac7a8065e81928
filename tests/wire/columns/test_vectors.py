"""The string kernels beside their plain twins."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kcore._ext.columns import vectors
from kcore.types import Int32s, UInt8s
from reference import vectors as twin

TEXTS = st.lists(st.sampled_from([b"", b"a", b"ab", b"b", "größe".encode()]), max_size=12)


def columns(texts: list[bytes]) -> tuple[Int32s, UInt8s]:
    offsets = np.cumsum([0, *map(len, texts)], dtype=np.int32)
    return offsets, np.frombuffer(b"".join(texts), np.uint8)


def rows(offsets: Int32s, values: UInt8s) -> list[bytes]:
    return [values[begin:end].tobytes() for begin, end in pairwise(offsets)]


@given(TEXTS)
def test_starts_group(texts: list[bytes]) -> None:
    starts = np.empty(len(texts), np.uint8)
    vectors.starts_group(*columns(texts), starts)
    assert starts.astype(bool).tolist() == twin.starts_group(texts)


@given(st.lists(st.tuples(st.sampled_from([b"", b"a", b"abc"]), st.integers(0, 3)), max_size=8))
def test_repeat(counted: list[tuple[bytes, int]]) -> None:
    texts, counts = [text for text, _ in counted], [count for _, count in counted]
    wanted = twin.repeat(texts, counts)
    row_offsets = np.cumsum([0, *counts], dtype=np.int32)
    offsets, values = np.empty(len(wanted) + 1, np.int32), np.empty(sum(map(len, wanted)), np.uint8)
    vectors.repeat(*columns(texts), row_offsets, offsets, values)
    assert rows(offsets, values) == wanted
