"""Departures that are switched back, and that no recorded story shows or shows rarely: Kafka's way beside kcore's."""

from collections.abc import Iterable
from typing import Any

import pytest

from controller.kraft.active import Active
from controller.kraft.broker_clusters import uuid
from kcore.constants import ELR_VERSION, MIN_ISR
from kcore.controller.kraft import departures
from kcore.controller.kraft.kafka_way.shadow import EligibleIndex, PublishedImage
from kcore.metadata.metadata_version import FEATURE_NAME
from kcore.protocol_errors import Errors
from kcore.schema.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    BrokerState,
)
from kcore.schema.broker_lifecycle import (
    BrokerRegistrationRequest,
    ControllerRegistrationRequest,
    Feature,
    Listener,
    UnregisterBrokerRequest,
)
from kcore.schema.configs import (
    ConfigResourceType,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)
from kcore.schema.metadata_records_brokers import BrokerFeature, RegisterBrokerRecord
from kcore.schema.metadata_records_log import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    NoOpRecord,
)
from kcore.schema.metadata_records_security import RemoveUserScramCredentialRecord, UserScramCredentialRecord
from kcore.schema.metadata_records_settings import ConfigRecord, FeatureLevelRecord
from kcore.schema.metadata_records_topics import (
    ClearElrRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from kcore.schema.structure import MetadataRecord
from kcore.schema.topics import CreatableTopic, CreateTopicsRequest
from kcore.schema.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from kcore.wire.metadata_frames import decode_metadata_record, encode_metadata_record
from kcore.wire.record_building import encode_values
from kcore.wire.records import decode_records

KAFKA = departures.KAFKA_WAY
KCORE: frozenset[str] = frozenset()
LEVEL = 29
TOPIC = uuid(7)
WRITTEN_IN: dict[type[MetadataRecord], int] = {RegisterBrokerRecord: 3, PartitionRecord: 2, PartitionChangeRecord: 2}


def batch(records: Iterable[MetadataRecord], offset: int = 0) -> bytes:
    values = [bytes(encode_metadata_record(each, WRITTEN_IN.get(type(each), 0))) for each in records]
    return bytes(encode_values(values, base_offset=offset, timestamp=0, partition_leader_epoch=1))


def a_log(*more: MetadataRecord) -> bytes:
    """Three brokers, and a partition that broker 1 leads alone; 3 is an eligible leader replica."""
    brokers = [
        RegisterBrokerRecord(
            broker_id=each,
            broker_epoch=10 + each,
            features=[BrokerFeature(name="kraft.version", max_supported_version=1)],
            incarnation_id=uuid(each),
            fenced=False,
            log_dirs=[uuid(1000 + each)],
        )
        for each in (1, 2, 3)
    ]
    features = {FEATURE_NAME: LEVEL, ELR_VERSION: 1}
    partition = PartitionRecord(
        topic_id=TOPIC,
        partition_id=0,
        replicas=[1, 2, 3],
        isr=[1],
        leader=1,
        leader_epoch=0,
        partition_epoch=0,
        eligible_leader_replicas=[3],
        directories=[uuid(1001)] * 3,
    )
    levels = [FeatureLevelRecord(name=name, feature_level=level) for name, level in features.items()]
    return batch([*levels, *brokers, TopicRecord(name="t", topic_id=TOPIC), partition, *more])


def an_active(way: frozenset[str], *more: MetadataRecord, **settings: Any) -> Active:
    return Active(a_log(*more), epoch=2, kafka_way=way, **settings)


def written(active: Active, since: int) -> list[MetadataRecord]:
    """The metadata records of its log from that byte on."""
    rows = decode_records(active.log[since:]) if len(active.log) > since else []
    return [decode_metadata_record(each.value)[0] for each in rows if each.value is not None]


# It answers -1 and gives up its leadership.


def an_operation() -> IncrementalAlterConfigsRequest:
    change = IncrementalAlterConfigsRequestAlterableConfig(name="retention.ms", config_operation=9, value="1")
    resource = IncrementalAlterConfigsRequestAlterConfigsResource(
        resource_type=ConfigResourceType.TOPIC, resource_name="t", configs=[change]
    )
    return IncrementalAlterConfigsRequest(resources=[resource])


def a_recovery_state() -> AlterPartitionRequest:
    return an_isr([1], recovery_state=7)


def an_isr(members: list[int], recovery_state: int = 0) -> AlterPartitionRequest:
    partition = AlterPartitionRequestPartitionData(
        partition_index=0,
        new_isr_with_epochs=[BrokerState(broker_id=each, broker_epoch=10 + each) for each in members],
        leader_recovery_state=recovery_state,
    )
    topic = AlterPartitionRequestTopicData(topic_id=TOPIC, partitions=[partition])
    return AlterPartitionRequest(broker_id=1, broker_epoch=11, topics=[topic])


def a_broker() -> BrokerRegistrationRequest:
    return BrokerRegistrationRequest(
        broker_id=4,
        cluster_id="a cluster",
        incarnation_id=uuid(4),
        listeners=[Listener(name="PLAINTEXT", host="", port=0)],
        features=[Feature(name=FEATURE_NAME, min_supported_version=7, max_supported_version=LEVEL)],
        log_dirs=[uuid(1004)],
    )


def a_controller() -> ControllerRegistrationRequest:
    return ControllerRegistrationRequest(controller_id=1, listeners=[Listener(name="C", host="", port=0)])


FAULTS = {
    departures.CONFIG_OPERATION: (an_operation, Errors.INVALID_REQUEST, lambda answer: answer.responses[0].error_code),
    departures.RECOVERY_STATE: (a_recovery_state, Errors.INVALID_REQUEST, lambda answer: answer.error_code),
    departures.LISTENERS: (a_broker, Errors.INVALID_REGISTRATION, lambda answer: answer.error_code),
    "of a controller": (a_controller, Errors.INVALID_REQUEST, lambda answer: answer.error_code),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_request_over_which_kafka_fails(name: str) -> None:
    build, expected, code = FAULTS[name]
    departure = departures.LISTENERS if name not in KAFKA else name
    for way in (KCORE, KAFKA - {departure}, frozenset({departure}), KAFKA):
        active = an_active(way)
        active.commit()
        end = len(active.log)
        answer = active.answer(build())
        fails = departure in way
        assert code(answer) == (Errors.UNKNOWN_SERVER_ERROR if fails else expected)
        assert active.has_given_up == fails and not written(active, end)


def test_what_waits_for_its_commit_is_refused_when_kafka_fails() -> None:
    """The request that failed is answered -1 at once; those before it were never committed."""
    active = an_active(KAFKA)
    active.commit()
    topic = CreatableTopic(name="u", num_partitions=1, replication_factor=1)
    assert active.ask(CreateTopicsRequest(topics=[topic]), "created") is None
    assert active.ask(a_recovery_state(), "failed").error_code == Errors.UNKNOWN_SERVER_ERROR
    assert active.has_given_up
    assert active.answers["created"].topics[0].error_code == Errors.NOT_CONTROLLER


def test_elections_over_a_setting_that_kafka_cannot_read() -> None:
    """Nobody checks min.insync.replicas of all brokers; what the topic itself has counts before it."""
    bad = ConfigRecord(resource_type=ConfigResourceType.BROKER, resource_name="", name=MIN_ISR, value="two")
    own = ConfigRecord(resource_type=ConfigResourceType.TOPIC, resource_name="t", name=MIN_ISR, value="1")
    for way, more, fails in ((KAFKA, [bad], True), (KCORE, [bad], False), (KAFKA, [bad, own], False)):
        active = an_active(way, *more)
        active.commit()
        answer = active.answer(UnregisterBrokerRequest(broker_id=1))
        assert active.has_given_up == fails
        assert answer.error_code == (Errors.UNKNOWN_SERVER_ERROR if fails else Errors.NONE)


# A refused kraft.version.


def updates(*levels: tuple[str, int]) -> UpdateFeaturesRequest:
    keys = [FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=1) for name, level in levels]
    return UpdateFeaturesRequest(feature_updates=keys)


# Kafka's order of the updates is that of a HashMap: kraft.version comes before the first of these, behind the second.
@pytest.mark.parametrize(("refused", "is_behind"), [((ELR_VERSION, 9), True), (("group.version", 9), False)])
def test_a_refused_request_brings_kraft_version_with_the_next_records(
    refused: tuple[str, int], is_behind: bool
) -> None:
    supported = {FEATURE_NAME: (7, 30), ELR_VERSION: (0, 1), "group.version": (0, 1), "kraft.version": (0, 1)}
    for way in (KCORE, KAFKA):
        active = an_active(way, supported_features=supported)
        active.commit()
        asked = updates(("kraft.version", 1), refused)
        assert active.answer(asked).error_code == Errors.INVALID_UPDATE_VERSION
        assert active.kraft_versions == []
        active.answer(UnregisterBrokerRequest(broker_id=2))
        assert active.kraft_versions == ([1] if way and is_behind else [])
        active.answer(UnregisterBrokerRequest(broker_id=3))
        assert len(active.kraft_versions) <= 1


# Brokers that were in cleared ELRs.


def test_a_change_is_written_twice_where_a_cleared_elr_had_the_broker() -> None:
    back = PartitionChangeRecord(topic_id=TOPIC, partition_id=0, isr=[1, 3])
    for way, count in ((KCORE, 1), (KAFKA, 2)):
        active = an_active(way, ClearElrRecord(), back)
        active.commit()
        end = len(active.log)
        assert active.answer(UnregisterBrokerRequest(broker_id=3)).error_code == Errors.NONE
        changes = [each for each in written(active, end) if isinstance(each, PartitionChangeRecord)]
        assert len(changes) == count and all(each.isr == [1] for each in changes)


def test_kafka_fails_over_a_deleted_topic_in_its_index() -> None:
    for way in (KCORE, KAFKA):
        active = an_active(way, ClearElrRecord(topic_name="t"), RemoveTopicRecord(topic_id=TOPIC))
        active.commit()
        answer = active.answer(UnregisterBrokerRequest(broker_id=3))
        assert active.has_given_up == bool(way)
        assert answer.error_code == (Errors.UNKNOWN_SERVER_ERROR if way else Errors.NONE)
        if way:
            assert answer.error_message.startswith(f"java.lang.RuntimeException: Topic ID {TOPIC} existed")


def change(elr: list[int], partition: int = 1) -> PartitionChangeRecord:
    return PartitionChangeRecord(topic_id=TOPIC, partition_id=partition, eligible_leader_replicas=elr)


def index_of(*records: MetadataRecord) -> EligibleIndex:
    index = EligibleIndex()
    for each in (TopicRecord(name="t", topic_id=TOPIC), *records):
        index.replay(each)
    return index


def test_the_index_is_that_of_kafka() -> None:
    """BrokersToElrs: an entry that is there twice leaves a partition 0 behind."""
    assert [*index_of(change([3])).of_broker(3)] == [(TOPIC, 1)]
    assert [*index_of(change([3]), change([])).of_broker(3)] == []
    assert [*index_of(change([3]), ClearElrRecord()).of_broker(3)] == [(TOPIC, 1)]
    twice = [change([3]), ClearElrRecord(), change([3])]
    assert [*index_of(*twice).of_broker(3)] == [(TOPIC, 1)] * 2
    assert [*index_of(*twice, change([])).of_broker(3)] == [(TOPIC, 0)]


def test_the_index_forgets_an_aborted_transaction() -> None:
    begin, abort, end = BeginTransactionRecord(), AbortTransactionRecord(), EndTransactionRecord()
    assert [*index_of(begin, change([3]), abort).of_broker(3)] == []
    assert [*index_of(begin, change([3]), end, begin, abort).of_broker(3)] == [(TOPIC, 1)]


def test_the_index_is_reverted_with_the_state() -> None:
    active = an_active(KAFKA)
    active.commit()
    index = active.controller.context.shadow.eligible
    assert index is not None and [*index.of_broker(3)] == [(TOPIC, 0)]
    active.ask(an_isr([1, 3]))
    index = active.controller.context.shadow.eligible
    assert index is not None and [*index.of_broker(3)] == []
    active.resign()
    index = active.controller.context.shadow.eligible
    assert index is not None and [*index.of_broker(3)] == [(TOPIC, 0)]


# Snapshots.


def names_in(image: PublishedImage) -> set[str]:
    return {*image.image.topics.names} - {""}


def lost(offset: int) -> list[MetadataRecord]:
    return [BeginTransactionRecord(name="left over"), TopicRecord(name=f"lost-{offset}", topic_id=uuid(offset + 1))]


def test_an_aborted_transaction_returns_where_more_is_read_with_it() -> None:
    left, abort, more = batch(lost(0)), batch([AbortTransactionRecord()], 2), batch([NoOpRecord()], 3)
    for way, parts, expected in (
        (KAFKA, [left + abort + more], {"lost-0"}),
        (KAFKA, [left + abort, more], set()),
        (KAFKA, [left, abort + more], {"lost-0"}),
        (KAFKA, [left, abort, more], set()),
        (KAFKA - {departures.ABORTED_RECORDS}, [left + abort + more], set()),
    ):
        published = PublishedImage(way)
        for part in parts:
            published.hand_over(part)
        assert names_in(published) == expected
        assert published.image.end_offset == 4


def test_what_stood_before_the_aborted_transaction_stays() -> None:
    published = PublishedImage(KAFKA)
    first = batch([TopicRecord(name="first", topic_id=uuid(9)), *lost(1)])
    published.hand_over(first + batch([AbortTransactionRecord()], 3))
    assert names_in(published) == {"first"}


def set_then_removed(offset: int = 0) -> list[MetadataRecord]:
    setting = ConfigRecord(
        resource_type=ConfigResourceType.TOPIC, resource_name="t", name="retention.ms", value=str(offset)
    )
    return [TopicRecord(name="t", topic_id=TOPIC), setting, RemoveTopicRecord(topic_id=TOPIC)]


def test_settings_of_a_topic_that_comes_and_goes_at_once_stay() -> None:
    resource = ConfigResourceType.TOPIC.value, "t"
    records = set_then_removed()
    for way, parts, expected in (
        (KAFKA, [records], {"retention.ms": "0"}),
        (KAFKA, [records[:2], records[2:]], None),
        (KAFKA - {departures.DELETED_SETTINGS}, [records], None),
    ):
        published, offset = PublishedImage(way), 0
        for part in parts:
            published.hand_over(batch(part, offset))
            offset += len(part)
        assert published.image.configs.get(resource) == expected
    published.hand_over(batch(records, offset))
    published = PublishedImage(KAFKA)
    for offset in (0, 3):  # The second time the image has settings of that name, and all of them go.
        published.hand_over(batch(set_then_removed(offset), offset))
    assert published.image.configs.get(resource) is None


@pytest.mark.parametrize(("names", "is_lost"), [(("a", "b"), True), (("b", "a"), False)])
def test_credentials_that_come_behind_the_removal_of_the_last_one_are_lost(
    names: tuple[str, str], is_lost: bool
) -> None:
    """In the order of the hash table; "a" comes before "b" there."""
    old, new = names
    before = batch([UserScramCredentialRecord(name=old, mechanism=2)])
    delta = [UserScramCredentialRecord(name=new, mechanism=2), RemoveUserScramCredentialRecord(name=old, mechanism=2)]
    for way in (KAFKA, KAFKA - {departures.LOST_SCRAM}):
        published = PublishedImage(way)
        published.hand_over(before)
        published.hand_over(batch(delta, 1))
        lost = is_lost and way == KAFKA
        assert [*published.image.scram] == ([] if lost else [(2, new)])


def test_the_active_controllers_own_batches_are_taken_one_by_one() -> None:
    """So its own snapshot drops the settings with the topic; whoever reads its log at once keeps them."""
    active = an_active(KAFKA)
    active.commit()
    end = len(active.log)
    creation = CreatableTopic(name="u", num_partitions=1, replication_factor=1)
    active.ask(CreateTopicsRequest(topics=[creation]))
    assert "u" not in active.controller.snapshots.image(active.controller.image).topics
    active.commit()
    assert "u" in active.controller.snapshots.image(active.controller.image).topics and written(active, end)


@pytest.mark.long
def test_transactions_begin_without_a_record_in_front_in_kafkas_way() -> None:
    many = [CreatableTopic(name=f"m-{each}", num_partitions=50, replication_factor=3) for each in range(400)]
    for way in (KCORE, KAFKA - {departures.RECORD_LIMITS}):
        active = an_active(way)
        active.commit()
        end = len(active.log)
        active.answer(CreateTopicsRequest(topics=many))
        records = written(active, end)
        first = [type(each) for each in records[:2]]
        assert first == ([BeginTransactionRecord, TopicRecord] if way else [NoOpRecord, BeginTransactionRecord])
        assert active.replayed() == active.controller.image
