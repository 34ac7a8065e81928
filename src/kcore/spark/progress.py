"""The progress that a runner reports while it runs cells."""

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Progress:
    """Counts of done, running and all cells, and a sentence about the latest failure."""

    done: int
    running: int
    total: int
    trouble: str = ""
    cell: str = ""  # The running cell; if several run at once, the one that ended last.
    failed: int = 0  # Cells that are done and failed.
    hosts: tuple[tuple[str, int], ...] = field(default=(), compare=False)  # Hosts with their cells that are done.


OnProgress = Callable[[Progress], None]


def silent(progress: Progress) -> None:
    """Ignores progress, for callers that show none."""
