"""Finds what one odd entry does to its neighbours: a `continue` that is a `break`, an error that ends the whole list.

Tests have either sound entries or one odd one. Where an odd entry stands beside sound ones, its place decides: as the
last one it harms nobody, whatever the code does.

To test a new place, pass sound entries and one odd entry (unreadable, refused, compacted, gone) to `at_every_place`.
Process each list, and assert that all sound entries came through. Try the empty rest, too:
a list that has lost its last entry must be written as an empty one, and not be left as it was.
"""

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def at_every_place(sound: Sequence[T], odd: T) -> list[list[T]]:
    """The sound entries in their order, with the odd one before, between and behind them."""
    return [[*sound[:place], odd, *sound[place:]] for place in range(len(sound) + 1)]
