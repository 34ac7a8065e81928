"""Converts and checks callers' arrays for the columns of a table."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from kcore.constants import MAX_REPLICAS, NO_BROKER_ROW
from kcore.errors import KcoreError, TableError
from kcore.types import Int32s, Int64s

Array = npt.NDArray[Any]
FEWEST_SLOTS: Final = 16  # The fewest slots of a hash table; a power of two.


def as_array(name: str, values: npt.ArrayLike, error: type[KcoreError] = TableError) -> Array:
    """`values` as a NumPy array; `error` if they are not one, such as lists of different lengths."""
    try:
        return np.asarray(values)
    except (ValueError, TypeError, OverflowError) as reason:
        raise error(f"{name} is no array: {reason}") from None


def as_integers(name: str, values: npt.ArrayLike, dtype: npt.DTypeLike, shape: tuple[int, ...]) -> Array:
    """A fresh array of that dtype and shape; TableError if `values` has another shape, or a value that does not fit."""
    array = as_array(name, values)
    if array.shape != shape:
        raise TableError(f"{name} has shape {array.shape}, not {shape}")
    if array.size and array.dtype.kind not in "iu":
        raise TableError(f"{name} must be integers, not {array.dtype}")
    limits = np.iinfo(dtype)
    if array.size and (array.min() < limits.min or array.max() > limits.max):
        raise TableError(f"{name} has values outside {limits.min}..{limits.max}")
    return np.array(array, dtype=dtype)


def as_broker_lists(name: str, ids: npt.ArrayLike) -> Array:
    """`ids` as a 2-D array of integers, not copied if it is one; TableError for anything else."""
    array = as_array(name, ids)
    if array.ndim != 2 or (array.size and array.dtype.kind not in "iu"):
        raise TableError(f"{name} must be a 2-D array of broker ids, not {array.ndim}-D of {array.dtype}")
    return array


def padded(offsets: Array, values: Array) -> Int32s:
    """Ragged rows as a 2-D array padded with -1; row k is `values[offsets[k]:offsets[k + 1]]`."""
    counts = np.diff(offsets)
    if len(offsets) == 0 or offsets[0] != 0 or offsets[-1] != len(values) or (counts < 0).any():
        raise TableError(f"offsets must rise from 0 to the {len(values)} values they divide")
    width = int(counts.max(initial=0))
    if width > MAX_REPLICAS:  # Checked before an array of the longest row times the number of rows is made.
        raise TableError(f"row {int(counts.argmax())} has {width} brokers; at most {MAX_REPLICAS} fit")
    rows = np.full((len(counts), width), NO_BROKER_ROW, np.int32)
    rows[np.arange(rows.shape[1]) < counts[:, None]] = values
    return rows


def padded_lists(lists: Sequence[Sequence[int]]) -> Int32s:
    """Lists of different lengths as a 2-D array padded with -1."""
    values = np.fromiter((each for one in lists for each in one), np.int32)
    return padded(np.cumsum([0, *map(len, lists)]), values)


def widened(rows: Array, width: int, fill: int = NO_BROKER_ROW) -> Array:
    """A copy of 2-D `rows` that is `width` wide, padded with `fill`."""
    wide = np.full((len(rows), width), fill, rows.dtype)
    wide[:, : rows.shape[1]] = rows
    return wide


def grown(array: Array, length: int) -> Array:
    """A copy of `array` with room along its first axis for `length` and an eighth more, so that growth is rare."""
    room = np.empty((length + length // 8 + 8, *array.shape[1:]), array.dtype)
    room[: len(array)] = array
    return room


def distinct_brokers(ids: Array) -> Int64s:
    """The broker ids in `ids`, ascending, without -1; without a large temporary array if ids are small."""
    if not ids.size or ids.max() >= 1 << 20:
        found: Int64s = np.unique(ids[ids != NO_BROKER_ROW]).astype(np.int64)
        return found
    if ids.min() < NO_BROKER_ROW:
        raise TableError(f"broker id {ids.min()} is negative")
    seen = np.zeros(int(ids.max()) + 2, np.bool_)
    for chunk in np.array_split(ids, len(ids) // 100_000 + 1):
        seen[chunk] = True
    return np.flatnonzero(seen[:-1])  # Id -1 marks the last entry.


def numbered(groups: Array) -> Int32s:
    """The number of each item within its group: 0, 1, 2 ... in the order of the array."""
    order = np.argsort(groups, kind="stable")
    ordered = groups[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=ordered[:1] - 1))
    numbers = np.empty(len(groups), np.int32)
    numbers[order] = np.arange(len(groups)) - np.repeat(starts, np.diff(starts, append=len(groups)))
    return numbers


HUGE_PAGE: Final = 1 << 21
_NUMPY_ASKS_FROM: Final = 1 << 22  # Size in bytes from which NumPy asks the kernel for huge pages.


def together(columns: Mapping[str, Array]) -> dict[str, Array]:
    """The columns in one allocation with huge pages, if they are too small to get huge pages separately.

    A decision about a few partitions in a hundred touches every page of every column; with small pages the look-up of a
    page takes as long as the access. Each column begins at another place of a page, so that stores do not collide.
    """
    sizes = {name: -(-array.nbytes // 64) * 64 + 320 for name, array in columns.items()}
    total = sum(sizes.values())
    if total < HUGE_PAGE // 2 or max(array.nbytes for array in columns.values()) >= _NUMPY_ASKS_FROM:
        return dict(columns)
    arena = np.empty(max(total + HUGE_PAGE, _NUMPY_ASKS_FROM), np.uint8)
    at, packed = -arena.ctypes.data % HUGE_PAGE, {}
    for name, array in columns.items():
        packed[name] = np.ndarray(array.shape, array.dtype, arena, at)
        packed[name][...] = array
        at += sizes[name]
    return packed
