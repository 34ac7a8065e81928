"""Limits the epochs that a node accepts from other nodes, so that forged requests cannot exhaust the epochs.

Any client that reaches a node may send a higher epoch, and the node must adopt it even if it does not know the sender.
A voter that has missed a change of the voters does not know the candidate, but its vote may be needed (KIP-853). So
the jump is bounded, not the sender. The allowance grows by PER_SECOND, much faster than elections raise epochs. Forged
requests then need over a year to reach the last epoch. Kafka adopts any epoch; its controller exits at 2^31 - 1.
"""

from typing import Final

LAST_EPOCH: Final = 2**31 - 2  # The highest epoch that a node stores: 2^31 - 1 has no successor in an int32.
MOST_AHEAD: Final = 1 << 24  # The largest jump, in epochs: half a year of elections, one per second.
PER_SECOND: Final = 64  # By how many epochs the allowance grows per second.


class EpochAllowance:
    """By how many epochs other nodes may raise this node's epoch now."""

    __slots__ = ("_left", "_since_ms")

    def __init__(self) -> None:
        self._left = MOST_AHEAD * 1000  # The allowance at `_since_ms`, in thousandths of an epoch.
        self._since_ms = 0

    def epochs(self, now_ms: int) -> int:
        """The allowance in whole epochs."""
        return self._thousandths(now_ms) // 1000

    def take(self, epochs: int, now_ms: int) -> None:
        """Reduces the allowance after another node has raised this node's epoch by `epochs`."""
        self._left = max(0, self._thousandths(now_ms) - epochs * 1000)
        self._since_ms = now_ms

    def _thousandths(self, now_ms: int) -> int:
        return min(MOST_AHEAD * 1000, self._left + (now_ms - self._since_ms) * PER_SECOND)
