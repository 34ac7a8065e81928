"""Random KRaft partitions and clusters, as the plain dicts of `reference/partition_change.py`."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from replication.kraft_tables import Partition

RELEASES = {"3.9.1": (3, 9, 0), "4.1.2": (4, 1, 1), "4.3.1": (4, 3, 0)}
NOBODY = {"leaving": set(), "crashed": set(), "arriving": set()}


def rule_of(release: str, **options: Any) -> dict[str, Any]:
    """The rules of a release with ELR and the last known leader enabled, changed by the options."""
    rule = {"release": release, "version": RELEASES[release], "elr": True, "last_known_leader": True}
    return rule | {"migration": False} | options


class Dice:
    """Random partitions and clusters."""

    def __init__(self, seed: int, *, strange_isrs: bool = False) -> None:
        self.random = np.random.default_rng(seed)
        self.strange_isrs = strange_isrs  # With members that are no replicas.

    def chance(self, probability: float) -> bool:
        """True that often."""
        return bool(self.random.random() < probability)

    def some(self, members: Sequence[int], most: int | None = None, least: int = 0) -> list[int]:
        """A random few of the members in random order."""
        count = int(self.random.integers(least, min(len(members), len(members) if most is None else most) + 1))
        return self.random.permutation(np.array(members, np.int64))[:count].tolist()

    def partition(self, ids: Sequence[int], widest: int) -> Partition:
        """Any valid state of a partition, and some invalid ones."""
        replicas = self.some(ids, widest, least=1)
        isr = self.some(replicas)
        elr = self.some([r for r in replicas if r not in isr]) if self.chance(0.4) else []
        strangers = [broker for broker in ids if broker not in replicas]
        if self.strange_isrs and self.chance(0.05) and strangers and len(isr) < widest:
            isr = [*isr, *self.some(strangers, 1, 1)]  # Kafka makes no such state, and throws where it meets one.
            strangers = [broker for broker in strangers if broker not in isr]
        if self.chance(0.05) and strangers:
            elr = [*elr, *self.some(strangers, 1, 1)]  # An ELR may keep a replica that moved away.
        removing = self.some(replicas) if self.chance(0.2) else []
        adding = self.some([r for r in replicas if r not in removing]) if self.chance(0.2) else []
        return {
            "replicas": replicas,
            "isr": isr,
            "elr": elr,
            "last_known_elr": self.some(ids, 3) if self.chance(0.3) else [],
            "removing": removing,
            "adding": adding,
            "leader": int(self.random.choice(isr)) if isr and self.chance(0.8) else -1,
            "directories": [int(self.random.integers(0, 30)) for _ in replicas],
            "leader_epoch": int(self.random.integers(0, 100)),
            "partition_epoch": int(self.random.integers(0, 100)),
            "recovery": int(self.chance(0.2)),
        }

    def partitions(self, ids: Sequence[int], widest: int, count: int) -> list[Partition]:
        """For topics with one to three partitions."""
        found: list[Partition] = []
        while len(found) < count:
            settings = {"topic": len(found), "min_isr": int(self.random.integers(1, 5)), "unclean": self.chance(0.3)}
            made = [self.partition(ids, widest) for _ in range(self.random.integers(1, 4))]
            factor = {"factor": len(made[0]["replicas"])}
            found += [p | settings | factor | {"index": index} for index, p in enumerate(made)]
        return found

    def cluster(self, ids: Sequence[int]) -> dict[str, Any]:
        """Some brokers may lead; two in three list directories, of which each is one broker's."""
        listed: dict[int, list[int]] = {}
        for directory in range(3, 30):
            if self.chance(0.7):
                listed.setdefault(int(self.random.choice(ids)), []).append(directory)
        return {"active": {b for b in ids if self.chance(0.7)}, "directories": listed} | NOBODY

    def rule(self) -> dict[str, Any]:
        """Any release at any of some versions."""
        release = str(self.random.choice(list(RELEASES)))
        version = RELEASES[release] if self.chance(0.6) else ((3, 5, 2), (3, 7, 1), (3, 7, 2))[self.random.integers(3)]
        options = {"elr": self.chance(0.7), "last_known_leader": self.chance(0.7)}
        return rule_of(release, version=version, migration=release == "3.9.1" and self.chance(0.2), **options)


IDS = [*range(12), 16, 17, 33, 70_000, 65_552]  # Java's hash puts some beside others.
