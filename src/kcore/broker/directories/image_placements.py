"""Looks up the directories of one broker's replicas in the newest image, many at a time."""

from collections.abc import Sequence

import numpy as np

from kcore.broker.directories.outputs import TopicIdPartition
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.table.directory_table import MIGRATING_UUID
from kcore.types import Int32s, Uuid


class ImagePlacements:
    """The `Placements` of an image that replay changes in place."""

    def __init__(self, image: ClusterImage, broker_id: int) -> None:
        self._image, self._broker_id = image, broker_id

    def follow(self, image: ClusterImage) -> None:
        """Uses another image, after a snapshot was loaded."""
        self._image = image

    def directories_of(self, partitions: Sequence[TopicIdPartition]) -> list[Uuid | None]:
        """The directory of this broker's replica of each partition, or a reserved id; None where it has no replica."""
        table = self._image.table
        if not partitions or self._broker_id not in table.brokers or not len(table):
            return [None] * len(partitions)
        rows = self._rows(partitions)
        mine = table.replicas__ps[rows] == table.brokers.row(self._broker_id)
        is_held = (rows >= 0) & mine.any(axis=1)
        if table.directories__ps is None:
            return [MIGRATING_UUID if held else None for held in is_held.tolist()]
        places = table.directories__ps[rows, mine.argmax(axis=1)]
        uuids = self._image.directories.uuids
        return [uuids[place] if held else None for held, place in zip(is_held.tolist(), places.tolist(), strict=True)]

    def leads_any(self, partitions: Sequence[TopicIdPartition]) -> bool:
        """Whether this broker leads any of the partitions."""
        table = self._image.table
        if not partitions or self._broker_id not in table.brokers or not len(table):
            return False
        rows = self._rows(partitions)
        return bool((table.leader__p[rows[rows >= 0]] == table.brokers.row(self._broker_id)).any())

    def _rows(self, partitions: Sequence[TopicIdPartition]) -> Int32s:
        """The rows of one or more partitions; -1 for a partition that the image does not have."""
        table = self._image.table
        topic_ids, indexes = zip(*partitions, strict=True)
        known = {each: table.topics.row_of_id(each) for each in set(topic_ids)}
        numbers = {topic_id: -1 if row is None else row for topic_id, row in known.items()}
        topics = np.array([numbers[each] for each in topic_ids], np.int32)
        table.lookup.know_topics(len(table.topics))  # The newest topics may have no partition yet.
        found: Int32s = np.where(
            topics < 0, np.int32(-1), table.rows_of(np.maximum(topics, 0), np.array(indexes, np.int32))
        )
        return found
