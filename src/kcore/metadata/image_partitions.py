"""The partitions of an image while records are replayed: columns that grow by appending, no object a partition."""

from array import array
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from kcore.constants import NO_LEADER_CHANGE, NO_RECOVERY_CHANGE
from kcore.errors import TableError
from kcore.metadata.arrays import Array
from kcore.metadata.int_lists import IntLists, last_places
from kcore.schema.metadata_records_topics import PartitionChangeRecord, PartitionRecord
from kcore.types import ZERO_UUID, Uuid
from kcore.wire.columns import Rows, Vectors

MIGRATING: Final = ZERO_UUID  # DirectoryId.MIGRATING: nobody has told the replica's directory yet.
_GONE: Final = -1  # The topic of a row whose topic was removed.
_MOST_EPOCH: Final = 2**31 - 1
_ONE: Final = np.int32(1)  # Of the epochs' type: NumPy adds it thirty times as fast as the number.


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

    @property
    def topic_count(self) -> int:
        """Numbers given to topics so far, those that are gone included."""
        return len(self._rows)

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

    def fresh_rows(self, starts: list[int], topics: list[int], told: Rows) -> dict[int, dict[int, int]] | None:
        """The rows that new partitions will have, by topic number and partition index; nothing changes yet.

        `told`: PartitionRecords; from starts[k] on, up to starts[k + 1], they are of topics[k]. None where they must be
        applied one by one: a partition is told anew, or one lacks its directories where others have theirs.
        """
        counts, directories = np.diff(told.replicas.offsets), np.diff(told.directories.offsets)
        if directories.any() and (directories != counts).any():
            return None
        indexes, row = told.partition_id.tolist(), len(self.topic)
        fresh: dict[int, dict[int, int]] = {}
        for topic, begin, end in zip(topics, starts, [*starts, len(told)][1:], strict=True):
            of_topic = fresh.setdefault(topic, {})
            of_topic.update(zip(indexes[begin:end], range(row + begin, row + end), strict=True))
        known = {topic: self._rows[topic] for topic in fresh if topic < len(self._rows)}
        is_new = all(of_topic.keys().isdisjoint(fresh[topic]) for topic, of_topic in known.items())
        return fresh if is_new and sum(map(len, fresh.values())) == len(told) else None

    def put_all(self, fresh: dict[int, dict[int, int]], topic_of: Array, told: Rows) -> None:
        """The partitions of those PartitionRecords; `fresh` as `fresh_rows` gave it, topic numbers by record."""
        for topic, of_topic in fresh.items():
            self._rows[topic].update(of_topic)
        rows = range(len(self.topic), len(self.topic) + len(told))
        for column, values in (
            (self.topic, topic_of.astype(np.int32)),
            (self.index, told.partition_id),
            (self.leader, told.leader),
            (self.leader_epoch, told.leader_epoch),
            (self.partition_epoch, told.partition_epoch),
            (self.recovery, told.leader_recovery_state),
        ):
            column.frombytes(values.tobytes())
        counts = np.diff(told.replicas.offsets)
        self.replicas.append_all(counts, told.replicas.values)
        self.isr.append_all(np.diff(told.isr.offsets), told.isr.values)
        numbers = self._numbers(told.directories) if told.directories.offsets[-1] else np.zeros(counts.sum())
        self._directories.append_all(counts, numbers)
        self._put_all_rare(rows, told)

    def change_all(self, rows: Array, told: Rows) -> bool:
        """Those PartitionChangeRecords in their order, for partitions in `rows`; a row may be there more than once.

        False, and nothing changed, where they must be applied one by one: replicas and directories that depend on what
        the record before says of the same partition, or do not fit; epochs at their end.
        """
        moved, before = told.replicas.valid, self.replicas.counts(rows)
        after = np.where(moved, np.diff(told.replicas.offsets), before)
        directories = np.diff(told.directories.offsets)
        named, lost = directories > 0, moved & (directories == 0) & (after != before)
        if (named & (directories != after)).any():
            return False
        if moved.any() and np.isin(rows, rows[moved]).sum() > len(np.unique(rows[moved])):
            return False
        for epochs in (self.leader_epoch, self.partition_epoch):
            if np.frombuffer(epochs, np.int32)[rows].max(initial=0) > _MOST_EPOCH - len(rows):
                return False
        self.replicas.set_all(rows[moved], after[moved], told.replicas.values)
        self._directories.set_all(rows[named], directories[named], self._numbers(told.directories))
        self._directories.set_all(rows[lost], after[lost], np.zeros(after[lost].sum(), np.int32))
        self.isr.set_all(rows[told.isr.valid], np.diff(told.isr.offsets)[told.isr.valid], told.isr.values)
        led = told.leader != NO_LEADER_CHANGE
        _set_last(np.frombuffer(self.leader, np.int32), rows[led], told.leader[led])
        np.add.at(np.frombuffer(self.leader_epoch, np.int32), rows[led], _ONE)
        recovers = told.leader_recovery_state != NO_RECOVERY_CHANGE
        _set_last(np.frombuffer(self.recovery, np.int8), rows[recovers], told.leader_recovery_state[recovers])
        np.add.at(np.frombuffer(self.partition_epoch, np.int32), rows, _ONE)
        self._put_all_rare(rows, told)
        return True

    def _put_all_rare(self, rows: Sequence[int] | Array, told: Rows) -> None:
        for rare, lists in (
            (self.adding, told.adding_replicas),
            (self.removing, told.removing_replicas),
            (self.elr, told.eligible_leader_replicas),
            (self.last_known_elr, told.last_known_elr),
        ):
            said = np.diff(lists.offsets) > 0 if lists.valid is None else lists.valid
            for k in np.flatnonzero(said).tolist():
                if values := tuple(lists[k].tolist()):
                    rare[int(rows[k])] = values
                else:
                    rare.pop(int(rows[k]), None)

    def _numbers(self, directories: Vectors) -> Array:
        """The numbers of all those directories, one after the other."""
        known, uuids = self._known_directories, uuids_of(directories.values)
        for uuid in dict.fromkeys(uuids):
            known.setdefault(Uuid(uuid), len(known))
        return np.fromiter(map(known.__getitem__, uuids), np.int32, len(uuids))

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


def uuids_of(uuids: Array) -> list[Any]:
    """uint8[n, 16] as n times 16 bytes: not Uuids, which take long to make, but equal to them."""
    found: list[Any] = np.ascontiguousarray(uuids).view("V16").ravel().tolist()
    return found


def _set_last(column: Array, rows: Array, values: Array) -> None:
    """column[row] becomes the last of its values."""
    last = last_places(rows)
    column[rows[last]] = values[last]
