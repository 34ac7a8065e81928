"""One segment of a log in use: finds batches by offset, and returns their bytes without decoding them."""

import os
import resource
from bisect import bisect_left, bisect_right
from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from struct import Struct
from typing import Final

import numpy as np

from kcore._ext import records as kernel
from kcore.broker.replicas.log import TimestampAndOffset
from kcore.broker.replicas.producers import Producers
from kcore.broker.replicas.transactions import AbortedTransaction, end_markers
from kcore.errors import StorageError
from kcore.protocol_errors import Errors, exception_of
from kcore.raft.log.batches import HEADER, StoredBatch
from kcore.storage.files import OS, FileSystem, is_there, opened, remove, sync_file, write_all, write_atomically
from kcore.storage.log.indexes import OffsetIndex, TimeIndex, format_aborted, read_aborted
from kcore.storage.log.segment import TRANSACTION_INDEX, Segment, base_offset_of, beside
from kcore.types import Int64s
from kcore.wire.record_batch import HEADER_END, LENGTH_END, NO_TIMESTAMP, RecordBatches, scan_batches


class TransactionIndex:
    """The `.txnindex`: the aborted transactions whose end markers are in the segment (KIP-98, TransactionIndex).

    The file exists only if a transaction was aborted. Methods raise OSError if the disk fails, StorageError for a
    damaged file.
    """

    def __init__(self, segment: Path, files: FileSystem = OS) -> None:
        """The index of the segment with the path `segment`; the file is read when it is first needed."""
        self._segment, self._path, self._files = segment, beside(segment, TRANSACTION_INDEX), files
        self._entries: list[AbortedTransaction] | None = None if is_there(self._path, files) else []

    @property
    def entries(self) -> Sequence[AbortedTransaction]:
        """All aborted transactions, in the order of their end markers' offsets."""
        return self._read()

    def _read(self) -> list[AbortedTransaction]:
        """The entries, read from the file at the first call."""
        if self._entries is None:
            self._entries = read_aborted(self._path, self._files.size_of(self._segment), self._files)
        return self._entries

    def is_whole(self) -> bool:
        """Whether the file can be read; a power cut may have damaged it."""
        try:
            self._read()
        except StorageError:
            return False
        return True

    def overlapping(self, offset: int, end_offset: int) -> tuple[list[AbortedTransaction], bool]:
        """Aborted transactions with records in [offset, end_offset), and True if later segments cannot have more."""
        found, entries = [], self.entries
        for each in entries[bisect_left(entries, offset, key=lambda entry: entry.last_offset) :]:
            if each.first_offset < end_offset:
                found.append(each)
            if each.last_stable_offset >= end_offset:
                return found, True
        return found, False

    def append(self, transactions: list[AbortedTransaction]) -> None:
        """Adds transactions whose end markers have higher offsets than all in the index."""
        if transactions:
            known = self._read()
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
            with opened(self._path, flags, files=self._files) as file:
                write_all(file, format_aborted(transactions), self._files)
            known.extend(transactions)

    def sync(self) -> None:
        """Makes appended entries durable."""
        if self._entries != []:
            sync_file(self._path, self._files)

    def moved_to(self, segment: Path) -> None:
        """Changes the path after the segment's folder was renamed; `segment` is the segment's new path."""
        self._segment, self._path = segment, beside(segment, TRANSACTION_INDEX)

    def truncate_to(self, offset: int) -> None:
        """Removes transactions whose end markers are at `offset` or above, and all of a damaged file."""
        if self._entries == []:
            return
        kept = [each for each in self.entries if each.last_offset < offset] if self.is_whole() else []
        if kept:
            write_atomically(self._path, format_aborted(kept), self._files)
        else:
            remove(self._path, self._files)
        self._entries = kept


TIME_BEGIN, _TIME = 35, Struct(">q")  # The position and the type of the largest timestamp in a batch.
# A search for a timestamp decompresses at most the larger of these: 2^24 bytes, or 16 times the batch's size. That
# takes some milliseconds.
LEAST_DECOMPRESSED: Final = 2**24
DECOMPRESSED_PER_BYTE: Final = 16
FEW_BYTES: Final = 1 << 12  # Up to this size of a read, single headers are read faster than columns.
MOST_OPEN: Final = 10_000  # Segments of this process with an open file.
OF_DESCRIPTORS: Final = 8  # Segments may use one eighth of the process's descriptors.
READERS: Final = 8  # Number of positions cached for readers that read a few batches per call.
READ_AHEAD: Final = 64 * 1024  # Bytes per read of a search, so that most searches need only one read.


# The segments of this process with a file open for reading, the most recently read segment last.
_OPEN: Final[OrderedDict["LiveSegment", None]] = OrderedDict()


