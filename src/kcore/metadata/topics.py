"""The topics by row: names and ids kept once."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from kcore.errors import TableError
from kcore.metadata.delta import CREATED_TOPICS, DELETED_TOPICS
from kcore.metadata.recorder import Recorder
from kcore.metadata.uuid_index import UuidIndex
from kcore.types import ZERO_UUID, UInt8s, Uuid


class TopicTable:
    """The topics of a cluster, in the order they were given. A row that is free has the empty name."""

    names: list[str]

    def __init__(self, names: Sequence[str], ids: Sequence[Uuid] | None = None) -> None:
        """Topics without ids (before KIP-516) have the zero Uuid. TableError for repeated names or other lengths."""
        self.names = list(names)
        self.recorder: Recorder | None = None
        uuids = [ZERO_UUID] * len(self.names) if ids is None else list(ids)
        self._rows = {name: row for row, name in enumerate(self.names) if name}
        self._free = [row for row, name in enumerate(self.names) if not name]
        if len(uuids) != len(self.names):
            raise TableError(f"{len(self.names)} topics, {len(uuids)} topic ids")
        if len(self._rows) + len(self._free) != len(self.names):
            repeated = next(name for row, name in enumerate(self.names) if name and self._rows[name] != row)
            raise TableError(f"topic {repeated!r} is given twice")
        self._by_id = UuidIndex(uuids, ZERO_UUID)

    @property
    def ids(self) -> list[Uuid]:
        """The id of each row; read it, and change it by the methods alone."""
        return self._by_id.uuids

    @property
    def by_id(self) -> UuidIndex:
        """For kernels."""
        return self._by_id

    def __len__(self) -> int:
        """Rows, free ones included."""
        return len(self.names)

    @property
    def count(self) -> int:
        """How many topics there are."""
        return len(self._rows)

    def __contains__(self, name: str) -> bool:
        return name in self._rows

    def row(self, name: str) -> int:
        """The row of one topic; TableError if there is none."""
        if (row := self._rows.get(name)) is None:
            raise TableError(f"unknown topic {name!r}")
        return row

    def row_of_id(self, topic_id: Uuid) -> int | None:
        """The row of the topic with that id; None if there is none."""
        row = self._by_id.row(topic_id)
        return None if row < 0 else row

    def set_id(self, name: str, topic_id: Uuid) -> None:
        """A topic has another id from now on: ids come with an upgrade and go with a downgrade (KIP-516)."""
        row = self.row(name)
        if self.recorder is not None:
            self.recorder.undo(_restore_id, row, self.ids[row])
        self._by_id[row] = topic_id

    def add(self, name: str, topic_id: Uuid = ZERO_UUID) -> int:
        """A new topic, in a free row if there is one; returns its row. TableError if the name is taken or empty."""
        if not name or name in self._rows:
            raise TableError(f"topic {name!r} exists" if name else "a topic needs a name")
        if self.recorder is not None:
            self.recorder.undo(_remove_again, name, bool(self._free))
            self.recorder.tell(CREATED_TOPICS, (topic_id, name))
        if self._free:
            row = self._free.pop()
            self.names[row] = name
            self._by_id[row] = topic_id
        else:
            row = self._by_id.append(topic_id)
            self.names.append(name)
        self._rows[name] = row
        return row

    @property
    def has_free_rows(self) -> bool:
        """Whether the next topic takes a row that another has left."""
        return bool(self._free)

    def can_add(self, names: Sequence[str], ids: UInt8s) -> bool:
        """Whether all of these are names and ids (uint8[n, 16]) of no topic yet, each once."""
        fresh = {*names, ""}
        found = np.ascontiguousarray(ids).view("V16").ravel().tolist()
        return (
            len(fresh) == len(names) + 1
            and fresh.isdisjoint(self._rows)
            and len({*found, ZERO_UUID}) == len(names) + 1
            and all(self._by_id.row(each) < 0 for each in found)
        )

    def add_all(self, names: Sequence[str], ids: UInt8s) -> None:
        """Topics for which `can_add` is true, behind the last row."""
        if self.recorder is not None:
            self.recorder.undo(_remove_last, len(names))
        self._rows.update(zip(names, range(len(self.names), len(self.names) + len(names)), strict=True))
        self.names.extend(names)
        self._by_id.extend(ids)

    def remove_last(self, count: int) -> None:
        """Takes back an `add_all`, the last of all changes that are left."""
        for name in self.names[-count:]:
            del self._rows[name]
            self._by_id.pop()
        del self.names[-count:]

    def remove(self, name: str) -> int:
        """Frees the topic's row and returns it."""
        row = self.row(name)
        if self.recorder is not None:
            self.recorder.undo(_add_again, row, name, self.ids[row])
            self.recorder.tell(DELETED_TOPICS, (self.ids[row], name))
        del self._rows[name]
        self.names[row], self._by_id[row] = "", ZERO_UUID
        self._free.append(row)
        return row

    def remove_again(self, name: str, was_free: bool) -> None:
        """Takes back an `add`, the last of all changes that are left."""
        row = self._rows.pop(name)
        if was_free:
            self.names[row], self._by_id[row] = "", ZERO_UUID
            self._free.append(row)
        else:
            self.names.pop()
            self._by_id.pop()

    def add_again(self, row: int, name: str, topic_id: Uuid) -> None:
        """Takes back a `remove`, the last of all changes that are left."""
        assert self._free.pop() == row
        self.names[row], self._by_id[row], self._rows[name] = name, topic_id, row

    def restore_id(self, row: int, topic_id: Uuid) -> None:
        """Takes back a `set_id`."""
        self._by_id[row] = topic_id

    def copy(self) -> "TopicTable":
        """A table that shares nothing with this one."""
        twin = object.__new__(TopicTable)
        twin.names, twin._rows, twin._free = list(self.names), dict(self._rows), list(self._free)
        twin._by_id, twin.recorder = self._by_id.copy(), None
        return twin


class _HasTopics(Protocol):
    """What taking back a change asks of an image."""

    @property
    def topics(self) -> TopicTable: ...


def _remove_again(image: _HasTopics, name: str, was_free: bool) -> None:
    image.topics.remove_again(name, was_free)


def _remove_last(image: _HasTopics, count: int) -> None:
    image.topics.remove_last(count)


def _add_again(image: _HasTopics, row: int, name: str, topic_id: Uuid) -> None:
    image.topics.add_again(row, name, topic_id)


def _restore_id(image: _HasTopics, row: int, topic_id: Uuid) -> None:
    image.topics.restore_id(row, topic_id)
