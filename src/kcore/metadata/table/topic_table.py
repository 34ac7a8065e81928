"""Holds the topics by row: names and ids once."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from kcore.errors import TableError
from kcore.metadata.image.delta import CREATED_TOPICS, DELETED_TOPICS
from kcore.metadata.image.recorder import Recorder
from kcore.metadata.table.free_rows import FreeRows
from kcore.metadata.table.uuid_index import UuidIndex
from kcore.types import ZERO_UUID, Int32s, UInt8s, Uuid
from kcore.wire.same import counted

_ALWAYS_SPARE = 1 << 10  # `run_for` appends rows while at most this many more rows are free than in use.


class TopicTable:
    """The topics of a cluster, in the order they were added. A free row has the empty name."""

    names: list[str]

    def __init__(self, names: Sequence[str], ids: Sequence[Uuid] | None = None) -> None:
        """Topics without ids (before KIP-516) have the zero Uuid. TableError for repeated names or missing ids."""
        self.names = list(names)
        self.recorder: Recorder | None = None
        uuids = [ZERO_UUID] * len(self.names) if ids is None else list(ids)
        self._rows = {name: row for row, name in enumerate(self.names) if name}
        self._free = FreeRows()
        self._free.add(np.array([row for row, name in enumerate(self.names) if not name], np.int32))
        if len(uuids) != len(self.names):
            raise TableError(f"{len(self.names)} topics, {len(uuids)} topic ids")
        if len(self._rows) + len(self._free) != len(self.names):
            repeated = next(name for row, name in enumerate(self.names) if name and self._rows[name] != row)
            raise TableError(f"topic {repeated!r} is given twice")
        self._by_id = UuidIndex(uuids, ZERO_UUID)

    @property
    def ids(self) -> list[Uuid]:
        """The id of each row; for reading: only the methods change it."""
        return self._by_id.uuids

    @property
    def by_id(self) -> UuidIndex:
        """The hash table of ids, for kernels."""
        return self._by_id

    def __len__(self) -> int:
        """The number of rows, free ones included."""
        return len(self.names)

    @property
    def count(self) -> int:
        """The number of topics."""
        return len(self._rows)

    def __contains__(self, name: str) -> bool:
        return name in self._rows

    def row(self, name: str) -> int:
        """The row of one topic; TableError if there is none."""
        try:
            return self._rows[name]
        except (KeyError, TypeError):  # An unhashable argument, such as a list.
            raise TableError(f"unknown topic {name!r}") from None

    def rows(self, names: Iterable[str]) -> list[int]:
        """The row of each topic; -1 for an unknown one."""
        known = self._rows
        return [known.get(name, -1) for name in names]

    def row_of_id(self, topic_id: Uuid) -> int | None:
        """The row of the topic with that id; None if there is none."""
        row = self._by_id.row(topic_id)
        return None if row < 0 else row

    def set_id(self, name: str, topic_id: Uuid) -> None:
        """Change a topic's id: ids are added by an upgrade and removed by a downgrade (KIP-516)."""
        row = self.row(name)
        if self.recorder is not None:
            self.recorder.undo(lambda image, *given: image.topics.restore_id(*given), row, self.ids[row])
        self._by_id[row] = topic_id

    def add(self, name: str, topic_id: Uuid = ZERO_UUID) -> int:
        """Add a topic in the lowest free row; returns its row. TableError if the name is taken or empty."""
        if not isinstance(name, str):
            raise TableError(f"a topic's name is a text, not {name!r:.60}")
        if not name or name in self._rows:
            raise TableError(f"topic {name!r} exists" if name else "a topic needs a name")
        row = self._free.take_run(1)
        if self.recorder is not None:
            self.recorder.undo(lambda image, *given: image.topics.remove_again(*given), name, row is not None)
            self.recorder.delta_key(CREATED_TOPICS, (topic_id, name))
        if row is not None:
            self.names[row] = name
            self._by_id[row] = topic_id
        else:
            row = self._by_id.append(topic_id)
            self.names.append(name)
        self._rows[name] = row
        return row

    def can_add(self, names: Sequence[str], ids: UInt8s) -> bool:
        """True if all of these names and ids (uint8[n, 16]) are new, each once."""
        fresh = {*names, ""}
        found = np.ascontiguousarray(ids).view("V16").ravel().tolist()
        return (
            len(fresh) == len(names) + 1
            and fresh.isdisjoint(self._rows)
            and len({*found, ZERO_UUID}) == len(names) + 1
            and all(self._by_id.row(each) < 0 for each in found)
        )

    def run_for(self, count: int) -> int | None:
        """The first row of a run of `count` rows for new topics: free rows, or rows after the last.

        None if that would leave more rows free than in use: then single free rows must be taken.
        """
        first = self._free.first_of_run(count)
        if first is None and len(self.names) - len(self._rows) <= len(self._rows) + count + _ALWAYS_SPARE:
            first = len(self.names)
        return first

    def add_all(self, names: Sequence[str], ids: UInt8s, first: int) -> None:
        """Add topics for which `can_add` is true, in the rows from `first` on, which come from `run_for`."""
        is_behind, end = first == len(self.names), first + len(names)
        if self.recorder is not None:
            self.recorder.undo(lambda image, *given: image.topics.remove_run(*given), first, len(names), is_behind)
        if not is_behind:
            self._free.take_run(len(names))
        self._rows.update(zip(names, range(first, end), strict=True))
        self.names[first:end] = names
        self._by_id.put_run(first, ids)

    def remove_run(self, first: int, count: int, was_behind: bool) -> None:
        """Revert an `add_all`; every later change must be reverted already."""
        for name in self.names[first : first + count]:
            del self._rows[name]
        if was_behind:
            for _ in range(count):
                self._by_id.pop()
            del self.names[first:]
        else:
            self._leave(np.arange(first, first + count, dtype=np.int32))

    def _leave(self, rows: Int32s) -> None:
        """Free rows, ascending, whose names are in no index any more."""
        for row in rows.tolist():
            self.names[row] = ""
        self._by_id.clear(rows)
        self._free.add(rows)

    def remove(self, name: str) -> int:
        """Free the topic's row and return it."""
        row = self.row(name)
        if self.recorder is not None:
            self.recorder.undo(lambda image, *given: image.topics.add_again(*given), row, name, self.ids[row])
            self.recorder.delta_key(DELETED_TOPICS, (self.ids[row], name))
        del self._rows[name]
        self.names[row], self._by_id[row] = "", ZERO_UUID
        self._free.add(np.array([row], np.int32))
        return row

    def remove_all(self, rows: Int32s) -> None:
        """Free the rows of many topics with ids, ascending. The caller records their deletion."""
        names = [self.names[row] for row in rows.tolist()]
        if self.recorder is not None:
            self.recorder.undo(
                lambda image, *given: image.topics.add_all_again(*given), rows, names, self._by_id.ids[rows]
            )
        for name in names:
            del self._rows[name]
        self._leave(rows)

    def add_all_again(self, rows: Int32s, names: Sequence[str], ids: UInt8s) -> None:
        """Revert a `remove_all`; every later change must be reverted already."""
        self._free.take(rows.tolist())
        for row, name, topic_id in zip(rows.tolist(), names, Uuid.many(ids.tobytes()), strict=True):
            self.names[row], self._by_id[row], self._rows[name] = name, topic_id, row

    def remove_again(self, name: str, was_free: bool) -> None:
        """Revert an `add`; every later change must be reverted already."""
        row = self._rows.pop(name)
        if was_free:
            self.names[row], self._by_id[row] = "", ZERO_UUID
            self._free.add(np.array([row], np.int32))
        else:
            self.names.pop()
            self._by_id.pop()

    def add_again(self, row: int, name: str, topic_id: Uuid) -> None:
        """Revert a `remove`; every later change must be reverted already."""
        self._free.take([row])
        self.names[row], self._by_id[row], self._rows[name] = name, topic_id, row

    def restore_id(self, row: int, topic_id: Uuid) -> None:
        """Revert a `set_id`."""
        self._by_id[row] = topic_id

    def copy(self) -> "TopicTable":
        """A copy that shares nothing with this one."""
        twin = object.__new__(TopicTable)
        twin.names, twin._rows, twin._free = list(self.names), dict(self._rows), self._free.copy()
        twin._by_id, twin.recorder = self._by_id.copy(), None
        return twin

    def __copy__(self) -> "TopicTable":
        return self.copy()

    def __getstate__(self) -> dict[str, Any]:
        """Copies and pickles have no recorder."""
        return vars(self) | {"recorder": None}

    def __eq__(self, other: object) -> bool:
        """True if both have the same topics with the same ids, in any rows."""
        if not isinstance(other, TopicTable):
            return NotImplemented
        return self.ids_by_name() == other.ids_by_name()

    __hash__ = None  # type: ignore[assignment]

    def ids_by_name(self) -> dict[str, Uuid]:
        """The id of each topic; made on demand."""
        return {name: topic_id for name, topic_id in zip(self.names, self.ids, strict=True) if name}

    def __repr__(self) -> str:
        return f"<TopicTable: {counted(self.count, 'topic')}>"
