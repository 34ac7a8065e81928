"""Records which keys of a dict changed last, so that a value derived from the dict can be updated on demand."""

from collections import deque
from itertools import islice
from typing import Any, Final

MOST_KEYS: Final = 1024


class RecentKeys:
    """A count of all changes, and the keys of the last MOST_KEYS of them."""

    __slots__ = ("_keys", "count")

    def __init__(self) -> None:
        self.count = 0  # An equal count means that nothing has changed.
        self._keys: deque[Any] = deque(maxlen=MOST_KEYS)

    def add(self, key: Any) -> None:
        """Add the key of a changed entry."""
        self.count += 1
        self._keys.append(key)

    def since(self, count: int) -> set[Any] | None:
        """The keys that changed since `count` was read; None if there were too many since."""
        missed = self.count - count
        return set(islice(reversed(self._keys), missed)) if missed <= len(self._keys) else None
