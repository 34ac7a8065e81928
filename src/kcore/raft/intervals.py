"""The intervals at which a leader answers observers: an observer gets all records of an interval in one response.

Thousands of brokers that register would otherwise each fetch every registration alone, and the leader would spend its
time on their fetches instead of the registrations.
"""

from typing import Final

ANSWER_US: Final = 250  # Length of an interval for each observer answered: some four times what an answer costs.
LONGEST_US: Final = 250_000  # Half the time that a broker's fetch waits (`FETCH_MAX_WAIT_MS`).
_NEVER_US: Final = 1 << 62


class Intervals:
    """The current interval of a leader. Times in ms are those of the node's events."""

    __slots__ = ("_answered", "_doubles", "_end_us", "has_changes")

    def __init__(self) -> None:
        self.has_changes = False  # Whether there are records or a high watermark to send at the interval's end.
        self._end_us = -_NEVER_US
        self._answered = 0  # Observers that were answered since the last interval, while others still wait.
        self._doubles = False

    @property
    def end_ms(self) -> int:
        """When waiting observers are answered next, at the earliest."""
        return self._end_us // 1000

    def is_running(self, now_ms: int) -> bool:
        """Whether an observer with few records to read waits for the interval's end."""
        return self.end_ms > now_ms

    def begin(self, now_ms: int, answered: int, *, doubles: bool) -> None:
        """Begins an interval after `answered` waiting observers were answered together."""
        self._end_us = now_ms * 1000 + min(answered * ANSWER_US * (2 if doubles else 1), LONGEST_US)

    def answered(self, now_ms: int, count: int, *, has_more: bool, doubles: bool) -> None:
        """Counts waiting observers that were answered together; the next interval begins after the last of them."""
        self._doubles = self._doubles if self._answered else doubles
        self._answered += count
        if has_more:
            self.has_changes = True
        elif self._answered:
            self.begin(now_ms, self._answered, doubles=self._doubles)
            self._answered = 0

    def count(self, now_ms: int) -> None:
        """Counts an observer that was answered at once. Several answers in one millisecond begin an interval."""
        self._end_us = max(self._end_us, now_ms * 1000) + ANSWER_US
