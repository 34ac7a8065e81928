"""Sessions of brokers: the cost of a heartbeat, and the fencing of brokers that send none."""

import sys
from typing import Any

import pytest

from controller.kraft.active import read_snapshot
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
)
from controller.kraft.contexts import fenced_now
from controller.kraft.runtime import controller_of
from kcore.controller.kraft.brokers.heartbeats import BrokerHeartbeats
from kcore.controller.kraft.departures import FENCES_ONE_BY_ONE
from kcore.controller.kraft.kraft_context import ControllerContext
from kcore.node.kraft.snapshot_slices import snapshot_slices
from kcore.protocol_errors import Errors
from kcore.schema.metadata_records_brokers import BrokerRegistrationChangeRecord, UnregisterBrokerRecord
from kcore.schema.metadata_records_log import NoOpRecord

LATER_MS = BEGIN_MS + SESSION_MS + 1


def _calls_of_a_heartbeat(brokers: int) -> int:
    """How many functions are called for a heartbeat that changes nothing."""
    context = a_cluster(range(brokers))
    request, calls = a_heartbeat(context, brokers - 1), 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        decision = ask(context, request, BEGIN_MS + 1)
    finally:
        sys.setprofile(None)
    assert error_of(decision) is Errors.NONE and not decision.records
    return calls


def test_a_heartbeat_that_changes_nothing_costs_the_same_in_a_large_cluster() -> None:
    assert _calls_of_a_heartbeat(2_000) == _calls_of_a_heartbeat(3)


def test_heartbeats_keep_one_deadline_a_broker() -> None:
    context = a_cluster(range(20))
    for turn in range(200):
        for broker_id in range(20):
            beat(context, broker_id, BEGIN_MS + 100 * turn)
        assert look(context, BEGIN_MS + 100 * turn) is None
    assert len(context.heartbeats._deadlines) <= 20


def test_heartbeats_of_incarnations_that_never_were_leave_nothing_behind() -> None:
    context = a_cluster()
    for epoch in range(1_000, 2_000):
        assert error_of(ask(context, a_heartbeat(context, 1, broker_epoch=epoch))) is Errors.STALE_BROKER_EPOCH
        stranger = a_heartbeat(context, 1, broker_epoch=epoch)
        stranger.broker_id = epoch
        assert error_of(ask(context, stranger)) is Errors.STALE_BROKER_EPOCH
    assert set(context.heartbeats.brokers) == {1, 2, 3}


def test_the_epoch_that_stands_for_unknown_is_no_brokers() -> None:
    context = a_cluster()
    put(context, UnregisterBrokerRecord(broker_id=3, broker_epoch=context.image.brokers[3].epoch))
    request = a_heartbeat(context, 1, broker_epoch=-1)
    request.broker_id = 3
    assert error_of(ask(context, request)) is Errors.STALE_BROKER_EPOCH


def test_brokers_whose_sessions_end_together_are_fenced_in_one_decision() -> None:
    context = a_cluster(range(1, 101))
    topic_id = a_topic(context, 20_000, [1, 2, 100])
    a_topic(context, 1, [3, 4, 5], number=2)
    beat(context, 100, BEGIN_MS + 5_000)
    decision = look(context, LATER_MS)
    assert decision is not None
    [changes] = changes_of(decision)
    assert len(changes) == 20_001
    take_effect(context, decision, LATER_MS)
    brokers = context.image.brokers
    assert [each for each in brokers if not brokers[each].fenced] == [100]
    moved = context.image.partition("topic-1", 19_999)
    assert (moved.leader, moved.isr) == (100, (100,)) and topic_id
    lost = context.image.partition("topic-2", 0)
    assert (lost.leader, lost.isr) == (-1, (3, 4, 5)), "any of them may lead when it is back"
    assert look(context, LATER_MS) is None
    assert look(context, LATER_MS + 10 * SESSION_MS) is not None, "100 fell silent, too"


def test_kafka_fences_one_by_one_and_elects_who_is_fenced_next() -> None:
    context = a_cluster((1, 2, 3), kafka_way=frozenset({FENCES_ONE_BY_ONE}))
    a_topic(context, 1, [1, 2, 3])
    fenced = []
    while (decision := look(context, LATER_MS)) is not None:
        take_effect(context, decision, LATER_MS)
        [record] = records_of(decision)
        assert isinstance(record, BrokerRegistrationChangeRecord)
        fenced.append(record.broker_id)
    assert sorted(fenced) == [1, 2, 3]
    partition = context.image.partition("topic-1", 0)
    assert (partition.leader, partition.isr) == (-1, (fenced[-1],))
    assert len(context.heartbeats._deadlines) <= 3


