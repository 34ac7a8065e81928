"""The topics by row: names and ids kept once."""

from collections.abc import Sequence

from kcore.errors import TableError
from kcore.types import ZERO_UUID, Uuid


class TopicTable:
    """The topics of a cluster, in the order they were given. A row that is free has the empty name."""

    names: list[str]
    ids: list[Uuid]

    def __init__(self, names: Sequence[str], ids: Sequence[Uuid] | None = None) -> None:
        """Topics without ids (before KIP-516) have the zero Uuid. TableError for repeated names or other lengths."""
        self.names = list(names)
        self.ids = [ZERO_UUID] * len(self.names) if ids is None else list(ids)
        self._rows = {name: row for row, name in enumerate(self.names) if name}
        self._rows_by_id = {topic_id: row for row, topic_id in enumerate(self.ids) if topic_id != ZERO_UUID}
        self._free = [row for row, name in enumerate(self.names) if not name]
        if len(self.ids) != len(self.names):
            raise TableError(f"{len(self.names)} topics, {len(self.ids)} topic ids")
        if len(self._rows) + len(self._free) != len(self.names):
            repeated = next(name for row, name in enumerate(self.names) if name and self._rows[name] != row)
            raise TableError(f"topic {repeated!r} is given twice")

    def __len__(self) -> int:
        return len(self.names)

    def __contains__(self, name: str) -> bool:
        return name in self._rows

    def row(self, name: str) -> int:
        """The row of one topic; TableError if there is none."""
        if (row := self._rows.get(name)) is None:
            raise TableError(f"unknown topic {name!r}")
        return row

    def row_of_id(self, topic_id: Uuid) -> int | None:
        """The row of the topic with that id; None if there is none."""
        return self._rows_by_id.get(topic_id)

    def set_id(self, name: str, topic_id: Uuid) -> None:
        """A topic has another id from now on: ids come with an upgrade and go with a downgrade (KIP-516)."""
        row = self.row(name)
        self._forget_id(row)
        self.ids[row] = topic_id
        if topic_id != ZERO_UUID:
            self._rows_by_id[topic_id] = row

    def add(self, name: str, topic_id: Uuid = ZERO_UUID) -> int:
        """A new topic, in a free row if there is one; returns its row. TableError if the name is taken or empty."""
        if not name or name in self._rows:
            raise TableError(f"topic {name!r} exists" if name else "a topic needs a name")
        if self._free:
            row = self._free.pop()
            self.names[row], self.ids[row] = name, topic_id
        else:
            row = len(self.names)
            self.names.append(name)
            self.ids.append(topic_id)
        self._rows[name] = row
        if topic_id != ZERO_UUID:
            self._rows_by_id[topic_id] = row
        return row

    def remove(self, name: str) -> int:
        """Frees the topic's row and returns it."""
        row = self.row(name)
        del self._rows[name]
        self._forget_id(row)
        self.names[row], self.ids[row] = "", ZERO_UUID
        self._free.append(row)
        return row

    def _forget_id(self, row: int) -> None:
        if self._rows_by_id.get(self.ids[row]) == row:
            del self._rows_by_id[self.ids[row]]

    def copy(self) -> "TopicTable":
        """A table that shares nothing with this one."""
        return TopicTable(self.names, self.ids)
