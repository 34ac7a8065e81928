"""Log directories as the KRaft controller decides of them: KIP-858 sentence by sentence, and Kafka's bugs after it."""

from collections.abc import Mapping, Sequence
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
from kcore.controller.kraft.brokers.heartbeat import changes_nothing
from kcore.controller.kraft.context import ControllerContext
from kcore.controller.kraft.decision import Decision, encoded
from kcore.controller.kraft.departures import OFFLINE_LEADERS
from kcore.metadata.directory_table import LOST_UUID, MIGRATING_UUID, UNASSIGNED_UUID
from kcore.metadata.image import ClusterImage
from kcore.metadata.image_writer import records_of as image_records
from kcore.metadata.metadata_version import FEATURE_NAME, MetadataVersion
from kcore.metadata.partition_values import PartitionCreations
from kcore.metadata.replay import replay
from kcore.protocol_errors import Errors
from kcore.schema.broker_lifecycle import BrokerRegistrationRequest
from kcore.schema.log_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsRequestDirectoryData,
    AssignReplicasToDirsRequestPartitionData,
    AssignReplicasToDirsRequestTopicData,
    AssignReplicasToDirsResponse,
)
from kcore.schema.metadata_records_brokers import (
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
)
from kcore.schema.metadata_records_settings import FeatureLevelRecord
from kcore.schema.metadata_records_topics import PartitionChangeRecord
from kcore.schema.partitions import ElectLeadersRequest, TopicPartitions
from kcore.schema.topics import CreatableTopic, CreateTopicsRequest
from kcore.types import Uuid
from kcore.wire.codec import decode, encode
from kcore.wire.metadata_frames import decode_metadata_record
from kcore.wire.records import decode_records

TOPIC, TOPIC_ID = "topic-1", uuid(5001)
FIRST, SECOND = uuid(1001), uuid(2001)  # Broker 1's, once it has two.
BEFORE, SINCE = MetadataVersion.parse("3.7-IV1").feature_level, MetadataVersion.parse("3.7-IV2").feature_level
MANY = 50_000


def an_assignment(
    context: ControllerContext, broker_id: int, places: Mapping[Uuid, Sequence[int]], topic_id: Uuid = TOPIC_ID
) -> AssignReplicasToDirsRequest:
    """The broker's replicas of these partitions of a topic are in these directories."""
    return AssignReplicasToDirsRequest(
        broker_id=broker_id,
        broker_epoch=context.image.brokers[broker_id].epoch,
        directories=[
            AssignReplicasToDirsRequestDirectoryData(
                id=directory,
                topics=[
                    AssignReplicasToDirsRequestTopicData(
                        topic_id=topic_id,
                        partitions=[AssignReplicasToDirsRequestPartitionData(partition_index=each) for each in indexes],
                    )
                ],
            )
            for directory, indexes in places.items()
        ],
    )


def assign(context: ControllerContext, broker_id: int, places: Mapping[Uuid, Sequence[int]]) -> Decision:
    """It takes effect."""
    return take_effect(context, ask(context, an_assignment(context, broker_id, places), version=0))


def codes_of(decision: Decision) -> list[Errors]:
    response = decision.response
    assert isinstance(response, AssignReplicasToDirsResponse)
    found = (each for directory in response.directories for topic in directory.topics for each in topic.partitions)
    return [Errors(each.error_code) for each in found]


def written(context: ControllerContext, decision: Decision) -> list[Any]:
    """The records, as the log gets them."""
    parts = encoded(context.image, decision.records, context.version)
    return [decode_metadata_record(value)[0] for part in parts for value in part]


def with_two(context: ControllerContext, broker_id: int = 1, incarnation: int | None = None) -> None:
    """The broker registers its first directory and a second one."""
    directories = [uuid(1000 + broker_id), uuid(2000 + broker_id)]
    request = a_registration(broker_id, incarnation or broker_id, log_dirs=directories)
    assert error_of(take_effect(context, ask(context, request))) is Errors.NONE


def fail(context: ControllerContext, broker_id: int, *directories: Uuid) -> Decision:
    """A heartbeat that reports these directories as offline."""
    return take_effect(context, ask(context, a_heartbeat(context, broker_id, offline_log_dirs=[*directories])))


def state(context: ControllerContext, index: int = 0) -> tuple[int, tuple[int, ...]]:
    """Leader and ISR."""
    partition = context.image.partition(TOPIC, index)
    return partition.leader, partition.isr


def raise_level(context: ControllerContext, level: int) -> None:
    put(context, FeatureLevelRecord(name=FEATURE_NAME, feature_level=level))


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


@pytest.mark.covers("KIP-858 assign top-level error")
def test_a_request_of_another_incarnation_is_refused_as_a_whole() -> None:
    context = a_cluster()
    a_topic(context, 1, [1, 2])
    for broker_id, epoch in ((1, 77), (1, -1), (9, 0)):
        request = an_assignment(context, 1, {FIRST: [0]})
        request.broker_id, request.broker_epoch = broker_id, epoch
        decision = ask(context, request, version=0)
        assert error_of(decision) is Errors.STALE_BROKER_EPOCH and not codes_of(decision)


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
    assert [len(each) for each in changes_of(decision)] == [MANY]
    assert not decision.is_atomic


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


