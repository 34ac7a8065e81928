"""Images written as records: replay restores them, at every level as far as it can; equal images give equal bytes."""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcore.constants import ELR_VERSION
from kcore.errors import LevelError, UnwritableMetadataError
from kcore.metadata.image import image_writer
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.image.image_writer import records_of
from kcore.metadata.image.replay import replay, replaying_values
from kcore.metadata.metadata_version import VERSIONS, VERSIONS_BY_RELEASE, MetadataVersion
from kcore.schema.index import METADATA_RECORDS
from kcore.schema.metadata_records_log import ZkMigrationStateRecord
from kcore.schema.metadata_records_settings import FeatureLevelRecord
from kcore.schema.metadata_records_topics import PartitionRecord, TopicRecord
from kcore.types import Uuid
from kcore.wire.encoded_records import EncodedRecords
from kcore.wire.metadata_frames import decode_metadata_record, encode_metadata_record
from metadata.stories import Story, assert_same, log_of
from reference import record_values as twin
from reference.image import MIGRATING, SlowImage, changed
from seeds import seeds

Dice = st.integers(0, 2**32).map(Random)
LEVELS = [
    MetadataVersion(name, release)
    for release in ("3.9.1", "4.3.1")
    for oldest, newest, _ in [VERSIONS_BY_RELEASE[release]]
    for name in VERSIONS[VERSIONS.index(oldest) : VERSIONS.index(newest) + 1]
]


def image_of(values: list[bytes]) -> ClusterImage:
    image = ClusterImage()
    replay(image, log_of(values))
    return image


def written(image: ClusterImage, *arguments: Any, **options: Any) -> list[bytes]:
    return [value for piece in records_of(image, *arguments, **options) for value in piece]


@pytest.fixture(params=[(1 << 14, 1 << 11), (3, 2), (1, 1)], ids=["at once", "pieces", "one by one"])
def sizes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_writer, "PARTITIONS_AT_ONCE", request.param[0])
    monkeypatch.setattr(image_writer, "TOPICS_AT_ONCE", request.param[1])
    monkeypatch.setattr(image_writer, "AT_ONCE", request.param[1])


def lived(dice: Random, count: int) -> tuple[Story, ClusterImage]:
    """An image at the newest level, ELR on."""
    story = Story(dice)
    image = image_of(story.values(count))
    for target in (image.features, story.image.features):
        target |= {"metadata.version": 30, ELR_VERSION: 1}
    return story, image


@pytest.mark.usefixtures("sizes")
@pytest.mark.parametrize("seed", seeds(10, 25))
def test_replay_of_what_is_written_is_the_image_and_is_written_alike(seed: int) -> None:
    story, image = lived(Random(seed), 400)
    values = written(image)
    again = image_of(values)
    assert again == image
    assert_same(again, story.image)
    assert written(again) == values


def test_images_with_other_rows_are_written_alike() -> None:
    """Removed topics leave free rows, which other topics take."""
    _, image = lived(Random(4), 900)
    copied = image_of(written(image))
    assert image.topics.names != copied.topics.names and image == copied
    assert written(image) == written(copied)


@pytest.mark.parametrize("seed", range(6))
def test_topics_are_written_as_the_twin_has_them(seed: int) -> None:
    _, image = lived(Random(seed), 600)
    names = sorted(image.topic_ids, key=lambda name: image.topic_ids[name])
    expected = [value for name in names for value in twin.topic_records(image, name, 2, elr=True)]
    ours = [value for value in written(image) if value[1] in (2, 3)]
    assert ours == expected


def test_records_come_in_kafkas_order() -> None:
    """MetadataImage.write."""
    order = [
        *("FeatureLevelRecord", "ZkMigrationStateRecord", "RegisterBrokerRecord", "RegisterControllerRecord"),
        *("TopicRecord", "PartitionRecord", "ConfigRecord", "ClientQuotaRecord", "ProducerIdsRecord"),
        *("AccessControlEntryRecord", "UserScramCredentialRecord", "DelegationTokenRecord"),
    ]
    images = (lived(Random(seed), 800)[1] for seed in range(20))
    written_kinds = ([METADATA_RECORDS[value[1]].__name__ for value in written(image)] for image in images)
    kinds = next(each for each in written_kinds if {*each} == {*order})
    last_partition = len(kinds) - kinds[::-1].index("PartitionRecord")
    assert kinds[: kinds.index("TopicRecord")] == sorted(kinds[: kinds.index("TopicRecord")], key=order.index)
    assert kinds[last_partition:] == sorted(kinds[last_partition:], key=order.index)


