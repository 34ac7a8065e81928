"""Log directories as the KRaft controller decides of them: KIP-858 sentence by sentence."""

from typing import Any

import numpy as np
import pytest

from controller.kraft.broker_clusters import (
    BEGIN_MS,
    SESSION_MS,
    a_cluster,
    a_heartbeat,
    a_registration,
    a_topic,
    ask,
    beat,
    changes_of,
    error_of,
    put,
    records_of,
    take_effect,
    uuid,
)
from controller.kraft.directory_clusters import (
    BEFORE,
    FIRST,
    MANY,
    SECOND,
    SINCE,
    TOPIC,
    TOPIC_ID,
    an_assignment,
    assign,
    codes_of,
    fail,
    raise_level,
    state,
    with_two,
    written,
)
from kcore.controller.kraft.brokers.heartbeat import changes_nothing
from kcore.controller.kraft.decision import Steps
from kcore.controller.kraft.kraft_context import RequestInfo
from kcore.controller.kraft.leaders import directories as assigning
from kcore.controller.kraft.leaders.directories import on_assign_replicas_to_dirs
from kcore.metadata.table.directory_table import LOST_UUID, MIGRATING_UUID, UNASSIGNED_UUID
from kcore.metadata.table.partition_values import PartitionCreations
from kcore.protocol_errors import Errors
from kcore.schema.metadata_records_brokers import (
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
)
from kcore.schema.metadata_records_topics import PartitionChangeRecord
from kcore.schema.partitions import ElectLeadersRequest, TopicPartitions
from kcore.schema.topics import CreatableTopic, CreateTopicsRequest


def all_of(steps: Steps) -> list[Any]:
    """The result of each part of a decision; the last entry is the decision."""
    found: list[Any] = []
    while True:
        try:
            found.append(next(steps))
        except StopIteration as done:
            return [*found, done.value]


# Records.


@pytest.mark.covers("KIP-858 records order")
def test_directories_are_in_the_order_of_the_replicas() -> None:
    context = a_cluster()
    a_topic(context, 1, [3, 1, 2])
    with_two(context)
    [record] = written(context, decision := ask(context, an_assignment(context, 1, {SECOND: [0]}), version=0))
    assert record.directories == [uuid(1003), SECOND, uuid(1002)]
    take_effect(context, decision)
    assert context.image.partition(TOPIC, 0).directories == (uuid(1003), SECOND, uuid(1002))
    assert not assign(context, 1, {SECOND: [0]}).records, "it is there already"


@pytest.mark.covers("KIP-858 records default", "KIP-858 migration existing")
def test_a_replica_from_before_the_level_is_in_migrating_which_is_all_zeros() -> None:
    """The document has UNASSIGNED for zero; what Kafka shipped has MIGRATING there, and UNASSIGNED for one."""
    assert bytes(16) == MIGRATING_UUID and bytes(15) + b"\1" == UNASSIGNED_UUID and bytes(15) + b"\2" == LOST_UUID
    context = a_cluster(level=BEFORE)
    a_topic(context, 1, [1, 2])
    raise_level(context, SINCE)
    assert context.image.partition(TOPIC, 0).directories == (MIGRATING_UUID, MIGRATING_UUID)
    with_two(context)
    assign(context, 1, {SECOND: [0]})
    assert context.image.partition(TOPIC, 0).directories == (SECOND, MIGRATING_UUID), "the other broker's is not known"


@pytest.mark.covers("KIP-858 catch-up unassigned")
def test_a_new_replica_is_in_the_only_directory_of_its_broker_or_in_none_yet() -> None:
    context = a_cluster()
    with_two(context)
    request = CreateTopicsRequest(topics=[CreatableTopic(name="new", num_partitions=1, replication_factor=3)])
    [created] = [each for each in ask(context, request, version=7).records if isinstance(each, PartitionCreations)]
    assert created.directories is not None
    uuids = context.image.directories.uuids
    replicas, rows = np.array(created.replicas)[0].tolist(), np.array(created.directories)[0].tolist()
    homes = {broker_id: uuids[row] for broker_id, row in zip(replicas, rows, strict=True)}
    assert homes == {1: UNASSIGNED_UUID, 2: uuid(1002), 3: uuid(1003)}


