"""A process of a world: it handles events, unless it is blocked; then they wait."""

from collections import deque
from typing import Any, Final

NEVER_US: Final = 1 << 62
PAUSED: Final = 1  # Bits of `blocked`: events wait. All of them while the process is paused,
STORING: Final = 2  # and all but the end of the write itself while it waits for its disk.


class Process:
    """`index`: the process's place in the world and in the hash of the events."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.reset_blocked()

    def reset_blocked(self) -> None:
        """Clears `blocked` and the waiting events, as when the process starts."""
        self.blocked = 0
        self.inbox: deque[tuple[Any, ...]] = deque()