# Bugs of Kafka's.


@pytest.mark.covers("KRaft C1")
def test_c1_a_broker_with_directories_registers_where_the_version_has_none() -> None:
    """KAFKA-16094: LogDirs could not be left out for a controller of 3.6."""
    for version in (0, 1):
        request = a_registration(9, 90, log_dirs=[uuid(7)])
        heard = decode(BrokerRegistrationRequest, version, encode(request, version))
        assert heard.log_dirs == []
        assert error_of(ask(a_cluster(level=BEFORE), heard, version=version)) is Errors.NONE
        assert error_of(ask(a_cluster(level=SINCE), heard, version=version)) is Errors.INVALID_REGISTRATION


@pytest.mark.covers("KRaft C2", "KRaft C3", "KRaft C4")
def test_c2_brokers_that_registered_before_the_level_have_all_directories_online() -> None:
    """KAFKA-16162; KAFKA-16757, KAFKA-16952: they register again, and are neither fenced nor given another epoch."""
    context = a_cluster(level=BEFORE)
    a_topic(context, 1, [1, 2, 3])
    raise_level(context, SINCE)
    before = context.image.brokers[1]
    assert before.directories == ()
    assign(context, 1, {SECOND: [0]})
    assert state(context) == (1, (1, 2, 3)), "no list of directories is no list without this one"
    assert not fail(context, 1, SECOND).records, "nor does it go offline"
    with_two(context)
    after = context.image.brokers[1]
    assert after.directories == (FIRST, SECOND)
    assert (after.epoch, after.fenced) == (before.epoch, False)
    assert state(context) == (1, (1, 2, 3))
    fail(context, 1, SECOND)
    assert state(context) == (2, (2, 3))


@pytest.mark.covers("KRaft C5")
def test_c5_assignments_before_the_level_are_refused() -> None:
    """KAFKA-16131: brokers sent them, and the controller wrote what the level cannot say."""
    context = a_cluster(level=BEFORE)
    a_topic(context, 1, [1, 2])
    decision = ask(context, an_assignment(context, 1, {FIRST: [0]}), version=0)
    assert error_of(decision) is Errors.UNSUPPORTED_VERSION and not decision.records
    raise_level(context, SINCE)
    assert codes_of(assign(context, 1, {FIRST: [0]})) == [Errors.NONE]


@pytest.mark.covers("KRaft C6")
def test_c6_replicas_that_move_before_the_level_stay_writable() -> None:
    """KAFKA-16583: without directories in the record they were UNASSIGNED, which the level cannot say: no snapshot."""
    context = a_cluster(level=BEFORE)
    a_topic(context, 1, [1, 2])
    put(context, PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=0, replicas=[3, 1, 2], isr=[3]))
    assert context.image.partition(TOPIC, 0).directories == (MIGRATING_UUID,) * 3
    copy = ClusterImage()
    for part in image_records(context.image):
        for batch in part.batches(0, epoch=1, timestamp=0):
            replay(copy, decode_records(bytes(batch)))
    assert copy.partition(TOPIC, 0) == context.image.partition(TOPIC, 0)


@pytest.mark.covers("KRaft C14")
def test_c14_heartbeats_in_flight_together_are_decided_one_after_the_other() -> None:
    """KAFKA-15950: a directory fails while the broker asks to be unfenced, or to stop; its heartbeats cross."""
    context = a_cluster()
    a_topic(context, 2, [1, 2, 3])
    with_two(context)
    assign(context, 1, {SECOND: [1]})
    epoch, offset = context.image.brokers[1].epoch, context.next_offset - 1
    kinds: list[dict[str, Any]] = [{}, {"offline_log_dirs": [SECOND]}, {"offline_log_dirs": [SECOND]}, {}]
    sent = [
        a_heartbeat(context, 1, broker_epoch=epoch, current_metadata_offset=offset, **each)
        for each in (*kinds, {"want_shut_down": True, "offline_log_dirs": [SECOND]})
    ]
    counts = [len(take_effect(context, ask(context, each, BEGIN_MS)).records) for each in sent]
    assert counts == [0, 2, 0, 0, 2], "the failure, and the shutdown, once each"
    assert state(context, 1) == (2, (2, 3)) and state(context, 0) == (2, (2, 3))
    assert context.image.brokers[1].directories == (FIRST,)


@pytest.mark.covers("KRaft C15")
def test_c15_several_directories_before_the_level_are_in_no_record() -> None:
    """KAFKA-16606: so the controller cannot tell which of them failed; the broker must not start with them."""
    context = a_cluster(level=BEFORE)
    with_two(context)
    assert context.image.brokers[1].directories == ()
    a_topic(context, 1, [1, 2])
    assert not fail(context, 1, FIRST, SECOND).records
    request = CreateTopicsRequest(topics=[CreatableTopic(name="new", num_partitions=1, replication_factor=3)])
    records = written(context, ask(context, request, version=7))
    assert [each.directories for each in records if hasattr(each, "isr")] == [[]]


