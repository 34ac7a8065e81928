"""Compares columns by their contents: arrays, lists, structs, and unset columns; formats counts for `repr`."""

from dataclasses import fields
from typing import Any

import numpy as np

from kcore.types import Bools


def same_values(one: Any, other: Any) -> bool:
    """Whether two values are equal: arrays by shape and values, with any dtype; anything else by `==`."""
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        is_float = isinstance(one, np.ndarray) and one.dtype.kind == "f"
        return one is other or bool(np.array_equal(one, other, equal_nan=is_float))
    return bool(one == other)


def same_nulls(one: Bools | None, other: Bools | None) -> bool:
    """True if the same rows are null; None: no row is null."""
    if one is None or other is None:
        known = other if one is None else one
        return known is None or bool(known.all())
    return bool(np.array_equal(one, other))


class Comparable:
    """Base of dataclasses of columns, which are equal if they have the same class and all columns are equal."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        names = [field.name for field in fields(self)]  # type: ignore[arg-type]  # Subclasses are dataclasses.
        return all(same_values(getattr(self, name), getattr(other, name)) for name in names)

    __hash__ = None  # type: ignore[assignment]


def counted(number: int, noun: str) -> str:
    """A count with its noun, for example "1 row" and "2 rows"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
