"""Long work in steps: a server runs other work between two steps, and tests run all steps at once."""

from collections.abc import Generator
from typing import TypeAlias, TypeVar

T = TypeVar("T")
Steps: TypeAlias = Generator[None, None, T]


def finished(steps: Steps[T]) -> T:
    """Runs all steps at once, and returns the result."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            result: T = done.value
            return result
