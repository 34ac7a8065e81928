"""Replays records of the metadata log: partition records in bulk, all others one by one, in the log's order.

A kernel reads PartitionRecords and PartitionChangeRecords from the bytes directly into the table's rows. It stops at a
record that it cannot replay: of another type, invalid, or the first to name a broker or a directory. That record is
decoded and applied on its own. TopicRecords are decoded together; the kernel sees each topic from its record on.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final, cast

import numpy as np

from kcore._ext.tables import partition_frames as frames
from kcore._ext.tables import partition_replay as kernel
from kcore.errors import DecodeError, TableError, UnsupportedVersionError
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.image.image_settings import set_configs
from kcore.schema.metadata_records_log import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    NoOpRecord,
)
from kcore.schema.metadata_records_settings import ConfigRecord
from kcore.schema.metadata_records_topics import (
    ClearElrRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from kcore.schema.structure import MetadataRecord
from kcore.types import Int8s, Int16s, Int64s, UInt8s, Uuid
from kcore.wire.column_codec import decode_rows
from kcore.wire.columns import Rows
from kcore.wire.encoded_records import EncodedRecords
from kcore.wire.metadata_frames import FRAME_BYTES, decode_metadata_record
from kcore.wire.records import Records

AT_ONCE: Final = 1 << 14  # Records in a part: their bytes and the kernel's results stay in the CPU's caches.
ONE_BY_ONE_AT_ONCE: Final = 256  # Records in a part that no kernel replays.
BATCHES_AT_ONCE: Final = 32  # Batches in a part: each costs 0.1 to 0.2 ms, however small it is.
IN_BATCHES_AT_ONCE: Final = 512  # Records in a part of several batches: 10 to 50 us for each that no kernel replays.
SETTINGS_AT_ONCE: Final = 1_024  # ConfigRecords in a part: some milliseconds.
IN_TRANSACTION_AT_ONCE: Final = 2_048  # Records of a transaction in a part: some milliseconds.
REMOVED_AT_ONCE: Final = 4_096  # Topics that a part removes; a part reads the lists of all brokers once.
FEW_TOPICS: Final = 4  # Up to this many topics are added faster one by one.
_TRANSACTION_MARKS: Final = (BeginTransactionRecord, EndTransactionRecord, AbortTransactionRecord)
_APART: Final = (RemoveTopicRecord, ClearElrRecord, *_TRANSACTION_MARKS)
_IN_BULK: Final = [each.api_key for each in (NoOpRecord, TopicRecord, PartitionRecord, PartitionChangeRecord)]
_OF_TRANSACTIONS: Final = [each.api_key for each in _TRANSACTION_MARKS]
_UNUSUAL: Final = -1  # The type of a record whose frame header is not three bytes long, valid or not.
_APART_TYPES: Final = [_UNUSUAL, *(record.api_key for record in _APART)]  # These records depend on which topics exist.
_READ_TOGETHER: Final = (TopicRecord, PartitionRecord, PartitionChangeRecord, RemoveTopicRecord, ConfigRecord)
_WIDENING: Final = {PartitionRecord.api_key: PartitionRecord, PartitionChangeRecord.api_key: PartitionChangeRecord}
_LISTS: Final = {"replicas__ps": "replicas", "isr__pi": "isr"}  # Columns that all partitions have, and their fields.
_MOVED_ROOM: Final = 1 << 10  # The most partitions whose replicas change in one call of the kernel.
_MOVES_ROOM: Final = 1 << 13


def replay(image: ClusterImage, records: Records, start_offset: int = 0, skipped: Sequence[int] = ()) -> None:
    """Replay the data records of a log, a snapshot or a Fetch response in order, from `start_offset` on.

    `skipped`: the offsets of records that have no effect.

    With a journal, each batch of the log can be reverted. DecodeError (with an offset into `records`) or
    TableError, both with the record's offset, for the first invalid record. The image then
    has the records before it, and perhaps topics of later records.
    """
    deque(replaying(image, records, start_offset, skipped), 0)


def replaying(
    image: ClusterImage, records: Records, start_offset: int = 0, skipped: Sequence[int] = ()
) -> Iterator[None]:
    """As `replay`, part by part; between parts the image is at no offset of the log."""
    rows = np.flatnonzero(~records.is_control & (records.offset >= start_offset))
    if skipped:
        rows = rows[~np.isin(records.offset[rows], skipped)]
    plain = len(records.data)
    inside = records.value_offset[rows] < plain

    def apply(begin: int, end: int) -> Iterator[None]:
        buffer, shift = (records.data, 0) if inside[begin] else (records.decompressed, plain)
        places = rows[begin:end]
        begins = records.value_offset[places] - shift
        ends = begins + np.maximum(records.value_length[places], 0)
        return _Replay(image, buffer, records.offset[places], begins, ends, shift).parts()

    with image.deltas_in_log_order():
        if image.journal is None:
            for begin, end in _runs_of(inside, len(rows)):
                yield from apply(begin, end)
        else:
            batches = _batches_of(records, rows, start_offset)
            in_part, part_begin = 0, 0
            for offset, epoch, begin, end in batches:
                if in_part == BATCHES_AT_ONCE or (in_part and end - part_begin > IN_BATCHES_AT_ONCE):
                    yield
                    in_part, part_begin = 0, begin
                in_part += 1
                image.begin(offset, epoch)
                if begin < end:  # A batch lies in one buffer.
                    yield from apply(begin, end)
    if len(records.batches):
        image.end_offset = max(image.end_offset, int(records.batches.last_offset[-1]) + 1)
        image.epoch = int(records.batches.partition_leader_epoch[-1])


def replaying_values(image: ClusterImage, values: EncodedRecords, offsets: Int64s) -> Iterator[None]:
    """Replay records without batches, part by part; errors are as for `replay`."""
    buffer = np.ascontiguousarray(values.values).data
    with image.deltas_in_log_order():
        yield from _Replay(image, buffer, offsets, values.offsets[:-1], values.offsets[1:]).parts()


def _runs_of(values: np.ndarray, count: int) -> Iterator[tuple[int, int]]:
    """Begin and end of each run of equal values."""
    begins = [0, *(np.flatnonzero(values[1:] != values[:-1]) + 1).tolist()] if count else []
    return zip(begins, [*begins[1:], count], strict=False)


def _batches_of(records: Records, rows: Int64s, start_offset: int) -> Iterator[tuple[int, int, int, int]]:
    """Offset, epoch, begin and end in `rows` of each batch with offsets from `start_offset` on, control batches too."""
    batches = records.batches
    first = int(np.searchsorted(batches.last_offset, start_offset))
    bounds = np.searchsorted(records.batch[rows], np.arange(first, len(batches) + 1)).tolist()
    offsets = np.maximum(batches.base_offset[first:], start_offset).tolist()
    return zip(offsets, batches.partition_leader_epoch[first:].tolist(), bounds, bounds[1:], strict=False)


class _Replay:
    """Records whose values lie in one buffer, while they are replayed."""

    def __init__(
        self, image: ClusterImage, buffer: memoryview, offsets: Int64s, begins: Int64s, ends: Int64s, shift: int = 0
    ) -> None:
        """`offsets`: in the log; `begins`, `ends`: of values in the buffer. `shift` is added to offsets in errors."""
        self.image, self.buffer, self.shift = image, buffer, shift
        self.offsets, self.begins, self.ends = offsets, begins, ends
        self.types: Int8s = np.empty(len(begins), np.int8)
        frames.types(buffer, self.begins, self.ends, self.types)
        self._fresh_topics = (0, 0, 0)
        self._moves = np.empty(_MOVES_ROOM, np.int32)
        self._moved_rows = np.empty(_MOVED_ROOM, np.int32)

    def parts(self) -> Iterator[None]:
        """Replay all records, AT_ONCE or fewer in a part."""
        begin = 0
        for place, behind in self._apart():
            yield from self._between(begin, place)
            if self.types[place] in _OF_TRANSACTIONS:
                yield from self._transaction_mark(place)
            elif self.image.in_transaction:
                self._wait(place, behind)
            elif self.types[place] == RemoveTopicRecord.api_key:
                yield from self._remove_topics(place, behind)
            else:
                self._one_by_one(place)
            begin = behind
        yield from self._between(begin, len(self.types))

    def _apart(self) -> Iterator[tuple[int, int]]:
        """Spans of records that depend on which topics exist: single records, or consecutive RemoveTopicRecords."""
        places = np.flatnonzero(np.isin(self.types, _APART_TYPES))
        goes_on = np.zeros(len(places), np.bool_)
        goes_on[1:] = np.diff(places) == 1
        removes = self.types[places] == RemoveTopicRecord.api_key
        goes_on[1:] &= removes[1:] & removes[:-1]
        begins = np.flatnonzero(~goes_on)
        lengths = np.diff(begins, append=len(places))
        return zip(places[begins].tolist(), (places[begins] + lengths).tolist(), strict=True)

    def _between(self, begin: int, end: int) -> Iterator[None]:
        """Replay records among which no topic is removed and no transaction begins or ends."""
        for at in range(begin, end, AT_ONCE):
            if at > begin:
                yield
            if self.image.in_transaction:
                self._wait(at, min(at + AT_ONCE, end))
            else:
                yield from self._together(at, min(at + AT_ONCE, end))

    def _together(self, place: int, end: int) -> Iterator[None]:
        """Replay records by the kernel where it can. The cost of a call grows with the number of records."""
        left = self._create_topics(place, end)
        others = np.flatnonzero(~np.isin(self.types[place:end], _IN_BULK)) + place
        for number, stop in enumerate([*np.union1d(left, others).tolist(), end], 1):
            if number % ONE_BY_ONE_AT_ONCE == 0:
                yield
            while place < stop:  # Otherwise it was applied together with an earlier record.
                place = self._in_bulk(place, stop)
                if place < stop:
                    yield from self._widening(place)
                    self._one_by_one(place)
                    place += 1
            if place == stop < end:
                place = self._other(stop, end)

    def _other(self, place: int, end: int) -> int:
        """Apply a record without a kernel, together with following ones if it is a setting; returns the next place."""
        behind = place + 1
        if self.types[place] == ConfigRecord.api_key:
            end = min(end, place + SETTINGS_AT_ONCE)
            while behind < end and self.types[behind] == ConfigRecord.api_key:
                behind += 1
        if behind - place == 1 or not self._set_configs(place, behind):
            for each in range(place, behind):
                self._one_by_one(each)
        return behind

    def _set_configs(self, begin: int, end: int) -> bool:
        """Apply several ConfigRecords; False, with nothing changed, if one cannot be decoded."""
        if self._versions(begin, end).any():
            return False
        try:
            read = self._rows(ConfigRecord, np.arange(begin, end))
            columns = [each.tolist() for each in (read.resource_type, read.resource_name, read.name, read.value)]
        except DecodeError:
            return False
        set_configs(self.image, zip(*columns, self.offsets[begin:end].tolist(), strict=True))
        return True

    # Transactions: their records wait as bytes, and are replayed in bulk.

    def _wait(self, begin: int, end: int) -> None:
        spans = zip(self.begins[begin:end].tolist(), self.ends[begin:end].tolist(), strict=True)
        values = [bytes(self.buffer[first:last]) for first, last in spans]
        for place in () if self._can_read(begin, end) else range(begin, end):
            value = values[place - begin]
            try:
                decode_metadata_record(value)
            except DecodeError:
                self.image.wait(values[: place - begin], int(self.offsets[place]) - 1)
                self._one_by_one(place)
        self.image.wait(values, int(self.offsets[end - 1]))

    def _can_read(self, begin: int, end: int) -> bool:
        """True if a fast check decodes all these records, type by type; False: unknown, decode them one by one."""
        types = self.types[begin:end]
        if not np.isin(types, [each.api_key for each in _READ_TOGETHER]).all():
            return False
        versions = self._versions(begin, end)
        try:
            for record in _READ_TOGETHER:
                for version in np.unique(versions[types == record.api_key]).tolist():
                    places = np.flatnonzero((types == record.api_key) & (versions == version)) + begin
                    self._rows(record, places, version)
        except (DecodeError, UnsupportedVersionError):
            return False
        return True

    def _is_readable(self, place: int) -> bool:
        try:
            decode_metadata_record(self.buffer[int(self.begins[place]) : int(self.ends[place])])
        except DecodeError:
            return False
        return True

    def _versions(self, begin: int, end: int) -> UInt8s:
        """Versions of records whose frame headers are three bytes long."""
        found: UInt8s = np.frombuffer(self.buffer, np.uint8)[self.begins[begin:end] + FRAME_BYTES - 1]
        return found

    def _rows(self, record: type[MetadataRecord], places: Int64s, version: int = 0) -> Rows:
        """The decoded fields of records of one type; DecodeError for the first that cannot be decoded."""
        spans__mx = np.stack([self.begins[places] + FRAME_BYTES, self.ends[places]], axis=1)
        return decode_rows(record, version, self.buffer, spans__mx)

    def _transaction_mark(self, place: int) -> Iterator[None]:
        """Apply the begin or end of a transaction; its records get the offset of its end."""
        ends = self.types[place] == EndTransactionRecord.api_key and self.image.in_transaction
        waiting = self.image.waiting if ends else []
        if {*map(type, waiting)} != {bytes} or not self._is_readable(place):
            self._one_by_one(place)
            return
        self.image.abort_transaction()
        self.image.apply(NoOpRecord(), int(self.offsets[place]))
        for begin in range(0, len(waiting), IN_TRANSACTION_AT_ONCE):
            if begin:
                yield
            values = EncodedRecords.of(cast(list[bytes], waiting[begin : begin + IN_TRANSACTION_AT_ONCE]))
            offsets = np.full(len(values), self.offsets[place])
            yield from _Replay(self.image, values.values.data, offsets, values.offsets[:-1], values.offsets[1:]).parts()

    # Topics.

    def _remove_topics(self, begin: int, end: int) -> Iterator[None]:
        """Apply consecutive RemoveTopicRecords, part by part; if one does not fit, earlier ones stay applied."""
        try:
            ids = Uuid.many(self._rows(RemoveTopicRecord, np.arange(begin, end)).topic_id.tobytes())
        except DecodeError:
            ids = []
        rows = [self.image.topics.row_of_id(each) for each in ids]
        known = np.array([row for row in rows if row is not None], np.int32)
        if ids and len(np.unique(known)) == len(rows):
            for at in range(0, len(known), REMOVED_AT_ONCE):
                if at:
                    yield
                rows_at_once = known[at : at + REMOVED_AT_ONCE]
                offsets = self.offsets[begin + at : begin + at + len(rows_at_once)]
                yield from self.image.removing_topics(rows_at_once, offsets)
        else:
            for place in range(begin, end):
                self._one_by_one(place)

    def _create_topics(self, begin: int, end: int) -> Int64s:
        """Add the topics of these records; returns the places of records that must be applied one by one."""
        topics, table = self.image.topics, self.image.table
        self._fresh_topics = len(topics), 0, 0
        places = np.flatnonzero(self.types[begin:end] == TopicRecord.api_key) + begin
        first = topics.run_for(len(places)) if len(places) > FEW_TOPICS else None
        if first is not None:
            try:
                decoded = self._rows(TopicRecord, places)
            except DecodeError:
                return places
            names = decoded.name.tolist()
            if topics.can_add(names, decoded.topic_id):
                self.image.add_topics(names, decoded.topic_id, first, self.offsets[places])
                self._fresh_topics = first, len(places), 0
                places = places[:0]
        table.lookup.know_topics(len(topics))
        return places

    def _in_bulk(self, place: int, end: int) -> int:
        """Call the kernel until it stops; returns the first record that it did not replay."""
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

    def _widening(self, place: int) -> Iterator[None]:
        """Widen the columns for a partition with more replicas than any before it, one column a part."""
        record_type = _WIDENING.get(int(self.types[place]))
        if record_type is None:
            return
        try:
            record, _ = decode_metadata_record(self.buffer[int(self.begins[place]) : int(self.ends[place])])
        except DecodeError:
            return  # Applying the record will raise the error.
        for column, field in _LISTS.items():
            yield from self.image.table.widening(column, len(getattr(record, field) or ()))

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
        """TableError for a topic that already has its row but is created only by a later record."""
        first, fresh, created = self._fresh_topics
        row = self.image.topics.row_of_id(topic_id) if created < fresh else None
        if row is not None and first + created <= row < first + fresh:
            raise TableError(f"unknown topic id {topic_id}")
