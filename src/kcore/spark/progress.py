"""The progress of a runner."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is: counts of cells, and what has just gone wrong on the way, a sentence."""

    done: int
    running: int
    total: int
    trouble: str = ""
    cell: str = ""  # The one that runs, or the last one that ended where several run at once.


OnProgress = Callable[[Progress], None]


def silent(progress: Progress) -> None:
    """For callers that do not watch."""