@pytest.mark.covers("KRaft C17")
def test_c17_cordoned_directories_are_told_in_heartbeats_alone() -> None:
    """KAFKA-20441: the field of the registration was taken back; a broker that is back has none until it says so."""
    assert BrokerRegistrationRequest.versions.highest == 4
    assert "cordoned_log_dirs" not in {each.name for each in BrokerRegistrationRequest.__fields__}
    context = a_cluster(level=30)
    beat(context, 1, cordoned_log_dirs=[FIRST])
    assert context.image.brokers[1].cordoned_directories == (FIRST,)
    assert placed(context) == {2, 3}
    beat(context, 1)
    assert placed(context) == {2, 3}, "a heartbeat that says nothing of them uncordons none"
    [record] = records_of(take_effect(context, ask(context, a_registration(1, 1, log_dirs=[FIRST]))))
    assert isinstance(record, RegisterBrokerRecord) and record.cordoned_log_dirs is None
    assert context.image.brokers[1].cordoned_directories is None
    beat(context, 1, cordoned_log_dirs=[FIRST])
    assert placed(context) == {2, 3}
    beat(context, 1, cordoned_log_dirs=[])
    assert placed(context) == {1, 2, 3}


def placed(context: ControllerContext) -> set[int]:
    """The brokers that get replicas of a new topic with as many partitions as reach them all."""
    request = CreateTopicsRequest(topics=[CreatableTopic(name="new", num_partitions=12, replication_factor=1)])
    [created] = [each for each in ask(context, request, version=7).records if isinstance(each, PartitionCreations)]
    return set(np.array(created.replicas).ravel().tolist())


# By the directories as they are after the request (departure "offline-directories-lead").

KAFKAS = frozenset({OFFLINE_LEADERS})
WAYS = pytest.mark.parametrize("kafka_way", [frozenset(), KAFKAS], ids=["kcore's way", "kafka's way"])


@pytest.mark.covers("KRaft C14")
@WAYS
def test_c14_a_broker_that_is_unfenced_does_not_lead_in_a_directory_that_fails_at_once(
    kafka_way: frozenset[str],
) -> None:
    """KAFKA-15950: one heartbeat says both. Broker 2, in the ISR as well, could lead when it is back, and did not."""
    context = a_cluster(kafka_way=kafka_way)
    a_topic(context, 2, [1, 2])
    with_two(context)
    assign(context, 1, {SECOND: [0]})
    for broker_id in (2, 1):
        beat(context, broker_id, want_fence=True)
    put(context, PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=0, isr=[1, 2]))
    assert state(context, 0) == (-1, (1, 2)) and state(context, 1) == (-1, (1,))
    fail(context, 1, SECOND)
    assert state(context, 1) == (1, (1,))
    assert state(context, 0) == ((1, (2,)) if kafka_way else (-1, (2,))), "Kafka's leader is not even in the ISR"
    beat(context, 2)
    assert state(context, 0) == ((1, (2,)) if kafka_way else (2, (2,)))


@WAYS
def test_an_assignment_to_an_offline_directory_elects_nobody(kafka_way: frozenset[str]) -> None:
    context = a_cluster(kafka_way=kafka_way)
    a_topic(context, 1, [1], isr=[1])
    put(context, PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=0, leader=-1))
    assign(context, 1, {LOST_UUID: [0]})
    assert state(context) == ((1 if kafka_way else -1), (1,))


@WAYS
@pytest.mark.parametrize("before", [LOST_UUID, uuid(77)])
def test_an_assignment_that_brings_a_replica_online_elects_it(before: Uuid, kafka_way: frozenset[str]) -> None:
    """An empty disk is in the place of the lost one, and the broker tells where it has made the replica anew."""
    context = a_cluster(kafka_way=kafka_way)
    a_topic(context, 3, [1])
    assign(context, 1, {before: [0, 1]})
    assert state(context) == (-1, (1,))
    assign(context, 1, {FIRST: [0, 2]})
    assert state(context, 0) == ((-1 if kafka_way else 1), (1,))
    assert state(context, 1) == (-1, (1,)) and state(context, 2) == (1, (1,))
    beat(context, 1, want_fence=True)
    assign(context, 1, {FIRST: [1]})
    assert state(context, 1) == (-1, (1,)), "a fenced broker leads nothing"


def test_a_forgotten_brokers_directories_stay_those_of_its_replicas() -> None:
    context = a_cluster()
    a_topic(context, 1, [1, 2, 3])
    put(context, UnregisterBrokerRecord(broker_id=2, broker_epoch=context.image.brokers[2].epoch))
    assert context.image.partition(TOPIC, 0).directories == (FIRST, uuid(1002), uuid(1003))
