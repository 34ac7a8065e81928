"""Limits how many large requests of non-node clients run at once; addresses take turns.

A large request has many values. It takes a hundred times the memory of its bytes, until its answer is encoded.
A waiting request costs only its bytes, and ends with its connection.
"""

import asyncio
from collections import deque
from collections.abc import Iterator
from typing import Final

from kcore.errors import DisconnectedError
from kcore.net.limits.work_in_parts import next_turn
from kcore.schema.structure import Struct

AT_ONCE: Final = 8


class LargeRequests:
    """The places for the large requests of one server."""

    def __init__(self, at_once: int = AT_ONCE) -> None:
        self._free = at_once
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}  # By address; the first has the next place.

    async def enter(self, address: str, gone: "asyncio.Future[None]") -> None:
        """Takes a place, once there is one for that address. DisconnectedError once `gone` is done."""
        if self._free:
            self._free -= 1
            return
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def give_up(_: object) -> None:
            if not place.done():
                place.set_exception(DisconnectedError("it disconnected before its large request was read"))

        self._waiting.setdefault(address, deque()).append(place)
        gone.add_done_callback(give_up)
        try:
            await place
        except asyncio.CancelledError:
            if not place.cancelled() and place.exception() is None:
                self.leave()  # The task was cancelled when it had the place already.
            raise
        finally:
            gone.remove_done_callback(give_up)

    def leave(self) -> None:
        """Gives the place to a request of the next address."""
        while self._waiting:
            address = next(iter(self._waiting))
            places = self._waiting.pop(address)
            place = places.popleft()
            if places:
                self._waiting[address] = places  # After all others.
            if not place.done():
                place.set_result(None)
                return
        self._free += 1


class Place:
    """The place that the large request of one connection takes, or waits for."""

    def __init__(self, requests: LargeRequests, address: str, gone: "asyncio.Future[None]") -> None:
        """`gone`: done once the connection has ended."""
        self.is_awaited = False
        self._requests, self._address, self._gone = requests, address, gone
        self._is_taken = False

    async def enter(self) -> None:
        """Waits for a place. DisconnectedError once the connection has ended."""
        self.is_awaited = True
        try:
            await self._requests.enter(self._address, self._gone)
            self._is_taken = True
        finally:
            self.is_awaited = False

    def leave(self) -> None:
        """Returns the place once the request is over; no effect without a place."""
        if self._is_taken:
            self._is_taken = False
            self._requests.leave()


LONG: Final = 500  # Elements, which are freed within a fraction of a millisecond.
FEW: Final = 50  # A list of at most so many elements is searched: one topic may have a million partitions.


def long_lists(message: Struct) -> list[list[Struct]]:
    """Copies of its long lists, which keep what is in them when the message is gone."""
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
