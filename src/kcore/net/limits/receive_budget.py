"""Limits the bytes that a server receives in one turn of its event loop, so that large frames delay no other client.

Fifty clients that send megabytes each would make the loop copy megabytes before it serves any other client.
"""

import asyncio
from typing import Final

A_TURN: Final = 1 << 17  # Bytes of large rooms; takes a fraction of a millisecond.
LEAST: Final = 1 << 11  # Bytes that a connection may receive when the budget is used up.
SMALL: Final = 1 << 14  # Rooms up to this size are not counted.


class ReceiveBudget:
    """The receive budget of one server."""

    def __init__(self) -> None:
        self._left = A_TURN
        self._has_begun = False

    def share(self, room: memoryview) -> memoryview:
        """As much of the room as may be filled in this turn; never nothing of it."""
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
