"""The interface by which a scenario's measure begins and ends the window of a profile."""

from typing import Protocol


class Profiling(Protocol):
    """A profile of the controllers: `storm.profile.cell.CellProfile`."""

    def begin(self, scenario: str) -> None:
        """Returns when the controllers are sampled. TargetError if one cannot be."""

    def end(self) -> None:
        """Ends the window of the current scenario; no effect if no scenario has begun."""
