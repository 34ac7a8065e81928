"""Planted bugs: each replaces code of the node while a world runs, and names the invariant that must fail."""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from kcore.errors import KcoreError


class PlantingError(KcoreError):
    """A bug cannot be planted, because the code that it replaces does not exist any more."""


class Patches:
    """Replaces attributes and values of tables, and restores them all by `undo`."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []

    def put(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        """Replaces an attribute by `make(attribute)`; PlantingError if the owner has no such attribute."""
        if name not in owner.__dict__:
            raise PlantingError(f"{owner.__name__} has no {name} any more")
        before = owner.__dict__[name]
        self._undo.append(lambda: setattr(owner, name, before))
        setattr(owner, name, make(before))

    def around(self, owner: Any, name: str, broken: Callable[..., Any]) -> None:
        """Replaces a function by `broken`, whose first argument is the function; PlantingError if there is none."""
        self.put(owner, name, lambda before: lambda *given, **named: broken(before, *given, **named))

    def put_in(self, table: dict[Any, Any], key: Any, make: Callable[[Any], Any]) -> None:
        """Replaces a handler in a table by `make(handler)`; PlantingError if the table has no such key."""
        if key not in table:
            raise PlantingError(f"nothing handles {key} any more")
        before = table[key]
        self._undo.append(lambda: table.__setitem__(key, before))
        table[key] = make(before)

    def undo(self) -> None:
        while self._undo:
            self._undo.pop()()


class PlantedBug(NamedTuple):
    """A planted bug."""

    name: str
    invariant: str  # The invariant that must fail.
    about: str  # A description in one sentence.
    put: Callable[[Patches], None]


PLANTED: Final[dict[str, PlantedBug]] = {}


def planted_bug(invariant: str) -> Callable[[Callable[[Patches], None]], Callable[[Patches], None]]:
    """Registers a function that plants a bug; its name is the bug's name, its docstring describes the bug."""

    def register(put: Callable[[Patches], None]) -> Callable[[Patches], None]:
        name = put.__name__.replace("_", "-")
        about = (put.__doc__ or "").strip().splitlines()[0]
        PLANTED[name] = PlantedBug(name, invariant, about, put)
        return put

    return register
