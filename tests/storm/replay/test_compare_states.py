"""The comparison of end states and of decisions, on images that are made of records."""

from typing import Any

from kcore.measure.storm.replay.compare_states import (
    EndState,
    decision_differences,
    decisions_of,
    end_differences,
)
from kcore.measure.storm.replay.events import Partition
from kcore.measure.storm.replay.partition_states import epochs_of, partitions_of
from kcore.measure.storm.replay.trace import LogBatch
from kcore.metadata.image.image import ClusterImage
from kcore.schema.metadata_records_brokers import BrokerRegistrationChangeRecord, RegisterBrokerRecord
from kcore.schema.metadata_records_topics import PartitionChangeRecord, PartitionRecord, RemoveTopicRecord, TopicRecord
from kcore.types import Uuid

HERE, THERE = Uuid(bytes(15) + b"\7"), Uuid(bytes(15) + b"\x08")


def batches(topic_id: Uuid, *changes: dict[str, Any]) -> list[LogBatch]:
    """Three brokers, one partition that broker 1 leads, and its changes."""
    brokers = [RegisterBrokerRecord(broker_id=each, broker_epoch=each, fenced=False) for each in (1, 2, 3)]
    created = [
        TopicRecord(name="t", topic_id=topic_id),
        PartitionRecord(
            partition_id=0, topic_id=topic_id, replicas=[1, 2, 3], isr=[1, 2, 3], leader=1, leader_epoch=0,
            partition_epoch=0,
        ),
    ]  # fmt: skip
    changed = [PartitionChangeRecord(partition_id=0, topic_id=topic_id, **each) for each in changes]
    fenced = BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=1, fenced=1)
    parts: list[list[Any]] = [[*brokers], created, *([each, fenced] for each in changed)]
    found, offset = [], 0
    for part in parts:
        records = tuple((offset + at, record) for at, record in enumerate(part))
        offset += len(part)
        found.append(LogBatch(offset - 1, 0, records))
    return found


def compared(ours: list[LogBatch], reasons: dict[Partition, str]) -> tuple[Any, Any]:
    theirs = batches(HERE, {"isr": [2, 3], "leader": 2})
    recorded, target = ClusterImage(), ClusterImage()
    decisions = decisions_of(recorded, theirs), decisions_of(target, ours)
    ends = EndState(recorded, {}), EndState(target, {})
    return end_differences(*ends, reasons), decision_differences(*decisions, reasons)


def test_the_same_changes_are_the_same_under_another_topic_id() -> None:
    (same, ends), (alike, decisions) = compared(batches(THERE, {"isr": [2, 3], "leader": 2}), {})
    assert (same, ends, alike, decisions) == (1, [], 1, [])


def test_another_leader_is_named_with_its_event_and_reason() -> None:
    (same, [end]), (_, [decision]) = compared(batches(THERE, {"isr": [2, 3], "leader": 3}), {})
    assert (same, end.what, end.partitions) == (0, "leader", 1)
    assert end.reason == "the target elected another member of the same ISR"
    assert end.examples == ["t-0: leader 2 recorded, leader 3 replayed"]
    assert decision.what == "another leader at: a broker leaves"


def test_a_refusal_is_the_reason() -> None:
    (_, [end]), (_, [decision]) = compared(
        batches(THERE), {Partition("t", 0): "ISR change: refused INELIGIBLE_REPLICA"}
    )
    assert end.reason == decision.reason == "ISR change: refused INELIGIBLE_REPLICA"
    assert decision.what == "no change at: a broker leaves"


def test_other_steps_to_the_same_end_are_named() -> None:
    (same, _), (_, [decision]) = compared(batches(THERE, {"isr": [1, 2]}, {"isr": [2, 3], "leader": 2}), {})
    assert same == 0 and decision.reason == "the end is the same: other moments or order"


def test_epochs_count_from_the_begin_and_are_compared() -> None:
    recorded, target = ClusterImage(), ClusterImage()
    decisions_of(recorded, batches(HERE, {"isr": [2, 3], "leader": 2}))
    decisions_of(target, batches(THERE, {"isr": [1, 2]}, {"isr": [2, 3], "leader": 2}))
    _, [end] = end_differences(EndState(recorded, {}), EndState(target, {}), {})
    assert end.what == "partition epoch" and end.reason == "the same state after another number of changes"
    [example] = end.examples
    assert example == (
        "t-0: leader epoch +1, partition epoch +1 recorded, leader epoch +1, partition epoch +2 replayed"
    )
    first = ClusterImage()
    decisions_of(first, batches(THERE, {"isr": [1, 2]}))
    assert end_differences(EndState(recorded, {}), EndState(target, epochs_of(first)), {}) == (1, [])


def test_partitions_of_deleted_topics_are_left_out() -> None:
    image = ClusterImage()
    decisions_of(image, batches(HERE))
    image.apply(TopicRecord(name="u", topic_id=THERE))
    image.apply(PartitionRecord(partition_id=0, topic_id=THERE, replicas=[1], isr=[1], leader=1))
    image.apply(RemoveTopicRecord(topic_id=HERE))
    assert [str(partition) for partition, _ in partitions_of(image)] == ["u-0"]


def test_a_missing_topic_is_named() -> None:
    (same, [end]), _ = compared(batches(THERE)[:1], {})
    assert (same, end.what, end.reason) == (0, "is missing", "the topic was not created")
