"""Finds stale answers that are used as new: epoch, leader or offset changed while the request was in flight.

A sender must compare an answer with the request that it would send now. A missing check shows only if the old answer
looks valid: no error, and the data of the old state.

To apply it to a new place, write four functions: `ask` sends the request, `move` is what happens meanwhile, `answer`
hands over the old answer, and `state` shows all that an answer may change, as a value. Nothing may change but what
`passes` lets through. The old answer first comes without the move: it must count then, or the test shows nothing.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

World = TypeVar("World")


class Crossing(NamedTuple):
    """One request, and one good answer to it."""

    ask: Callable[[Any], Any]  # Takes the world, returns the request.
    answer: Callable[[Any, Any], None]  # Takes the world and the request.


def check_old_answer_is_dropped(
    make: Callable[[], World],
    crossing: Crossing,
    move: Callable[[World], object],
    state: Callable[[World], Any],
    passes: Callable[[Any], Any] = lambda state: state,
) -> World:
    """The world after the old answer. `passes`: the part of the state that no old answer may change."""
    world = make()
    request = crossing.ask(world)
    before = state(world)
    crossing.answer(world, request)
    assert state(world) != before, "it counts where nothing has moved"
    world = make()
    request = crossing.ask(world)
    move(world)
    before = passes(state(world))
    crossing.answer(world, request)
    assert passes(state(world)) == before, "it is of before the move"
    return world
