"""A process of a world: events come to it, unless a gate keeps them waiting."""

from collections import deque
from typing import Any, Final

NEVER_US: Final = 1 << 62
PAUSED: Final = 1  # Bits of a gate: events wait. All of them while the process is paused,
STORING: Final = 2  # and all but the end of the write itself while it waits for its disk.


class Process:
    """`index` is its place in the world and in the hash of the events."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.reset_gate()

    def reset_gate(self) -> None:
        """Nothing waits, as when the process starts."""
        self.gate = 0
        self.inbox: deque[tuple[Any, ...]] = deque()