# AssignReplicasToDirs.


@pytest.mark.covers("KIP-858 assign partition errors")
def test_each_assignment_has_its_own_error_and_the_others_are_made() -> None:
    context = a_cluster()
    a_topic(context, 2, [1, 2])
    a_topic(context, 1, [2, 3], number=2)
    with_two(context)
    request = an_assignment(context, 1, {SECOND: [0, 7], FIRST: [1]})
    [more] = an_assignment(context, 1, {SECOND: [0]}, topic_id=uuid(5002)).directories
    [unknown] = an_assignment(context, 1, {SECOND: [0, 1]}, topic_id=uuid(77)).directories
    request.directories += [more, unknown]
    decision = take_effect(context, ask(context, request, version=0))
    assert codes_of(decision) == [
        Errors.NONE,
        Errors.UNKNOWN_TOPIC_OR_PARTITION,
        Errors.NONE,
        Errors.NOT_LEADER_OR_FOLLOWER,
        Errors.UNKNOWN_TOPIC_ID,
        Errors.UNKNOWN_TOPIC_ID,
    ]
    assert [context.image.partition(TOPIC, each).directories[0] for each in (0, 1)] == [SECOND, FIRST]
    assert [
        (directory.id, topic.topic_id, [each.partition_index for each in topic.partitions])
        for directory in decision.response.directories
        for topic in directory.topics
    ] == [
        (asked.id, topic.topic_id, [each.partition_index for each in topic.partitions])
        for asked in request.directories
        for topic in asked.topics
    ]


@pytest.mark.covers("KIP-858 assign top-level error")
def test_a_request_of_another_incarnation_is_refused_as_a_whole() -> None:
    context = a_cluster()
    a_topic(context, 1, [1, 2])
    for broker_id, epoch in ((1, 77), (1, -1), (9, 0)):
        request = an_assignment(context, 1, {FIRST: [0]})
        request.broker_id, request.broker_epoch = broker_id, epoch
        decision = ask(context, request, version=0)
        assert error_of(decision) is Errors.STALE_BROKER_EPOCH and not codes_of(decision)
    request = an_assignment(context, 1, {FIRST: [0]})
    put(context, UnregisterBrokerRecord(broker_id=1, broker_epoch=request.broker_epoch))
    assert error_of(ask(context, request, version=0)) is Errors.STALE_BROKER_EPOCH, "it is registered no more"


@pytest.mark.covers("KIP-858 assign authorized")
def test_who_lacks_cluster_action_on_the_cluster_assigns_nothing() -> None:
    context = a_cluster()
    a_topic(context, 1, [1, 2])
    request = an_assignment(context, 1, {SECOND: [0]})
    guarded = a_cluster(has_authorizer=True)
    assert error_of(ask(guarded, request, version=0)) is Errors.CLUSTER_AUTHORIZATION_FAILED
    assert error_of(ask(context, request, version=0)) is Errors.NONE


@pytest.mark.covers("KIP-858 assign LOST", "KIP-858 move LOST")
def test_lost_takes_the_replica_out_of_the_isr_and_its_lead() -> None:
    context = a_cluster()
    a_topic(context, 2, [1, 2, 3])
    with_two(context)
    decision = assign(context, 1, {LOST_UUID: [0]})
    assert codes_of(decision) == [Errors.NONE]
    assert state(context, 0) == (2, (2, 3)) and state(context, 1) == (1, (1, 2, 3))
    assert context.image.partition(TOPIC, 0).directories[0] == LOST_UUID
    topics = [TopicPartitions(topic=TOPIC, partitions=[0])]
    take_effect(context, ask(context, ElectLeadersRequest(topic_partitions=topics), version=2))
    assert state(context, 0)[0] == 2, "a replica in LOST does not lead, preferred or not"
    assign(context, 1, {FIRST: [0]})
    assert context.image.partition(TOPIC, 0).directories[0] == FIRST


