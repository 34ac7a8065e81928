"""Bugs of Kafka's with log directories, after KIP-858, as scenarios; and the leaders when a directory fails at once."""

from typing import Any

import numpy as np
import pytest

from controller.kraft.broker_clusters import (
    BEGIN_MS,
    a_cluster,
    a_heartbeat,
    a_registration,
    a_topic,
    ask,
    beat,
    error_of,
    put,
    records_of,
    take_effect,
    uuid,
)
from controller.kraft.directory_clusters import (
    BEFORE,
    FIRST,
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
from kcore.controller.kraft.departures import OFFLINE_LEADERS, REPLACED_DISKS
from kcore.controller.kraft.kraft_context import ControllerContext
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.image.image_writer import records_of as image_records
from kcore.metadata.image.replay import replay
from kcore.metadata.table.directory_table import LOST_UUID, MIGRATING_UUID
from kcore.metadata.table.partition_values import PartitionCreations
from kcore.protocol_errors import Errors
from kcore.schema.broker_lifecycle import BrokerRegistrationRequest
from kcore.schema.metadata_records_brokers import (
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
)
from kcore.schema.metadata_records_settings import FeatureLevelRecord
from kcore.schema.metadata_records_topics import PartitionChangeRecord
from kcore.schema.partitions import (
    AlterPartitionReassignmentsRequest,
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    ReassignablePartition,
    ReassignableTopic,
)
from kcore.schema.topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from kcore.types import Uuid
from kcore.wire.codec import decode, encode
from kcore.wire.records import decode_records

# Bugs of Kafka's.


@pytest.mark.covers("KRaft C1")
def test_a_broker_with_directories_registers_where_the_version_has_none() -> None:
    """KAFKA-16094: LogDirs could not be left out for a controller of 3.6."""
    for version in (0, 1):
        request = a_registration(9, 90, log_dirs=[uuid(7)])
        registration = decode(BrokerRegistrationRequest, version, encode(request, version))
        assert registration.log_dirs == []
        assert error_of(ask(a_cluster(level=BEFORE), registration, version=version)) is Errors.NONE
        assert error_of(ask(a_cluster(level=SINCE), registration, version=version)) is Errors.INVALID_REGISTRATION


@pytest.mark.covers("KRaft C2", "KRaft C3", "KRaft C4")
def test_brokers_that_registered_before_the_level_have_all_directories_online() -> None:
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
def test_assignments_before_the_level_are_refused() -> None:
    """KAFKA-16131: brokers sent them, and the controller wrote what the level cannot say."""
    context = a_cluster(level=BEFORE)
    a_topic(context, 1, [1, 2])
    decision = ask(context, an_assignment(context, 1, {FIRST: [0]}), version=0)
    assert error_of(decision) is Errors.UNSUPPORTED_VERSION and not decision.records
    raise_level(context, SINCE)
    assert codes_of(assign(context, 1, {FIRST: [0]})) == [Errors.NONE]


@pytest.mark.covers("KRaft C6")
def test_replicas_that_move_before_the_level_stay_writable() -> None:
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
def test_heartbeats_in_flight_together_are_decided_one_after_the_other() -> None:
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
def test_several_directories_before_the_level_are_in_no_record() -> None:
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
def test_cordoned_directories_are_told_in_heartbeats_alone() -> None:
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
def test_a_broker_that_is_unfenced_does_not_lead_in_a_directory_that_fails_at_once(
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


@pytest.mark.parametrize("kafka_way", [frozenset(), frozenset({REPLACED_DISKS})], ids=["kcore's way", "kafka's way"])
def test_a_last_known_leader_whose_disk_was_replaced_does_not_lead(kafka_way: frozenset[str]) -> None:
    """All brokers were killed: nobody is in the ISR or the ELR, and 2 and 3 have what 1 has lost with its disk."""
    context = a_cluster(kafka_way=kafka_way)
    put(context, FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=1))
    a_topic(context, 2, [1, 2, 3])
    alone = a_topic(context, 1, [1], number=2)
    for topic_id, index, before in ((TOPIC_ID, 0, uuid(77)), (TOPIC_ID, 1, LOST_UUID), (alone, 0, uuid(77))):
        others = [uuid(1002), uuid(1003)] if topic_id is TOPIC_ID else []
        fields = {"isr": [], "leader": -1, "last_known_elr": [1], "directories": [before, *others]}
        put(context, PartitionChangeRecord(topic_id=topic_id, partition_id=index, **fields))
    assign(context, 1, {FIRST: [0, 1]})
    take_effect(context, ask(context, an_assignment(context, 1, {FIRST: [0]}, alone), version=0))
    assert context.image.partition(TOPIC, 0).directories[0] == FIRST
    assert state(context, 0) == ((1, (1,)) if kafka_way else (-1, ()))
    assert state(context, 1) == (1, (1,)), "its disk is there again"
    assert context.image.partition("topic-2", 0).leader == 1, "nobody else has a replica"
    beat(context, 1, want_fence=True)
    beat(context, 1)
    assert context.image.partition(TOPIC, 0).last_known_elr == ()
    assert state(context, 0) == ((1, (1,)) if kafka_way else (-1, ())), "nor later"


def test_a_forgotten_brokers_directories_stay_those_of_its_replicas() -> None:
    context = a_cluster()
    a_topic(context, 1, [1, 2, 3])
    put(context, UnregisterBrokerRecord(broker_id=2, broker_epoch=context.image.brokers[2].epoch))
    assert context.image.partition(TOPIC, 0).directories == (FIRST, uuid(1002), uuid(1003))


@pytest.mark.parametrize("release", ["4.3.1", "4.4.0"])
def test_a_manual_assignment_names_no_cordoned_broker_from_4_4_on(release: str) -> None:
    """Unless one of the broker's directories is not cordoned."""
    context = a_cluster(level=30, release=release)
    a_topic(context, 1, [2, 3])
    beat(context, 1, cordoned_log_dirs=[FIRST])
    wanted = 0 if release == "4.3.1" else Errors.INVALID_REPLICA_ASSIGNMENT
    assert assigned_by_hand(context, [1, 2]) == [wanted] * 3
    assert assigned_by_hand(context, [3, 2]) == [0] * 3
    beat(context, 1, cordoned_log_dirs=[uuid(7)])
    assert assigned_by_hand(context, [1, 2]) == [0] * 3


def assigned_by_hand(context: ControllerContext, brokers: list[int]) -> list[int]:
    """The errors of CreateTopics, CreatePartitions and AlterPartitionReassignments; nothing takes effect."""
    assignment = CreatableReplicaAssignment(partition_index=0, broker_ids=brokers)
    topic = CreatableTopic(name="new", num_partitions=-1, replication_factor=-1, assignments=[assignment])
    created = ask(context, CreateTopicsRequest(topics=[topic]), version=7).response
    more = CreatePartitionsTopic(name=TOPIC, count=2, assignments=[CreatePartitionsAssignment(broker_ids=brokers)])
    grown = ask(context, CreatePartitionsRequest(topics=[more]), version=3).response
    move = ReassignableTopic(name=TOPIC, partitions=[ReassignablePartition(partition_index=0, replicas=brokers)])
    moved = ask(context, AlterPartitionReassignmentsRequest(topics=[move]), version=1).response
    found: Any = created, grown, moved
    items = found[0].topics[0], found[1].results[0], found[2].responses[0].partitions[0]
    messages = {each.error_message for each in items if each.error_code}
    assert messages <= {"The manual partition assignment includes broker 1, but all its log directories are cordoned."}
    return [each.error_code for each in items]
