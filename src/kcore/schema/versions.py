"""Version ranges as Kafka's schema files write them: "0-7", "5+", "3", "none"."""

from typing import NamedTuple, Self

NEWEST = 32_767  # The upper end of "5+".


class Versions(NamedTuple):
    """An inclusive range of versions; empty when `highest < lowest`."""

    lowest: int
    highest: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse Kafka's notation; ValueError for anything else."""
        if text == "none":
            return cls(0, -1)
        if text.endswith("+"):
            return cls(int(text[:-1]), NEWEST)
        lowest, _, highest = text.partition("-")
        return cls(int(lowest), int(highest or lowest))

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.lowest <= version <= self.highest

    def __str__(self) -> str:
        if self.highest < self.lowest:
            return "none"
        if self.highest == NEWEST:
            return f"{self.lowest}+"
        return str(self.lowest) if self.lowest == self.highest else f"{self.lowest}-{self.highest}"


ALL = Versions(0, NEWEST)
NONE = Versions(0, -1)
