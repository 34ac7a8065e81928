"""What a scenario's measure tells a profile: when its window begins and ends."""

from typing import Protocol


class Profiling(Protocol):
    """A profile of the controllers: `storm.profile.cell.CellProfile`."""

    def begin(self, scenario: str) -> None:
        """Returns when the controllers are sampled. TargetError if one cannot be."""

    def end(self) -> None:
        """Of the scenario that has begun; nothing if none has."""
