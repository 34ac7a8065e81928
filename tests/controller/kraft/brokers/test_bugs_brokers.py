"""Bugs of Kafka's that fenced healthy brokers, left partitions without a leader, or lost them, as scenarios."""

from collections import deque
from typing import Any

import pytest

from controller.kraft import hostile
from controller.kraft.active import Active
from controller.kraft.broker_clusters import (
    SESSION_MS,
    a_cluster,
    a_registration,
    a_topic,
    ask,
    beat,
    put,
    take_effect,
    uuid,
)
from kcore.controller.kraft import writing
from kcore.controller.kraft.kraft_context import ControllerContext
from kcore.controller.kraft.tasks import all_tasks
from kcore.protocol_errors import Errors
from kcore.schema.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    BrokerState,
)
from kcore.schema.broker_lifecycle import BrokerHeartbeatRequest
from kcore.schema.metadata_records_brokers import UnregisterBrokerRecord
from kcore.schema.partitions import AlterPartitionReassignmentsRequest, ReassignablePartition, ReassignableTopic
from kcore.schema.topics import CreatableTopic, CreateTopicsRequest
from kcore.steps import finished
from kraft_configs import controller_config

TOPIC, TOPIC_ID = "topic-1", uuid(5001)
INTERVAL_MS = 2_000  # Between a broker's heartbeats.


# Sessions under the controller's own clock: brokers 1 to 3 are unfenced, 4 is not.


class Cluster(Active):
    """An active controller that does its periodic work, and brokers that tell that they live."""

    def __init__(self) -> None:
        settings = hostile.settings_of("4.3.1")
        tasks = all_tasks(controller_config(1, "a cluster", **settings))
        super().__init__(hostile.log_of("4.3.1", 30), epoch=2, tasks=tasks, **settings)
        self.commit()

    def beat(self, *broker_ids: int) -> None:
        image = self.controller.image
        for broker_id in broker_ids:
            epoch = image.brokers[broker_id].epoch
            self.ask(
                BrokerHeartbeatRequest(
                    broker_id=broker_id, broker_epoch=epoch, current_metadata_offset=image.end_offset - 1
                )
            )

    def wait(self, ms: int) -> None:
        """Time passes in which the controller does nothing but what is due."""
        end = self.now_ms + ms
        while (due := self.controller.next_due_ms) is not None and due <= end:
            self.now_ms = max(due, self.now_ms)
            self.take(self.controller.on_timer())
        self.now_ms = end

    @property
    def unfenced(self) -> list[int]:
        brokers = self.controller.image.brokers
        return [each for each in sorted(brokers) if not brokers[each].fenced]


@pytest.mark.covers("E13")
def test_an_event_longer_than_a_session_fences_no_live_broker() -> None:
    """KAFKA-15019, KAFKA-17793, KAFKA-19294: the look for stale brokers came before the heartbeats that waited."""
    cluster = Cluster()
    cluster.beat(1, 2, 3)
    cluster.wait(INTERVAL_MS)
    cluster.now_ms += 2 * SESSION_MS  # One event; heartbeats wait to be read.
    cluster.take(cluster.controller.on_timer())
    cluster.beat(1, 2)
    cluster.wait(SESSION_MS - 1)
    assert cluster.unfenced == [1, 2], "3 was silent, and the controller was listening"
    cluster.wait(INTERVAL_MS)
    assert cluster.unfenced == []


@pytest.mark.covers("KRaft D7")
def test_a_heartbeat_that_could_not_be_answered_counts() -> None:
    """KAFKA-14392: one answer that was late, and the broker was fenced before it asked again."""
    cluster = Cluster()
    cluster.beat(1, 2, 3)
    cluster.wait(SESSION_MS - INTERVAL_MS)
    cluster.ask(CreateTopicsRequest(topics=[CreatableTopic(name="new", num_partitions=1, replication_factor=1)]))
    answered = len(cluster.answers)
    cluster.beat(1, 2)
    assert len(cluster.answers) == answered, "the quorum commits nothing: the answers wait"
    cluster.wait(SESSION_MS - INTERVAL_MS)
    assert cluster.unfenced == [1, 2]
    cluster.commit()
    cluster.beat(1)
    cluster.wait(SESSION_MS - INTERVAL_MS)
    assert cluster.unfenced == [1]


# ISRs.


def an_isr(
    context: ControllerContext, leader: int, members: dict[int, int], epochs: tuple[int, int] | None = None
) -> Any:
    """The leader asks for that ISR, with the epochs of the brokers that it knows; what is decided takes effect."""
    partition = context.image.partition(TOPIC, 0)
    leader_epoch, partition_epoch = epochs or (partition.leader_epoch, partition.partition_epoch)
    data = AlterPartitionRequestPartitionData(
        partition_index=0,
        leader_epoch=leader_epoch,
        partition_epoch=partition_epoch,
        new_isr_with_epochs=[BrokerState(broker_id=each, broker_epoch=epoch) for each, epoch in members.items()],
    )
    request = AlterPartitionRequest(
        broker_id=leader,
        broker_epoch=context.image.brokers[leader].epoch,
        topics=[AlterPartitionRequestTopicData(topic_id=TOPIC_ID, partitions=[data])],
    )
    decision = take_effect(context, ask(context, request, version=3))
    response: Any = decision.response
    code = Errors(response.topics[0].partitions[0].error_code)
    assert bool(decision.records) == (code in (Errors.NONE, Errors.NEW_LEADER_ELECTED))
    return code


def epochs_of(context: ControllerContext, *broker_ids: int) -> dict[int, int]:
    return {each: context.image.brokers[each].epoch for each in broker_ids}


