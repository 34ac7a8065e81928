"""Converts records of the metadata log to Arrow as events: one row per record, with a column for each record type.

A type's column has a struct with the record's fields, under the names that Kafka's JSON has. It is null in the rows of
other types. Fields that the record's version lacks are null. There is no column for keys of SCRAM users and for ids of
delegation tokens, and a setting that may be a password has no value.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from kcore.errors import DecodeError
from kcore.extras import needs
from kcore.metadata.sensitive_settings import is_sensitive_setting
from kcore.schema.index import METADATA_RECORDS
from kcore.schema.kinds import FieldType, Kind
from kcore.schema.metadata_records_settings import ConfigRecord
from kcore.schema.structure import Field, Message
from kcore.types import Bools, Int32s, Int64s, Uuid
from kcore.wire.arrow import TYPES, array_of
from kcore.wire.arrow_times import UTC_TIME, utc_times
from kcore.wire.column_codec import decode_rows
from kcore.wire.metadata_frames import FRAME_BYTES, frame_columns, frame_header
from kcore.wire.records import Records, control_name

with needs("arrow"):
    import pyarrow as pa
    import pyarrow.compute as pc

ROWS_AT_ONCE: Final = 1 << 14  # Rows in a batch; also a null struct takes room for all its fields.
_TOKEN_ID: Final = "token_id"  # A delegation token's secret is derived from it.
_TYPES: Final = TYPES | {Kind.UUID: pa.string(), Kind.UINT16: pa.int32(), Kind.UINT32: pa.int64()}  # Spark has these.
_NONE: Final = -1  # The type and version of a control record.


def _arrow_type(type_: FieldType) -> pa.DataType:
    if type_.struct is not None:
        return pa.struct([(each.json_name, _arrow_type(each.type)) for each in type_.struct.__fields__])
    if type_.element is not None:
        return pa.list_(_arrow_type(type_.element))
    return _TYPES[type_.kind]


def _shown(record: type[Message]) -> list[Field]:
    """The fields of a record that a table may show."""
    is_masked = record is ConfigRecord  # Its only secret is the value, which is shown if the setting is known.
    return [each for each in record.__fields__ if each.name != _TOKEN_ID and (is_masked or not each.options.secret)]


# The record types with fields, by name. A NoOpRecord has no field, and its row has no other value than its type.
_RECORDS: Final = {each.__name__: each for _, each in sorted(METADATA_RECORDS.items()) if _shown(each)}
EVENTS: Final = pa.schema(
    [
        ("offset", pa.int64()),
        ("timestamp", UTC_TIME),  # When the leader appended the record's batch.
        ("epoch", pa.int32()),  # The epoch of the leader that wrote the record.
        ("recordType", pa.string()),  # A class of `kcore.schema`, or a control record's type; null: of a newer release.
        ("apiKey", pa.int16()),  # Kafka's number of the record's type; null for control records.
        ("version", pa.int16()),  # Null for control records.
        *(
            (name, pa.struct([(each.json_name, _arrow_type(each.type)) for each in _shown(record)]))
            for name, record in _RECORDS.items()
        ),
    ]
)


def events_of(
    records: Records, names: Sequence[str] = tuple(EVENTS.names), path: str = "the log"
) -> Iterator[pa.RecordBatch]:
    """The records as batches with these columns of EVENTS; other columns are not decoded.

    A record of a newer release has no fields here. DecodeError, which begins with `path`, for a record that is not in a
    frame of metadata records, or whose fields cannot be decoded.
    """
    schema = pa.schema([EVENTS.field(name) for name in names])
    for first in range(0, len(records), ROWS_AT_ONCE):
        try:
            part = _Part.of(records, first, min(len(records), first + ROWS_AT_ONCE))
            batch = pa.RecordBatch.from_arrays([part.column(name) for name in names], schema=schema)
        except DecodeError as error:
            raise DecodeError(f"{path}: {error.message}", error.offset) from None
        yield batch


def reader_of(batches: Iterator[pa.RecordBatch]) -> pa.RecordBatchReader:
    """A reader of batches that `events_of` makes with all columns."""
    return pa.RecordBatchReader.from_batches(EVENTS, batches)


@dataclass(frozen=True, slots=True)
class _Part:
    """The records of one batch, with types and versions by record, and the spans of their messages."""

    records: Records
    rows: slice
    types: Int32s
    versions: Int32s
    begins: Int64s  # In `records.data`, or in `records.decompressed`.
    ends: Int64s
    is_plain: Bools  # True for a record in `records.data`.

    @classmethod
    def of(cls, records: Records, first: int, end: int) -> "_Part":
        rows = slice(first, end)
        plain = len(records.data)
        is_plain = records.value_offset[rows] < plain
        begins = records.value_offset[rows] - np.where(is_plain, 0, plain)
        ends = begins + np.maximum(records.value_length[rows], 0)
        types, versions = np.full((2, end - first), _NONE, np.int32)
        messages = begins + FRAME_BYTES
        is_control = records.is_control[rows]
        for buffer, inside in ((records.data, is_plain), (records.decompressed, ~is_plain)):
            chosen = np.flatnonzero(inside & ~is_control)
            if chosen.size:
                lengths = records.value_length[rows][chosen]
                types[chosen], versions[chosen] = frame_columns(memoryview(buffer), begins[chosen], lengths)
        for at in np.flatnonzero((types == _NONE) & ~is_control).tolist():  # A header of another size, or damage.
            found = _header(records, first + at)
            types[at], versions[at], messages[at] = found.api_key, found.version, begins[at] + found.message_at
        return cls(records, rows, types, versions, messages, ends, is_plain)

    def column(self, name: str) -> pa.Array:
        """One column of EVENTS."""
        records, rows = self.records, self.rows
        made: dict[str, Callable[[], pa.Array]] = {
            "offset": lambda: pa.array(records.offset[rows]),
            "timestamp": lambda: utc_times(records.timestamp[rows]),
            "epoch": lambda: pa.array(records.batches.partition_leader_epoch[records.batch[rows]]),
            "recordType": lambda: pa.array(self._names(), pa.string()),
            "apiKey": lambda: self._numbers(self.types),
            "version": lambda: self._numbers(self.versions),
        }
        return made[name]() if name in made else self._structs(name)

    def _names(self) -> list[str | None]:
        names: dict[int, str | None] = {number: record.__name__ for number, record in METADATA_RECORDS.items()}
        is_control = self.records.is_control[self.rows].tolist()
        control = self.records.control_type[self.rows].tolist()
        return [
            control_name(number) if is_one else names.get(type_)
            for is_one, number, type_ in zip(is_control, control, self.types.tolist(), strict=True)
        ]

    def _numbers(self, numbers: Int32s) -> pa.Array:
        return pa.array(numbers.astype(np.int16), mask=self.records.is_control[self.rows])

    def _structs(self, name: str) -> pa.Array:
        """The fields of the records of one type, and null in the rows of other types and of unknown versions."""
        record, type_ = _RECORDS[name], EVENTS.field(name).type
        parts, places = [], [np.empty(0, np.int64)]
        of_type = self.types == record.api_key
        for version in np.unique(self.versions[of_type]).tolist():
            for buffer, inside in ((self.records.data, self.is_plain), (self.records.decompressed, ~self.is_plain)):
                chosen = np.flatnonzero(of_type & (self.versions == version) & inside)
                if chosen.size and version in record.versions:
                    spans__mx = np.stack([self.begins[chosen], self.ends[chosen]], axis=1)
                    parts.append(_decoded(record, version, buffer, spans__mx))
                    places.append(chosen)
        if not parts:
            return pa.nulls(len(self.types), type_)
        rows = np.concatenate(places)
        indices = np.zeros(len(self.types), np.int64)
        is_null = np.ones(len(self.types), np.bool_)
        indices[rows], is_null[rows] = np.arange(len(rows)), False
        return pa.concat_arrays(parts).take(pa.array(indices, mask=is_null))


def _header(records: Records, row: int) -> Any:
    value = records.span(int(records.value_offset[row]), int(records.value_length[row])) or b""
    try:
        return frame_header(memoryview(value))
    except DecodeError as error:
        text = f"the record at offset {records.offset[row]} is no metadata record: {error.message}"
        raise DecodeError(text, int(records.batches.position[records.batch[row]])) from None


def _decoded(record: type[Message], version: int, buffer: Any, spans__mx: Any) -> pa.StructArray:
    """Records of one type and version, one struct each; the spans of their messages are in `buffer`."""
    try:
        rows = decode_rows(record, version, buffer, spans__mx)
    except DecodeError as error:
        raise DecodeError(f"{record.__name__}: {error.message}", error.offset) from None
    children, fields = [], list(EVENTS.field(record.__name__).type)
    for field, its in zip(_shown(record), fields, strict=True):
        column = rows.column(field.name)
        missing = column is None
        children.append(pa.nulls(len(rows), its.type) if missing else _shaped(array_of(field.type, column), field.type))
    if record is ConfigRecord:
        kind, _, name, value = children
        hides = [*map(is_sensitive_setting, kind.to_pylist(), name.to_pylist())]
        children[-1] = pc.if_else(pa.array(hides, pa.bool_()), pa.scalar(None, pa.string()), value)
    return pa.StructArray.from_arrays(children, fields=fields)


def _shaped(array: pa.Array, type_: FieldType) -> pa.Array:
    """An array of `array_of` in the types of EVENTS: ids as text, and fields under the names of Kafka's JSON."""
    if type_.struct is not None:
        children = [_shaped(array.field(each.name), each.type) for each in type_.struct.__fields__]
        return pa.StructArray.from_arrays(children, fields=list(_arrow_type(type_)))
    if type_.element is not None:
        mask = array.is_null() if array.null_count else None
        return pa.ListArray.from_arrays(array.offsets, _shaped(array.values, type_.element), mask=mask)
    if type_.kind is Kind.UUID:
        encoded = array.dictionary_encode()  # Topics and directories repeat.
        texts = pa.array([str(Uuid(each)) for each in encoded.dictionary.to_pylist()], pa.string())
        return texts.take(encoded.indices)
    return array.cast(_TYPES[type_.kind])
