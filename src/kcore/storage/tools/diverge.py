"""Finds the first difference between two replicas of a partition on disk, by leader epochs and by bytes.

A follower stores its leader's batches unchanged, so replicas have equal bytes, even if their segments begin at other
offsets. Compaction of one replica makes the bytes differ. Messages of magic 0 and 1 are compared as batches are.
"""

import os
from bisect import bisect_right
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, get_args

import numpy as np

from kcore.errors import DecodeError, StorageError
from kcore.replication.epochs import EpochCache, EpochEntry
from kcore.storage.checkpoints import LEADER_EPOCHS, MOST_EPOCHS_BYTES, parse_leader_epochs
from kcore.storage.files import checked_path, naming, open_reader, read_bytes, text_of
from kcore.storage.log.indexes import OffsetIndex
from kcore.storage.log.segment import OFFSET_INDEX, SEGMENT_NAME, Segment, base_offset_of, map_file
from kcore.wire.log_formats import decode_run, scan_log
from kcore.wire.message_sets import NEWEST_MAGIC, UNKNOWN_COUNT
from kcore.wire.record_batch import BATCH_COLUMNS, HEADER_END, LENGTH_END, MAGIC_AT, RecordBatches
from kcore.wire.records import Records


@dataclass(slots=True)
class Place:
    """A position in a replica's log: the number of the segment, and the byte in the segment."""

    segment: int
    position: int


@lru_cache(64)
def _epochs_of(data: bytes) -> tuple[EpochEntry, ...]:
    """The entries of a leader-epoch-checkpoint, cached: most replicas have equal files."""
    return tuple(parse_leader_epochs(text_of(data)))


@dataclass(slots=True)
class Replica:
    """The files of one partition's folder. Lists it once, and opens segments when needed: it may have thousands."""

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
            base_offset_of(Path(found[-1][1]))  # Raises StorageError: no offset is that large.
        self.base_offsets, self.files, self.sizes = (list(column) for column in zip(*found, strict=True))
        with naming(os.path.join(self.folder, LEADER_EPOCHS)):
            self.epochs = EpochCache()
            self.epochs.entries = list(_epochs_of(epochs))
        self.bytes_read += len(epochs)

    def place_of(self, offset: int) -> Place:
        """The place of the first batch whose last offset is at least `offset`; the log's end if there is none."""
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
        """The same place, expressed as the start of the next segment if it is the end of a segment."""
        while place.position == self.sizes[place.segment] and place.segment + 1 < len(self.files):
            place = Place(place.segment + 1, 0)
        return place

    def rest(self, place: Place) -> int:
        """The number of bytes from `place` to its segment's end."""
        return self.sizes[place.segment] - place.position

    def batch_begin(self, place: Place) -> int:
        """The position at which the batch with the byte at `place` begins, or at which damage before it begins."""
        with Segment(Path(self.files[place.segment])) as segment:
            index = self._index(segment)
            entry = index.entry_before(place.position) if index else -1
            begin = (self._indexed(segment, index, entry) or 0) if index and entry >= 0 else 0
            batches = self._scan(segment, begin, place.position)
        return begin + batches.end

    def batch_at(self, place: Place) -> tuple[RecordBatches, bytes]:
        """The batch that begins at `place` and its bytes; no row and no bytes if there is no whole batch."""
        with Segment(Path(self.files[place.segment])) as segment:
            begin = place.position
            length = int.from_bytes(segment.data[begin + 8 : begin + LENGTH_END], signed=True)
            with memoryview(segment.data)[begin : begin + LENGTH_END + max(length, 0)] as view:
                batches = scan_log(view, stop=True)
                data = bytes(view[: batches.end])
        self.bytes_read += len(data)
        return batches, data

    def _index(self, segment: Segment) -> OffsetIndex | None:
        """The offset index; None if it is missing or unreadable; reads are then slower."""
        try:
            index = segment.offset_index
        except StorageError:
            return None
        if index is not None:
            self.bytes_read += segment.path.with_suffix(OFFSET_INDEX).stat().st_size
        return index

    def _window(self, segment: Segment, offset: int) -> tuple[int, int]:
        """The range of positions in which the batch with `offset` begins: between index entries, or the segment."""
        begin: int | None = 0
        end: int | None = len(segment)
        if index := self._index(segment):
            entry = index.entry_below(offset)
            begin = self._indexed(segment, index, entry) if entry >= 0 else 0
            end = self._indexed(segment, index, entry + 1) if entry + 1 < len(index.positions) else end
        return (0, len(segment)) if begin is None or end is None else (begin, end)

    def _indexed(self, segment: Segment, index: OffsetIndex, entry: int) -> int | None:
        """The position of an index entry's batch; None if the entry is wrong, as it may be after a crash."""
        position = int(index.positions[entry])
        header = segment.data[position : position + HEADER_END]
        self.bytes_read += len(header)
        last_offset = int.from_bytes(header[:8], signed=True)
        if header[MAGIC_AT : MAGIC_AT + 1] not in _OLD_MAGICS:
            last_offset += int.from_bytes(header[23:27], signed=True)
        return position if last_offset == index.offsets[entry] else None

    def _scan(self, segment: Segment, begin: int, end: int) -> RecordBatches:
        self.bytes_read += end - begin
        with memoryview(segment.data)[begin:end] as view:
            return scan_log(view, stop=True)


