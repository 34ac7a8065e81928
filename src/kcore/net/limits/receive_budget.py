"""How much a server receives in one turn of its event loop, so that large frames keep nobody waiting.

Fifty clients that send megabytes each would have the loop copy megabytes between two looks at all others. One of them
alone has as much as it sends.
"""

import asyncio
from typing import Final

A_TURN: Final = 1 << 17  # Bytes of large rooms; takes a fraction of a millisecond.
LEAST: Final = 1 << 11  # Of one connection, where nothing is left.
SMALL: Final = 1 << 14  # Rooms up to this size are not counted.


class ReceiveBudget:
    """Those of one server."""

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
