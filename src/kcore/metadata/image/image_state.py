"""The state of an image, and the recording of its changes so that they can be reverted.

Handlers of records change it: image_topics.py, image_brokers.py and image_settings.py have them, image.py joins them.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field, fields
from itertools import islice
from typing import Any, Final, Protocol, Self, TypeVar

import numpy as np

from kcore.errors import TableError
from kcore.metadata.image.delta import CREATED_TOPICS, DELETED_TOPICS, MOST_CHANGES, DeltaLog, MetadataDelta
from kcore.metadata.image.journal import Journal
from kcore.metadata.image.recorder import Recorder
from kcore.metadata.metadata_version import FEATURE_NAME, name_of_level
from kcore.metadata.table.broker_table import BrokerTable
from kcore.metadata.table.directory_table import DirectoryTable
from kcore.metadata.table.partition_state import PartitionRegistration
from kcore.metadata.table.partition_table import PartitionTable
from kcore.metadata.table.topic_table import TopicTable
from kcore.schema import metadata_records_security as security_records
from kcore.schema.configs import ConfigResourceType
from kcore.schema.metadata_records_brokers import RegisterControllerRecord
from kcore.types import Int32s, Int64s, UInt8s, Uuid

MOST_KEYS: Final = 1024


class RecentKeys:
    """A count of all changes of a dict, and the last MOST_KEYS changed keys, by which derived values are updated."""

    __slots__ = ("_keys", "count")

    def __init__(self) -> None:
        self.count = 0  # An equal count means that nothing has changed.
        self._keys: deque[Any] = deque(maxlen=MOST_KEYS)

    def add(self, key: Any) -> None:
        """Add the key of a changed entry."""
        self.count += 1
        self._keys.append(key)

    def since(self, count: int) -> set[Any] | None:
        """The keys that changed since `count` was read; None if these are more than MOST_KEYS."""
        missed = self.count - count
        return set(islice(reversed(self._keys), missed)) if missed <= len(self._keys) else None


DICTS: Final = ("features", "controllers", "configs", "acls", "quotas", "scram", "tokens")
ConfigResource = tuple[int, str]  # ConfigResource.Type's id, and the resource's name.
QuotaEntity = tuple[tuple[str, str | None], ...]  # Pairs of type and name, sorted; None is the default.


def _new_table() -> PartitionTable:
    nothing = np.empty((0, 0), np.int32)
    brokers = BrokerTable.from_arrays([])
    return PartitionTable.from_arrays(nothing, topics=TopicTable([]), topic_rows=[], brokers=brokers)


class KeyChanges:
    """Follows the changed keys of one dict of an image, for a value that is derived from the dict."""

    def __init__(self, part: str) -> None:
        self._part = part
        self._image: ImageState | None = None
        self._count = 0  # The image's count of changes at the last call.

    def since_last(self, image: "ImageState") -> tuple[Collection[Any], bool]:
        """The keys that changed since the last call; all keys, and True, for another image or after many changes."""
        recent = image.changed_keys(self._part)
        if self._image is image and self._count == recent.count:
            return (), False
        changed = recent.since(self._count) if self._image is image else None
        self._image, self._count = image, recent.count
        return (set(image.dict_of(self._part)), True) if changed is None else (changed, False)


class KeyIndex(Protocol):
    """An index of one dict of an image, which each change of the dict updates at once.

    A change of a hundred thousand keys thus costs the next query nothing.
    """

    def on_change(self, key: Any, value: Any) -> None:
        """Update the index: the entry has this value now, and None if it is removed."""


IndexType = TypeVar("IndexType", bound=KeyIndex)


@dataclass(slots=True, eq=False, repr=False)
class ImageState:
    """The tables and dicts of an image, with the recorder that sees every change before it is made.

    `table` has the partitions, with the tables of topics, brokers and log directories, which the image exposes as its
    own. The table is never replaced: rows change in place. Dicts are for reading; only methods change them.
    """

    table: PartitionTable = field(default_factory=_new_table)
    features: dict[str, int] = field(default_factory=dict)  # Finalized levels, including metadata.version.
    controllers: dict[int, RegisterControllerRecord] = field(default_factory=dict)
    configs: dict[ConfigResource, Mapping[str, str]] = field(default_factory=dict)
    acls: dict[Uuid, security_records.AccessControlEntryRecord] = field(default_factory=dict)
    quotas: dict[QuotaEntity, Mapping[str, float]] = field(default_factory=dict)
    scram: dict[tuple[int, str], security_records.UserScramCredentialRecord] = field(default_factory=dict)
    tokens: dict[str, security_records.DelegationTokenRecord] = field(default_factory=dict)
    next_producer_id: int = -1
    zk_migration_state: int = 0
    # From a FeatureLevelRecord that 3.9.1 writes by mistake (KAFKA-18979); raft's own kraft.version counts.
    written_kraft_version: int = 0
    registered_at: dict[int, int] = field(default_factory=dict)  # The offset of each broker's RegisterBrokerRecord.
    feature_records: int = field(default=0, compare=False)  # Number of applied feature records, reverted or not.
    end_offset: int = 0  # All records below this offset are applied, if `apply` was called with offsets.
    epoch: int = -1  # Epoch of the last batch, or of the snapshot.
    _recorder: Recorder | None = None
    _changed_keys: dict[str, RecentKeys] = field(default_factory=dict)
    _indexes: dict[str, KeyIndex] = field(default_factory=dict)  # By the name of their dict.

    def __getstate__(self) -> dict[str, Any]:
        """Copies and pickles have neither journal nor deltas nor indexes."""
        return {each.name: getattr(self, each.name) for each in fields(self)} | {"_recorder": None, "_indexes": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, value)

    def __copy__(self) -> Self:
        return deepcopy(self)

    def __repr__(self) -> str:
        table = repr(self.table).strip("<>").partition(": ")[2]
        level = self.features.get(FEATURE_NAME)
        version = "no metadata.version" if level is None else f"metadata.version {name_of_level(level)}"
        return f"<{type(self).__name__} up to offset {self.end_offset}: {table}, {version}>"

    @property
    def topics(self) -> TopicTable:
        """The topics, by row."""
        return self.table.topics

    @property
    def brokers(self) -> BrokerTable:
        """The brokers, by row; `brokers[id]` is a registration, and iteration yields the registered ids."""
        return self.table.brokers

    @property
    def directories(self) -> DirectoryTable:
        """The log directories, by row."""
        return self.table.brokers.directory_table

    @property
    def topic_ids(self) -> dict[str, Uuid]:
        """The id of each topic by name; made on demand."""
        return self.topics.ids_by_name()

    def partition(self, topic: str, index: int) -> PartitionRegistration:
        """One partition with directories and eligible leader replicas; TableError if it does not exist."""
        if topic not in self.topics or (row := self.table.row_at(self.topics.row(topic), index)) < 0:
            raise TableError(f"unknown partition {topic}-{index}")
        return self.table.registration(row)

    def set_key(self, part: str, key: Any, value: Any) -> None:
        """Set an entry of one of the dicts; None removes it. Values are never changed in place."""
        values = self.dict_of(part)
        if self._recorder is not None:
            self._recorder.key(part, key, values)
        if value is None:
            values.pop(key, None)
        else:
            values[key] = value
        self.key_changed(part, key)

    def record_delta_key(self, part: str, key: Any, offset: int) -> None:
        """Record that the record at this offset is about to change an entry of one of the dicts."""
        self._at(offset)
        if self._recorder is not None:
            self._recorder.delta_key(part, key)

    def key_changed(self, part: str, key: Any) -> None:
        """Record that an entry of one of the dicts has changed."""
        self._changed_keys.setdefault(part, RecentKeys()).add(key)
        if (index := self._indexes.get(part)) is not None:
            index.on_change(key, self.dict_of(part).get(key))

    def index(self, part: str, kind: type[IndexType]) -> IndexType:
        """The index of one of the dicts, which all callers share; the first call makes it."""
        found = self._indexes.get(part)
        if found is None:
            found = self._indexes[part] = kind()
            for key, value in self.dict_of(part).items():
                found.on_change(key, value)
        assert isinstance(found, kind)
        return found

    def changed_keys(self, part: str) -> RecentKeys:
        """The keys of one of the dicts that were written, removed or reverted last."""
        return self._changed_keys.setdefault(part, RecentKeys())

    def dict_of(self, part: str) -> dict[Any, Any]:
        """One of the dicts by its name."""
        found: dict[Any, Any] = getattr(self, part)
        return found

    def set_number(self, name: str, value: int) -> None:
        """Set `next_producer_id`, `zk_migration_state` or `written_kraft_version`."""
        self._undo(restore_attribute, name, getattr(self, name))
        if self._recorder is not None:
            self._recorder.delta_key(name, value)
        setattr(self, name, value)

    def set_registered_at(self, broker_id: int, offset: int | None) -> None:
        """Set the offset of a broker's RegisterBrokerRecord; for a snapshot's record, the snapshot's last offset."""
        self._undo(ImageState._put_registered_at, broker_id, self.registered_at.get(broker_id))
        self._put_registered_at(broker_id, offset)

    def _put_registered_at(self, broker_id: int, offset: int | None) -> None:
        if offset is None:
            self.registered_at.pop(broker_id, None)
        else:
            self.registered_at[broker_id] = offset

    def _at(self, offset: int) -> None:
        self.end_offset = offset + 1
        if self._recorder is not None and self._recorder.deltas is not None:
            self._recorder.deltas.offset = offset

    # Reverting changes, and deltas.

    def _undo(self, undo: Callable[..., None], *arguments: Any) -> None:
        if self._recorder is not None:
            self._recorder.undo(undo, *arguments)

    @property
    def recorder(self) -> Recorder | None:
        """Called before every change; None if neither journal nor deltas are kept."""
        return self._recorder

    def add_topics(self, names: Sequence[str], ids: UInt8s, first: int, offsets: Int64s) -> None:
        """Add topics for which TopicTable.can_add is true, in the rows from `first` on. `offsets`: of their records."""
        self.topics.add_all(names, ids, first)
        self._record_topics(CREATED_TOPICS, range(first, first + len(names)), offsets)

    def removing_topics(self, rows: Int32s, offsets: Int64s) -> Iterator[None]:
        """Remove topics that have ids, in parts, with partitions and settings; row k by the record at `offsets[k]`."""
        names = [self.topics.names[row] for row in rows.tolist()]
        self._record_topics(DELETED_TOPICS, rows.tolist(), offsets)
        yield from self.table.removing_topic_rows(np.sort(rows))
        for name, offset in zip(names, offsets.tolist(), strict=True):
            if (ConfigResourceType.TOPIC, name) in self.configs:
                self._at(offset)
                self.set_key("configs", (ConfigResourceType.TOPIC, name), None)
        self._at(int(offsets[-1]))

    def _record_topics(self, part: str, rows: Iterable[int], offsets: Int64s) -> None:
        deltas = self._recorder.deltas if self._recorder is not None else None
        if deltas is not None:
            topics = self.topics
            for row, offset in zip(rows, offsets.tolist(), strict=True):
                deltas.offset = offset
                deltas.add_key(part, (topics.ids[row], topics.names[row]))

    @contextmanager
    def deltas_in_log_order(self) -> Iterator[None]:
        """Use while many records are applied whose changes are recorded in another order than the log's."""
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
        """The recorder, which from now on is called before all changes."""
        if self._recorder is None:
            self._recorder = Recorder()
            for table in self._recorded():
                table.recorder = self._recorder
        return self._recorder

    def _recorded(self) -> tuple[PartitionTable, TopicTable, BrokerTable, DirectoryTable]:
        return self.table, self.topics, self.brokers, self.directories

    def keep_journal(self) -> Journal:
        """Keep a journal of changes from now on: call `begin` before each batch, `commit` when it is committed."""
        recorder = self._record()
        recorder.journal = recorder.journal or Journal()
        return recorder.journal

    def drop_journal(self) -> None:
        """Drop the journal: changes so far can no longer be reverted."""
        if self._recorder is None:
            return
        self._recorder.journal = None
        if self._recorder.deltas is None:
            self._recorder = None
            for table in self._recorded():
                table.recorder = None

    @property
    def journal(self) -> Journal | None:
        """The journal that reverts changes; None if none is kept."""
        return self._recorder.journal if self._recorder is not None else None

    def begin(self, offset: int, epoch: int | None = None) -> None:
        """Begin a batch whose first record has this offset. `epoch`: of the leader that wrote it, if known."""
        self._at(offset)
        self.end_offset = offset
        if self.journal is not None:
            self.journal.begin(offset)
            self.journal.add(restore_attribute, "epoch", self.epoch)
        self.epoch = self.epoch if epoch is None else epoch

    def commit(self, offset: int) -> None:
        """Commit all records below `offset`: they can no longer be reverted."""
        if self.journal is not None:
            self.journal.commit(offset)

    def revert_to(self, offset: int) -> None:
        """Revert all batches from `offset` on. TableError without a journal, or for committed records."""
        deque(self.reverting_to(offset), 0)

    def reverting_to(self, offset: int) -> Iterator[None]:
        """As `revert_to` in steps of at most a part of a batch; between steps the image is at no offset of the log."""
        recorder, journal = self._recorder, self.journal
        if recorder is None or journal is None:
            raise TableError("nothing can be reverted: no journal is kept")
        for undo, *arguments in journal.taken_back(offset):
            with recorder.silenced():
                undo(self, *arguments)
            yield
        self.end_offset = min(self.end_offset, offset)
        if recorder.deltas is not None:
            recorder.deltas.revert_to(offset)

    def keep_deltas(self, offset: int, most: int = MOST_CHANGES) -> None:
        """Keep the changes of records from `offset` on, up to `most` rows and keys; see `changes_between`."""
        self._record().deltas = DeltaLog(offset, most)

    def changes_between(self, from_offset: int, to_offset: int) -> MetadataDelta | None:
        """The changes of the records in [from_offset, to_offset); None if unknown: then anything may have changed.

        The cost is proportional to the changes since `from_offset`.
        """
        deltas = self._recorder.deltas if self._recorder is not None else None
        return None if deltas is None else deltas.between(self.table, from_offset, to_offset)

    def memory_bytes(self) -> dict[str, int]:
        """`PartitionTable.memory_bytes`; dicts, names and registrations are Python objects and are not counted."""
        return self.table.memory_bytes()


def restore_attribute(image: ImageState, name: str, value: Any) -> None:
    setattr(image, name, list(value) if isinstance(value, list) else value)
