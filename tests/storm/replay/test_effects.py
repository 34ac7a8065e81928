"""The causes of a batch in the order of its records, and the changes that belong to each of them."""

from typing import Any

from kcore.measure.storm.replay.causes import events_of
from kcore.measure.storm.replay.effects import Effect, steps_of
from kcore.measure.storm.replay.events import (
    Consequence,
    ControlledShutdown,
    DirectoriesAssigned,
    IsrsChanged,
    MissedHeartbeats,
    Partition,
    TopicsCreated,
    Unfenced,
)
from kcore.measure.storm.replay.partition_states import Epochs
from kcore.measure.storm.replay.trace import LogBatch
from kcore.metadata.image.image import ClusterImage
from kcore.schema.metadata_records_brokers import BrokerRegistrationChangeRecord, RegisterBrokerRecord
from kcore.schema.metadata_records_topics import PartitionChangeRecord, PartitionRecord, TopicRecord
from kcore.types import Uuid

T, U, A, B = (Uuid(bytes(15) + bytes([at])) for at in (7, 8, 9, 10))
P, Q, OTHER = Partition("t", 0), Partition("t", 1), Partition("u", 0)


def partition(topic_id: Uuid, index: int = 0, leader: int = 1) -> PartitionRecord:
    brokers = [leader, *({1, 2, 3} - {leader})]
    return PartitionRecord(
        partition_id=index, topic_id=topic_id, replicas=brokers, isr=brokers, leader=leader, leader_epoch=0,
        partition_epoch=0,
    )  # fmt: skip


def change(topic_id: Uuid, index: int = 0, **changed: Any) -> PartitionChangeRecord:
    return PartitionChangeRecord(partition_id=index, topic_id=topic_id, **changed)


def registration(broker_id: int, **changed: int) -> BrokerRegistrationChangeRecord:
    return BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=broker_id, **changed)


def before() -> ClusterImage:
    """Three brokers, and a topic of two partitions that broker 1 leads."""
    image = ClusterImage()
    for each in (1, 2, 3):
        image.apply(RegisterBrokerRecord(broker_id=each, broker_epoch=each, fenced=False, log_dirs=[A, B]), each)
    for at, record in enumerate((TopicRecord(name="t", topic_id=T), partition(T), partition(T, 1))):
        image.apply(record, 4 + at)
    return image


def batch(*records: Any) -> LogBatch:
    return LogBatch(9 + len(records), 0, tuple((10 + at, record) for at, record in enumerate(records)))


def test_a_batch_of_several_requests_keeps_their_order() -> None:
    records = (
        TopicRecord(name="u", topic_id=U),
        partition(U),
        change(T, isr=[1, 3]),
        change(T, 1, isr=[1, 3]),
        change(T, isr=[1, 2, 3]),  # The second change of the partition needs a second request.
        change(U, isr=[1, 2]),
        registration(3, fenced=1),
    )
    [created, changed, again, fenced] = steps_of(before(), [batch(*records)])
    assert isinstance(created.cause, TopicsCreated) and [*created.effects] == [OTHER]
    assert isinstance(changed.cause, IsrsChanged) and [each.partition for each in changed.cause.changes] == [P, Q]
    assert isinstance(again.cause, IsrsChanged) and [each.partition for each in again.cause.changes] == [P]
    assert again.effects[P] == Effect(P, 1, frozenset({1, 2, 3}), (1, 2, 3), Epochs(0, 2))
    assert fenced.cause == MissedHeartbeats(3) and [*fenced.effects] == [OTHER]
    assert changed.brokers == fenced.brokers == {1, 2, 3}


def test_the_directories_of_a_partition_that_are_reported_twice_are_two_requests() -> None:
    none = Uuid(bytes(16))
    records = (change(T, directories=[A, none, none]), change(T, directories=[B, none, none]))
    found = [each.what for each in events_of(before(), [batch(*records)])]
    assert found == [DirectoriesAssigned(1, {P: A}), DirectoriesAssigned(1, {P: B})]


def test_what_a_fencing_changes_is_before_its_record_and_what_a_shutdown_changes_behind() -> None:
    story = (
        batch(registration(1, in_controlled_shutdown=1), change(T, isr=[2, 3], leader=2)),
        batch(change(T, isr=[3], leader=3), registration(2, fenced=1)),
        batch(registration(2, fenced=-1)),
    )
    [stopped, fenced, unfenced] = steps_of(before(), story)
    assert stopped.cause == ControlledShutdown(1) and stopped.effects[P].isr == {2, 3}
    assert fenced.cause == MissedHeartbeats(2) and fenced.effects[P].epochs == Epochs(2, 2)
    assert unfenced.cause == Unfenced(2) and not unfenced.effects


def test_a_broker_that_is_fenced_already_has_missed_no_heartbeats() -> None:
    story = (batch(registration(2, fenced=1)), batch(registration(2, fenced=1)))
    found = [each.what for each in events_of(before(), story)]
    assert found == [MissedHeartbeats(2), Consequence("broker fenced again", broker_id=2)]
