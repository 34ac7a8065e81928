"""Bugs to be found: each takes one rule out of the node, and the invariants must notice."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

PLANTED: dict[str, Callable[["Patches"], None]] = {}


class Patches:
    """Attributes that were replaced, to be put back."""

    def __init__(self) -> None:
        self._before: list[tuple[Any, str, Any]] = []

    def put(self, owner: Any, name: str, value: Any) -> Any:
        """Replaces it; returns what was there."""
        before = owner.__dict__[name]
        self._before.append((owner, name, before))
        setattr(owner, name, value)
        return before

    def undo(self) -> None:
        for owner, name, before in reversed(self._before):
            setattr(owner, name, before)


@contextmanager
def planted(name: str | None) -> Iterator[None]:
    """With that bug, or none."""
    patches = Patches()
    if name is not None:
        PLANTED[name](patches)
    try:
        yield
    finally:
        patches.undo()
