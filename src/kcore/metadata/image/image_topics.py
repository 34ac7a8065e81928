"""Applies records of topics and partitions to an image, one by one; bulk replay does this to many at once.

Brokers and log directories without a row get one. A record is checked completely before anything else changes. Source:
Kafka's PartitionRegistration.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from kcore.constants import (
    MAX_PARTITIONS,
    MAX_REPLICAS,
    NO_EPOCH,
    NO_LEADER,
    NO_LEADER_CHANGE,
    NO_RECOVERY_CHANGE,
    RECOVERED,
    RECOVERING,
)
from kcore.errors import TableError
from kcore.metadata.image.image_state import ImageState
from kcore.metadata.table.directory_table import MIGRATING
from kcore.metadata.table.kraft_changes import clear_elr
from kcore.metadata.table.partition_table import PartitionTable
from kcore.metadata.table.validation import MAX_EPOCH
from kcore.schema import metadata_records_topics as records
from kcore.schema.configs import ConfigResourceType
from kcore.schema.metadata_records_topics import PartitionChangeRecord, PartitionRecord
from kcore.schema.structure import MetadataRecord
from kcore.types import ZERO_UUID, Uuid


def check_new_topic(image: ImageState, name: str, topic_id: Uuid) -> None:
    """TableError if the name or the id is missing, or belongs to another topic."""
    if not name or name in image.topics:
        raise TableError(f"topic {name!r} exists" if name else "a topic needs a name")
    if topic_id == ZERO_UUID:
        raise TableError(f"topic {name!r} has no id")
    if (taken := image.topics.row_of_id(topic_id)) is not None:
        raise TableError(f"topic {name!r} has the id of topic {image.topics.names[taken]!r}, {topic_id}")


def topic_row(image: ImageState, topic_id: Uuid) -> int:
    """The row of the topic with that id; TableError if there is none."""
    if (row := image.topics.row_of_id(topic_id)) is None:
        raise TableError(f"unknown topic id {topic_id}")
    return row


def _topic(image: ImageState, record: records.TopicRecord) -> None:
    check_new_topic(image, record.name, record.topic_id)
    image.topics.add(record.name, record.topic_id)


def _remove_topic(image: ImageState, record: records.RemoveTopicRecord) -> None:
    name = image.topics.names[topic_row(image, record.topic_id)]
    image.table.remove_topic(name)
    if (ConfigResourceType.TOPIC, name) in image.configs:
        image.set_key("configs", (ConfigResourceType.TOPIC, name), None)


def _partition(image: ImageState, record: records.PartitionRecord) -> None:
    put_partition(image.table, topic_row(image, record.topic_id), record)


def _partition_change(image: ImageState, record: records.PartitionChangeRecord) -> None:
    row = image.table.row_at(topic_row(image, record.topic_id), record.partition_id)
    if row < 0:
        raise TableError(f"unknown partition {record.partition_id} of topic id {record.topic_id}")
    change_partition(image.table, row, record)


def _clear_elr(image: ImageState, record: records.ClearElrRecord) -> None:
    if record.topic_name and record.topic_name not in image.topics:
        raise TableError(f"unknown topic {record.topic_name!r}")
    every = np.arange(len(image.table), dtype=np.int32)
    clear_elr(image.table, image.table.rows_of_topic(record.topic_name) if record.topic_name else every)


HANDLERS: Final[dict[type[MetadataRecord], Callable[[ImageState, Any], None]]] = {
    records.TopicRecord: _topic,
    records.RemoveTopicRecord: _remove_topic,
    records.PartitionRecord: _partition,
    records.PartitionChangeRecord: _partition_change,
    records.ClearElrRecord: _clear_elr,
}


_LISTS: Final = {
    "replicas__ps": "replicas",
    "isr__pi": "isr",
    "adding": "adding_replicas",
    "removing": "removing_replicas",
    "elr__pi": "eligible_leader_replicas",
    "last_known_elr__pi": "last_known_elr",
}
"""The table's lists (columns, `adding` and `removing`), and the field of both records that has each."""


