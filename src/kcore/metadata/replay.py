"""Records of the metadata log onto an image: those of topics and partitions in bulk, all others one by one.

Topics and partitions that come to be, and changes of partitions, are what grows with the cluster. Stretches of either
are decoded to columns and applied at once. Records of other types in between wait until the stretch is done: neither
sees the other. What both see (a topic that goes, a transaction) ends the stretch.
"""

from collections.abc import Iterator
from functools import cache
from typing import Final

import numpy as np

from kcore.errors import DecodeError, TableError
from kcore.metadata.arrays import Array
from kcore.metadata.image import ClusterImage
from kcore.schema.index import METADATA_RECORDS
from kcore.schema.metadata_records_log import AbortTransactionRecord, BeginTransactionRecord, EndTransactionRecord
from kcore.schema.metadata_records_topics import (
    ClearElrRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from kcore.schema.structure import Message, MetadataRecord
from kcore.types import Int64s
from kcore.wire.column_codec import decode_rows
from kcore.wire.columns import Rows
from kcore.wire.metadata_frames import FRAME_BYTES, decode_metadata_record, frame_columns
from kcore.wire.records import Records

# What a record belongs to. Stretches of CREATES and of CHANGES, each of one version and buffer, are applied at once.
APART: Final = -1
ONE_BY_ONE: Final = 0
CREATES: Final = 1
CHANGES: Final = 2
_STRETCHES: Final[dict[type[Message], int]] = {
    TopicRecord: CREATES,
    PartitionRecord: CREATES,
    PartitionChangeRecord: CHANGES,
    RemoveTopicRecord: ONE_BY_ONE,
    ClearElrRecord: ONE_BY_ONE,
    BeginTransactionRecord: ONE_BY_ONE,
    EndTransactionRecord: ONE_BY_ONE,
    AbortTransactionRecord: ONE_BY_ONE,
}
AT_ONCE: Final = 1 << 14  # Records: their columns stay in the L2 cache.
TYPES: Final = 128  # Of frames whose numbers have one byte each.
FEW: Final = 32  # Records that are done sooner one by one.


def replay(image: ClusterImage, records: Records, start_offset: int = 0) -> None:
    """Applies the records of data from `start_offset` on, in order: of a log, a snapshot, a Fetch response.

    DecodeError (its offset counts as in `records`) or TableError, both with the record's offset, for the first that
    cannot be read or does not fit; then the image holds the records before it, and maybe some behind.
    """
    rows = np.flatnonzero((records.control_type < 0) & (records.offset >= start_offset))
    plain = len(records.data)
    inside = records.value_offset[rows] < plain
    for begin, end in _runs_of(inside, len(rows)):
        buffer, shift = (records.data, 0) if inside[begin] else (records.decompressed, plain)
        _Replay(image, records, rows[begin:end], buffer, shift).run()


def _runs_of(values: Array, count: int) -> Iterator[tuple[int, int]]:
    """Begin and end of each run of equal values."""
    begins = [0, *(np.flatnonzero(values[1:] != values[:-1]) + 1).tolist()] if count else []
    return zip(begins, [*begins[1:], count], strict=False)


class _Replay:
    """Records whose values lie in one buffer, on their way to an image."""

    def __init__(self, image: ClusterImage, records: Records, rows: Array, buffer: memoryview, shift: int) -> None:
        self.image, self.buffer, self.shift = image, buffer, shift
        self.offsets = records.offset[rows]
        lengths = np.maximum(records.value_length[rows], 0)
        self.begins = records.value_offset[rows] - shift
        self.ends = self.begins + lengths
        self.types, self.versions = frame_columns(buffer, self.begins, lengths)

    def run(self) -> None:
        stretches = _stretches(self.types, self.versions)
        marked = np.flatnonzero(stretches != APART)
        for begin, end in _runs_of(stretches[marked], len(marked)):
            first = int(marked[begin]) if begin else 0
            last = int(marked[end]) if end < len(marked) else len(stretches)
            for at in range(first, last, AT_ONCE):
                self._stretch(slice(at, min(at + AT_ONCE, last)), stretches, int(stretches[marked[begin]]))
        if not len(marked):
            self._one_by_one(range(len(stretches)))

    def _stretch(self, places: slice, stretches: Array, stretch: int) -> None:
        several = places.stop - places.start > FEW
        at_once = self._creates if stretch == CREATES else self._changes
        if several and stretch != ONE_BY_ONE and at_once(places):
            self._one_by_one((places.start + np.flatnonzero(stretches[places] == APART)).tolist())
        else:
            self._one_by_one(range(places.start, places.stop))

    def _creates(self, places: slice) -> bool:
        topic_places, partition_places = self._places_of(TopicRecord, places), self._places_of(PartitionRecord, places)
        topics, partitions = self._decoded(TopicRecord, topic_places), self._decoded(PartitionRecord, partition_places)
        if topics is None or partitions is None:
            return False
        return self.image.create_all(topics, topic_places, partitions, partition_places)

    def _changes(self, places: slice) -> bool:
        changes = self._decoded(PartitionChangeRecord, self._places_of(PartitionChangeRecord, places))
        return changes is not None and self.image.change_all(changes)

    def _places_of(self, record: type[MetadataRecord], places: slice) -> Int64s:
        found: Int64s = np.flatnonzero(self.types[places] == record.api_key) + places.start
        return found

    def _decoded(self, record: type[MetadataRecord], places: Array) -> Rows | None:
        """None where one is wrong, or not all have one version: then each is looked at."""
        versions = np.unique(self.versions[places])
        if len(versions) > 1:
            return None
        spans__mx = np.stack([self.begins[places] + FRAME_BYTES, self.ends[places]], axis=1)
        try:
            return decode_rows(record, int(versions[0]) if len(versions) else 0, self.buffer, spans__mx)
        except DecodeError:
            return None

    def _one_by_one(self, places: range | list[int]) -> None:
        for place in places:
            offset, begin, end = int(self.offsets[place]), int(self.begins[place]), int(self.ends[place])
            try:
                self.image.apply(decode_metadata_record(self.buffer[begin:end])[0])
            except DecodeError as error:
                raise DecodeError(f"record {offset}: {error.message}", self.shift + begin + error.offset) from None
            except TableError as error:
                raise TableError(f"record {offset}: {error}") from None


def _stretches(types: Array, versions: Array) -> Array:
    """What each record belongs to."""
    stretch_of, lowest, highest = _facts()
    known = (versions >= lowest[types]) & (versions <= highest[types])
    stretches = np.where(known, stretch_of[types], ONE_BY_ONE)
    return np.where(stretches == CHANGES, CHANGES + versions, stretches)


@cache
def _facts() -> tuple[Array, Array, Array]:
    """By type: what such records belong to, and their versions. The last, for -1 as well, is no type."""
    stretch_of, lowest, highest = np.zeros((3, TYPES + 1), np.int32)
    highest -= 1
    for api_key, record in METADATA_RECORDS.items():
        stretch_of[api_key] = _STRETCHES.get(record, APART)
        lowest[api_key], highest[api_key] = record.versions
    return stretch_of, lowest, highest
