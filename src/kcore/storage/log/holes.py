"""Handles damage that is found when a log is opened: truncates a torn end, refuses a hole.

A crash leaves a torn end: no whole batch follows the first damaged byte. If whole batches follow, the log has a hole: a
batch in the middle of the log was damaged or lost. A leader may have acknowledged the batches after the hole, so they
are never deleted. The log is not opened; with the setting `set_aside`, the files after the hole are renamed and the
log before the hole is opened.

Kafka's LogLoader (recoverLog) deletes all batches after a damaged batch, and keeps the batches after a lost batch.
"""

import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from mmap import mmap
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from kcore.errors import StorageError
from kcore.raft.log.batches import CRC_END, HEADER, LEAST_LENGTH, MAGIC
from kcore.storage.files import OS, FileSystem, is_there, opened, remove, sync_file, sync_folder, write_all
from kcore.storage.log.segment import OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX, Segment, base_offset_of, beside
from kcore.wire.record_batch import HEADER_END, LENGTH_END, MAGIC_AT, crc32c, missing_offsets

logger = logging.getLogger(__name__)
ASIDE: Final = ".aside"  # The suffix of renamed files, which hold the batches after a hole.
_WINDOW: Final = 1 << 20  # Bytes per step of a search for batches.
_COPIED: Final = 8 << 20  # Bytes per step of a copy.
REMEDY: Final = "restore the file, or start with --set-aside, which renames what follows and goes on before it"


class Whole(NamedTuple):
    """A whole batch after damage."""

    path: Path
    position: int
    base_offset: int
    last_offset: int


class Damage(NamedTuple):
    """The position of the first damage in a log; all batches below `end_offset` are whole."""

    path: Path
    position: int
    end_offset: int
    reason: str
    settled: int = 0  # The log was durable up to this offset.


def whole_batches(data: bytes | mmap, begin: int = 0) -> Iterator[tuple[int, int, int]]:
    """Position, first and last offset of each whole batch from byte `begin` on; skips any other bytes.

    A batch is whole if its length fits and its CRC matches; its base offset and leader epoch may be damaged.
    """
    at, size = begin, len(data)
    while at + HEADER_END <= size:
        window = np.frombuffer(data[at : at + _WINDOW + HEADER_END], np.uint8)
        for place in np.flatnonzero(window[MAGIC_AT : len(window) - (HEADER_END - MAGIC_AT)] == MAGIC).tolist():
            if at + place < begin:
                continue  # The position is inside the batch that was found last.
            found = _whole_at(data, at + place)
            if found is not None:
                yield at + place, *found[:2]
                begin = found[2]
        at = max(at + _WINDOW, begin)


def _whole_at(data: bytes | mmap, position: int) -> tuple[int, int, int] | None:
    """First offset, last offset and end position of the whole batch at `position`; None if there is none."""
    base_offset, length, _, magic, crc, _, last_delta = HEADER.unpack(data[position : position + HEADER.size])
    end = position + LENGTH_END + length
    if magic != MAGIC or length < LEAST_LENGTH or end > len(data) or min(base_offset, last_delta) < 0:
        return None
    if crc32c(data[position + CRC_END : end]) != crc:
        return None
    return base_offset, base_offset + last_delta, end


def repair(damage: Damage, later: Sequence[Path], *, set_aside: bool, is_lost: bool, files: FileSystem = OS) -> None:
    """Ends a log before damage: truncates it if no whole batch follows.

    If a whole batch follows, renames the files after the damage, with `set_aside`, or raises StorageError. `later` are
    the segments after the damaged segment. With `is_lost` the damaged bytes had been durable, so they were not damaged
    by a crash: then it raises StorageError instead of truncating.
    """
    behind = _first_whole(damage, later, files)
    if behind is not None and not set_aside:
        raise StorageError(_hole(damage, behind))
    if behind is None and is_lost:
        raise StorageError(lost(damage))
    for path in reversed(later):
        if behind is None:
            _log_cut(path, 0, files.size_of(path), base_offset_of(path), f"it follows the end of {damage.path.name}")
            remove(path, files)
        else:
            target = _free_name(path, files)
            logger.warning("%s: set aside as %s: %s", path, target.name, _hole(damage, behind, hint=False))
            files.replace(path, target)
        for suffix in (OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX):
            remove(beside(path, suffix), files)
    if later:
        sync_folder(damage.path.parent, files)
    size = files.size_of(damage.path)
    if damage.position < size:
        if behind is None:
            _log_cut(damage.path, damage.position, size, damage.end_offset, damage.reason)
        else:
            _copy_aside(damage, behind, files)
        with opened(damage.path, os.O_WRONLY, files=files) as file:
            files.ftruncate(file, damage.position)
            files.fsync(file)


def rename(path: Path, suffix: str = ASIDE, files: FileSystem = OS) -> Path:
    """Adds `suffix` to the name of a file that must not be read any more, and a number if needed; returns the path."""
    target = _free_name(path, files, suffix)
    files.replace(path, target)
    return target


def _log_cut(path: Path, begin: int, end: int, offset: int, reason: str) -> None:
    logger.warning("%s: cut from byte %s to %s, from offset %s on: %s", path, begin, end, offset, reason)


def _first_whole(damage: Damage, later: Iterable[Path], files: FileSystem) -> Whole | None:
    """The first whole batch after the damage; ignores bytes in a damaged batch's records that look like a batch."""
    with Segment(damage.path, files) as segment:
        for found in whole_batches(segment.data, damage.position):
            if found[0] == damage.position or found[1] >= damage.end_offset:
                return Whole(damage.path, *found)
    for path in later:
        with Segment(path, files) as segment:
            for found in whole_batches(segment.data):
                return Whole(path, *found)
    return None


def lost(damage: Damage) -> str:
    said = f"no whole batch of offset {damage.end_offset} at position {damage.position}"
    return f"{damage.path}: {said}, but the log was on the disk up to offset {damage.settled}"


def _hole(damage: Damage, behind: Whole, *, hint: bool = True) -> str:
    first, missing = damage.end_offset, missing_offsets(damage.end_offset, behind.base_offset)
    place = f"whole batches from offset {behind.base_offset} on follow in {behind.path.name} at {behind.position}"
    known = f", but the log was on the disk up to offset {damage.settled}" if damage.settled > first else ""
    said = f"{damage.path}: {missing} at position {damage.position} ({damage.reason}); {place}{known}"
    return f"{said}; {REMEDY}" if hint else said


def _free_name(path: Path, files: FileSystem, suffix: str = ASIDE) -> Path:
    target, number = path.with_name(path.name + suffix), 1
    while is_there(target, files):
        number += 1
        target = path.with_name(f"{path.name}{suffix}{number}")
    return target


def _copy_aside(damage: Damage, behind: Whole, files: FileSystem) -> None:
    """Copies a segment's bytes from the damage on to a new file, and makes the new file durable."""
    target = _free_name(damage.path, files)
    logger.warning("%s: set aside from byte %s on as %s: %s", damage.path, damage.position, target.name, damage.reason)
    with opened(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, files=files) as file:
        with Segment(damage.path, files) as segment:
            for begin in range(damage.position, len(segment), _COPIED):
                write_all(file, segment.data[begin : begin + _COPIED], files)
        files.fsync(file)
    sync_file(target, files)
    sync_folder(target.parent, files)
    logger.warning("%s", _hole(damage, behind, hint=False))
