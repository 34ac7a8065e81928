"""Reads a segment: one `.log` file of record batches, which is mapped, and the indexes beside it."""

import mmap
import re
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Final

import numpy as np

from kcore.broker.replicas.transactions import AbortedTransaction
from kcore.errors import DecodeError, StorageError
from kcore.storage.files import OS, Closing, FileSystem, is_there, opened, path_in
from kcore.storage.log.indexes import MOST_SEGMENT, OffsetIndex, TimeIndex, read_aborted
from kcore.wire.record_batch import RecordBatches, scan_batches

LOG: Final = ".log"
OFFSET_INDEX: Final = ".index"
TIME_INDEX: Final = ".timeindex"
TRANSACTION_INDEX: Final = ".txnindex"
SEGMENT_NAME: Final = re.compile(r"([0-9]{20})\.log")
_MOST_OFFSET: Final = 2**63 - 1


@lru_cache(maxsize=1024)
def base_offset_of(path: Path) -> int:
    """The base offset in a segment's name; raises StorageError if the name is not a segment's."""
    match = SEGMENT_NAME.fullmatch(path.name)
    if match is None or int(match[1]) > _MOST_OFFSET:
        raise StorageError(f"{path}: not named as a segment, by the 20 digits of its base offset")
    return int(match[1])


@lru_cache(maxsize=1024)
def is_segment(name: str) -> bool:
    """Whether a file of that name is a segment. Cached: a start checks the same few names several times."""
    return SEGMENT_NAME.fullmatch(name) is not None


def segment_path(folder: Path, base_offset: int) -> Path:
    """The path of the segment with that base offset."""
    return path_in(folder, f"{base_offset:020}{LOG}")


@lru_cache(maxsize=1024)
def beside(path: Path, suffix: str) -> Path:
    """The path of a segment's file with another suffix, such as an index."""
    return path.with_suffix(suffix)


def map_file(path: Path, files: FileSystem = OS) -> mmap.mmap | bytes:
    """Maps a file's bytes for reading; b"" for an empty file. Raises StorageError above MOST_SEGMENT bytes."""
    with opened(path, files=files) as file:
        size = files.size(file)
        check_size(path, size)
        try:
            return files.map(file, size) if size else b""
        except ValueError:
            raise StorageError(f"{path}: it became shorter meanwhile") from None


def check_size(path: Path | str, size: int) -> None:
    """Raises StorageError if a segment or snapshot of `size` bytes is larger than MOST_SEGMENT."""
    if size > MOST_SEGMENT:
        raise StorageError(f"{path}: {size:,} bytes are more than the {MOST_SEGMENT:,} that such a file may have")


def problems_in(batches: RecordBatches, base_offset: int) -> list[DecodeError]:
    """The damage of a segment's batches: wrong CRCs, offsets that do not rise, and bytes at the end that are no batch.

    `batches` are those of the whole segment with checked CRCs. The errors are sorted by position.
    """
    problems = []
    for position in batches.position[~batches.crc_matches].tolist():
        problems.append(DecodeError("a record batch whose CRC does not match", position))
    last = batches.base_offset + batches.last_offset_delta
    floors = np.concatenate([[base_offset], last[:-1] + 1])[: len(last)]
    for at in np.flatnonzero((batches.base_offset < floors) | (batches.last_offset_delta < 0)).tolist():
        problems.append(DecodeError("a record batch whose offsets do not rise", int(batches.position[at])))
    problems.sort(key=lambda problem: problem.offset)
    return [*problems, batches.problem] if batches.problem else problems


class Segment(Closing):
    """One mapped segment. Its batches are scanned at the first use; records are not decoded."""

    def __init__(self, path: Path, files: FileSystem = OS) -> None:
        """Maps the file. Raises StorageError if the name is not a segment's, OSError if the file does not exist."""
        self.path = path
        self.base_offset = base_offset_of(path)
        self.data = map_file(path, files)
        self._files = files

    def close(self) -> None:
        """Unmaps the file; no view of `data` may exist any more."""
        if isinstance(self.data, mmap.mmap):
            self.data.close()

    def __len__(self) -> int:
        """The size of the file in bytes, with a torn end."""
        return len(self.data)

    @cached_property
    def batches(self) -> RecordBatches:
        """The headers of all batches up to the end, or up to bytes that are no batch; all CRCs are checked."""
        return scan_batches(self.data, stop=True)

    @property
    def problems(self) -> list[DecodeError]:
        """The damage, by position: wrong CRCs, offsets that do not rise, and bytes at the end that are no batch."""
        return problems_in(self.batches, self.base_offset)

    @property
    def valid_bytes(self) -> int:
        """The position at which Kafka's recovery truncates: the first batch that is torn or has a wrong CRC."""
        bad = np.flatnonzero(~self.batches.crc_matches)
        return int(self.batches.position[bad[0]]) if bad.size else self.batches.end

    @property
    def end_offset(self) -> int:
        """The offset after the last record; the base offset if the segment is empty."""
        batches = self.batches
        return int(batches.base_offset[-1] + batches.last_offset_delta[-1]) + 1 if len(batches) else self.base_offset

    @cached_property
    def offset_index(self) -> OffsetIndex | None:
        """The content of the `.index` file; None without the file. Raises StorageError for an invalid file."""
        path, files = beside(self.path, OFFSET_INDEX), self._files
        return OffsetIndex.read(path, self.base_offset, len(self), files) if is_there(path, files) else None

    @cached_property
    def time_index(self) -> TimeIndex | None:
        """The content of the `.timeindex` file; None without the file. Raises StorageError for an invalid file."""
        path, files = beside(self.path, TIME_INDEX), self._files
        return TimeIndex.read(path, self.base_offset, len(self), files) if is_there(path, files) else None

    @cached_property
    def aborted(self) -> list[AbortedTransaction]:
        """The aborted transactions in the `.txnindex` file; empty without the file."""
        path, files = beside(self.path, TRANSACTION_INDEX), self._files
        return read_aborted(path, len(self), files) if is_there(path, files) else []
