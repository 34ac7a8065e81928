"""The state of a cluster: brokers, topics, partitions, and all configuration (Kafka's MetadataImage).

Records are applied in the log's order, as Kafka's MetadataDelta replays them, directly to the tables. Records of a
transaction (KIP-868) are applied only when it ends. A controller keeps a journal, to revert records that the quorum
does not commit; a reader that follows the image keeps a log of deltas.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kcore.errors import TableError
from kcore.metadata.image import image_brokers, image_settings, image_topics
from kcore.metadata.image.image_state import DICTS, ImageState, restore_attribute
from kcore.metadata.image.image_tables import ImageTable
from kcore.metadata.image.table_names import TABLES, ArrowStream
from kcore.metadata.table.arrays import Array
from kcore.metadata.table.changes import KraftChanges, PartitionChanges
from kcore.metadata.table.equality import same_partitions
from kcore.metadata.table.kraft_changes import apply_kraft_changes
from kcore.schema import metadata_records_log as log_records
from kcore.schema.metadata_records_brokers import RegisterControllerRecord
from kcore.schema.structure import MetadataRecord
from kcore.wire.metadata_frames import decode_metadata_record


@dataclass(slots=True, eq=False, repr=False)
class ClusterImage(ImageState):
    """The state after the records applied so far. TableError for a record that does not fit the state."""

    # Records, or their values, of an open transaction (KIP-868).
    _transaction: list[MetadataRecord | bytes] | None = None

    def apply(self, record: MetadataRecord, offset: int | None = None) -> None:
        """Apply one record of any type; `offset`: its offset in the log."""
        handler = _HANDLERS.get(type(record))
        if handler is None:
            raise TableError(f"{type(record).__name__} is no metadata record")
        if offset is not None:
            self._at(offset)
        if self._transaction is not None and handler not in _ENDS:
            self._undo(_forget_waiting, 1)
            self._transaction.append(record)
        else:
            handler(self, record)

    def apply_changes(self, changes: KraftChanges | PartitionChanges, offset: int | None = None) -> None:
        """Apply a decision about many partitions, as if its PartitionChangeRecords were applied, the first at `offset`.

        PartitionChanges, which hold the state after the change, go to `PartitionTable.apply`. TableError, with nothing
        changed, if they do not fit.
        """
        if offset is not None:
            self._at(offset)
        if isinstance(changes, KraftChanges):
            apply_kraft_changes(self.table, changes)
        else:
            self.table.apply(changes)

    @property
    def in_transaction(self) -> bool:
        """True while records wait for the end of their transaction; none of them is visible yet."""
        return self._transaction is not None

    def begin_transaction(self) -> None:
        """Apply a BeginTransactionRecord."""
        if self._transaction is not None:
            raise TableError("a transaction begins within another")
        self._set_transaction([])

    def end_transaction(self) -> None:
        """Apply an EndTransactionRecord."""
        waiting = self._waiting()
        self._set_transaction(None)
        for each in waiting:
            self.apply(_decoded(each))

    def abort_transaction(self) -> None:
        """Apply an AbortTransactionRecord."""
        self._waiting()
        self._set_transaction(None)

    def wait(self, values: Sequence[bytes], offset: int) -> None:
        """Keep values of records, the last at `offset`, until the end of the open transaction."""
        waiting = self._waiting()
        self._at(offset)
        self._undo(_forget_waiting, len(values))
        waiting += values

    @property
    def waiting(self) -> Sequence[MetadataRecord | bytes]:
        """Records, or their values, that wait for the end of their transaction."""
        return self._transaction or ()

    def _waiting(self) -> list[MetadataRecord | bytes]:
        if self._transaction is None:
            raise TableError("a transaction ends that never began")
        return self._transaction

    def _set_transaction(self, waiting: list[MetadataRecord | bytes] | None) -> None:
        self._undo(restore_attribute, "_transaction", self._transaction)
        self._transaction = waiting

    def tables(self) -> Mapping[str, ArrowStream]:
        """The image's tables by name, each an Arrow stream: partitions, topics, brokers, configs and others.

        `kcore.metadata.image.image_arrow.SCHEMAS` has their columns; Spark's format "kcore.metadata" has the same.
        """
        return {name: ImageTable(name, self) for name in TABLES}

    def __eq__(self, other: object) -> bool:
        """True if both describe the same cluster; rows and offsets are not compared."""
        if not isinstance(other, ClusterImage):
            return NotImplemented
        names = {*DICTS, "next_producer_id", "zk_migration_state", "brokers", "in_transaction"} - {"controllers"}
        is_same = all(getattr(self, name) == getattr(other, name) for name in names)
        is_same = is_same and _in_order(self.controllers) == _in_order(other.controllers)
        is_same = is_same and [*map(_decoded, self.waiting)] == [*map(_decoded, other.waiting)]
        return is_same and same_partitions(self.table, other.table)

    __hash__ = None  # type: ignore[assignment]

    def copy(self, room: Mapping[str, Array] | None = None) -> "ClusterImage":
        """A copy that shares nothing with this image, and has neither journal nor deltas.

        `room` is memory for columns by name, used where it is large enough. With `room`, the copy is read-only and its
        broker index is empty.
        """
        twin = ClusterImage(self.table.copy(room))
        for part in DICTS:
            setattr(twin, part, dict(self.dict_of(part)))
        twin.next_producer_id, twin.zk_migration_state = self.next_producer_id, self.zk_migration_state
        twin.end_offset, twin.epoch = self.end_offset, self.epoch
        twin.written_kraft_version, twin.registered_at = self.written_kraft_version, dict(self.registered_at)
        twin._transaction = None if self._transaction is None else list(self._transaction)
        return twin


def _forget_waiting(image: ClusterImage, count: int) -> None:
    assert image._transaction is not None
    del image._transaction[len(image._transaction) - count :]


def _decoded(waiting: MetadataRecord | bytes) -> MetadataRecord:
    return decode_metadata_record(waiting)[0] if isinstance(waiting, bytes) else waiting


def _no_op(image: ClusterImage, record: log_records.NoOpRecord) -> None:
    """The record advances the high watermark, and changes nothing else (KIP-835)."""


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


def _in_order(controllers: Mapping[int, RegisterControllerRecord]) -> dict[int, tuple[object, ...]]:
    """Registrations in a form that compares equal for any order of endpoints and features."""
    return {
        controller_id: (
            *(each.incarnation_id, each.zk_migration_ready),
            {endpoint.name: endpoint for endpoint in each.end_points},
            {feature.name: feature for feature in each.features},
        )
        for controller_id, each in controllers.items()
    }
