"""Elections of an image: at its own metadata.version, with its own settings, unless others are given."""

from typing import Any

import numpy as np
import pytest

from kcore.errors import ArgumentError, LevelError
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.metadata_version import MetadataVersion
from kcore.metadata.table.partition_table import PartitionTable
from kcore.metadata.table.topic_table import TopicTable
from kcore.replication.elect import elect
from kcore.replication.kraft_results import KraftElections
from kcore.schema.metadata_records_settings import ConfigRecord, FeatureLevelRecord

TOPIC, BROKER = 2, 4  # ConfigResource.Type


def image(version: str | None = "4.0-IV1", elr: bool = False, configs: Any = ()) -> ClusterImage:
    """Topics a and b, one partition each: led by 1, in sync with 2."""
    topics = TopicTable(["a", "b"])
    made = ClusterImage(PartitionTable.from_arrays([[1, 2, 3]] * 2, isr=[[1, 2]] * 2, topics=topics, topic_rows=[0, 1]))
    if version is not None:
        level = MetadataVersion.parse(version).feature_level
        made.apply(FeatureLevelRecord(name="metadata.version", feature_level=level))
    if elr:
        made.apply(FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=1))
    for kind, resource, name, value in configs:
        made.apply(ConfigRecord(resource_type=kind, resource_name=resource, name=name, value=value))
    return made


def epochs(changes: KraftElections) -> list[int]:
    leader_epochs: list[int] = changes.leader_epochs.tolist()
    return leader_epochs


def test_the_level_is_the_images() -> None:
    """A smaller ISR alone raises the leader epoch before 3.6-IV0 (KAFKA-15021)."""
    old, new = (elect(image(version), leaving=[2]) for version in ("3.5-IV2", "4.0-IV1"))
    assert (epochs(old), epochs(new)) == ([1, 1], [0, 0])
    assert epochs(elect(image("3.5-IV2"), leaving=[2], level="4.0-IV1")) == [0, 0]
    assert epochs(elect(image(None), leaving=[2])) == [0, 0]  # The newest release's.


def test_the_kind_left_out_is_the_modes_own() -> None:
    """Leaders that are not online are replaced: "online" in KRaft mode, "offline" in ZooKeeper mode."""
    of = image()
    assert elect(of, leaving=[1]) == elect(of, "online", leaving=[1]) == elect(of.table, level="4.3.1", leaving=[1])
    assert elect(of.table, leaving=[1]) == elect(of.table, "offline", leaving=[1])
    assert isinstance(elect(of, "preferred"), KraftElections)
    assert not isinstance(elect(of.table, "preferred"), KraftElections)
    with pytest.raises(LevelError, match=r"no election 'offline' at level .*, which is KRaft's: it has online"):
        elect(of, "offline")  # type: ignore[call-overload]


def test_several_brokers_are_lost_at_once() -> None:
    both = elect(image(), leaving=[1, 2])
    assert (both.leaders.tolist(), both.isr.tolist(), both.failed.tolist()) == ([-1, -1], [1, 2, 1, 2], [0, 1])
    one = elect(image(), leaving={1})
    assert one.leaders.tolist() == [2, 2] and one == elect(image(), leaving=np.array([1]))


def test_topics_have_their_own_settings() -> None:
    unclean = [(TOPIC, "b", "unclean.leader.election.enable", "true")]
    assert elect(image(configs=unclean), leaving=[1, 2]).leaders.tolist() == [-1, 3]
    assert elect(image(configs=unclean), leaving=[1, 2], unclean=False).leaders.tolist() == [-1, -1]
    for_all = [(BROKER, "", "unclean.leader.election.enable", "true"), (TOPIC, "a", unclean[0][2], "false")]
    assert elect(image(configs=for_all), leaving=[1, 2]).leaders.tolist() == [-1, 3]


def test_eligible_leader_replicas_are_the_images() -> None:
    min_isr = [(TOPIC, "a", "min.insync.replicas", "2")]
    changes = elect(image(elr=True, configs=min_isr), leaving=[2])
    assert changes.eligible_leader_replicas is not None
    assert changes.eligible_leader_replicas.places.tolist() == [0]  # Only topic b needs one.
    assert elect(image(configs=min_isr), leaving=[2]).eligible_leader_replicas is None
    assert elect(image(elr=True, configs=min_isr), leaving=[2], elr=False).eligible_leader_replicas is None
    every = elect(image(elr=True), leaving=[2], min_isr=[2, 2]).eligible_leader_replicas
    assert every is not None and every.places.tolist() == [0, 1]


def test_what_elects() -> None:
    for wrong in (None, 7, "table"):
        with pytest.raises(ArgumentError, match="elect takes a PartitionTable or a ClusterImage, not"):
            elect(wrong)  # type: ignore[arg-type]
