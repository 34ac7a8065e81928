"""Records of the metadata log onto an image: those of partitions in bulk, all others one by one, in the log's order.

A kernel takes PartitionRecords and PartitionChangeRecords from the bytes straight into the table's rows. It ends at the
first record that is not for it, which is decoded and applied alone: of another type, the first to name a broker or a
directory, wrong. TopicRecords are decoded together, and count for the kernel from their places on.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np

from kcore._ext import partition_frames as frames
from kcore._ext import partition_replay as kernel
from kcore.errors import DecodeError, TableError
from kcore.metadata.image import ClusterImage
from kcore.schema.metadata_records_log import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    NoOpRecord,
)
from kcore.schema.metadata_records_topics import (
    ClearElrRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from kcore.types import Int8s, Int16s, Int64s, Uuid
from kcore.wire.column_codec import decode_rows
from kcore.wire.metadata_frames import FRAME_BYTES, decode_metadata_record
from kcore.wire.records import Records

AT_ONCE: Final = 1 << 14  # Records: their bytes and what is handed back stay in the caches.
FEW_TOPICS: Final = 4  # So many are done sooner one by one.
_APART: Final = (
    *(RemoveTopicRecord, ClearElrRecord),
    *(BeginTransactionRecord, EndTransactionRecord, AbortTransactionRecord),
)
_UNUSUAL: Final = -1  # A frame that is not three bytes long, an error or not.
_APART_TYPES: Final = [_UNUSUAL, *(record.api_key for record in _APART)]  # They see which topics there are.
_TAKEN: Final = {each.api_key for each in (NoOpRecord, TopicRecord, PartitionRecord, PartitionChangeRecord)}
_MOVED_ROOM: Final = 1 << 10  # Partitions whose replicas change, in one call of the kernel.
_MOVES_ROOM: Final = 1 << 13


def replay(image: ClusterImage, records: Records, start_offset: int = 0) -> None:
    """Applies the records of data from `start_offset` on, in order: of a log, a snapshot, a Fetch response.

    With a journal, each batch of the log is one that can be taken back. DecodeError (its offset counts as in `records`)
    or TableError, both with the record's offset, for the first that cannot be read or does not fit; then the image
    holds the records before it, and maybe topics behind it.
    """
    rows = np.flatnonzero((records.control_type < 0) & (records.offset >= start_offset))
    plain = len(records.data)
    inside = records.value_offset[rows] < plain

    def apply(begin: int, end: int) -> None:
        buffer, shift = (records.data, 0) if inside[begin] else (records.decompressed, plain)
        _Replay(image, records, rows[begin:end], buffer, shift).run()

    with image.telling_deltas_together():
        if image.journal is None:
            for begin, end in _runs_of(inside, len(rows)):
                apply(begin, end)
        else:
            for offset, epoch, begin, end in _batches_of(records, rows, start_offset):
                image.begin(offset, epoch)
                if begin < end:  # A batch lies in one buffer.
                    apply(begin, end)
    if len(records.batches):
        image.end_offset = max(image.end_offset, int(records.batches.last_offset[-1]) + 1)
        image.epoch = int(records.batches.partition_leader_epoch[-1])


def _runs_of(values: np.ndarray, count: int) -> Iterator[tuple[int, int]]:
    """Begin and end of each run of equal values."""
    begins = [0, *(np.flatnonzero(values[1:] != values[:-1]) + 1).tolist()] if count else []
    return zip(begins, [*begins[1:], count], strict=False)


def _batches_of(records: Records, rows: Int64s, start_offset: int) -> Iterator[tuple[int, int, int, int]]:
    """Of each batch that reaches `start_offset`, one of control records too: its offset and epoch, where in `rows`."""
    batches = records.batches
    first = int(np.searchsorted(batches.last_offset, start_offset))
    bounds = np.searchsorted(records.batch[rows], np.arange(first, len(batches) + 1)).tolist()
    offsets = np.maximum(batches.base_offset[first:], start_offset).tolist()
    return zip(offsets, batches.partition_leader_epoch[first:].tolist(), bounds, bounds[1:], strict=False)


class _Replay:
    """Records whose values lie in one buffer, on their way to an image."""

    def __init__(self, image: ClusterImage, records: Records, rows: Int64s, buffer: memoryview, shift: int) -> None:
        self.image, self.buffer, self.shift = image, buffer, shift
        self.offsets = records.offset[rows]
        self.begins = records.value_offset[rows] - shift
        self.ends = self.begins + np.maximum(records.value_length[rows], 0)
        self.types: Int8s = np.empty(len(rows), np.int8)
        frames.types(buffer, self.begins, self.ends, self.types)
        self._fresh_topics = (0, 0, 0)
        self._moves = np.empty(_MOVES_ROOM, np.int32)
        self._moved_rows = np.empty(_MOVED_ROOM, np.int32)

    def run(self) -> None:
        """All of them."""
        apart = np.flatnonzero(np.isin(self.types, _APART_TYPES)).tolist()
        for begin, end in zip([0, *(place + 1 for place in apart)], [*apart, len(self.types)], strict=True):
            for at in range(begin, end, AT_ONCE):
                self._together(at, min(at + AT_ONCE, end))
            if end < len(self.types):
                self._one_by_one(end)

    def _together(self, place: int, end: int) -> None:
        """Records from `place` to `end`, among which no topic goes and no transaction begins or ends."""
        self._create_topics(place, end)
        while place < end:
            if self.types[place] in _TAKEN and not self.image.in_transaction:
                place = self._in_bulk(place, end)
            if place < end:
                self._one_by_one(place)
                place += 1

    def _create_topics(self, begin: int, end: int) -> None:
        """Topics of these records get their rows, unless one of them must be looked at alone."""
        topics, table = self.image.topics, self.image.table
        self._fresh_topics = len(topics), 0, 0
        places = np.flatnonzero(self.types[begin:end] == TopicRecord.api_key) + begin
        if len(places) > FEW_TOPICS and not self.image.in_transaction and not topics.has_free_rows:
            spans__mx = np.stack([self.begins[places] + FRAME_BYTES, self.ends[places]], axis=1)
            try:
                decoded = decode_rows(TopicRecord, 0, self.buffer, spans__mx)
            except DecodeError:
                return
            names = decoded.name.tolist()
            if topics.can_add(names, decoded.topic_id):
                self.image.add_topics(names, decoded.topic_id, self.offsets[places])
                self._fresh_topics = self._fresh_topics[0], len(places), 0
        table.lookup.know_topics(len(topics))

    def _in_bulk(self, place: int, end: int) -> int:
        """Calls the kernel until it takes nothing more; the first record that is not taken."""
        while place < end:
            reached = self._call(place, end)
            if reached == place:
                break
            place = reached
        return place

    def _call(self, place: int, end: int) -> int:
        table, recorder = self.image.table, self.image.recorder
        fresh_rows = table.offer_rows(int((self.types[place:end] == PartitionRecord.api_key).sum()))
        images = None if recorder is None or recorder.journal is None else recorder.journal.images_of(table)
        touched = None
        if recorder is not None and recorder.deltas is not None:
            touched = np.empty(end - place, np.int32), np.empty(end - place, np.int32)
        if images is not None:
            images.reserve(end - place)
        moved_before: Int16s = np.empty((_MOVED_ROOM, table.replicas__ps.shape[1]), np.int16)
        table.lookup.know_topics(len(self.image.topics))
        table.lookup.reserve(len(fresh_rows) if table.lookup.has_strays else 0)
        by_id, directories = self.image.topics.by_id, self.image.directories.index
        reached, created, touches, moved, moves, image_count, topics = kernel.run(
            self.buffer,
            self.begins,
            self.ends,
            place,
            end,
            table.arrays_by_name(),
            table.column_arrays(),
            table.lookup.arrays,
            self.image.brokers.dense,
            (by_id.slots, by_id.ids),
            (directories.slots, directories.ids),
            self._fresh_topics,
            fresh_rows,
            touched,
            (self._moved_rows, moved_before),
            self._moves,
            None if images is None else (images.rows, images.images),
            0 if images is None else images.count,
        )
        self._fresh_topics = *self._fresh_topics[:2], topics
        if images is not None:
            images.count = image_count
        table.settle_rows(fresh_rows, created, self._moved_rows[:moved], moved_before[:moved])
        if touched is not None and touches:
            assert recorder is not None and recorder.deltas is not None
            recorder.deltas.add_rows(touched[0][:touches], self.offsets[touched[1][:touches]])
        if moves:
            table.set_moves(self._moves[:moves])
        return reached

    def _one_by_one(self, place: int) -> None:
        offset, begin, end = int(self.offsets[place]), int(self.begins[place]), int(self.ends[place])
        try:
            record, _ = decode_metadata_record(self.buffer[begin:end])
            if isinstance(record, PartitionRecord | PartitionChangeRecord):
                self._check_topic(record.topic_id)
            self.image.apply(record, offset)
        except DecodeError as error:
            raise DecodeError(f"record {offset}: {error.message}", self.shift + begin + error.offset) from None
        except TableError as error:
            raise TableError(f"record {offset}: {error}") from None

    def _check_topic(self, topic_id: Uuid) -> None:
        """TableError for a topic that has its row already and only comes to be by a record behind this one."""
        first, fresh, created = self._fresh_topics
        row = self.image.topics.row_of_id(topic_id) if created < fresh else None
        if row is not None and first + created <= row < first + fresh:
            raise TableError(f"unknown topic id {topic_id}")
