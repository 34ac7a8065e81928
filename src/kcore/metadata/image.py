"""The one state of a cluster: brokers, topics, partitions, and all that is configured (Kafka's MetadataImage).

Records are applied in the log's order, as Kafka's MetadataDelta replays them, straight into the tables; a transaction's
(KIP-868) only once it has ended. A controller keeps a journal, to take back what the quorum does not commit, and
whoever follows the image keeps a log of deltas.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from kcore.errors import TableError
from kcore.metadata import image_brokers, image_settings, image_topics
from kcore.metadata.arrays import Array
from kcore.metadata.broker_table import BrokerTable
from kcore.metadata.changes import KraftChanges, PartitionChanges
from kcore.metadata.delta import CREATED_TOPICS, MOST_CHANGES, DeltaLog, MetadataDelta
from kcore.metadata.directory_table import DirectoryTable
from kcore.metadata.equality import same_partitions
from kcore.metadata.journal import Journal
from kcore.metadata.kraft_changes import apply_kraft_changes
from kcore.metadata.partition_state import PartitionRegistration
from kcore.metadata.partition_table import PartitionTable
from kcore.metadata.recent_keys import RecentKeys
from kcore.metadata.recorder import Recorder
from kcore.metadata.topics import TopicTable
from kcore.schema import metadata_records_log as log_records
from kcore.schema import metadata_records_security as security_records
from kcore.schema.metadata_records_brokers import RegisterControllerRecord
from kcore.schema.structure import MetadataRecord
from kcore.types import Int64s, UInt8s, Uuid

DICTS: Final = ("features", "controllers", "configs", "acls", "quotas", "scram", "tokens")
ConfigResource = tuple[int, str]  # ConfigResource.Type's id, and the resource's name.
QuotaEntity = tuple[tuple[str, str | None], ...]  # Pairs of type and name, sorted; None is the default.


def _new_table() -> PartitionTable:
    nothing = np.empty((0, 0), np.int32)
    brokers = BrokerTable.from_arrays([])
    return PartitionTable.from_arrays(nothing, topics=TopicTable([]), topic_rows=[], brokers=brokers)


@dataclass(slots=True, eq=False)
class ClusterImage:
    """The state after the records applied so far. TableError for a record that does not fit what is known.

    `table` has the partitions, with the tables of topics, brokers and log directories, which the image shows as its
    own. It is never made anew: rows change in place. Dicts are to be read; only methods change them.
    """

    table: PartitionTable = field(default_factory=_new_table)
    features: dict[str, int] = field(default_factory=dict)  # Finalized levels, metadata.version among them.
    controllers: dict[int, RegisterControllerRecord] = field(default_factory=dict)
    configs: dict[ConfigResource, Mapping[str, str]] = field(default_factory=dict)
    acls: dict[Uuid, security_records.AccessControlEntryRecord] = field(default_factory=dict)
    quotas: dict[QuotaEntity, Mapping[str, float]] = field(default_factory=dict)
    scram: dict[tuple[int, str], security_records.UserScramCredentialRecord] = field(default_factory=dict)
    tokens: dict[str, security_records.DelegationTokenRecord] = field(default_factory=dict)
    next_producer_id: int = -1
    zk_migration_state: int = 0
    written_kraft_version: int = 0  # By a FeatureLevelRecord of 3.9.1, by mistake (KAFKA-18979): raft's own one rules.
    end_offset: int = 0  # All records below it are applied, if whoever applied them said their offsets.
    epoch: int = -1  # Of the last batch, or of the snapshot.
    _transaction: list[MetadataRecord] | None = None
    _recorder: Recorder | None = None
    _changed_keys: dict[str, RecentKeys] = field(default_factory=dict)

    @property
    def topics(self) -> TopicTable:
        """The topics, by row."""
        return self.table.topics

    @property
    def brokers(self) -> BrokerTable:
        """The brokers, by row; `brokers[id]` is a registration, and iteration gives the ids that are registered."""
        return self.table.brokers

    @property
    def directories(self) -> DirectoryTable:
        """The log directories, by row."""
        return self.table.brokers.directory_table

    @property
    def topic_ids(self) -> dict[str, Uuid]:
        """The id of each topic by name; made when asked for."""
        return {name: topic_id for name, topic_id in zip(self.topics.names, self.topics.ids, strict=True) if name}

    def partition(self, topic: str, index: int) -> PartitionRegistration:
        """One partition, directories and eligible leader replicas included; TableError if there is none."""
        if topic not in self.topics or (row := self.table.row_at(self.topics.row(topic), index)) < 0:
            raise TableError(f"unknown partition {topic}-{index}")
        return self.table.registration(row)

    # Changes.

    def apply(self, record: MetadataRecord, offset: int | None = None) -> None:
        """One record of any type; `offset`: where it stands in the log."""
        handler = _HANDLERS.get(type(record))
        if handler is None:
            raise TableError(f"{type(record).__name__} is no metadata record")
        if offset is not None:
            self._at(offset)
        if self._transaction is not None and handler not in _ENDS:
            self._undo(_forget_waiting)
            self._transaction.append(record)
        else:
            handler(self, record)

    def apply_changes(self, changes: KraftChanges | PartitionChanges, offset: int | None = None) -> None:
        """What was decided of many partitions: as if its PartitionChangeRecords were applied, the first at `offset`.

        PartitionChanges, which hold the state after them, go to `PartitionTable.apply`. TableError, and nothing
        changed, for what does not fit.
        """
        if offset is not None:
            self._at(offset)
        if isinstance(changes, KraftChanges):
            apply_kraft_changes(self.table, changes)
        else:
            self.table.apply(changes)

    def _at(self, offset: int) -> None:
        self.end_offset = offset + 1
        if self._recorder is not None and self._recorder.deltas is not None:
            self._recorder.deltas.offset = offset

    @property
    def in_transaction(self) -> bool:
        """Whether records wait for the end of their transaction; none of them shows yet."""
        return self._transaction is not None

    def begin_transaction(self) -> None:
        """BeginTransactionRecord."""
        if self._transaction is not None:
            raise TableError("a transaction begins within another")
        self._set_transaction([])

    def end_transaction(self) -> None:
        """EndTransactionRecord."""
        waiting = self._waiting()
        self._set_transaction(None)
        for each in waiting:
            self.apply(each)

    def abort_transaction(self) -> None:
        """AbortTransactionRecord."""
        self._waiting()
        self._set_transaction(None)

    def _waiting(self) -> list[MetadataRecord]:
        if self._transaction is None:
            raise TableError("a transaction ends that never began")
        return self._transaction

    def _set_transaction(self, waiting: list[MetadataRecord] | None) -> None:
        self._undo(_restore_attribute, "_transaction", self._transaction)
        self._transaction = waiting

    def set_key(self, part: str, key: Any, value: Any) -> None:
        """An entry of one of the dicts; None takes it out. Values are never changed in place."""
        values = self.dict_of(part)
        if self._recorder is not None:
            self._recorder.key(part, key, values)
        if value is None:
            values.pop(key, None)
        else:
            values[key] = value
        self.key_changed(part, key)

    def key_changed(self, part: str, key: Any) -> None:
        """An entry of one of the dicts is no longer what it was."""
        self._changed_keys.setdefault(part, RecentKeys()).add(key)

    def changed_keys(self, part: str) -> RecentKeys:
        """The keys of one of the dicts that were written, removed or taken back last."""
        return self._changed_keys.setdefault(part, RecentKeys())

    def dict_of(self, part: str) -> dict[Any, Any]:
        """One of the dicts by its name."""
        found: dict[Any, Any] = getattr(self, part)
        return found

    def set_number(self, name: str, value: int) -> None:
        """`next_producer_id`, `zk_migration_state` or `written_kraft_version`."""
        self._undo(_restore_attribute, name, getattr(self, name))
        if self._recorder is not None:
            self._recorder.tell(name, value)
        setattr(self, name, value)

    # Taking back, and what changed.

    def _undo(self, undo: Callable[..., None], *arguments: Any) -> None:
        if self._recorder is not None:
            self._recorder.undo(undo, *arguments)

    @property
    def recorder(self) -> Recorder | None:
        """Told of every change before it is made; None where neither journal nor deltas are kept."""
        return self._recorder

    def add_topics(self, names: Sequence[str], ids: UInt8s, offsets: Int64s) -> None:
        """New topics that TopicTable.can_add, by the records at those offsets."""
        self.topics.add_all(names, ids)
        deltas = self._recorder.deltas if self._recorder is not None else None
        if deltas is not None:
            for name, topic_id, offset in zip(names, self.topics.ids[-len(names) :], offsets.tolist(), strict=True):
                deltas.offset = offset
                deltas.add_key(CREATED_TOPICS, (topic_id, name))

    @contextmanager
    def telling_deltas_together(self) -> Iterator[None]:
        """While many records are applied that do not all tell what they touch in their order."""
        deltas = self._recorder.deltas if self._recorder is not None else None
        if deltas is None:
            yield
            return
        deltas.hold()
        try:
            yield
        finally:
            deltas.release()

    def _record(self) -> Recorder:
        """The recorder, told of all changes from now on."""
        if self._recorder is None:
            self._recorder = Recorder()
            for table in (self.table, self.topics, self.brokers, self.directories):
                table.recorder = self._recorder
        return self._recorder

    def keep_journal(self) -> Journal:
        """Changes from now on can be taken back: call `begin` before each batch, `commit` once it is committed."""
        recorder = self._record()
        recorder.journal = recorder.journal or Journal()
        return recorder.journal

    @property
    def journal(self) -> Journal | None:
        """What takes changes back; None where none is kept."""
        return self._recorder.journal if self._recorder is not None else None

    def begin(self, offset: int, epoch: int | None = None) -> None:
        """What follows is the batch whose first record has this offset, of a leader of that epoch if it is given."""
        self._at(offset)
        self.end_offset = offset
        if self.journal is not None:
            self.journal.begin(offset)
            self.journal.add(_restore_attribute, "epoch", self.epoch)
        self.epoch = self.epoch if epoch is None else epoch

    def commit(self, offset: int) -> None:
        """All records below `offset` are committed: they cannot be taken back any more."""
        if self.journal is not None:
            self.journal.commit(offset)

    def revert_to(self, offset: int) -> None:
        """All batches from `offset` on never were. TableError without a journal, or for what is committed."""
        recorder, journal = self._recorder, self.journal
        if recorder is None or journal is None:
            raise TableError("nothing can be taken back: no journal is kept")
        with recorder.silenced():
            journal.revert_to(self, offset)
        self.end_offset = min(self.end_offset, offset)
        if recorder.deltas is not None:
            recorder.deltas.revert_to(offset)

    def keep_deltas(self, offset: int, most: int = MOST_CHANGES) -> None:
        """What records from `offset` on touch is remembered, up to `most` rows and keys; see `changes_between`."""
        self._record().deltas = DeltaLog(offset, most)

    def changes_between(self, from_offset: int, to_offset: int) -> MetadataDelta | None:
        """What the records in [from_offset, to_offset) touched; None where that is not known: then all may be other.

        The cost is that of what changed since `from_offset`.
        """
        deltas = self._recorder.deltas if self._recorder is not None else None
        return None if deltas is None else deltas.between(self.table, from_offset, to_offset)

    def __eq__(self, other: object) -> bool:
        """Whether both say the same of a cluster; the rows in which they keep it and their offsets do not count."""
        if not isinstance(other, ClusterImage):
            return NotImplemented
        names = (*DICTS, "next_producer_id", "zk_migration_state", "brokers", "_transaction")
        is_same = all(getattr(self, name) == getattr(other, name) for name in names)
        return is_same and same_partitions(self.table, other.table)

    __hash__ = None  # type: ignore[assignment]

    def copy(self, room: Mapping[str, Array] | None = None) -> "ClusterImage":
        """An image that shares nothing with this one, and keeps neither journal nor deltas.

        With `room`, memory for columns by name that is used where it is large enough, the copy is to be read alone: its
        broker index is empty.
        """
        twin = ClusterImage(self.table.copy(room))
        for part in DICTS:
            setattr(twin, part, dict(self.dict_of(part)))
        twin.next_producer_id, twin.zk_migration_state = self.next_producer_id, self.zk_migration_state
        twin.end_offset, twin.epoch = self.end_offset, self.epoch
        twin.written_kraft_version = self.written_kraft_version
        twin._transaction = None if self._transaction is None else list(self._transaction)
        return twin

    def memory_bytes(self) -> dict[str, int]:
        """As PartitionTable's; dicts, names and registrations are Python objects and are not counted."""
        return self.table.memory_bytes()


def _restore_attribute(image: ClusterImage, name: str, value: Any) -> None:
    setattr(image, name, list(value) if isinstance(value, list) else value)


def _forget_waiting(image: ClusterImage) -> None:
    assert image._transaction is not None
    image._transaction.pop()


def _no_op(image: ClusterImage, record: log_records.NoOpRecord) -> None:
    """It moves the high watermark, and nothing else (KIP-835)."""


def _begin(image: ClusterImage, record: log_records.BeginTransactionRecord) -> None:
    image.begin_transaction()


def _end(image: ClusterImage, record: log_records.EndTransactionRecord) -> None:
    image.end_transaction()


def _abort(image: ClusterImage, record: log_records.AbortTransactionRecord) -> None:
    image.abort_transaction()


_HANDLERS: Final[dict[type[MetadataRecord], Callable[[ClusterImage, Any], None]]] = {
    **image_brokers.HANDLERS,
    **image_topics.HANDLERS,
    **image_settings.HANDLERS,
    log_records.NoOpRecord: _no_op,
    log_records.BeginTransactionRecord: _begin,
    log_records.EndTransactionRecord: _end,
    log_records.AbortTransactionRecord: _abort,
}
_ENDS: Final = (_begin, _end, _abort)
