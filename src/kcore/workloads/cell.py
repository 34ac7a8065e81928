"""A cell: one workload at one size, with one seed, once."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Cell:
    """What to measure, and which of the repetitions this is."""

    workload: str
    partitions: int
    brokers: int
    seed: int
    repetition: int

    def __str__(self) -> str:
        return f"{self.workload} {self.partitions}p {self.brokers}b seed {self.seed} #{self.repetition}"