def test_the_level_is_the_first_record() -> None:
    """Readers need it to decode the rest (FeaturesImage.writeFeatureLevels)."""
    image = ClusterImage(features={"a.feature": 1, "metadata.version": 30})
    first, version = decode_metadata_record(written(image)[0])
    assert (first.name, first.feature_level, version) == ("metadata.version", 30, 0)


def stripped(slow: SlowImage, level: MetadataVersion) -> tuple[SlowImage, set[str]]:
    """The rest of an image at that level, and the losses."""
    lost = set[str]()
    left = replace(slow, features={"metadata.version": level.feature_level}, waiting=None)
    others = {name: value for name, value in slow.features.items() if name != "metadata.version"}
    if level.feature_level >= 4:
        left.features |= others
    else:
        left.features = {}
        lost.add("feature flag(s)")
    if level.feature_level < 8:
        left.migration = 0
        lost |= {"the ZK Migration state"} if slow.migration else set()
    brokers = {}
    for broker_id, broker in slow.brokers.items():
        for least, field, nothing, said in [
            (7, "in_controlled_shutdown", False, "the inControlledShutdown state"),
            (8, "is_migrating_zk_broker", False, "the isMigratingZkBroker state"),
            (17, "log_dirs", [], "the online log directories"),
            (30, "cordoned_log_dirs", None, "the cordoned log directories"),
        ]:
            if level.feature_level < least and getattr(broker, field) != nothing:
                broker = changed(broker, **{field: nothing})
                lost.add(said)
        brokers[broker_id] = broker
    left.brokers = brokers
    if level.feature_level < 15 and slow.controllers:
        left.controllers = {}
        lost.add("controller registration data")
    if level.feature_level < 11 and slow.scram:
        left.scram = {}
        lost.add("ScramImage")
    if level.feature_level < 14 and slow.tokens:
        left.tokens = {}
        lost.add("DelegationTokenImage")
    left.partitions = dict(slow.partitions)
    elr_level = 22 if level.release == "3.9.1" else 23
    for key, partition in slow.partitions.items():
        if level.feature_level < elr_level:  # Without an error, as in Kafka.
            partition = replace(partition, elr=[], last_known_elr=[])
        if level.feature_level < 17 and partition.directories != [MIGRATING] * len(partition.replicas):
            partition = replace(partition, directories=[MIGRATING] * len(partition.replicas))
            lost.add("the directory assignment state")
        left.partitions[key] = partition
    return left, lost


@cache
def of_seed(seed: int) -> tuple[Story, ClusterImage]:
    """The same at every level: writing an image does not change it."""
    return lived(Random(seed), 500)


@pytest.mark.parametrize("level", LEVELS, ids=lambda level: f"{level}@{level.release}")
def test_at_every_level_what_it_can_say(level: MetadataVersion) -> None:
    for seed in range(3):
        story, image = of_seed(seed)
        losses: list[UnwritableMetadataError] = []
        values = written(image, level, on_loss=losses.append)
        left, lost = stripped(story.image, level)
        assert_same(image_of(values), left)
        assert {loss.version for loss in losses} <= {level.name}
        assert all(any(loss.loss.startswith(each) for each in lost) for loss in losses)
        assert all(any(loss.loss.startswith(each) for loss in losses) for each in lost)
        if lost:
            with pytest.raises(UnwritableMetadataError, match=f"metadata.version {level.name} cannot represent"):
                written(image, level)


def test_elr_that_is_off_is_left_out() -> None:
    """ImageWriterOptions.isEligibleLeaderReplicasEnabled of 4.x; 3.9.1 checks only the level."""
    story, image = lived(Random(2), 600)
    assert any(each.elr for each in story.image.partitions.values())
    del image.features[ELR_VERSION]
    for level, has in (("4.3-IV0", False), ("4.0-IV0@3.9.1", True)):
        again = image_of(written(image, level, on_loss=lambda loss: None))
        assert (
            ((again.table.elr__pi if again.table.elr__pi is not None else [-1]) != -1).any()
            if has
            else (again.table.elr__pi is None)
        )


def test_the_migration_state_is_written_as_the_release_does() -> None:
    for state, level, is_written in [(0, "3.9-IV0@3.9.1", True), (0, "3.9-IV0", False), (2, "3.9-IV0", True)]:
        image = ClusterImage(zk_migration_state=state)
        kinds = [value[1] for value in written(image, level)]
        assert (21 in kinds) == is_written


