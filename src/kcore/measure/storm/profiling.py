"""The interface by which a scenario's measure begins and ends the window of a profile."""

from typing import Protocol


class Profiling(Protocol):
    """A profile of the controllers: `storm.profile.profile_cell.CellProfile`."""

    def begin(self, scenario: str) -> None:
        """Starts to sample the controllers. TargetError if one cannot be sampled."""

    def end(self) -> None:
        """Ends the window of the current scenario; no effect if no scenario has begun."""
