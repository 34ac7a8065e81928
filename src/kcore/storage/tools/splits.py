"""Finds where a large segment or snapshot can be split: positions at which a record batch begins."""

from dataclasses import replace
from mmap import mmap
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from kcore.errors import StorageError
from kcore.storage.log.indexes import OffsetIndex
from kcore.storage.log.segment import OFFSET_INDEX, base_offset_of, beside, is_segment, map_file
from kcore.wire.log_formats import decode_run, scan_log
from kcore.wire.message_sets import UNKNOWN_COUNT
from kcore.wire.record_batch import RecordBatches

_AT_ONCE: Final = 100_000  # Batch headers per step, so that tiny batches do not fill the memory.


class Border(NamedTuple):
    """The first byte of a batch, and the batch's base offset."""

    position: int
    base_offset: int


def borders(path: Path, size: int) -> list[Border]:
    """The borders between parts of at most about `size` bytes; empty if the file is not larger than `size`.

    The entries of the `.index` file name batches, and the CRC of a batch confirms its entry. If the index is missing,
    damaged or sparse, batch headers are read from the last border on. A part is larger if it has a larger batch, or
    bytes that are not batches.
    """
    data = map_file(path)
    index = _index(path, len(data)) if len(data) > size else None
    found = [Border(0, 0)]
    while len(data) - found[-1].position > size:
        at = found[-1].position
        border = _by_index(data, index, at + size // 2, at + size) or _by_headers(data, at, at + size)
        if border is None:
            break
        found.append(border)
    return found[1:]


def _index(path: Path, segment_bytes: int) -> OffsetIndex | None:
    """The index of a segment; None without an index that can be read."""
    if not is_segment(path.name):
        return None
    try:
        return OffsetIndex.read(beside(path, OFFSET_INDEX), base_offset_of(path), segment_bytes)
    except (StorageError, OSError):
        return None


def _by_index(data: mmap | bytes, index: OffsetIndex | None, low: int, high: int) -> Border | None:
    """The last indexed batch from `low` to `high`; None if there is none, or if the batch contradicts its entry."""
    row = index.entry_before(high) if index is not None else -1
    if index is None or row < 0 or (position := int(index.positions[row])) <= low:
        return None
    batch = scan_log(data, start=position, limit=1, stop=True)
    if not len(batch) or not batch.crc_matches[0] or batch.base_offset[0] > index.offsets[row]:
        return None
    return _border(data, batch, 0)


def _by_headers(data: mmap | bytes, at: int, high: int) -> Border | None:
    """The last batch after `at` that begins at `high` or before, or else the first batch after `at`; `at` is a border.

    None if there is no other batch.
    """
    found, start = None, at
    while True:
        batches = scan_log(data, start=start, limit=_AT_ONCE, check_crc=False, stop=True)
        fitting = int(np.searchsorted(batches.position, high, side="right"))
        if fitting and batches.position[fitting - 1] > at:
            found = _border(data, batches, fitting - 1)
        if fitting < len(batches):
            return found or _border(data, batches, fitting)
        if batches.problem or batches.end in (start, len(data)):
            return found
        start = batches.end


def _border(data: mmap | bytes, batches: RecordBatches, row: int) -> Border:
    """The border before a batch. A wrapper of magic 0 or 1 is decompressed, since its header lacks the base offset; 0
    stands for the base offset of a damaged one."""
    found = batches.take(slice(row, row + 1))
    if found.count[0] == UNKNOWN_COUNT:
        records = decode_run(data, replace(found, problem=None), check_crc=False, stop=True)
        return Border(int(found.position[0]), int(records.batches.base_offset[0]) if len(records) else 0)
    return Border(int(found.position[0]), int(found.base_offset[0]))
