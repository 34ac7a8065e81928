"""Records changes before they are made: in the journal, so that they can be reverted, and in the log of deltas."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, Protocol

from kcore.metadata.image.delta import DeltaLog
from kcore.metadata.image.journal import Columns, Journal
from kcore.types import Int32s

MISSING: Final = object()  # Stands for the absent value of a new key.


class Recorder:
    """Records the changes of an image and its tables in the journal and the log of deltas, if these are kept."""

    def __init__(self) -> None:
        self.journal: Journal | None = None
        self.deltas: DeltaLog | None = None

    @contextmanager
    def silenced(self) -> Iterator[None]:
        """Record nothing within this context, in which changes are reverted."""
        kept = self.journal, self.deltas
        self.journal = self.deltas = None
        try:
            yield
        finally:
            self.journal, self.deltas = kept

    def rows(self, table: Columns, rows: Int32s) -> None:
        """Record rows that are about to be written; rows of new partitions are recorded as free rows."""
        if self.journal is not None:
            self.journal.save_rows(table, rows)
        if self.deltas is not None:
            self.deltas.add_rows(rows)

    def key(self, part: str, key: Any, values: dict[Any, Any]) -> None:
        """Record an entry of a dict of the image that is about to be written or removed; `part` names it in deltas."""
        self.undo(_restore_key, part, key, values.get(key, MISSING))
        if self.deltas is not None:
            self.deltas.add_key(part, key)

    def undo(self, undo: Callable[..., None], *arguments: Any) -> None:
        """Record any other change that is about to be made; undo(image, *arguments) reverts it."""
        if self.journal is not None:
            self.journal.add(undo, *arguments)

    def delta_key(self, part: str, key: Any) -> None:
        """Record a key that is about to change, only in the log of deltas."""
        if self.deltas is not None:
            self.deltas.add_key(part, key)


class _HasDicts(Protocol):
    """The part of an image that reverting a change needs."""

    def dict_of(self, part: str) -> dict[Any, Any]: ...

    def key_changed(self, part: str, key: Any) -> None: ...


def _restore_key(image: _HasDicts, part: str, key: Any, value: Any) -> None:
    values: dict[Any, Any] = image.dict_of(part)
    if value is MISSING:
        values.pop(key, None)
    else:
        values[key] = value
    image.key_changed(part, key)