@pytest.mark.parametrize("kafka_way", [frozenset(), frozenset({FENCES_ONE_BY_ONE})])
def test_a_fencing_that_was_not_written_is_decided_again(kafka_way: frozenset[str]) -> None:
    context = a_cluster((1,), kafka_way=kafka_way)
    assert look(context, LATER_MS) is not None, "and the append is refused"
    again = look(context, LATER_MS)
    assert again is not None
    take_effect(context, again, LATER_MS)
    assert look(context, LATER_MS + 2 * SESSION_MS) is None
    assert context.heartbeats.next_deadline_ms() is None


def test_a_heartbeat_before_the_fencing_is_written_keeps_the_broker() -> None:
    context = a_cluster((1,))
    assert look(context, LATER_MS) is not None, "and the append is refused"
    beat(context, 1, LATER_MS)
    assert look(context, LATER_MS) is None
    assert look(context, LATER_MS + SESSION_MS) is None
    assert look(context, LATER_MS + SESSION_MS + 1) is not None


def _fenced_by_its_own_wish(release: str) -> ControllerContext:
    context = a_cluster((1,), level=21, release=release)
    beat(context, 1, BEGIN_MS, want_fence=True)
    beat(context, 1, BEGIN_MS + 1, want_fence=True)
    return context


def test_the_end_of_a_fenced_brokers_session_is_written_once() -> None:
    context = _fenced_by_its_own_wish("4.3.1")
    assert look(context, LATER_MS) is None
    decision = look(context, LATER_MS + 1)
    assert decision is not None and len(records_of(decision)) == 1
    take_effect(context, decision, LATER_MS + 1)
    assert look(context, LATER_MS + 10 * SESSION_MS) is None


def test_in_3_9_a_fenced_broker_has_no_session() -> None:
    context = _fenced_by_its_own_wish("3.9.1")
    assert look(context, LATER_MS + 1) is None
    assert error_of(ask(context, a_registration(1, 77))) is Errors.NONE


def test_a_new_leader_waits_a_whole_session_for_everybody() -> None:
    context = a_cluster((1, 2))
    context.activate(LATER_MS)
    assert look(context, LATER_MS + SESSION_MS) is None
    decision = look(context, LATER_MS + SESSION_MS + 1)
    assert decision is not None and len(records_of(decision)) == 2


def test_a_registration_alone_begins_no_session() -> None:
    context = a_cluster((1,))
    take_effect(context, ask(context, a_registration(7, 70)))
    assert error_of(ask(context, a_registration(7, 71))) is Errors.NONE
    beat(context, 7)
    assert error_of(ask(context, a_registration(7, 71))) is Errors.DUPLICATE_BROKER_REGISTRATION
    assert error_of(ask(context, a_registration(7, 71), LATER_MS)) is Errors.NONE


@pytest.mark.covers("E13")
def test_heartbeats_that_waited_behind_a_long_event_are_read_before_anybody_is_fenced() -> None:
    """E13: KAFKA-15019, KAFKA-17793, KAFKA-19294."""
    context = a_cluster((1, 2))
    look(context, BEGIN_MS)
    assert fenced_now(context, LATER_MS) is None, "the controller did nothing else for a whole session"
    beat(context, 1, LATER_MS)
    decision = fenced_now(context, LATER_MS + SESSION_MS // 8)
    assert decision is not None
    [record] = records_of(decision)
    assert isinstance(record, BrokerRegistrationChangeRecord) and record.broker_id == 2, "it is silent indeed"


def test_an_event_that_leaves_time_for_heartbeats_delays_no_fencing() -> None:
    context = a_cluster((1,))
    look(context, BEGIN_MS + SESSION_MS // 2)
    assert fenced_now(context, LATER_MS) is not None


def test_a_new_active_controller_knows_where_brokers_were_registered() -> None:
    """A broker that has applied its registration may be unfenced (ClusterControlManager.registerBrokerRecordOffset)."""
    context = a_cluster((1, 2))
    offset = context.image.registered_at[2]
    for _ in range(10):
        put(context, NoOpRecord())
    context.heartbeats = BrokerHeartbeats(SESSION_MS, "4.3.1")
    context.activate(BEGIN_MS)
    assert context.heartbeats.brokers[2].registration_offset == offset < context.next_offset - 10
    standby, end = controller_of(), context.next_offset
    read_snapshot(standby, b"".join(snapshot_slices(context.image, end, 1, 0, lambda: None)), end)
    assert standby.image.registered_at == {1: end - 1, 2: end - 1}, "as if all of the snapshot stood there"
    put(context, UnregisterBrokerRecord(broker_id=2, broker_epoch=int(context.image.brokers[2].epoch)))
    assert [*context.image.registered_at] == [1]