Read = Literal["bytes", "headers", "epochs"]
READS: Final[tuple[Read, ...]] = get_args(Read)
_OLD_MAGICS: Final = tuple(bytes([magic]) for magic in range(NEWEST_MAGIC + 1))
_BATCHES: Final = 1 << 14  # Headers of each file that are compared per step.
_COMPARED: Final = tuple(name for name, _ in BATCH_COLUMNS if name not in ("position", "crc_matches"))
_CHUNK: Final = 1 << 18  # Bytes of each file that are compared per step; both files' bytes fit into the CPU's cache.

# The fields of a batch that apply to all its records.
_OF_THE_BATCH: Final = (
    "magic",
    "partition_leader_epoch",
    "attributes",
    "producer_id",
    "producer_epoch",
    "base_sequence",
)

# (replica a, place in a, replica b, place in b, length): how many of the next `length` bytes are equal.
_EqualRun = Callable[[Replica, Place, Replica, Place, int], int]

SAME, END, BATCH, MISSING = "same", "end", "batch", "missing"


class BatchPlace(NamedTuple):
    """Where a differing batch begins."""

    path: Path
    position: int


@dataclass(frozen=True, slots=True)
class Divergence:
    """How two replicas differ.

    `reason` is "same", "end" (only one replica has records from `offset` on), "batch" (the first record that differs is
    at `offset`) or "missing" (only one side has the partition). `offset` is None if no record differs.
    """

    offset: int | None
    reason: str
    detail: str = ""
    epoch_offset: int | None = None  # The first offset for which the leader-epoch-checkpoints have other epochs.
    places: tuple[BatchPlace, BatchPlace] | None = None  # In the first and in the second replica.
    bytes_read: int = 0  # Bytes that were read from both replicas, including checkpoints and indexes.


def diverge(folder_a: str | Path, folder_b: str | Path, *, read: Read = "bytes") -> Divergence:
    """The first offset at which two replicas of a partition differ, from the higher of their start offsets on.

    `read` decides what is compared. "bytes": all bytes. "headers": the headers of all batches; a header has the CRC of
    its records, but records that changed on the disk after they were written are not found. "epochs": the headers from
    the start of the last epoch that both leader-epoch-checkpoints have; by KIP-101 earlier batches are equal.
    Raises StorageError for a folder that is no partition's, OSError for an unreadable folder.
    """
    if not isinstance(read, str) or read not in READS:
        raise StorageError(f"read={read!r:.60} is not one of {', '.join(READS)}")
    a, b = Replica(str(checked_path(folder_a))), Replica(str(checked_path(folder_b)))
    start = max(a.base_offsets[0], b.base_offsets[0])
    parted = epochs_part(a.epochs, b.epochs, start)
    begin = max(start, _last_common_epoch(a.epochs, b.epochs, parted)) if read == "epochs" else start
    place_a, place_b = a.place_of(begin), b.place_of(begin)
    places = _equal(a, place_a, b, place_b, _equal_bytes if read == "bytes" else _equal_headers)
    found = _explained(a, b, *places, start)
    return replace(found, epoch_offset=parted, bytes_read=a.bytes_read + b.bytes_read)


