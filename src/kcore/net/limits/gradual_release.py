"""Frees large messages part by part: to free a million objects at once would delay all other clients."""

from collections.abc import Iterator
from typing import Final

from kcore.net.limits.work_in_parts import next_turn
from kcore.schema.structure import Struct

LONG: Final = 500  # Elements, which are freed within a fraction of a millisecond.
FEW: Final = 50  # A list of at most so many elements is searched: one topic may have a million partitions.


def long_lists(message: Struct) -> list[list[Struct]]:
    """Copies of the message's long lists, which keep the elements alive when the message is gone."""
    return [*_found_in(message)]


def _found_in(struct: Struct) -> Iterator[list[Struct]]:
    for each in struct.__fields__:
        values = getattr(struct, each.name)
        if not isinstance(values, list) or not values or not isinstance(values[0], Struct):
            continue
        if len(values) > LONG:
            yield values.copy()
        elif len(values) <= FEW:
            for inner in values:
                yield from _found_in(inner)


async def let_go(lists: list[list[Struct]]) -> None:
    """Frees the elements of these lists in parts; the event loop runs other work between the parts."""
    for values in lists:
        while values:
            await next_turn()
            del values[-LONG:]
