"""Planted bugs: each replaces code of the node while a world runs, and names the invariant that must fail."""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from kcore.errors import KcoreError


class PlantError(KcoreError):
    """A planted bug is none any more: what it was to replace is gone."""


class Patches:
    """Attributes, or values of a table, that were replaced; to be put back."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []

    def put(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        """`make` is given what is there, and gives what comes in its place. PlantError if nothing is there."""
        if name not in owner.__dict__:
            raise PlantError(f"{owner.__name__} has no {name} any more")
        before = owner.__dict__[name]
        self._undo.append(lambda: setattr(owner, name, before))
        setattr(owner, name, make(before))

    def around(self, owner: Any, name: str, broken: Callable[..., Any]) -> None:
        """`broken` comes in place of a function, its first argument. PlantError if nothing is there."""
        self.put(owner, name, lambda before: lambda *given, **named: broken(before, *given, **named))

    def put_in(self, table: dict[Any, Any], key: Any, make: Callable[[Any], Any]) -> None:
        """The same for a handler in a table."""
        if key not in table:
            raise PlantError(f"nothing handles {key} any more")
        before = table[key]
        self._undo.append(lambda: table.__setitem__(key, before))
        table[key] = make(before)

    def undo(self) -> None:
        while self._undo:
            self._undo.pop()()


class Plant(NamedTuple):
    """A bug, by its name."""

    name: str
    invariant: str  # Which must catch it.
    about: str
    put: Callable[[Patches], None]


PLANTED: Final[dict[str, Plant]] = {}


def plant(invariant: str) -> Callable[[Callable[[Patches], None]], Callable[[Patches], None]]:
    """Registers a function that puts a bug in; its docstring says which, its name is the bug's."""

    def register(put: Callable[[Patches], None]) -> Callable[[Patches], None]:
        name = put.__name__.replace("_", "-")
        about = (put.__doc__ or "").strip().splitlines()[0]
        PLANTED[name] = Plant(name, invariant, about, put)
        return put

    return register
