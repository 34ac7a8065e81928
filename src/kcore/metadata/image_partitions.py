"""The partitions of an image while records are replayed: columns that grow by appending, no object a partition."""

from array import array
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from kcore.constants import NO_BROKER_ROW, NO_LEADER_CHANGE, NO_RECOVERY_CHANGE
from kcore.errors import TableError
from kcore.metadata.arrays import Array
from kcore.schema.metadata_records_topics import PartitionChangeRecord, PartitionRecord
from kcore.types import ZERO_UUID, Int32s, Uuid

MIGRATING: Final = ZERO_UUID  # DirectoryId.MIGRATING: nobody has told the replica's directory yet.
_GONE: Final = -1  # The topic of a row whose topic was removed.


class PartitionRegistration(NamedTuple):
    """One partition as KRaft knows it, brokers as ids (Kafka's PartitionRegistration)."""

    replicas: tuple[int, ...]
    directories: tuple[Uuid, ...]
    isr: tuple[int, ...]
    removing_replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    elr: tuple[int, ...]
    last_known_elr: tuple[int, ...]
    leader: int
    leader_recovery_state: int
    leader_epoch: int
    partition_epoch: int


class IntLists:
    """Rows of integers of any length, one behind the other."""

    def __init__(self) -> None:
        self._values, self._starts, self._counts = array("i"), array("q"), array("i")

    def append(self, row: Sequence[int]) -> None:
        """A new last row."""
        self._starts.append(len(self._values))
        self._counts.append(len(row))
        self._values.extend(row)

    def __getitem__(self, row: int) -> tuple[int, ...]:
        start = self._starts[row]
        return tuple(self._values[start : start + self._counts[row]])

    def __setitem__(self, row: int, values: Sequence[int]) -> None:
        if len(values) > self._counts[row]:
            self._starts[row] = len(self._values)
            self._values.extend(values)
        else:
            start = self._starts[row]
            self._values[start : start + len(values)] = array("i", values)
        self._counts[row] = len(values)

    def padded(self, rows: Array) -> Int32s:
        """Those rows as a 2-D array padded with -1."""
        starts, counts = np.array(self._starts, np.int64)[rows], np.array(self._counts, np.int32)[rows]
        slots = np.arange(counts.max(initial=0))
        used = slots < counts[:, None]
        table = np.full(used.shape, NO_BROKER_ROW, np.int32)
        table[used] = np.array(self._values, np.int32)[(starts[:, None] + slots)[used]]
        return table


