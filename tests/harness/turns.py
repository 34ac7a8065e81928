"""Finds what goes wrong between two turns of one loop: a standstill, or an event between a request and its failure.

A machine that is correct event by event may lose something when the events of two stories mix. Example: an entry is
enqueued while the request with an older entry is in flight, and the request fails. Tests of one story never mix
stories. A clock that moves in small steps never shows a timer that comes late by three time-outs.

To apply it to a new machine, write each story as a list of functions. `mixed` yields every order that keeps that of
each story. Build the machine anew for each order, and assert what must hold at its end.
For a standstill, let the clock jump by several time-outs and call the timer once.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")


def mixed(*stories: Sequence[T]) -> Iterator[list[T]]:
    """All sequences that have the events of all stories, those of each story in its order."""
    if not any(stories):
        yield []
        return
    for place, story in enumerate(stories):
        if story:
            rest = [*stories[:place], story[1:], *stories[place + 1 :]]
            for order in mixed(*rest):
                yield [story[0], *order]


def play(events: Sequence[Callable[[], object]]) -> None:
    """One order of the events."""
    for event in events:
        event()
