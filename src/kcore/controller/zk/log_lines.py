"""Log lines for the operator: one for each event, with ids and counts, and with `--verbose` one for each partition.

A handler yields a notice in `LogNotice` once ZooKeeper has accepted the writes, and the server logs it. Equal
events give equal lines, which tests compare. The lines have the content of Kafka's controller and state-change logs.

Source: KafkaController and StateChangeLogger of 3.9.1.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from kcore.constants import NO_LEADER
from kcore.controller.zk.requests.states import distinct
from kcore.metadata.table.changes import PartitionChanges
from kcore.metadata.table.partition_table import PartitionTable
from kcore.node.zk.notices import Level, Notice
from kcore.types import Bools, Int16s, Int32s

NEW_PARTITIONS: Final = "new partitions"
MOST_NAMED: Final = 10  # The most topics or partitions that a line names; `details` names all.


def named(names: Collection[str]) -> str:
    """The first names in order, and the number of the others: "a, b and 3 more"."""
    shown = ", ".join(sorted(names)[:MOST_NAMED])
    return shown if len(names) <= MOST_NAMED else f"{shown} and {len(names) - MOST_NAMED:,} more"


def counted(count: int, noun: str) -> str:
    """A number with its noun: "1 partition", "2 partitions"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def named_brokers(broker_ids: Iterable[int]) -> str:
    """Broker ids in words: "broker 1", "brokers 1, 2"."""
    ids = sorted(broker_ids)
    return f"broker{'' if len(ids) == 1 else 's'} {', '.join(map(str, ids)) or 'none'}"


@dataclass(frozen=True, slots=True)
class BrokersChanged(Notice):
    """Brokers registered in `/brokers/ids` or left; each pair is a broker id and a broker epoch."""

    registered: Sequence[tuple[int, int]]
    bounced: Sequence[tuple[int, int]]  # Restarted before the controller saw that they had left; the new epochs.
    died: Sequence[tuple[int, int]]
    live: Sequence[int]  # Ids of the live brokers after the change.

    def __str__(self) -> str:
        kinds = {"registered": self.registered, "bounced": self.bounced, "died": self.died}
        parts = [
            f"broker {broker_id} (epoch {epoch}) {kind}"
            for kind, each in kinds.items()
            for broker_id, epoch in sorted(each)
        ]
        return f"{', '.join(parts)}; live: {named_brokers(self.live)}"


@dataclass(frozen=True, slots=True)
class Topics(Notice):
    """Topics were created, deleted or changed."""

    change: str  # A participle: "created", "deleted".
    partitions: dict[str, int]  # by topic name

    def __str__(self) -> str:
        topics, partitions = len(self.partitions), sum(self.partitions.values())
        return (
            f"{counted(topics, 'topic')} of {counted(partitions, 'partition')} {self.change}: {named(self.partitions)}"
        )

    def details(self) -> Iterator[str]:
        for name, count in sorted(self.partitions.items()):
            yield f"topic {name} of {counted(count, 'partition')} {self.change}"


@dataclass(frozen=True, slots=True)
class Reassignments(Notice):
    """Reassignments begin or end."""

    change: str  # A participle: "begun", "ended".
    replicas: dict[str, tuple[int, ...]]  # by partition

    def __str__(self) -> str:
        return f"{counted(len(self.replicas), 'reassignment')} {self.change}: {named(self.replicas)}"

    def details(self) -> Iterator[str]:
        for name, replicas in sorted(self.replicas.items()):
            yield f"reassignment of {name} {self.change}: replicas {list(replicas)}"


@dataclass(frozen=True, slots=True)
class StatesBefore:
    """The states of p partitions, as columns of the table, before a decision is replayed."""

    leaders: Int16s  # broker rows
    isr__pi: Int16s
    is_new: Bools  # The partition has no state yet.

    @classmethod
    def of(cls, table: PartitionTable, rows: Int32s) -> "StatesBefore":
        """The current states of the partitions in these rows."""
        return cls(table.leader__p[rows], table.isr__pi[rows], table.leader_epoch__p[rows] < 0)


@dataclass(frozen=True, slots=True)
class PartitionsChanged(Notice):
    """States that were written to ZooKeeper and are sent to brokers: leaders before and after."""

    why: str
    names: Mapping[int, str]  # topic names by topic row
    topic_rows: Int32s  # p
    indexes: Int32s  # p
    leaders_before: Int32s  # p, broker ids
    is_new: Bools  # p: the partition had no state
    is_unclean: Bools  # p: the new leader was not in the ISR (unclean.leader.election.enable)
    has_other_isr: Bools  # p
    changes: PartitionChanges
    level: Level = "info"

    @classmethod
    def of(
        cls, why: str, table: PartitionTable, before: StatesBefore, changes: PartitionChanges, level: Level
    ) -> "PartitionsChanged":
        """The notice for replayed changes; `before` has the states of the same partitions."""
        rows, leaders = changes.rows, table.leader__p[changes.rows]
        ids = np.append(table.brokers.ids, np.int32(NO_LEADER))
        was_in_sync = (before.isr__pi == leaders[:, None]).any(axis=1)
        width = min(before.isr__pi.shape[1], table.isr__pi.shape[1])
        after = table.isr__pi[rows]
        other = (before.isr__pi[:, :width] != after[:, :width]).any(axis=1)
        other |= (after[:, width:] >= 0).any(axis=1)
        return cls(
            why,
            {row: table.topics.names[row] for row in distinct(table.topic_row__p[rows]).tolist()},
            table.topic_row__p[rows],
            table.partition_index__p[rows],
            ids[before.leaders],
            before.is_new,
            ~before.is_new & (leaders >= 0) & ~was_in_sync,
            other & ~before.is_new,
            changes,
            level,
        )

    def __str__(self) -> str:
        before, after = self.leaders_before, self.changes.leaders
        is_led = after != NO_LEADER
        was_led = before != NO_LEADER
        counts = {
            "created": self.is_new & is_led,
            "moved to another leader": was_led & is_led & (before != after),
            "offline": was_led & ~is_led,
            "online again": ~was_led & is_led & ~self.is_new,
        }
        parts = [f"{counted(int(mask.sum()), 'partition')} {change}" for change, mask in counts.items() if mask.any()]
        if unclean := int(self.is_unclean.sum()):
            parts.append(f"{unclean:,} of them led from outside the ISR (unclean)")
        if others := int((self.has_other_isr & (before == after)).sum()):
            parts.append(f"{counted(others, 'ISR')} changed under the same leader")
        return f"{self.why}: {', '.join(parts) or counted(len(self.changes), 'leader epoch') + ' raised'}"

    def details(self) -> Iterator[str]:
        changes = self.changes
        names = [self.names[row] for row in self.topic_rows.tolist()]
        columns = (self.indexes, self.leaders_before, changes.leaders, changes.leader_epochs)
        rows = zip(names, *(column.tolist() for column in columns), strict=True)
        isr, ends = changes.isr.tolist(), changes.isr_offsets.tolist()
        for place, (name, index, before, after, epoch) in enumerate(rows):
            leader = f"leader {after}" if before == after else f"leader {before} to {after}"
            unclean = ", unclean" if self.is_unclean[place] else ""
            yield f"{name}-{index}: {leader}, leader epoch {epoch}, ISR {isr[ends[place] : ends[place + 1]]}{unclean}"