class PartitionStates:
    """Partitions by topic number and partition index; rows in the order of their first records."""

    def __init__(self) -> None:
        self.topic, self.index = array("i"), array("i")
        self.leader, self.leader_epoch, self.partition_epoch = array("i"), array("i"), array("i")
        self.recovery = array("b")
        self.replicas, self.isr, self._directories = IntLists(), IntLists(), IntLists()
        # Rare: kept by row where they are not empty.
        self.adding, self.removing = dict[int, tuple[int, ...]](), dict[int, tuple[int, ...]]()
        self.elr, self.last_known_elr = dict[int, tuple[int, ...]](), dict[int, tuple[int, ...]]()
        self._rows: list[dict[int, int]] = []  # By topic number: partition index -> row.
        self._known_directories: dict[Uuid, int] = {MIGRATING: 0}

    def add_topic(self) -> int:
        """A topic's number."""
        self._rows.append({})
        return len(self._rows) - 1

    def rows_of(self, topic: int) -> dict[int, int]:
        """The rows of a topic's partitions, by partition index."""
        return self._rows[topic]

    def put(self, topic: int, record: PartitionRecord) -> None:
        """A new partition, or one that is told anew. TableError if it has not a directory a replica."""
        replicas, rows = record.replicas, self._rows[topic]
        directories = self._directory_numbers(record.directories or [MIGRATING] * len(replicas), len(replicas), record)
        if (row := rows.get(record.partition_id)) is None:
            row = rows[record.partition_id] = len(self.topic)
            self.topic.append(topic)
            self.index.append(record.partition_id)
            self.leader.append(record.leader)
            self.leader_epoch.append(record.leader_epoch)
            self.partition_epoch.append(record.partition_epoch)
            self.recovery.append(record.leader_recovery_state)
            self.replicas.append(replicas)
            self.isr.append(record.isr)
            self._directories.append(directories)
        else:
            self.leader[row], self.leader_epoch[row] = record.leader, record.leader_epoch
            self.partition_epoch[row], self.recovery[row] = record.partition_epoch, record.leader_recovery_state
            self.replicas[row], self.isr[row], self._directories[row] = replicas, record.isr, directories
        self._put_rare(row, record)

    def change(self, row: int, record: PartitionChangeRecord) -> None:
        """As PartitionRegistration.merge: what is left out stays, a leader that is told is a new leader epoch."""
        if record.replicas is not None:
            self.replicas[row] = record.replicas
        count = len(self.replicas[row])
        if record.directories:
            self._directories[row] = self._directory_numbers(record.directories, count, record)
        elif len(self._directories[row]) != count:
            self._directories[row] = [0] * count  # A record of before KIP-858 moved the replicas.
        if record.isr is not None:
            self.isr[row] = record.isr
        if record.leader != NO_LEADER_CHANGE:
            self.leader[row] = record.leader
            self.leader_epoch[row] += 1
        if record.leader_recovery_state != NO_RECOVERY_CHANGE:
            self.recovery[row] = record.leader_recovery_state
        self.partition_epoch[row] += 1
        self._put_rare(row, record)

    def _put_rare(self, row: int, record: PartitionRecord | PartitionChangeRecord) -> None:
        """What a PartitionRecord leaves out is empty; what a PartitionChangeRecord leaves out stays."""
        for rare, told in (
            (self.adding, record.adding_replicas),
            (self.removing, record.removing_replicas),
            (self.elr, record.eligible_leader_replicas),
            (self.last_known_elr, record.last_known_elr),
        ):
            if told:
                rare[row] = tuple(told)
            elif rare and (told is not None or isinstance(record, PartitionRecord)):
                rare.pop(row, None)

    def _directory_numbers(
        self, directories: Sequence[bytes], count: int, record: PartitionRecord | PartitionChangeRecord
    ) -> list[int]:
        if len(directories) != count:
            said = f"{len(directories)} directories for {count} replicas"
            raise TableError(f"partition {record.partition_id} of topic id {record.topic_id}: {said}")
        known = self._known_directories
        return [known.setdefault(Uuid(directory), len(known)) for directory in directories]

    def clear_elr(self, topic: int) -> None:
        """The topic's partitions have no eligible leader replicas any more (KIP-966)."""
        for row in self._rows[topic].values():
            self.elr.pop(row, None)
            self.last_known_elr.pop(row, None)

    def remove_topic(self, topic: int) -> None:
        """Its partitions are gone; the number is not given again."""
        self.clear_elr(topic)
        for row in self._rows[topic].values():
            self.topic[row] = _GONE
            self.adding.pop(row, None)
            self.removing.pop(row, None)
        self._rows[topic] = {}

    def living_rows(self) -> Array:
        """The rows of all partitions, by topic number, then partition index."""
        topics = np.array(self.topic, np.int32)
        order = np.lexsort((np.array(self.index, np.int32), topics))
        living: Array = order[topics[order] != _GONE]
        return living

    def registration(self, row: int) -> PartitionRegistration:
        """One partition, readable."""
        names = list(self._known_directories)
        return PartitionRegistration(
            replicas=self.replicas[row],
            directories=tuple(names[number] for number in self._directories[row]),
            isr=self.isr[row],
            removing_replicas=self.removing.get(row, ()),
            adding_replicas=self.adding.get(row, ()),
            elr=self.elr.get(row, ()),
            last_known_elr=self.last_known_elr.get(row, ()),
            leader=self.leader[row],
            leader_recovery_state=self.recovery[row],
            leader_epoch=self.leader_epoch[row],
            partition_epoch=self.partition_epoch[row],
        )
