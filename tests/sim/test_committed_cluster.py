"""The simulator's twin of the committed log agrees with the image that the nodes use."""

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from kcore import schema as s
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.table.directory_table import UNASSIGNED_UUID
from kcore.sim.cluster.committed_cluster import CommittedCluster
from kcore.sim.cluster.image_checks import differences
from kcore.types import Uuid
from kcore.wire.metadata_frames import decode_metadata_record
from metadata.stories import Story

TOPIC = Uuid(bytes([7] * 16))
OTHER = Uuid(bytes([8] * 16))


def with_directories(record: Any) -> Any:
    """The record at a level with directories: a list of replicas has as many directories. The twin has such levels."""
    if isinstance(record, (s.PartitionRecord, s.PartitionChangeRecord)) and not record.directories:
        record.directories = [UNASSIGNED_UUID] * len(record.replicas) if record.replicas else None
    return record


@pytest.mark.parametrize("seed", range(20))
def test_the_twin_reads_random_logs_as_the_image_does(seed: int) -> None:
    story, cluster, image = Story(Random(seed)), CommittedCluster(), ClusterImage()
    story.version = 2  # Partition records with directories and eligible leader replicas.
    for offset, value in enumerate(story.values(300)):
        record = with_directories(decode_metadata_record(value)[0])
        cluster.apply(offset, record)
        image.apply(record, offset)
        if not image.in_transaction:
            assert list(differences(cluster, image)) == [], record


@pytest.mark.parametrize(
    "elr, last_known, rises", [([2], [], 1), ([], [2], 1), ([2], [3], 1), ([], [], 0), (None, None, 0)]
)
@pytest.mark.parametrize("name", ("t", ""))
def test_clearing_an_elr_raises_the_partition_epoch(elr: Any, last_known: Any, rises: int, name: str) -> None:
    """Only of a partition that has one: TopicDelta.maybeClearElr merges an empty change (KIP-966)."""
    cluster = CommittedCluster()
    cluster.apply(0, s.TopicRecord(name="t", topic_id=TOPIC))
    cluster.apply(1, s.TopicRecord(name="other", topic_id=OTHER))
    for topic_id in (TOPIC, OTHER):
        record = s.PartitionRecord(partition_id=0, topic_id=topic_id, replicas=[1, 2, 3], isr=[1], leader=1)
        record.partition_epoch, record.eligible_leader_replicas, record.last_known_elr = 4, elr, last_known
        cluster.apply(2, record)
    before = dict(cluster.partitions)
    cluster.apply(3, s.ClearElrRecord(topic_name=name))
    cleared = replace(before[TOPIC, 0], elr=(), last_known_elr=(), partition_epoch=4 + rises)
    assert cluster.partitions[TOPIC, 0] == cleared
    assert cluster.partitions[OTHER, 0] == (before[OTHER, 0] if name else cleared)