def most_open() -> int:
    """How many segments may have an open file. Clients may read any segment, and the process needs other files."""
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST_OPEN if most == resource.RLIM_INFINITY else min(MOST_OPEN, most // OF_DESCRIPTORS)


class LiveSegment:
    """A segment that is read while it may be written to. Raises OSError if the disk fails."""

    def __init__(self, path: Path, interval_bytes: int, *, indexed: bool = False, files: FileSystem = OS) -> None:
        """With `indexed`, existing indexes are trusted, and only the batches after their last entry are scanned."""
        self.path, self.base_offset = path, base_offset_of(path)
        self.transactions = TransactionIndex(path, files)
        self._files, self._interval_bytes, self._indexed = files, interval_bytes, indexed
        self._file = -1
        self._end_offset = self.base_offset
        self._max_timestamp = self._first_timestamp = NO_TIMESTAMP
        # The offset and the position of one batch per `interval_bytes`; filled at the first use.
        self._offsets: list[int] = []
        self._positions: list[int] = []
        self._size = -1  # Bytes of whole batches; -1 before the first use.
        self.damaged_at = -1  # The end position of the whole batches if the file has more bytes; otherwise -1.
        # The offsets and positions at which the last reads ended: most readers continue there.
        self._read_to: deque[tuple[int, int]] = deque(maxlen=READERS)

    def close(self) -> None:
        if self._file >= 0:
            _OPEN.pop(self, None)
            self._files.close(self._file)
            self._file = -1

    def moved_to(self, folder: Path) -> None:
        """Changes the path after the segment's folder was renamed to `folder`."""
        self.path = folder / self.path.name
        self.transactions.moved_to(self.path)

    def appended(self, batches: RecordBatches, position: int) -> None:
        """Records that these batches were written at `position`."""
        if self._knows(position):
            self._note(batches, position)

    def wrote(self, batches: Sequence[StoredBatch], position: int) -> None:
        """Records that a few batches were written at `position`; faster than `appended`."""
        if not self._knows(position):
            return
        next_entry = self._positions[-1] + self._interval_bytes if self._positions else -1
        for batch in batches:
            if position > next_entry:
                self._offsets.append(batch.base_offset)
                self._positions.append(position)
                next_entry = position + self._interval_bytes
            position += len(batch.data)
            (timestamp,) = _TIME.unpack_from(batch.data, TIME_BEGIN)
            if timestamp > self._max_timestamp:
                self._max_timestamp = timestamp
        self._size, self._end_offset = position, batches[-1].last_offset + 1

    def _knows(self, position: int) -> bool:
        """Whether the batches before `position` are known; an empty segment needs no scan."""
        if self._size < 0 and position == 0:
            self._forget()
        return self._size >= 0

    @property
    def max_timestamp(self) -> int:
        self._learn()
        return self._max_timestamp

    @property
    def first_timestamp(self) -> int:
        """The largest timestamp in the segment's first batch; NO_TIMESTAMP if the segment is empty."""
        if self._first_timestamp == NO_TIMESTAMP and self.size >= HEADER_END:
            (self._first_timestamp,) = _TIME.unpack_from(self._bytes(0, HEADER_END), TIME_BEGIN)
        return self._first_timestamp

    @property
    def size(self) -> int:
        """The size of the written batches in bytes."""
        self._learn()
        return self._size

    def position_of(self, offset: int) -> int:
        """The position of the first batch whose last offset is at least `offset`; the segment's end if none is."""
        return self._batch_that_reaches(offset) if self.reaches(offset) else self.size

    @property
    def end_offset(self) -> int:
        """The offset after the last record."""
        self._learn()
        return self._end_offset

    def reaches(self, offset: int) -> bool:
        """Whether the segment has a record of that offset or a later one."""
        return offset < self.end_offset

    def replay(self, begin: int, producers: Producers) -> list[AbortedTransaction]:
        """Applies the batches from offset `begin` on to `producers`; returns the transactions that they abort."""
        with Segment(self.path, self._files) as segment:
            batches = scan_batches(segment.data, check_crc=False, stop=True)
            batches = batches.take(np.flatnonzero(batches.base_offset >= begin))
            return producers.take(batches, end_markers(segment.data, batches, tolerant=True))

    def read(self, offset: int, max_bytes: int, end_offset: int, *, at_least_one: bool) -> bytes:
        """Whole batches from the batch with `offset` on that end at or below `end_offset` (ReplicaLog.read)."""
        if not self.reaches(offset):
            return b""
        position, most = self._entry_before(offset), max(max_bytes, HEADER_END)
        if min(self._size - position, self._interval_bytes + most) <= FEW_BYTES:
            found = self._read_few(position, offset, max_bytes, end_offset)
            if found or not at_least_one:
                return found
        data = self._bytes(position, self._interval_bytes + most)
        batches = scan_batches(data, check_crc=False, stop=True)
        first = int(np.searchsorted(batches.last_offset, offset))
        if first == len(batches):  # A large batch before the wanted batch has filled the read.
            position, first = self._batch_that_reaches(offset), 0
            data = self._bytes(position, most)
            batches = scan_batches(data, check_crc=False, stop=True)
        begin = int(batches.position[first]) if len(batches) else 0
        ends = (batches.position + batches.size)[first:]
        fits = np.flatnonzero((batches.last_offset[first:] < end_offset) & (ends <= begin + max_bytes))
        if fits.size:
            return data[begin : int(ends[fits[-1]])]
        if not at_least_one:
            return b""
        one = self._one_batch(position + begin)
        base_offset, last_delta = int.from_bytes(one[:8], signed=True), int.from_bytes(one[23:27], signed=True)
        return one if base_offset + last_delta < end_offset else b""

    def _read_few(self, position: int, offset: int, max_bytes: int, end_offset: int) -> bytes:
        """The result of `read` for a few batches from `position` on; empty if no batch fits or is readable."""
        data = self._bytes(position, FEW_BYTES)
        begin, at, next_offset = -1, 0, offset
        while len(data) - at >= HEADER_END:
            base_offset, length, _, _, _, _, last_delta = HEADER.unpack_from(data, at)
            last_offset, end = base_offset + last_delta, at + LENGTH_END + length
            if length < HEADER_END - LENGTH_END or end > len(data) or last_offset >= end_offset:
                break
            if begin < 0 and last_offset >= offset:
                begin = at
            if begin >= 0 and end - begin > max_bytes:
                break
            at, next_offset = end, last_offset + 1
        if begin < 0 or at == begin:
            return b""
        self._read_to.append((next_offset, position + at))
        return data[begin:at]

    def cut(self, offset: int) -> None:
        """Removes the batch with `offset` and all later batches; durable on return."""
        if not self.reaches(offset):
            return
        position = self._batch_that_reaches(offset)
        with opened(self.path, os.O_WRONLY, files=self._files) as file:
            self._files.ftruncate(file, position)
            self._files.fsync(file)
        self._size = -1

    def find_timestamp(self, timestamp_ms: int, start_offset: int) -> TimestampAndOffset | None:
        """The first record from `start_offset` on whose timestamp is `timestamp_ms` or later; decodes only its batch.

        Raises InvalidRecordException for a batch that cannot be decoded: a leader does not check all of a compressed
        batch when it appends the batch.
        """
        if self.max_timestamp < timestamp_ms or timestamp_ms < 0:
            return None
        with Segment(self.path, self._files) as segment:
            batches = scan_batches(segment.data, check_crc=False, stop=True)
            recent = (batches.max_timestamp >= timestamp_ms) & (batches.last_offset >= start_offset)
            for row in np.flatnonzero(recent).tolist():
                begin = int(batches.position[row])
                batch = segment.data[begin : begin + int(batches.size[row])]
                found, is_searched = _found_in(batch, timestamp_ms, start_offset)
                if not is_searched:
                    found = int(batches.max_timestamp[row]), max(int(batches.base_offset[row]), start_offset)
                if found is not None:
                    return TimestampAndOffset(*found, int(batches.partition_leader_epoch[row]))
        return None

    def _learn(self) -> None:
        if self._size < 0:
            self._forget()
            with Segment(self.path, self._files) as segment:
                begin = self._take_indexes(segment.offset_index, segment.time_index) if self._indexed else 0
                batches = scan_batches(segment.data, start=begin, check_crc=False, stop=True)
                if (row := _rows_in_order(batches, self.base_offset)) < len(batches):
                    batches = replace(batches.take(slice(row)), end=int(batches.position[row]))
                self._note(batches, 0)
                self.damaged_at = batches.end if batches.end < len(segment) else -1

    def _forget(self) -> None:
        """Resets the cached values to those of an empty segment."""
        self._offsets.clear()
        self._positions.clear()
        self._read_to.clear()
        self._size, self._end_offset = 0, self.base_offset
        self._max_timestamp = self._first_timestamp = NO_TIMESTAMP

    def learnt(
        self, offsets: OffsetIndex | None, times: TimeIndex | None, batches: RecordBatches | list[StoredBatch]
    ) -> None:
        """Takes the result of a recovery, so that the first use need not scan the file.

        `batches` are all batches from the last entry of the indexes on, or all batches of a segment without indexes.
        """
        self._forget()
        begin = self._take_indexes(offsets, times)
        if isinstance(batches, RecordBatches):
            self._note(batches, 0)
        elif batches:
            self.wrote(batches, begin)

    def _take_indexes(self, offsets: OffsetIndex | None, times: TimeIndex | None) -> int:
        """Takes the entries of trusted indexes; returns the position of the last entry's batch."""
        if offsets is None or times is None or not len(offsets.offsets):
            return 0
        # An index entry has its batch's last offset instead of the first; later batches are found all the same.
        self._offsets = [self.base_offset, *offsets.offsets.tolist()]
        self._positions = [0, *offsets.positions.tolist()]
        self._max_timestamp = max(times.timestamps.tolist(), default=NO_TIMESTAMP)
        return self._positions[-1]

    def _note(self, batches: RecordBatches, position: int) -> None:
        if not len(batches):
            return
        places = (batches.position + position).tolist()
        end_offset, highest = int(batches.last_offset[-1]) + 1, int(batches.max_timestamp.max())
        self._take(batches.base_offset, places, end_offset, position + batches.end, highest)

    def _take(
        self, offsets: Sequence[int] | Int64s, places: list[int], end_offset: int, size: int, max_timestamp: int
    ) -> None:
        """Records batches by their offsets and positions, and the segment's new end."""
        row = bisect_right(places, self._positions[-1] + self._interval_bytes) if self._positions else 0
        while row < len(places):
            self._offsets.append(int(offsets[row]))
            self._positions.append(places[row])
            row = bisect_right(places, places[row] + self._interval_bytes, row)
        self._size, self._end_offset = size, end_offset
        self._max_timestamp = max(self._max_timestamp, max_timestamp)

    def _entry_before(self, offset: int) -> int:
        """The position of a known batch at or before the batch with `offset`."""
        position = self._positions[max(bisect_right(self._offsets, offset) - 1, 0)]
        for read_offset, read_position in self._read_to:
            if read_offset <= offset and read_position > position:
                position = read_position
        return position

    def _batch_that_reaches(self, offset: int) -> int:
        """The position of the first batch whose last offset is at least `offset`; the segment must have one."""
        position = self._entry_before(offset)
        while True:
            data = self._bytes(position, READ_AHEAD)
            batches = scan_batches(data, check_crc=False, stop=True)
            reach = np.flatnonzero(batches.last_offset >= offset)
            if reach.size:
                return position + int(batches.position[reach[0]])
            if len(batches):
                position += batches.end
            elif int.from_bytes(data[:8], signed=True) + int.from_bytes(data[23:27], signed=True) >= offset:
                return position  # The batch is larger than READ_AHEAD.
            else:
                position += self._size_of(data, position)

    def _one_batch(self, position: int) -> bytes:
        return self._bytes(position, self._size_of(self._bytes(position, LENGTH_END), position))

    def _size_of(self, header: bytes, position: int) -> int:
        """The size in bytes of the batch that begins with `header`."""
        length = int.from_bytes(header[8:LENGTH_END], signed=True)
        if length < HEADER_END - LENGTH_END:
            raise StorageError(f"{self.path}: no batch at position {position}")
        return LENGTH_END + length

    def _bytes(self, position: int, most: int) -> bytes:
        if self._file < 0:
            self._file = self._files.open(self.path)
            if self._files is OS:
                _OPEN[self] = None
                while len(_OPEN) > most_open():
                    next(iter(_OPEN)).close()
        elif self in _OPEN:
            _OPEN.move_to_end(self)
        if position >= self._size:
            raise StorageError(f"{self.path}: a batch before position {self._size} reaches past the end")
        return self._files.pread(self._file, min(most, self._size - position), position)


def _rows_in_order(batches: RecordBatches, base_offset: int) -> int:
    """How many leading batches end below all later offsets. Counts the first copy of a batch that is stored twice."""
    if len(batches) and batches.base_offset[0] < base_offset:
        return 0
    lowest_behind = np.minimum.accumulate(batches.base_offset[::-1])[::-1][1:]
    is_in_order = batches.last_offset[:-1] < lowest_behind
    if is_in_order.all():
        return len(batches)
    row = int(is_in_order.argmin())
    return row + 1 if batches.base_offset[row] == lowest_behind[row] else row


def _found_in(batch: bytes | memoryview, timestamp_ms: int, start_offset: int) -> tuple[tuple[int, int] | None, bool]:
    """The time and offset of the first such record, or None; and False if the batch is too large to be searched."""
    try:
        budget = max(LEAST_DECOMPRESSED, len(batch) * DECOMPRESSED_PER_BYTE)
        return kernel.find_time(batch, timestamp_ms, start_offset, budget)
    except ValueError as error:
        raise exception_of(Errors.INVALID_RECORD)(str(error)) from error
