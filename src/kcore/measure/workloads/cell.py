"""A cell: one workload at one size with one seed, measured once."""

from dataclasses import dataclass
from typing import Final

IN_SYNC: Final = "in-sync"
MIXED: Final = "mixed"
ISRS: Final = (IN_SYNC, MIXED)
REPLICATION_FACTOR: Final = 3
PARTITIONS_A_TOPIC: Final = 100


@dataclass(frozen=True, slots=True)
class Cell:
    """The workload and size to measure, and the number of the repetition.

    `replication_factor`, `topics` and `racks` describe a generated cluster; `replication_factor` and `racks` are None
    for a cluster file.
    """

    workload: str
    partitions: int
    brokers: int
    seed: int
    repetition: int
    replication_factor: int | None = REPLICATION_FACTOR
    topics: int | None = None  # None: one topic for each 100 partitions.
    racks: int | None = 0  # 0: brokers have no racks.
    isr: str = IN_SYNC  # One of ISRS.
    brokers_gone: float = 0.0  # Share of the brokers that have failed, from 0 to below 1.
    warm_up_s: float = 0.0  # Seconds that each operation runs before it is sampled.
    duration_s: float = 0.0  # Seconds of sampling; 0: until 0.3 s or 200 samples.

    def __str__(self) -> str:
        named = f"{self.workload} {self.partitions}p {self.brokers}b seed {self.seed} #{self.repetition}"
        return f"{named}, {self.variant}" if self.variant else named

    @property
    def variant(self) -> str:
        """How the cluster departs from the default, in words, empty if it does not; part of the operations' names."""
        parts = [
            f"RF {self.replication_factor}" if self.replication_factor not in (None, REPLICATION_FACTOR) else "",
            f"{self.topics:,} topics" if self.topics is not None else "",
            f"{self.racks} racks" if self.racks else "",
            f"{self.isr} ISRs" if self.isr != IN_SYNC else "",
            f"{self.brokers_gone:.3g} of the brokers gone" if self.brokers_gone else "",
        ]
        return ", ".join(filter(None, parts))
