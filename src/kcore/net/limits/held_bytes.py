"""Limits the bytes that a server's connections hold, and the bytes that it receives in one turn of its event loop."""

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Final, Generic, Protocol, TypeVar

RELIEVED: Final = 0.9  # Above the bound, connections are closed until the sum is this part of the bound.


class Holder(Protocol):
    """A connection that holds bytes."""

    @property
    def address(self) -> str:
        """The address of the client's host."""

    @property
    def may_end(self) -> bool:
        """Whether closing the connection frees its bytes: a running request still needs its bytes."""


H = TypeVar("H", bound=Holder)


class HeldBytes(Generic[H]):
    """Keeps the sum of the bytes that all connections hold below a bound, by closing connections.

    Closes the largest connections of the address that holds the most bytes first. Making connections wait instead would
    be a deadlock: incomplete frames would wait for each other.
    """

    def __init__(self, bound: int, end: Callable[[H, int], None]) -> None:
        """`end` closes a connection; its second argument is the number of bytes that the connection held."""
        self.total = 0
        self._bound, self._end = bound, end
        self._held: dict[H, int] = {}

    def hold(self, holder: H, count: int) -> None:
        """Sets the bytes that a connection holds. This may close the connection."""
        before = self._held.get(holder, 0)
        if count == before:
            return
        if count:
            self._held[holder] = count
        elif before:
            del self._held[holder]
        self.total += count - before
        if self.total > self._bound and count > before:
            self._relieve(int(self._bound * RELIEVED))

    def _relieve(self, wanted: int) -> None:
        while self.total > wanted:
            sums: Counter[str] = Counter()
            for holder, held in self._held.items():
                if holder.may_end:
                    sums[holder.address] += held
            if not sums:
                return
            [(address, _)] = sums.most_common(1)
            theirs = [each for each in self._held if each.may_end and each.address == address]
            for holder in sorted(theirs, key=self._held.__getitem__, reverse=True):
                if self.total <= wanted:
                    return
                held = self._held.pop(holder)
                self.total -= held
                self._end(holder, held)


A_TURN: Final = 1 << 17  # Bytes that large buffers receive per turn of the loop: a fraction of a millisecond.
LEAST: Final = 1 << 11  # Bytes that a connection may receive even if the budget is used up.
SMALL: Final = 1 << 14  # Buffers with at most so many bytes of room are not counted.


class ReceiveBudget:
    """Limits the bytes that one server receives in a turn of the event loop: large frames must not delay other clients.

    Otherwise fifty clients with large frames would make the loop copy megabytes before it serves any other client.
    """

    def __init__(self) -> None:
        self._left = A_TURN
        self._has_begun = False

    def share(self, room: memoryview) -> memoryview:
        """The part of a connection's free buffer that may be filled in this turn; never empty."""
        if len(room) <= SMALL:
            return room
        if not self._has_begun:
            self._has_begun = True
            asyncio.get_running_loop().call_soon(self._end)
        granted = min(len(room), max(self._left, LEAST))
        self._left -= granted
        return room[:granted]

    def _end(self) -> None:
        self._left, self._has_begun = A_TURN, False