@pytest.mark.covers("KRaft B6")
@pytest.mark.parametrize("how", ["want_fence", "want_shut_down"])
def test_a_replica_that_is_fenced_or_leaves_does_not_join(how: str) -> None:
    """KAFKA-13916: it joined, was the ISR's last member, and the partition had no leader any more."""
    context = a_cluster()
    a_topic(context, 1, [1, 2, 3], isr=[1, 3])
    a_topic(context, 1, [2, 3], number=2)  # So that broker 2 does not stop at once.
    beat(context, 2, **{how: True})
    assert an_isr(context, 1, epochs_of(context, 1, 2, 3)) is Errors.INELIGIBLE_REPLICA
    beat(context, 1, want_fence=True)
    after = context.image.partition(TOPIC, 0)
    assert (after.leader, after.isr) == (3, (3,))


@pytest.mark.covers("KRaft B7")
def test_a_replica_that_lost_its_log_does_not_join_by_what_it_fetched_before() -> None:
    """KAFKA-14617: the leader had seen it caught up before it restarted empty, and it was elected later."""
    context = a_cluster()
    a_topic(context, 1, [1, 2, 3], isr=[1, 3])
    before = epochs_of(context, 1, 2, 3)
    put(context, UnregisterBrokerRecord(broker_id=2, broker_epoch=before[2]))
    take_effect(context, ask(context, a_registration(2, 22)))
    beat(context, 2)
    assert not context.image.brokers[2].fenced and context.image.brokers[2].epoch != before[2]
    assert an_isr(context, 1, before) is Errors.INELIGIBLE_REPLICA
    assert context.image.partition(TOPIC, 0).isr == (1, 3)
    assert an_isr(context, 1, epochs_of(context, 1, 2, 3)) is Errors.NONE


@pytest.mark.covers("KRaft B11")
def test_a_reassignment_is_not_over_before_all_its_targets_are_in_sync() -> None:
    """KAFKA-15665: the old replicas were deleted while new ones had yet to copy the log."""
    context = a_cluster(range(1, 5))
    a_topic(context, 1, [1, 2])
    moved = ReassignableTopic(name=TOPIC, partitions=[ReassignablePartition(partition_index=0, replicas=[3, 4])])
    take_effect(context, ask(context, AlterPartitionReassignmentsRequest(topics=[moved]), version=1))
    assert an_isr(context, 1, epochs_of(context, 1, 2, 3)) is Errors.NONE
    during = context.image.partition(TOPIC, 0)
    assert (during.adding_replicas, during.removing_replicas) == ((3, 4), (1, 2))
    assert {*during.replicas} == {1, 2, 3, 4} and during.leader == 1
    assert an_isr(context, 1, epochs_of(context, 1, 2, 3, 4)) is Errors.NEW_LEADER_ELECTED
    after = context.image.partition(TOPIC, 0)
    assert (after.replicas, {*after.isr}, after.leader) == ((3, 4), {3, 4}, 3)


@pytest.mark.covers("KRaft B5")
def test_a_leader_that_missed_the_answer_learns_that_its_epoch_is_old() -> None:
    """KAFKA-14144: AlterPartition was done, its answer lost, and the leader asked with the old epoch for ever."""
    context = a_cluster()
    a_topic(context, 1, [1, 2, 3], isr=[1])
    before = context.image.partition(TOPIC, 0)
    epochs = before.leader_epoch, before.partition_epoch
    assert an_isr(context, 1, epochs_of(context, 1, 2), epochs) is Errors.NONE
    done = context.image.partition(TOPIC, 0)
    assert an_isr(context, 1, epochs_of(context, 1, 2), epochs) is Errors.INVALID_UPDATE_VERSION
    assert context.image.partition(TOPIC, 0) == done
    assert an_isr(context, 1, epochs_of(context, 1, 2, 3)) is Errors.NONE, "by the epoch that it reads in the log"


# Placement.


@pytest.mark.covers("KRaft E25")
def test_two_requests_that_create_a_topic_at_once_create_one() -> None:
    """Crabka PR 364: two brokers that missed __consumer_offsets made two topics of that name."""
    cluster = Cluster()
    made = CreateTopicsRequest(
        topics=[CreatableTopic(name="__consumer_offsets", num_partitions=5, replication_factor=1)]
    )
    cluster.ask(made, "one")
    cluster.ask(made, "other")
    cluster.commit()
    codes = [Errors(answer.topics[0].error_code) for answer in map(cluster.answers.__getitem__, ("one", "other"))]
    assert codes == [Errors.NONE, Errors.TOPIC_ALREADY_EXISTS]
    assert cluster.replayed() == cluster.controller.image


@pytest.mark.covers("E15")
@pytest.mark.parametrize("factor", [1, 3])
def test_one_live_broker_leads_all_that_is_created(factor: int) -> None:
    """KAFKA-12897: with one broker alive and several partitions the placement never ended."""
    context = a_cluster()
    for broker_id in (1, 3):
        beat(context, broker_id, want_fence=True)
    topic = CreatableTopic(name="new", num_partitions=12, replication_factor=factor)
    take_created(context, topic)
    table = context.image.table
    places = [context.image.partition("new", index) for index in range(12)]
    assert table.partition_count == 12
    assert {each.leader for each in places} == {2} and {each.isr for each in places} == {(2,)}
    assert all(each.replicas[0] == 2 and len({*each.replicas}) == factor for each in places)


def take_created(context: ControllerContext, topic: CreatableTopic) -> None:
    """The topic is there."""
    decision = ask(context, CreateTopicsRequest(topics=[topic]), version=7)
    made = finished(writing.written(context, decision, [*writing.encoding(context, decision)], 1, 0))
    assert made is not None
    deque(writing.taking_effect(context, made, decision, 1, 0), 0)
