"""A node's clock."""

from typing import Final

MS_A_US: Final = 0.001


class Clock:
    """A node's clock in milliseconds. It never goes back, drifts from the world's true time, and may jump forward."""

    __slots__ = ("_base_ms", "_rate", "_since_us")

    def __init__(self, base_ms: int, drift: float) -> None:
        self._base_ms = base_ms
        self._since_us = 0
        self._rate = MS_A_US * (1 + drift)

    def ms(self, now_us: int) -> int:
        """The clock's time, in ms, at the true time `now_us`."""
        return self._base_ms + int((now_us - self._since_us) * self._rate)

    def when_us(self, ms: int) -> int:
        """The true time at which the clock shows `ms`."""
        return self._since_us + int((ms - self._base_ms) / self._rate) + 1

    def jump(self, now_us: int, forward_ms: int) -> None:
        """Moves the clock forward, as a suspension of the machine or an administrator does."""
        self._base_ms = self.ms(now_us) + forward_ms
        self._since_us = now_us