def test_the_level_is_the_images_own_by_default() -> None:
    image = ClusterImage(features={"metadata.version": 17})
    assert written(image) == written(image, "3.7-IV2")
    with pytest.raises(LevelError, match=r"no metadata\.version"):
        written(ClusterImage())


def test_the_level_is_that_of_the_offset() -> None:
    """An uncommitted upgrade is in no snapshot before it."""
    image = ClusterImage()
    image.keep_journal()
    levels = [FeatureLevelRecord(name="metadata.version", feature_level=level) for level in (17, 21)]
    for offset, record in enumerate(levels):
        image.begin(offset)
        image.apply(record, offset)
    [value] = written(image, offset=1)
    assert decode_metadata_record(value)[0] == levels[0]


@pytest.mark.parametrize("seed", seeds(10, 20))
def test_a_decision_that_is_applied_in_part_is_in_no_snapshot_before_it(seed: int) -> None:
    """A snapshot with some of the topics could not be loaded, because the log behind it creates them again.

    The decision continues while the snapshot is written.
    """
    dice, image = Random(seed), ClusterImage()
    image.keep_journal()
    for broker in (1, 2):
        image.brokers.register(broker, 1)
    level = encode_metadata_record(FeatureLevelRecord(name="metadata.version", feature_level=21), 0)
    replay(image, log_of([level, *topic_of(99)]))
    before, offset = written(image), image.end_offset
    values = EncodedRecords.of([value for number in range(1, 41) for value in topic_of(number)])

    def decision() -> Iterator[None]:
        """Applied as by the controller, within a transaction."""
        image.begin(offset)
        for begin, end in pairwise([*range(0, len(values), dice.choice((60, 100, 150))), len(values)]):
            part = EncodedRecords(values.values, values.offsets[begin : end + 1])
            yield from replaying_values(image, part, np.arange(begin, end) + offset + 2)
            yield

    parts, found = decision(), list[bytes]()
    for _ in range(dice.randint(0, 8)):
        next(parts, None)
    for piece in records_of(image, offset=offset):
        found += list(piece)
        for _ in range(dice.randint(0, 2)):
            next(parts, None)
    assert found == before


def topic_of(number: int) -> list[bytes]:
    """The records of a topic with ten partitions."""
    topic_id = Uuid(bytes([number] * 16))
    partitions = [
        PartitionRecord(partition_id=index, topic_id=topic_id, replicas=[1, 2], isr=[1, 2], leader=1)
        for index in range(10)
    ]
    return [
        encode_metadata_record(each, 0) for each in (TopicRecord(name=f"t{number}", topic_id=topic_id), *partitions)
    ]


def test_a_release_writes_what_its_own_snapshots_have() -> None:
    """In 3.9.1 each node reports no migration from ZooKeeper, and a kraft.version is in the log (KAFKA-18979)."""
    image = ClusterImage(features={"metadata.version": 21})
    level = FeatureLevelRecord(name="kraft.version", feature_level=1)
    image.apply(level)
    state = ZkMigrationStateRecord(zk_migration_state=0)
    for release, has in (("3.9.1", True), ("4.3.1", False), (None, False)):
        records = [decode_metadata_record(value)[0] for value in written(image, release=release)]
        assert (state in records) == (level in records) == has


def test_the_image_may_change_while_it_is_written() -> None:
    _, image = lived(Random(3), 500)
    before = image.copy()
    slices = records_of(image)
    values = []
    for k, piece in enumerate(slices):
        values += list(piece)
        if len(piece) and k % 2:
            for name in list(image.topic_ids)[:1]:
                image.table.remove_topic(name)
            image.brokers.name(1000 + k)
    assert image_of(values) == before != image


@given(Dice, st.lists(st.integers(1, 80), min_size=1, max_size=5), st.data())
@settings(max_examples=30, deadline=None)
def test_as_of_an_offset(dice: Random, counts: list[int], data: st.DataObject) -> None:
    """Uncommitted records are not written; the image still holds them."""
    story, image, offset = Story(dice), ClusterImage(), 0
    image.keep_journal()
    offsets, states = [], []
    for count in counts:
        values = story.values(count)
        offsets.append(offset)
        states.append(image.copy())
        replay(image, log_of(values, offset))
        offset += len(values)
    whole = image.copy()
    k = data.draw(st.integers(0, len(offsets) - 1))
    level = MetadataVersion.parse("4.3.1")
    values = written(image, level, offset=offsets[k], on_loss=lambda loss: None)
    assert values == written(states[k], level, on_loss=lambda loss: None)
    assert image == whole
    image.revert_to(offsets[k])
    assert image == states[k]