@pytest.mark.covers("KIP-858 assign any number")
def test_more_assignments_than_a_broker_sends_are_taken() -> None:
    """2,250 a request is the sender's limit; Kafka's controller has none, and writes one batch a portion."""
    context = a_cluster()
    a_topic(context, MANY, [1, 2, 3])
    with_two(context)
    decision = assign(context, 1, {SECOND: range(MANY)})
    assert codes_of(decision) == [Errors.NONE] * MANY
    assert sum(len(each) for each in changes_of(decision)) == MANY
    assert not decision.is_atomic


def test_a_large_request_is_decided_part_by_part_as_it_is_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A third of the assignments into a directory that failed, and some of them twice."""
    context, count, found = a_cluster(), 300, []
    a_topic(context, count, [1, 2, 3])
    with_two(context)
    fail(context, 1, SECOND)
    request = an_assignment(context, 1, {uuid(3001): range(0, count, 2), SECOND: range(0, count + 2, 3)})
    for at_once in (count // 10, 10 * count):
        monkeypatch.setattr(assigning, "DECIDED_AT_ONCE", at_once)
        parts = all_of(on_assign_replicas_to_dirs(context, request, RequestInfo(0, BEGIN_MS)))
        found.append((len(parts), codes_of(parts[-1]), written(context, parts[-1])))
    (many, *in_parts), (one, *at_once_) = found
    assert many > 20 and one == 1 and in_parts == at_once_
    assert Errors.UNKNOWN_TOPIC_OR_PARTITION in in_parts[0] and len(in_parts[1]) > count // 2


# When a replica is offline.


@pytest.mark.covers("KIP-858 offline broker")
def test_replicas_of_a_fenced_broker_are_offline() -> None:
    context = a_cluster()
    a_topic(context, 1, [1, 2, 3])
    beat(context, 1, want_fence=True)
    assert state(context) == (2, (2, 3))


@pytest.mark.covers("KIP-858 offline directory")
def test_a_replica_is_offline_where_its_brokers_last_registration_lacks_the_directory() -> None:
    context = a_cluster()
    a_topic(context, 1, [1, 2], isr=[1])
    take_effect(context, ask(context, a_registration(1, 1, log_dirs=[SECOND, uuid(3001)])))
    put(context, PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=0, leader=-1))
    take_effect(context, ask(context, ElectLeadersRequest(topic_partitions=None, election_type=1), version=2))
    assert state(context)[0] == 2, "an unclean election passes over the replica in sync, whose disk is gone"


@pytest.mark.covers("KIP-858 heartbeat offline")
def test_all_replicas_of_a_failed_directory_leave_their_isrs_in_one_decision() -> None:
    """And others lead; the replicas in the other directory stay."""
    context = a_cluster()
    a_topic(context, MANY, [1, 2, 3])
    with_two(context)
    assign(context, 1, {SECOND: range(0, MANY, 2)})
    decision = fail(context, 1, SECOND)
    assert [len(each) for each in changes_of(decision)] == [MANY // 2]
    table = context.image.table
    assert (table.leader__p[::2] == table.brokers.row(2)).all() and (
        table.leader__p[1::2] == table.brokers.row(1)
    ).all()
    [record] = records_of(decision)
    assert isinstance(record, BrokerRegistrationChangeRecord) and record.log_dirs == [FIRST]
    assert decision.records[-1].version == 2 and not context.image.brokers[1].fenced  # type: ignore[union-attr]


@pytest.mark.covers("KIP-858 heartbeat cumulative")
def test_a_directory_is_reported_until_the_broker_restarts_and_decided_once() -> None:
    context = a_cluster()
    a_topic(context, 2, [1, 2, 3])
    third = uuid(3001)
    take_effect(context, ask(context, a_registration(1, 1, log_dirs=[FIRST, SECOND, third])))
    assign(context, 1, {SECOND: [1]})
    assert len(changes_of(fail(context, 1, SECOND))) == 1
    assert not fail(context, 1, SECOND).records
    [changes] = changes_of(fail(context, 1, SECOND, FIRST))
    assert len(changes) == 1 and state(context, 0) == (2, (2, 3))
    assert context.image.brokers[1].directories == (third,)
    assert not ask(context, a_heartbeat(context, 1)).records, "a heartbeat without them brings none back"
    assert context.image.brokers[1].directories == (third,)


def test_a_heartbeat_that_repeats_a_failed_directory_needs_no_controller() -> None:
    context = a_cluster()
    with_two(context)
    beat(context, 1)
    again = a_heartbeat(context, 1, offline_log_dirs=[SECOND])
    assert not changes_nothing(context, again)
    fail(context, 1, SECOND)
    beat(context, 1)
    assert changes_nothing(context, again)
    with_two(context)  # It registers it as online again.
    beat(context, 1)
    assert not changes_nothing(context, again)


@pytest.mark.covers("KIP-858 heartbeat assignments first")
def test_assignments_into_a_failed_directory_come_in_any_order_with_its_failure() -> None:
    """Those that the broker had queued: the controller learns of them before or after, and comes to the same."""
    found = []
    for is_first in (True, False):
        context = a_cluster()
        a_topic(context, 2, [1, 2, 3])
        with_two(context)
        if is_first:
            assign(context, 1, {SECOND: [1]})
        fail(context, 1, SECOND)
        if not is_first:
            assert state(context, 1) == (1, (1, 2, 3)), "it does not know"
            assign(context, 1, {SECOND: [1]})
        found.append([state(context, 0), state(context, 1)])
    assert found == [[(1, (1, 2, 3)), (2, (2, 3))]] * 2


@pytest.mark.covers("KIP-858 heartbeat restart")
def test_a_new_incarnation_has_the_directories_that_it_registers() -> None:
    """The disk is back, or an empty one is in its place, under another id."""
    for directories, expected in (([FIRST, SECOND], (1, (1,))), ([FIRST, uuid(3001)], (-1, (1,)))):
        context = a_cluster()
        a_topic(context, 1, [1])
        with_two(context)
        assign(context, 1, {SECOND: [0]})
        fail(context, 1, SECOND)
        assert state(context) == (-1, (1,))
        beat(context, 1, want_shut_down=True)
        take_effect(context, ask(context, a_registration(1, 11, log_dirs=directories)))
        beat(context, 1)
        assert state(context) == expected


# From ZooKeeper.


@pytest.mark.covers("KIP-858 migration registration")
def test_a_registration_persists_its_directories() -> None:
    context = a_cluster()
    [record] = records_of(ask(context, a_registration(9, 90, log_dirs=[uuid(7), uuid(8)])))
    assert isinstance(record, RegisterBrokerRecord) and record.log_dirs == [uuid(7), uuid(8)]


@pytest.mark.covers("KIP-858 migration refused")
def test_a_broker_in_zookeeper_mode_is_refused() -> None:
    decision = ask(a_cluster(), a_registration(9, 90, is_migrating_zk_broker=True))
    assert error_of(decision) is Errors.BROKER_ID_NOT_REGISTERED


@pytest.mark.covers("KIP-858 migration fenced")
def test_a_broker_whose_replicas_are_in_migrating_is_unfenced_when_it_has_caught_up() -> None:
    """As in what Kafka shipped: it is the broker that asks to stay fenced until its assignments are persisted."""
    context = a_cluster(level=BEFORE)
    a_topic(context, 1, [1])
    raise_level(context, SINCE)
    later = BEGIN_MS + 2 * SESSION_MS
    take_effect(context, ask(context, a_registration(1, 11, log_dirs=[FIRST, SECOND]), later), later)
    assert beat(context, 1, want_fence=True).is_fenced
    assert state(context) == (-1, (1,))
    assign(context, 1, {SECOND: [0]})
    assert state(context) == (-1, (1,)), "fenced brokers assign, and lead nothing by it"
    assert not beat(context, 1).is_fenced
    assert state(context) == (1, (1,))
