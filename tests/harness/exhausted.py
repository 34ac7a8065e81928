"""Finds what happens when a retry is the last one, or when what is used again is broken.

Examples: a write that others always win, a stream whose peer has gone, executors that come back and go again. Tests
let an attempt fail once. Then a bound that is off by one, a counter that is never set back and a broken connection that
is kept all look well.

To apply it to a new place: let the resource fail `count` times in a row by `Failing`, for every count from none to one
more than the code tries. Up to the bound it must succeed, and beyond it must end with the documented error and leave
nothing half done. Then use the same object once more: a failure of before must not count.
"""

from collections.abc import Callable
from typing import Any


class Failing:
    """Calls `fail` so many times, then never again."""

    def __init__(self, count: int, fail: Callable[..., object]) -> None:
        self.left, self.calls, self._fail = count, 0, fail

    def __call__(self, *arguments: Any) -> None:
        self.calls += 1
        if self.left:
            self.left -= 1
            self._fail(*arguments)
