"""Which epochs a node accepts from others: none far above its own, so that no forged request exhausts the epochs. Any
client that reaches a node may send an epoch, and the node must follow: a voter that has missed a change of the voters
does not know the candidate, and its vote may be needed (KIP-853). So the jump is bounded, not the sender. The allowance
grows again with time: much faster than elections raise epochs, and so slowly that the last epoch is more than a year
away. Kafka adopts any epoch, and its controller exits at 2^31 - 1.
"""

from typing import Final

LAST_EPOCH: Final = 2**31 - 2  # One more, and the epoch after that would be no int32: that one is never stored.
MOST_AHEAD: Final = 1 << 24  # Epochs at once: half a year of an election a second.
PER_SECOND: Final = 64  # By which what is left of these grows again.


class EpochAllowance:
    """By how much others may raise a node's epoch now."""

    __slots__ = ("_left", "_since_ms")

    def __init__(self) -> None:
        self._left = MOST_AHEAD * 1000  # In thousandths of an epoch, at `_since_ms`.
        self._since_ms = 0

    def epochs(self, now_ms: int) -> int:
        """How many."""
        return self._thousandths(now_ms) // 1000

    def take(self, epochs: int, now_ms: int) -> None:
        """The epoch was raised by so many."""
        self._left = max(0, self._thousandths(now_ms) - epochs * 1000)
        self._since_ms = now_ms

    def _thousandths(self, now_ms: int) -> int:
        return min(MOST_AHEAD * 1000, self._left + (now_ms - self._since_ms) * PER_SECOND)
