"""Records the changes of an image between two offsets, without a walk over the cluster (Kafka's MetadataDelta)."""

from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any, Final, NamedTuple, Protocol

import numpy as np

from kcore.types import Int16s, Int32s, Int64s, Uuid

MOST_CHANGES: Final = 1 << 20  # The most rows and keys that a DeltaLog keeps by default.
ROWS: Final = "rows"
CREATED_TOPICS: Final = "created topics"  # Keys: id and name.
DELETED_TOPICS: Final = "deleted topics"


class _Brokers(Protocol):
    def __contains__(self, broker_id: int) -> bool: ...

    def row(self, broker_id: int) -> int: ...


class Partitions(Protocol):
    """The part of the partition table that a delta reads; the table's module imports this one."""

    @property
    def topic_row__p(self) -> Int32s: ...

    @property
    def replicas__ps(self) -> Int16s: ...

    @property
    def brokers(self) -> _Brokers: ...

    def __len__(self) -> int: ...


@dataclass(slots=True, eq=False)
class MetadataDelta:
    """The rows and keys that records in [from_offset, to_offset) changed. Their values are in the image.

    If the image is newer, `rows` may also have rows that another partition has taken since.
    """

    from_offset: int
    to_offset: int
    rows: Int32s  # Partitions that were created or changed and still exist, ascending.
    created_topics: dict[Uuid, str] = field(default_factory=dict)  # Only topics that still exist.
    deleted_topics: dict[Uuid, str] = field(default_factory=dict)  # Only topics that existed before.
    keys: dict[str, set[Any]] = field(default_factory=dict)  # By part of the image: "brokers", "configs", "acls" ...

    def add(self, part: str, key: Any) -> None:
        """Add a key; for topics, an id with its name."""
        if part == CREATED_TOPICS:
            self.created_topics[key[0]] = key[1]
        elif part != DELETED_TOPICS:
            self.keys.setdefault(part, set()).add(key)
        elif self.created_topics.pop(key[0], None) is None:
            self.deleted_topics[key[0]] = key[1]

    def touched(self, part: str) -> set[Any]:
        """The added, changed or removed keys of a part, for example broker ids of "brokers"."""
        return self.keys.get(part, set())

    def rows_of_broker(self, table: Partitions, broker_id: int) -> Int32s:
        """The partitions of `rows` that now have the broker among their replicas."""
        if broker_id not in table.brokers:
            return self.rows[:0]
        held: Int32s = self.rows[(table.replicas__ps[self.rows] == table.brokers.row(broker_id)).any(axis=1)]
        return held


class _Touched(NamedTuple):
    """One entry of the log: a key, or rows with the offset of each, ascending."""

    first: int  # The offset of the first record that made the changes.
    last: int
    part: str
    key: Any
    offsets: Int64s | None = None

    @property
    def size(self) -> int:
        return 1 if self.offsets is None else len(self.offsets)


class DeltaLog:
    """The changed rows and keys by offset; the oldest are dropped when there are too many."""

    def __init__(self, offset: int, most: int = MOST_CHANGES) -> None:
        """Keep changes from `offset` on, up to `most` rows and keys."""
        self.offset = offset  # Offset of the record that is being applied.
        self._start, self._most, self._count = offset, most, 0
        self._touched: deque[_Touched] = deque()  # Ascending by `last`.
        self._held: list[_Touched] | None = None

    @property
    def start(self) -> int:
        """The first offset from which `between` works."""
        return self._start

    def add_rows(self, rows: Int32s, offsets: Int64s | None = None) -> None:
        """Add changed partition rows: row k by the record at `offsets[k]`, or all by the record at `self.offset`."""
        if offsets is None:
            offsets = np.full(len(rows), self.offset, np.int64)
        if len(rows):
            self._add(_Touched(int(offsets[0]), int(offsets[-1]), ROWS, rows.copy(), offsets))

    def add_key(self, part: str, key: Hashable) -> None:
        """Add an entry of a part that the record at `self.offset` changed."""
        self._add(_Touched(self.offset, self.offset, part, key))

    def hold(self) -> None:
        """Collect changes until `release`, which sorts them into the order of the records."""
        self._held = []

    def release(self) -> None:
        """Move the collected changes to the log, in the order of the records."""
        held, self._held = self._held or [], None
        for touched in sorted(held, key=lambda each: each.last):
            self._add(touched)

    def _add(self, touched: _Touched) -> None:
        if self._held is not None:
            self._held.append(touched)
            return
        self._touched.append(touched)
        self._count += touched.size
        while self._count > self._most:
            gone = self._touched.popleft()
            self._count -= gone.size
            self._start = gone.last + 1

    def revert_to(self, offset: int) -> None:
        """Drop the changes of records from `offset` on."""
        while self._touched and self._touched[-1].last >= offset:
            gone = self._touched.pop()
            self._count -= gone.size
            if gone.offsets is not None and gone.first < offset:
                kept = gone.offsets < offset
                self.add_rows(gone.key[kept], gone.offsets[kept])
                break
        self.offset = min(self.offset, offset)

    def between(self, table: Partitions, from_offset: int, to_offset: int) -> MetadataDelta | None:
        """The changes of [from_offset, to_offset); None if some of these changes were dropped."""
        if from_offset < self._start:
            return None
        since = list(takewhile(lambda touched: touched.last >= from_offset, reversed(self._touched)))
        rows, delta = [np.empty(0, np.int32)], MetadataDelta(from_offset, to_offset, np.empty(0, np.int32))
        for touched in reversed(since):
            if touched.offsets is not None:
                begin, end = np.searchsorted(touched.offsets, [from_offset, to_offset])
                rows.append(touched.key[begin:end])
            elif touched.first < to_offset:
                delta.add(touched.part, touched.key)
        found = np.unique(np.concatenate(rows))
        found = found[found < len(table)]
        delta.rows = found[table.topic_row__p[found] >= 0]
        return delta
