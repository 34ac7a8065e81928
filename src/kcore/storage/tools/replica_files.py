"""One replica of a partition as `diverge` reads it: files opened when they are needed, every byte read counted."""

import os
from bisect import bisect_right
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import numpy as np

from kcore.errors import StorageError
from kcore.replication.epochs import EpochCache, EpochEntry
from kcore.storage.checkpoints import LEADER_EPOCHS, MOST_EPOCHS_BYTES, parse_leader_epochs
from kcore.storage.files import naming, read_bytes, text_of
from kcore.storage.log.indexes import OffsetIndex
from kcore.storage.log.segment import OFFSET_INDEX, SEGMENT_NAME, Segment, base_offset_of
from kcore.wire.record_batch import HEADER_END, LENGTH_END, RecordBatches, scan_batches


@dataclass(slots=True)
class Place:
    """A place in the replica's log: the segment by number, and the position in it."""

    segment: int
    position: int


@lru_cache(64)
def _epochs_of(data: bytes) -> tuple[EpochEntry, ...]:
    """A checkpoint's entries, cached: most replicas have equal checkpoints."""
    return tuple(parse_leader_epochs(text_of(data)))


@dataclass(slots=True)
class Replica:
    """The files of one partition's folder: one pass over it, and no file opened early, since there may be thousands."""

    folder: str
    files: list[str] = field(init=False)  # Paths of the segments.
    base_offsets: list[int] = field(init=False)
    sizes: list[int] = field(init=False)
    epochs: EpochCache = field(init=False)
    bytes_read: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        found, epochs = [], b""
        with os.scandir(self.folder) as entries:
            for entry in entries:
                if match := SEGMENT_NAME.fullmatch(entry.name):
                    found.append((int(match[1]), entry.path, entry.stat().st_size))
                elif entry.name == LEADER_EPOCHS:
                    with naming(entry.path):
                        epochs = read_bytes(entry.path, MOST_EPOCHS_BYTES)
        if not found:
            raise StorageError(f"{self.folder}: no segment there")
        found.sort()
        if found[-1][0] >> 63:
            base_offset_of(Path(found[-1][1]))  # Marks an invalid entry: no offset is that large.
        self.base_offsets, self.files, self.sizes = (list(column) for column in zip(*found, strict=True))
        with naming(os.path.join(self.folder, LEADER_EPOCHS)):
            self.epochs = EpochCache()
            self.epochs.entries = list(_epochs_of(epochs))
        self.bytes_read += len(epochs)

    def place_of(self, offset: int) -> Place:
        """The position of the first batch that reaches `offset` or is above it; the end if none does."""
        number = bisect_right(self.base_offsets, offset) - 1
        if number < 0 or offset == self.base_offsets[number]:
            return self.settled(Place(max(number, 0), 0))
        with Segment(Path(self.files[number])) as segment:
            begin, end = self._window(segment, offset)
            batches = self._scan(segment, begin, end)
        last = batches.base_offset + batches.last_offset_delta
        at = int(np.searchsorted(last, offset))
        return self.settled(Place(number, begin + int([*batches.position, batches.end][at])))

    def settled(self, place: Place) -> Place:
        """The same place, at the beginning of the next segment rather than at the end of one."""
        while place.position == self.sizes[place.segment] and place.segment + 1 < len(self.files):
            place = Place(place.segment + 1, 0)
        return place

    def rest(self, place: Place) -> int:
        """Bytes from there to the segment's end."""
        return self.sizes[place.segment] - place.position

    def batch_begin(self, place: Place) -> int:
        """Where the batch begins that holds that byte; if the bytes before are no batches, where they cease to be."""
        with Segment(Path(self.files[place.segment])) as segment:
            index = self._index(segment)
            entry = index.entry_before(place.position) if index else -1
            begin = (self._indexed(segment, index, entry) or 0) if index and entry >= 0 else 0
            batches = self._scan(segment, begin, place.position)
        return begin + batches.end

    def batch_at(self, place: Place) -> tuple[RecordBatches, bytes]:
        """The one batch that begins there, with its bytes; none and nothing if there is no whole batch."""
        with Segment(Path(self.files[place.segment])) as segment:
            begin = place.position
            length = int.from_bytes(segment.data[begin + 8 : begin + LENGTH_END], signed=True)
            with memoryview(segment.data)[begin : begin + LENGTH_END + max(length, 0)] as view:
                batches = scan_batches(view, stop=True)
                data = bytes(view[: batches.end])
        self.bytes_read += len(data)
        return batches, data

    def _index(self, segment: Segment) -> OffsetIndex | None:
        """The offset index; none if there is none that can be read, which costs time and no more."""
        try:
            index = segment.offset_index
        except StorageError:
            return None
        if index is not None:
            self.bytes_read += segment.path.with_suffix(OFFSET_INDEX).stat().st_size
        return index

    def _window(self, segment: Segment, offset: int) -> tuple[int, int]:
        """Between which positions the batch begins that reaches `offset`: two index entries, or the whole segment."""
        begin: int | None = 0
        end: int | None = len(segment)
        if index := self._index(segment):
            entry = index.entry_below(offset)
            begin = self._indexed(segment, index, entry) if entry >= 0 else 0
            end = self._indexed(segment, index, entry + 1) if entry + 1 < len(index.positions) else end
        return (0, len(segment)) if begin is None or end is None else (begin, end)

    def _indexed(self, segment: Segment, index: OffsetIndex, entry: int) -> int | None:
        """Where the entry's batch begins; None if it is not the one that the index says (a crash may leave such)."""
        position = int(index.positions[entry])
        header = segment.data[position : position + HEADER_END]
        self.bytes_read += len(header)
        base_offset, last_delta = int.from_bytes(header[:8], signed=True), int.from_bytes(header[23:27], signed=True)
        return position if base_offset + last_delta == index.offsets[entry] else None

    def _scan(self, segment: Segment, begin: int, end: int) -> RecordBatches:
        self.bytes_read += end - begin
        with memoryview(segment.data)[begin:end] as view:
            return scan_batches(view, stop=True)
