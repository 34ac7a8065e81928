"""The directories of one broker's replicas as the newest image has them, many at a time."""

from collections.abc import Sequence

import numpy as np

from kcore.broker.directories.outputs import TopicIdPartition
from kcore.metadata.directory_table import MIGRATING_UUID
from kcore.metadata.image import ClusterImage
from kcore.types import Uuid


class ImagePlacements:
    """`Placements` of an image that is replayed in place."""

    def __init__(self, image: ClusterImage, broker_id: int) -> None:
        self._image, self._broker_id = image, broker_id

    def directories_of(self, partitions: Sequence[TopicIdPartition]) -> list[Uuid | None]:
        """Where this broker's replica of each is, a reserved id included; None where it has none."""
        table = self._image.table
        if not partitions or self._broker_id not in table.brokers or not len(table):
            return [None] * len(partitions)
        numbers = {topic_id: table.topics.row_of_id(topic_id) for topic_id, _index in partitions}
        found = (numbers[topic_id] for topic_id, _index in partitions)
        topics = np.fromiter((-1 if row is None else row for row in found), np.int32, len(partitions))
        indexes = np.fromiter((index for _topic_id, index in partitions), np.int32, len(partitions))
        table.lookup.know_topics(len(table.topics))  # The newest topics may have no partition yet.
        rows = np.where(topics < 0, np.int32(-1), table.rows_of(np.maximum(topics, 0), indexes))
        mine = table.replicas__ps[rows] == table.brokers.row(self._broker_id)
        is_held = (rows >= 0) & mine.any(axis=1)
        if table.directories__ps is None:
            return [MIGRATING_UUID if held else None for held in is_held.tolist()]
        places = table.directories__ps[rows, mine.argmax(axis=1)]
        uuids = self._image.directories.uuids
        return [uuids[place] if held else None for held, place in zip(is_held.tolist(), places.tolist(), strict=True)]