def epochs_part(a: EpochCache, b: EpochCache, start: int) -> int | None:
    """The first offset from `start` on for which two leader-epoch-checkpoints have different epochs, or None."""
    if not a.entries or not b.entries or a.entries == b.entries:
        return None
    begins = {entry.start_offset for entry in (*a.entries, *b.entries) if entry.start_offset > start}
    parted = (at for at in sorted({start, *begins}) if a.epoch_for_offset(at) != b.epoch_for_offset(at))
    return next(parted, None)


def _last_common_epoch(a: EpochCache, b: EpochCache, parted: int | None) -> int:
    """The start offset of the last epoch that both checkpoints have, below offset `parted`; 0 if there is none."""
    common = set(a.entries) & set(b.entries)
    return max((entry.start_offset for entry in common if parted is None or entry.start_offset < parted), default=0)


def _equal(a: Replica, place_a: Place, b: Replica, place_b: Place, equal_run: _EqualRun) -> tuple[Place, Place]:
    """The places after the equal part of both replicas: at the first difference, or at the end of the shorter log."""
    while length := min(a.rest(place_a), b.rest(place_b)):
        equal = equal_run(a, place_a, b, place_b, length)
        place_a, place_b = (Place(at.segment, at.position + equal) for at in (place_a, place_b))
        if equal < length:
            break
        place_a, place_b = a.settled(place_a), b.settled(place_b)
    return place_a, place_b


def _equal_bytes(a: Replica, place_a: Place, b: Replica, place_b: Place, length: int) -> int:
    """How many of the next `length` bytes precede the first difference.

    Reads the files instead of mapping them, because mapping would cause many page faults.
    """
    ours, theirs = bytearray(min(length, _CHUNK)), bytearray(min(length, _CHUNK))
    with (
        open_reader(a.files[place_a.segment]) as file_a,
        open_reader(b.files[place_b.segment]) as file_b,
    ):
        file_a.seek(place_a.position)
        file_b.seek(place_b.position)
        for done in range(0, length, _CHUNK):
            if length - done < len(ours):
                ours, theirs = bytearray(length - done), bytearray(length - done)
            got = min(file_a.readinto(ours) or 0, file_b.readinto(theirs) or 0)
            if got < len(ours):
                raise StorageError(f"{a.folder} or {b.folder} became shorter meanwhile")
            a.bytes_read += got
            b.bytes_read += got
            if ours != theirs:
                differ = np.frombuffer(ours, np.uint8) != np.frombuffer(theirs, np.uint8)
                return done + int(differ.argmax())
    return length


def _equal_headers(a: Replica, place_a: Place, b: Replica, place_b: Place, length: int) -> int:
    """How many of the next `length` bytes precede the first batch whose header differs; compares only headers."""
    data_a, data_b = map_file(Path(a.files[place_a.segment])), map_file(Path(b.files[place_b.segment]))
    apart, end = place_b.position - place_a.position, place_a.position + length
    at = place_a.position
    while at < end:
        batches_a, batches_b = (
            scan_log(data, start=start, limit=_BATCHES, check_crc=False, stop=True)
            for data, start in ((data_a, at), (data_b, at + apart))
        )
        count = min(len(batches_a), len(batches_b))
        same = np.ones(count, np.bool_)
        for name in _COMPARED:
            same &= getattr(batches_a, name)[:count] == getattr(batches_b, name)[:count]
        equal = count if same.all() else int(same.argmin())
        a.bytes_read += _header_bytes(batches_a, count)
        b.bytes_read += _header_bytes(batches_b, count)
        at = int([*batches_a.position[equal : equal + 1], batches_a.end][0])
        if equal < _BATCHES:
            break
    return at - place_a.position


