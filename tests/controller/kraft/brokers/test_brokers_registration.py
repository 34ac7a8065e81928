"""Registrations that the controller accepts, and its answers to hostile and restarted brokers."""

from typing import Any

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
    look,
    put,
    records_of,
    take_effect,
    uuid,
)
from kcore.controller.kraft.brokers.registration import MOST_DIRECTORIES
from kcore.controller.kraft.departures import CLEAN_BOUNCE_WAITS, RECORD_LIMITS, UNBOUNDED_DIRECTORIES
from kcore.metadata.metadata_version import FEATURE_NAME
from kcore.protocol_errors import Errors
from kcore.schema.broker_lifecycle import (
    ControllerRegistrationRequest,
    Feature,
    Listener,
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from kcore.schema.metadata_records_brokers import RegisterBrokerRecord, UnregisterBrokerRecord
from kcore.schema.metadata_records_settings import FeatureLevelRecord, ProducerIdsRecord
from kcore.schema.producers import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from kcore.types import Uuid

WAITS = frozenset({CLEAN_BOUNCE_WAITS})
LIMITS = frozenset({RECORD_LIMITS})


def _listener(**given: Any) -> Listener:
    return Listener(**({"name": "PLAINTEXT", "host": "host", "port": 9092, "security_protocol": 0} | given))


HOSTILE: dict[str, dict[str, Any]] = {
    "a negative id": {"broker_id": -1},
    "port 0": {"listeners": [_listener(port=0)]},
    "no host": {"listeners": [_listener(host="")]},
    "a blank host": {"listeners": [_listener(host=" \t")]},
    "an unknown security protocol": {"listeners": [_listener(security_protocol=4)]},
    "a negative security protocol": {"listeners": [_listener(security_protocol=-1)]},
    "an unknown security protocol that a listener of the same name replaces": {
        "listeners": [_listener(security_protocol=9), _listener()]
    },
    "no directory": {"log_dirs": []},
    "a directory twice": {"log_dirs": [uuid(1), uuid(1)]},
    "MIGRATING": {"log_dirs": [Uuid(bytes(16))]},
    "the last reserved directory": {"log_dirs": [Uuid(bytes(15) + b"\x63")]},
    "a directory whose lower half is negative": {"log_dirs": [Uuid(bytes(8) + b"\xff" * 8)]},
    "another broker's directory": {"log_dirs": [uuid(7), uuid(1002)]},
    "no metadata.version": {"features": []},
}


@pytest.mark.parametrize("what", HOSTILE)
def test_what_kafka_refuses_or_falls_over_is_refused(what: str) -> None:
    context = a_cluster()
    given = {"broker_id": 9} | HOSTILE[what]
    decision = ask(context, a_registration(given.pop("broker_id"), 90, **given))
    assert error_of(decision) is Errors.INVALID_REGISTRATION


@pytest.mark.covers("E26")
def test_a_broker_of_another_cluster_is_refused() -> None:
    """E26, KAFKA-13528; a feature that a broker lacks is KAFKA-17305, below."""
    decision = ask(a_cluster(), a_registration(9, 90, cluster_id="another"))
    assert error_of(decision) is Errors.INCONSISTENT_CLUSTER_ID


@pytest.mark.covers("E26")
def test_a_broker_that_does_not_name_a_finalized_feature_is_refused() -> None:
    """E26, KAFKA-17305."""
    context = a_cluster()
    put(context, FeatureLevelRecord(name="group.version", feature_level=1))
    assert error_of(ask(context, a_registration(9, 90))) is Errors.UNSUPPORTED_VERSION


def test_directories_that_are_not_reserved_are_taken() -> None:
    context = a_cluster()
    assert error_of(ask(context, a_registration(9, 90, log_dirs=[Uuid(bytes(15) + b"\x64")]))) is Errors.NONE


def test_a_broker_has_so_many_directories() -> None:
    many = [Uuid((k + 1000).to_bytes(4) * 4) for k in range(MOST_DIRECTORIES + 1)]
    context = a_cluster()
    assert error_of(ask(context, a_registration(9, 90, log_dirs=many))) is Errors.INVALID_REGISTRATION
    assert error_of(ask(context, a_registration(9, 90, log_dirs=many[1:]))) is Errors.NONE
    context = a_cluster(kafka_way=frozenset({UNBOUNDED_DIRECTORIES}))
    assert error_of(ask(context, a_registration(9, 90, log_dirs=many))) is Errors.NONE


def test_the_directories_of_a_forgotten_broker_are_free() -> None:
    context = a_cluster()
    assert error_of(ask(context, a_registration(9, 90, log_dirs=[uuid(1002)]))) is Errors.INVALID_REGISTRATION
    put(context, UnregisterBrokerRecord(broker_id=2, broker_epoch=context.image.brokers[2].epoch))
    assert error_of(ask(context, a_registration(9, 90, log_dirs=[uuid(1002)]))) is Errors.NONE


@pytest.mark.parametrize(("level", "expected"), [(0, Errors.NONE), (1, Errors.UNSUPPORTED_VERSION)])
def test_a_broker_must_support_the_quorums_kraft_version(level: int, expected: Errors) -> None:
    context = a_cluster()
    context.raft.kraft_version = level
    of_metadata = Feature(name=FEATURE_NAME, min_supported_version=1, max_supported_version=99)
    of_raft = Feature(name="kraft.version", min_supported_version=0, max_supported_version=0)
    assert error_of(ask(context, a_registration(9, 90, features=[of_metadata, of_raft]))) is expected
    assert error_of(ask(context, a_registration(9, 90, features=[of_metadata]))) is expected


def test_one_listener_a_name_is_registered() -> None:
    context = a_cluster()
    listeners = [_listener(host="first"), _listener(name="SSL", security_protocol=1), _listener(host="last")]
    [record] = records_of(ask(context, a_registration(9, 90, listeners=listeners)))
    assert isinstance(record, RegisterBrokerRecord)
    assert [(each.name, each.host) for each in record.end_points] == [("PLAINTEXT", "last"), ("SSL", "host")]


@pytest.mark.covers("KRaft C3", "KRaft C4")
def test_the_same_incarnation_keeps_its_epoch_and_its_state() -> None:
    context = a_cluster()
    epoch = context.image.brokers[1].epoch
    [record] = records_of(ask(context, a_registration(1, 1, rack="new")))
    assert isinstance(record, RegisterBrokerRecord)
    assert (record.broker_epoch, record.fenced, record.rack) == (epoch, False, "new")


def test_a_new_incarnation_leaves_the_isr_before_it_is_registered() -> None:
    context = a_cluster()
    a_topic(context, 50_000, [1, 2, 3])
    put(context, UnregisterBrokerRecord(broker_id=1, broker_epoch=context.image.brokers[1].epoch))
    decision = ask(context, a_registration(1, 11))
    [changes] = changes_of(decision)
    assert len(changes) == 50_000 and decision.records[0] is changes
    [record] = records_of(decision)
    assert isinstance(record, RegisterBrokerRecord) and record.broker_epoch == context.next_offset


@pytest.mark.parametrize("release, level", [("3.9.1", 21), ("4.3.1", 21), ("4.3.1", 23)])
def test_a_registration_before_an_overdue_fencing_leaves_no_fenced_member(release: str, level: int) -> None:
    """After a pause of the controller, a registration may come before the check that fences the last incarnation."""
    context = a_cluster(release=release, level=level)
    a_topic(context, 1, [1, 2, 3])
    late_ms = BEGIN_MS + SESSION_MS + 1
    assert error_of(ask(context, a_registration(1, 11), late_ms - 1)) is Errors.DUPLICATE_BROKER_REGISTRATION
    decision = take_effect(context, ask(context, a_registration(1, 11), late_ms), late_ms)
    partition = context.image.partition("topic-1", 0)
    assert (partition.leader, partition.isr) == (2, (2, 3))
    *earlier, last = records_of(decision)
    assert isinstance(last, RegisterBrokerRecord)
    assert [each.fenced for each in earlier] == ([1] if release == "3.9.1" else []), "3.9.1 fences it first"  # type: ignore[attr-defined]
    assert context.image.brokers[1].fenced and context.image.brokers[1].epoch == last.broker_epoch


@pytest.mark.parametrize("release", ["3.9.1", "4.3.1"])
def test_a_new_incarnation_leaves_an_isr_that_another_broker_leads(release: str) -> None:
    """An ISR of brokers that were fenced together keeps them; the disk of the new incarnation may be empty."""
    context = a_cluster(release=release, level=21)
    a_topic(context, 1, [1, 2])
    late_ms = BEGIN_MS + SESSION_MS + 1
    fencing = look(context, late_ms)
    assert fencing is not None
    take_effect(context, fencing, late_ms)
    decision = ask(context, a_registration(2, 22), late_ms)
    assert len(changes_of(decision)) == (release != "3.9.1"), "in 3.9.1 an ISR without a leader stays"
    beat(context, 1, late_ms)
    partition = context.image.partition("topic-1", 0)
    assert (partition.leader, partition.isr) == (1, (1, 2))
    take_effect(context, ask(context, a_registration(2, 22, log_dirs=[uuid(9)]), late_ms), late_ms)
    assert context.image.partition("topic-1", 0).isr == (1,)


# A broker that restarts (departure "clean-bounce-waits").


@pytest.mark.covers("E14")
@pytest.mark.parametrize("kafka_way", [frozenset(), WAITS])
@pytest.mark.parametrize("leads", [False, True])
def test_a_broker_after_a_controlled_shutdown_registers_again(leads: bool, kafka_way: frozenset[str]) -> None:
    """E14: KAFKA-19047, KAFKA-19130."""
    context = a_cluster(kafka_way=kafka_way)
    if leads:
        a_topic(context, 1, [1, 2])
    response = beat(context, 1, want_shut_down=True)
    for broker_id in (2, 3) if leads else ():
        assert not response.should_shut_down
        assert error_of(ask(context, a_registration(1, 11))) is Errors.DUPLICATE_BROKER_REGISTRATION
        beat(context, broker_id)
    response = beat(context, 1, want_shut_down=True) if leads else response
    assert response.should_shut_down
    expected = Errors.DUPLICATE_BROKER_REGISTRATION if kafka_way else Errors.NONE
    assert error_of(ask(context, a_registration(1, 11))) is expected
    context.activate(BEGIN_MS)  # Another leader knows no session of a fenced broker, in Kafka as well.
    assert error_of(ask(context, a_registration(1, 11))) is Errors.NONE


@pytest.mark.covers("E14")
def test_a_broker_that_fenced_itself_and_lives_keeps_its_id() -> None:
    context = a_cluster()
    beat(context, 1, want_fence=True)
    assert error_of(ask(context, a_registration(1, 11))) is Errors.DUPLICATE_BROKER_REGISTRATION
    beat(context, 2, want_shut_down=True)
    beat(context, 2)
    assert error_of(ask(context, a_registration(2, 22))) is Errors.DUPLICATE_BROKER_REGISTRATION, "it did not stop"


# UnregisterBroker, ControllerRegistration, AllocateProducerIds.


@pytest.mark.parametrize("count", [9_999, 10_000])
@pytest.mark.parametrize("kafka_way", [frozenset(), LIMITS])
def test_a_broker_of_many_partitions_can_be_unregistered(count: int, kafka_way: frozenset[str]) -> None:
    context = a_cluster(kafka_way=kafka_way)
    a_topic(context, count, [1, 2, 3])
    decision = ask(context, UnregisterBrokerRequest(broker_id=1))
    if kafka_way and count == 10_000:
        assert error_of(decision) is Errors.POLICY_VIOLATION
        assert isinstance(decision.response, UnregisterBrokerResponse)
        assert decision.response.error_message == "Unable to perform excessively large batch operation."
        return
    take_effect(context, decision)
    assert 1 not in set(context.image.brokers)
    assert context.image.partition("topic-1", count - 1).isr == (2, 3)


def test_a_controller_with_a_listener_that_is_none_is_refused() -> None:
    context = a_cluster()
    request = ControllerRegistrationRequest(controller_id=3000, incarnation_id=uuid(1), listeners=[_listener(port=0)])
    assert error_of(ask(context, request)) is Errors.INVALID_REQUEST


def test_producer_ids_end_before_they_overflow() -> None:
    context = a_cluster()
    request = AllocateProducerIdsRequest(broker_id=1, broker_epoch=context.image.brokers[1].epoch)
    last = 2**63 - 1 - 1000
    put(context, ProducerIdsRecord(broker_id=1, broker_epoch=1, next_producer_id=last))
    response = take_effect(context, ask(context, request)).response
    assert isinstance(response, AllocateProducerIdsResponse) and response.producer_id_start == last
    assert error_of(ask(context, request)) is Errors.UNKNOWN_SERVER_ERROR


def test_a_forgotten_broker_gets_no_producer_ids() -> None:
    context = a_cluster()
    put(context, UnregisterBrokerRecord(broker_id=1, broker_epoch=context.image.brokers[1].epoch))
    assert error_of(ask(context, AllocateProducerIdsRequest(broker_id=1, broker_epoch=-1))) is Errors.STALE_BROKER_EPOCH
    assert error_of(ask(context, a_heartbeat(context, 2))) is Errors.NONE
