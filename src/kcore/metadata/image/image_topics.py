"""Applies records of topics and partitions to an image, one by one."""

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from kcore.errors import TableError
from kcore.metadata.image.image_state import ImageState
from kcore.metadata.image.partition_records import change_partition, put_partition
from kcore.metadata.table.kraft_changes import clear_elr
from kcore.schema import metadata_records_topics as records
from kcore.schema.configs import ConfigResourceType
from kcore.schema.structure import MetadataRecord
from kcore.types import ZERO_UUID, Uuid


def check_new_topic(image: ImageState, name: str, topic_id: Uuid) -> None:
    """TableError if the name or the id is a topic's already."""
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
