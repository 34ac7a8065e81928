"""The steps of a simulated cluster: its faults and its administrator's requests, in order.

A seed decides all steps. A world with `kept` steps performs only these, so an explicit list of steps replays a world
with fewer faults and requests. Random numbers that a skipped step would use are not used, so later steps may differ
from those of the whole world.
"""

from collections.abc import Callable, Collection, Iterable
from typing import Final, NamedTuple

from kcore.sim.kernel.events import Kernel

NONE: Final = "none"


class Step(NamedTuple):
    """A step that was performed."""

    number: int
    time_us: int
    text: str


class Schedule:
    """Numbers all steps from 0, and performs the kept ones. `taken`: the performed steps."""

    def __init__(self, kept: Collection[int] | None = None) -> None:
        """`kept`: the numbers of the steps to perform; None for all."""
        self._kept = None if kept is None else frozenset(kept)
        self._next = 0
        self.taken: list[Step] = []

    def take(self, kernel: Kernel, text: Callable[[], str], do: Callable[[], None]) -> None:
        """Performs the next step, if it is kept."""
        number, self._next = self._next, self._next + 1
        if self._kept is None or number in self._kept:
            self.taken.append(Step(number, kernel.now_us, text()))
            do()


def steps_of(text: str) -> list[int]:
    """The numbers in `3,17,20`; `none` has none. ValueError if a part is no number."""
    return [] if text == NONE else [int(part) for part in text.split(",")]


def text_of(steps: Iterable[int]) -> str:
    """The inverse of `steps_of`."""
    return ",".join(map(str, sorted(steps))) or NONE
