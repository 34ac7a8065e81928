"""A process of a world, which handles events. While the process is blocked, its events wait."""

from collections import deque
from typing import Any, Final

NEVER_US: Final = 1 << 62
PAUSED: Final = 1  # A bit of `blocked`: the process is paused, and all its events wait.
STORING: Final = 2  # A bit of `blocked`: the process waits for its disk, and all its events but STORED wait.


class Process:
    """A process; `index` is its number in the world, which also enters the hash of the events."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.reset_blocked()

    def reset_blocked(self) -> None:
        """Clears `blocked` and the waiting events, as when the process starts."""
        self.blocked = 0
        self.inbox: deque[tuple[Any, ...]] = deque()