def put_partition(table: PartitionTable, topic_row: int, record: PartitionRecord) -> None:
    """Add a partition, or overwrite it. TableError for values outside their range."""
    if not record.replicas:
        raise _fault(record, "has no replicas")
    if not 0 <= record.partition_id < MAX_PARTITIONS:
        raise _fault(record, "has an invalid number")
    if min(record.leader_epoch, record.partition_epoch) < NO_EPOCH:
        raise _fault(record, f"has epochs {record.leader_epoch} and {record.partition_epoch}")
    if not RECOVERED <= record.leader_recovery_state <= RECOVERING:
        raise _fault(record, f"has leader recovery state {record.leader_recovery_state}")
    _check_lists(record)
    row, lists = table.row_at(topic_row, record.partition_id), _lists_of(table, record)
    values = dict.fromkeys(_LISTS, ()) if row >= 0 else {}
    values |= lists | {
        "directories__ps": _directories_of(table, record, len(record.replicas)),
        "leader__p": _leader_row(table, record),
        "leader_recovery_state__p": record.leader_recovery_state,
        "leader_epoch__p": record.leader_epoch,
        "partition_epoch__p": record.partition_epoch,
        "controller_epoch__p": 0,
    }
    table.write_row(table.new_row(topic_row, record.partition_id) if row < 0 else row, values)


def change_partition(table: PartitionTable, row: int, record: PartitionChangeRecord) -> None:
    """Change a partition as PartitionRegistration.merge: unset fields stay, and naming a leader raises the leader
    epoch.
    """
    names_leader, replicas = record.leader != NO_LEADER_CHANGE, record.replicas
    if replicas is not None and not replicas:
        raise _fault(record, "has no replicas")
    if not NO_RECOVERY_CHANGE <= record.leader_recovery_state <= RECOVERING:
        raise _fault(record, f"has leader recovery state {record.leader_recovery_state}")
    leader_epoch, partition_epoch = int(table.leader_epoch__p[row]), int(table.partition_epoch__p[row])
    if partition_epoch == MAX_EPOCH or (names_leader and leader_epoch == MAX_EPOCH):
        raise _fault(record, "has an epoch that cannot rise")
    _check_lists(record)
    values: dict[str, Any] = {"partition_epoch__p": partition_epoch + 1}
    if replicas is not None or record.directories is not None:
        before = table.replica_count(row)
        count = before if replicas is None else len(replicas)
        if record.directories is not None or count != before:  # At a level without directories they are MIGRATING.
            values["directories__ps"] = _directories_of(table, record, count)
    if names_leader:
        values |= {"leader__p": _leader_row(table, record), "leader_epoch__p": leader_epoch + 1}
    if record.leader_recovery_state != NO_RECOVERY_CHANGE:
        values["leader_recovery_state__p"] = record.leader_recovery_state
    table.write_row(row, values | _lists_of(table, record))


def _check_lists(record: PartitionRecord | PartitionChangeRecord) -> None:
    for column, field in _LISTS.items():
        if not (ids := _members(record, column, field)):
            continue
        if len(ids) > MAX_REPLICAS:
            raise _fault(record, f"has {len(ids)} {field}; at most {MAX_REPLICAS} fit")
        if len({*ids}) < len(ids):
            raise _fault(record, f"names a broker twice: {field} {list(ids)}")
        if min(ids) < 0:
            raise _fault(record, f"names broker {min(ids)} in {field}")
    if record.leader < (NO_LEADER if isinstance(record, PartitionRecord) else NO_LEADER_CHANGE):
        raise _fault(record, f"has leader {record.leader}")


def _members(record: PartitionRecord | PartitionChangeRecord, column: str, field: str) -> list[int] | None:
    """A list of the record, without broker -1: Kafka writes -1 into the last known ELR if there was no leader."""
    ids: list[int] | None = getattr(record, field)
    return [each for each in ids if each != NO_LEADER] if ids and column == "last_known_elr__pi" else ids


def _lists_of(table: PartitionTable, record: PartitionRecord | PartitionChangeRecord) -> dict[str, Any]:
    """Broker rows of all lists that are not null."""
    name_each = table.brokers.name_each
    given = [(column, _members(record, column, field)) for column, field in _LISTS.items()]
    return {column: name_each(ids) if ids else [] for column, ids in given if ids is not None}


def _leader_row(table: PartitionTable, record: PartitionRecord | PartitionChangeRecord) -> int:
    return NO_LEADER if record.leader == NO_LEADER else table.brokers.name(record.leader)


def _directories_of(
    table: PartitionTable, record: PartitionRecord | PartitionChangeRecord, count: int
) -> Sequence[int]:
    """The rows of a record's directories; without any, all are MIGRATING."""
    given = record.directories or ()
    if given and len(given) != count:
        raise _fault(record, f"has {len(given)} directories for {count} replicas")
    return list(table.directories.name(given)) or [MIGRATING] * count


def _fault(record: PartitionRecord | PartitionChangeRecord, text: str) -> TableError:
    return TableError(f"partition {record.partition_id} of topic id {record.topic_id} {text}")
