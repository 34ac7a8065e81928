"""The progress of a runner."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Progress:
    """Reports a run's progress: counts of cells, and a sentence on the latest failure."""

    done: int
    running: int
    total: int
    trouble: str = ""
    cell: str = ""  # The one that runs, or the last one that ended where several run at once.


OnProgress = Callable[[Progress], None]


def silent(progress: Progress) -> None:
    """Ignores progress, for callers that show none."""
