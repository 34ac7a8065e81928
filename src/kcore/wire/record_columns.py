"""Records to write, as columns: from decoded records in place, without an object per record."""

from dataclasses import dataclass
from typing import Protocol, Self, runtime_checkable

import numpy as np

from kcore.errors import EncodeError
from kcore.types import Int64s, is_whole
from kcore.wire.records import HEADER_COLUMNS, Records

Spans = tuple[Int64s, Int64s, Int64s, Int64s]  # Offsets and lengths of keys, offsets and lengths of values.

_INT64 = np.iinfo(np.int64)


@runtime_checkable
class ArrowStream(Protocol):
    """Rows that any library of Arrow's can take, by the PyCapsule interface."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """A capsule with the stream."""


@dataclass(frozen=True, slots=True, eq=False)
class RecordColumns:
    """One element per record. Offsets of spans count the bytes of all `buffers`; a length of -1 is null.

    Record i has the headers `header_end[i - 1]` (0 for the first) to `header_end[i]`.
    """

    offset: Int64s
    timestamp: Int64s  # milliseconds
    spans: Spans
    header_end: Int64s
    header_spans: Spans
    buffers: tuple[memoryview, ...]

    @classmethod
    def of_records(cls, records: Records) -> Self:
        """The decoded records, whose keys, values and headers stay in place."""
        spans = (records.key_offset, records.key_length, records.value_offset, records.value_length)
        header_spans = [getattr(records, name) for name, _ in HEADER_COLUMNS]
        return cls(
            records.offset,
            records.timestamp,
            _int64s(*spans),
            records.header_end,
            _int64s(*header_spans),
            (records.data, records.decompressed),
        )

    def __len__(self) -> int:
        return len(self.offset)

    def offsets(self) -> list[int]:
        """The first and the last offset, if the offsets ascend; otherwise all offsets."""
        steps_up = self.offset[1:] > self.offset[:-1]
        shown = self.offset[:: max(1, len(self) - 1)] if steps_up.all() else self.offset
        return [int(offset) for offset in shown]

    def timestamps(self) -> list[int]:
        """The first and the largest timestamp; none without records."""
        return [int(self.timestamp[0]), int(self.timestamp.max())] if len(self) else []

    def timestamp_deltas(self, base: int) -> Int64s:
        """The timestamps minus `base`. EncodeError unless all these numbers are int64."""
        if not is_whole(base):
            raise EncodeError(f"base_timestamp is a whole number, not {base!r:.60}")
        edges = (
            (base, *(int(edge) - base for edge in (self.timestamp.min(), self.timestamp.max()))) if len(self) else ()
        )
        if not all(_INT64.min <= edge <= _INT64.max for edge in edges):
            raise EncodeError("an integer beyond int64")
        return self.timestamp - base if len(self) else self.timestamp


def _int64s(keys: object, key_lengths: object, values: object, value_lengths: object) -> Spans:
    key, key_length, value, value_length = (
        np.ascontiguousarray(column, np.int64) for column in (keys, key_lengths, values, value_lengths)
    )
    return key, key_length, value, value_length