def _header_bytes(batches: RecordBatches, count: int) -> int:
    """The bytes of the first `count` headers; a message of magic 0 or 1 may be shorter than the header of a batch."""
    return int(np.minimum(batches.size[:count], HEADER_END).sum())


def _explained(a: Replica, b: Replica, place_a: Place, place_b: Place, start: int) -> Divergence:
    """Describes the first difference, at these places; "same" if both logs end there."""
    if not a.rest(place_a) and not b.rest(place_b):
        return Divergence(None, SAME)
    begin = a.batch_begin(place_a)
    # The equal part has the same length in both replicas, so the batch begins as many bytes earlier in both.
    place_b = Place(place_b.segment, place_b.position + begin - place_a.position)
    place_a = Place(place_a.segment, begin)
    (batch_a, data_a), (batch_b, data_b) = a.batch_at(place_a), b.batch_at(place_b)
    details = [*_flaws("first", a, place_a, batch_a), *_flaws("second", b, place_b, batch_b)]
    places = (
        BatchPlace(Path(a.files[place_a.segment]), place_a.position),
        BatchPlace(Path(b.files[place_b.segment]), place_b.position),
    )
    bases = [_first_offset(batch, data) for batch, data in ((batch_a, data_a), (batch_b, data_b)) if len(batch)]
    if not bases or data_a == data_b:
        return Divergence(None, SAME, "; ".join(details))
    if len(bases) == 1:
        text = "the second log ends first" if len(batch_a) else "the first log ends first"
        return Divergence(max(start, bases[0]), END, "; ".join([text, *details]), places=places)
    offset = min(bases)
    if bases[0] != bases[1] and batch_a.base_offset[0] != batch_b.base_offset[0]:
        details.insert(0, f"base offsets {bases[0]} and {bases[1]}")
    elif not details:
        offset = _first_other_record(data_a, data_b, offset)
    return Divergence(max(start, offset), BATCH, "; ".join(details), places=places)


def _first_offset(batch: RecordBatches, data: bytes) -> int:
    """The offset of a batch's first record.

    A compressed message of magic 0 or 1 states the offset of its last record only. Returns that offset if the message
    cannot be decompressed.
    """
    if batch.count[0] == UNKNOWN_COUNT:
        with suppress(DecodeError):
            return int(_records_of(data).batches.base_offset[0])
    return int(batch.base_offset[0])


def _records_of(data: bytes) -> Records:
    """The records of one batch or message; DecodeError if they cannot be read."""
    return decode_run(data, scan_log(data))


def _first_other_record(data_a: bytes, data_b: bytes, base_offset: int) -> int:
    """The offset of the first record that differs between two whole batches or messages.

    Returns the base offset if the batches' own fields differ, such as epoch or producer, or only their compression.
    """
    try:
        sides = [_records_of(data) for data in (data_a, data_b)]
    except DecodeError:
        return base_offset
    for name in _OF_THE_BATCH:
        if getattr(sides[0].batches, name)[0] != getattr(sides[1].batches, name)[0]:
            return base_offset
    for ours, theirs in zip_longest(*sides):
        if ours != theirs:
            return min(each.offset for each in (ours, theirs) if each is not None)
    return base_offset


def _flaws(which: str, replica: Replica, place: Place, batch: RecordBatches) -> list[str]:
    """The damage of the batch at `place`, in words; `which` is "first" or "second"."""
    if len(batch):
        return [] if batch.crc_matches[0] else [f"the {which} one's CRC does not match"]
    return [f"the {which} log has {rest} bytes that are no batch"] if (rest := replica.rest(place)) else []


def divergence_row(topic: str | None, partition: int | None, found: Divergence) -> dict[str, Any]:
    """The divergence of one partition as a row of `kcore.spark.divergence.SCHEMA`."""
    return {
        "topic": topic,
        "partition": partition,
        "offset": found.offset,
        "reason": found.reason,
        "detail": found.detail,
        "epochOffset": found.epoch_offset,
        "places": [{"file": str(place.path), "position": place.position} for place in found.places or ()],
        "bytesRead": found.bytes_read,
    }
