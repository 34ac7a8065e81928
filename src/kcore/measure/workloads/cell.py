"""A cell: one workload at one size, with one seed, once."""

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

    The first three of the optional fields say how a cluster is generated; None where a cluster file has its own.
    """

    workload: str
    partitions: int
    brokers: int
    seed: int
    repetition: int
    replication_factor: int | None = REPLICATION_FACTOR
    topics: int | None = None  # None: one for 100 partitions.
    racks: int | None = 0  # 0: brokers have none.
    isr: str = IN_SYNC  # One of ISRS.
    brokers_gone: float = 0.0  # Share of the brokers that are gone, from 0 to below 1.
    warm_up_s: float = 0.0  # How long each operation runs before it is sampled.
    duration_s: float = 0.0  # How long it is sampled; 0: 0.3 s or 200 samples, whichever is first.

    def __str__(self) -> str:
        named = f"{self.workload} {self.partitions}p {self.brokers}b seed {self.seed} #{self.repetition}"
        return f"{named}, {self.variant}" if self.variant else named

    @property
    def variant(self) -> str:
        """In words, where the cluster departs from the usual one: it is part of the operations' names."""
        parts = [
            f"RF {self.replication_factor}" if self.replication_factor not in (None, REPLICATION_FACTOR) else "",
            f"{self.topics:,} topics" if self.topics is not None else "",
            f"{self.racks} racks" if self.racks else "",
            f"{self.isr} ISRs" if self.isr != IN_SYNC else "",
            f"{self.brokers_gone:.3g} of the brokers gone" if self.brokers_gone else "",
        ]
        return ", ".join(filter(None, parts))
