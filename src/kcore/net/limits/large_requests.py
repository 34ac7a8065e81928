"""Limits how many large requests of clients that are no cluster nodes run at once; addresses take turns.

A large request has many values. Until its answer is encoded, it needs a hundred times the memory of its bytes. A
waiting request needs only its bytes, and ends with its connection.
"""

import asyncio
from collections import deque
from collections.abc import Iterator
from typing import Final

from kcore.errors import DisconnectedError
from kcore.net.limits.work_in_parts import next_turn
from kcore.schema.structure import Struct

AT_ONCE: Final = 8  # Large requests that may run at once.


class LargeRequests:
    """The running and the waiting large requests of one server."""

    def __init__(self, at_once: int = AT_ONCE) -> None:
        self._free = at_once
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}  # By address; the first address is next.

    async def enter(self, address: str, gone: "asyncio.Future[None]") -> None:
        """Waits until a large request of `address` may run. Raises DisconnectedError once `gone` is done."""
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
                self.leave()  # The task was cancelled after its request was allowed to run.
            raise
        finally:
            gone.remove_done_callback(give_up)

    def leave(self) -> None:
        """Ends a large request: a request of the next address may run."""
        while self._waiting:
            address = next(iter(self._waiting))
            places = self._waiting.pop(address)
            place = places.popleft()
            if places:
                self._waiting[address] = places  # Put back behind all other addresses.
            if not place.done():
                place.set_result(None)
                return
        self._free += 1


class Place:
    """The large request of one connection, which runs or waits in `LargeRequests`."""

    def __init__(self, requests: LargeRequests, address: str, gone: "asyncio.Future[None]") -> None:
        """`gone` is done once the connection has ended."""
        self.is_awaited = False
        self._requests, self._address, self._gone = requests, address, gone
        self._is_taken = False

    async def enter(self) -> None:
        """Waits until the large request may run. Raises DisconnectedError once the connection has ended."""
        self.is_awaited = True
        try:
            await self._requests.enter(self._address, self._gone)
            self._is_taken = True
        finally:
            self.is_awaited = False

    def leave(self) -> None:
        """Ends the large request; no effect if it does not run."""
        if self._is_taken:
            self._is_taken = False
            self._requests.leave()


LONG: Final = 500  # Elements of a list that are freed at once: this takes a fraction of a millisecond.
FEW: Final = 50  # Lists of at most so many elements are searched for long lists, as a topic's list of partitions.


def long_lists(message: Struct) -> list[list[Struct]]:
    """Copies of a message's long lists, which keep the elements alive when the message is freed (`let_go`)."""
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
