"""Bounds for the changes of a valid measurement; they follow from the cluster's state before the scenario begins.

A repetition whose changes lie outside of its bounds is invalid, with the reason, and no figure of the repetition is
in a median. Both modes use the same bounds for changes that both count.
"""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from kcore.metadata.table.partition_table import PartitionTable


@dataclass(frozen=True, slots=True)
class Bounds:
    """The least and the most changes of a scenario, and the state from which these numbers follow."""

    least: int
    most: int
    because: str

    def flaw(self, changes: int) -> str:
        """Why this number of changes makes the repetition invalid; empty within the bounds."""
        if self.least <= changes <= self.most:
            return ""
        wanted = f"{self.least:,}" if self.least == self.most else f"{self.least:,} to {self.most:,}"
        return f"{changes:,} changes, and {wanted} were expected: {self.because}"


@dataclass(frozen=True, slots=True)
class Holdings:
    """The sums of what some brokers hold."""

    leaders: int  # partitions that they lead
    isrs: int  # memberships of ISRs
    alone: int  # ISRs of which a broker is the only member
    replicas: int

    def __str__(self) -> str:
        return f"lead {self.leaders:,} partitions and have {self.replicas:,} replicas, {self.isrs:,} of them in ISRs"


class Held:
    """The replicas and leaders of each broker at one moment."""

    def __init__(self, table: PartitionTable) -> None:
        self._brokers, count = table.brokers, len(table.brokers.ids)
        isr = table.isr__pi
        only = isr[(isr >= 0).sum(axis=1) == 1]
        by_name = {"leaders": table.leader__p, "isrs": isr, "alone": only, "replicas": table.replicas__ps}
        self._counts = {name: np.bincount(rows[rows >= 0], minlength=count) for name, rows in by_name.items()}

    def of(self, broker_ids: Collection[int]) -> Holdings:
        """The sum over these brokers. Brokers that are not in the table hold nothing."""
        rows = self._brokers.rows([each for each in broker_ids if each in self._brokers])
        return Holdings(**{name: int(counts[rows].sum()) for name, counts in self._counts.items()})


def leaving(found: Holdings, times: int = 1) -> Bounds:
    """Bounds when brokers end: one change or more for each partition that they lead, and at most one for each replica.

    A partition with one ISR member may change once more: the member stops leading, and stays in the ISR.
    `times`: 2 if the brokers also come back.
    """
    return Bounds(max(1, found.leaders), times * (found.replicas + found.alone), f"brokers that {found} end")


def exactly(count: int, because: str) -> Bounds:
    """Exactly this number of changes, but at least one."""
    return Bounds(max(1, count), max(1, count), because)
