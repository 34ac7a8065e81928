"""Brokers that are unfenced, leave in an orderly way, or lose directories."""

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
    changes_of,
    error_of,
    put,
    records_of,
    take_effect,
    uuid,
)
from kcore.controller.kraft.brokers.records import SHUT_DOWN_AT_ONCE
from kcore.controller.kraft.decision import Decision
from kcore.protocol_errors import Errors
from kcore.schema.broker_lifecycle import BrokerHeartbeatResponse
from kcore.schema.metadata_records_brokers import (
    BrokerRegistrationChangeRecord,
    FenceBrokerRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)
from kcore.schema.metadata_records_log import NoOpRecord
from kcore.schema.metadata_records_topics import RemoveTopicRecord
from kcore.steps import finished


def test_a_broker_may_stop_once_all_others_know_who_leads() -> None:
    context = a_cluster(range(1, 5))
    a_topic(context, 2, [1, 2])
    before = context.next_offset
    assert not beat(context, 1, want_shut_down=True).should_shut_down
    last = context.next_offset - 1
    assert last == before + 2, "the broker's record and two partitions"
    for broker_id in (2, 3, 4):
        beat(context, broker_id, current_metadata_offset=last)
        response = beat(context, 1, want_shut_down=True)
        assert response.should_shut_down == (broker_id == 4) and response.is_fenced == (broker_id == 4)


@pytest.mark.covers("E12")
def test_a_controlled_shutdown_ends_while_the_log_goes_on() -> None:
    """E12, KAFKA-14292: each heartbeat pushed the offset on that all others had to reach."""
    context = a_cluster()
    a_topic(context, 1, [1, 2])
    beat(context, 1, want_shut_down=True)
    last = context.next_offset - 1
    for _ in range(3):
        put(context, NoOpRecord())
        assert not beat(context, 1, want_shut_down=True).should_shut_down
    for broker_id in (2, 3):
        beat(context, broker_id, current_metadata_offset=last)
    assert beat(context, 1, want_shut_down=True).should_shut_down


@pytest.mark.covers("KRaft E11")
def test_a_broker_behind_the_end_of_a_busy_log_is_unfenced() -> None:
    """E11, KAFKA-13959: with a no-op every 500 ms no broker ever has the last record."""
    context = a_cluster()
    take_effect(context, ask(context, a_registration(7, 70)))
    registered = context.next_offset - 1
    for _ in range(3):
        put(context, NoOpRecord())
    assert not beat(context, 7, current_metadata_offset=registered).is_fenced


def test_levels_before_the_log_knew_of_controlled_shutdowns() -> None:
    context = a_cluster(level=3, release="3.9.1")
    a_topic(context, 1, [1, 2])
    decision = take_effect(context, ask(context, a_heartbeat(context, 1, want_shut_down=True)))
    assert not records_of(decision) and len(changes_of(decision)) == 1
    assert not ask(context, a_heartbeat(context, 1, want_shut_down=True)).records, "it goes on"
    for broker_id in (2, 3):
        beat(context, broker_id)
    [fencing] = records_of(take_effect(context, ask(context, a_heartbeat(context, 1, want_shut_down=True))))
    assert isinstance(fencing, FenceBrokerRecord)
    [unfencing] = records_of(ask(context, a_heartbeat(context, 1)))
    assert isinstance(unfencing, UnfenceBrokerRecord)


def test_neither_fenced_nor_leaving_brokers_are_waited_for() -> None:
    context = a_cluster(range(1, 5))
    a_topic(context, 1, [1, 4])
    a_topic(context, 1, [2, 4], number=2)
    assert not beat(context, 1, want_shut_down=True).should_shut_down
    assert not beat(context, 2, want_shut_down=True).should_shut_down
    beat(context, 3, want_fence=True, current_metadata_offset=0)
    beat(context, 4)
    assert beat(context, 1, want_shut_down=True).should_shut_down
    assert beat(context, 2, want_shut_down=True).should_shut_down


def test_a_broker_that_nobody_can_follow_waits_with_its_leaders() -> None:
    context = a_cluster()
    a_topic(context, 1, [1, 2], isr=[1])
    beat(context, 1, want_shut_down=True)
    partition = context.image.partition("topic-1", 0)
    assert (partition.leader, partition.isr) == (-1, (1,))


def test_of_50_000_leaders_the_answer_waits_for_the_first() -> None:
    """The others are decided next, upon the state behind these; then others wait for the last of them."""
    context = a_cluster()
    a_topic(context, 50_000, [1, 2, 3])
    decision = ask(context, a_heartbeat(context, 1, want_shut_down=True))
    [first] = changes_of(decision)
    assert len(records_of(decision)) == 1 and len(first) == SHUT_DOWN_AT_ONCE and decision.rest is not None
    take_effect(context, decision)
    assert context.heartbeats.brokers[1].controlled_shutdown_offset == context.next_offset - 1
    rest = decision.rest.decide()
    rest = rest if isinstance(rest, Decision) else finished(rest)
    assert sum(map(len, changes_of(rest))) == 50_000 - SHUT_DOWN_AT_ONCE and not rest.is_atomic
    take_effect(context, rest)
    assert context.heartbeats.brokers[1].controlled_shutdown_offset == context.next_offset - 1
    table = context.image.table
    assert not (table.leader__p == table.brokers.row(1)).any()
    again = decision.rest.decide()
    assert not (again if isinstance(again, Decision) else finished(again)).records


def test_a_new_leader_moves_what_a_controlled_shutdown_has_left() -> None:
    """Its records in the log say that the broker shuts down, and the next heartbeat has all of the rest moved."""
    context = a_cluster()
    a_topic(context, 5_000, [1, 2, 3])
    take_effect(context, ask(context, a_heartbeat(context, 1, want_shut_down=True)))
    context.activate(BEGIN_MS)
    decision = ask(context, a_heartbeat(context, 1, want_shut_down=True))
    assert isinstance(decision.response, BrokerHeartbeatResponse) and not decision.response.should_shut_down
    assert not records_of(decision) and decision.rest is not None
    take_effect(context, decision)
    rest = decision.rest.decide()
    take_effect(context, rest if isinstance(rest, Decision) else finished(rest))
    table = context.image.table
    assert not (table.leader__p == table.brokers.row(1)).any()
    assert not (table.isr__pi == table.brokers.row(1)).any()


def test_what_a_dead_broker_s_shutdown_has_left_is_its_fencing_s() -> None:
    context = a_cluster()
    a_topic(context, 5_000, [1, 2, 3])
    decision = take_effect(context, ask(context, a_heartbeat(context, 1, want_shut_down=True)))
    beat(context, 1, want_fence=True)
    epoch = int(context.image.brokers.epochs[context.image.brokers.row(1)])
    put(context, FenceBrokerRecord(id=1, epoch=epoch))
    assert decision.rest is not None
    rest = decision.rest.decide()
    assert not (rest if isinstance(rest, Decision) else finished(rest)).records


def test_a_controlled_shutdown_that_was_not_written_begins_again() -> None:
    context = a_cluster()
    a_topic(context, 1, [1, 2])
    request = a_heartbeat(context, 1, want_shut_down=True)
    first = ask(context, request)
    assert len(changes_of(first)) == 1
    context.image.end_offset += 1  # The append was refused: a control record came before it.
    again = ask(context, request)
    assert len(changes_of(again)) == 1 and len(records_of(again)) == 1
    assert context.heartbeats.brokers[1].controlled_shutdown_offset == context.next_offset + 1


def test_a_new_leader_goes_on_with_a_controlled_shutdown() -> None:
    context = a_cluster()
    a_topic(context, 1, [1, 2])
    beat(context, 1, want_shut_down=True)
    context.activate(BEGIN_MS)
    decision = ask(context, a_heartbeat(context, 1, want_shut_down=True))
    assert isinstance(decision.response, BrokerHeartbeatResponse) and decision.response.should_shut_down


def test_an_unfenced_broker_leads_all_that_nobody_leads_in_one_decision() -> None:
    context = a_cluster()
    a_topic(context, 50_000, [1, 2], isr=[1])
    beat(context, 1, want_fence=True)
    assert np.all(context.image.table.leader__p == -1)
    decision = ask(context, a_heartbeat(context, 1))
    [changes] = changes_of(decision)
    assert len(changes) == 50_000 and decision.is_atomic, "half of it would leave partitions without a leader"
    assert records_of(decision) == [decision.records[0].record], "the broker is unfenced first"


def test_a_broker_is_unfenced_once_it_has_its_own_registration() -> None:
    context = a_cluster()
    a_topic(context, 3, [1, 2])
    put(context, UnregisterBrokerRecord(broker_id=1, broker_epoch=context.image.brokers[1].epoch))
    take_effect(context, ask(context, a_registration(1, 11)))
    registered = context.next_offset - 1
    assert context.image.brokers[1].epoch == registered - 3, "the epoch is the first offset of the decision"
    response = beat(context, 1, current_metadata_offset=registered - 1)
    assert (response.is_fenced, response.is_caught_up) == (True, False)
    response = beat(context, 1, current_metadata_offset=registered)
    assert (response.is_fenced, response.is_caught_up) == (False, True)


def test_an_offline_directory_takes_the_broker_out_of_its_isrs() -> None:
    context = a_cluster()
    a_topic(context, 2, [1, 2, 3])
    directories = [uuid(1001), uuid(2001)]
    take_effect(context, ask(context, a_registration(1, 1, log_dirs=directories)))
    offline = [uuid(1001), uuid(9), uuid(1002)]  # The last two are unknown, and a directory of broker 2.
    decision = take_effect(context, ask(context, a_heartbeat(context, 1, offline_log_dirs=offline)))
    assert [len(each) for each in changes_of(decision)] == [2]
    assert context.image.partition("topic-1", 1).isr == (2, 3)
    assert context.image.brokers[1].directories == (uuid(2001),)
    assert not ask(context, a_heartbeat(context, 1, offline_log_dirs=[uuid(1001)])).records


def test_a_deleted_topic_without_isr_does_not_spoil_a_directory() -> None:
    context = a_cluster()
    deleted = a_topic(context, 3, [1, 2], isr=[])
    a_topic(context, 2, [1, 3], number=2)
    put(context, RemoveTopicRecord(topic_id=deleted))
    decision = ask(context, a_heartbeat(context, 1, offline_log_dirs=[uuid(1001)]))
    assert error_of(decision) is Errors.NONE
    [changes] = changes_of(decision)
    assert len(changes) == 2, "those of the topic that is there"
    [record] = records_of(decision)
    assert isinstance(record, BrokerRegistrationChangeRecord)


def test_a_directory_that_came_from_a_forgotten_broker_counts_for_its_replicas_too() -> None:
    context = a_cluster()
    a_topic(context, 1, [1, 2, 3])
    put(context, UnregisterBrokerRecord(broker_id=2, broker_epoch=context.image.brokers[2].epoch))
    take_effect(context, ask(context, a_registration(1, 1, log_dirs=[uuid(1001), uuid(1002)])))
    take_effect(context, ask(context, a_heartbeat(context, 1, offline_log_dirs=[uuid(1002)])))
    assert 1 not in context.image.partition("topic-1", 0).isr, "as in Kafka, which asks whose directory it is now"


def test_cordoned_directories_are_written_when_they_change() -> None:
    context = a_cluster(level=30)
    both = [uuid(1001), uuid(7)]
    assert len(records_of(take_effect(context, ask(context, a_heartbeat(context, 1, cordoned_log_dirs=both))))) == 1
    assert not ask(context, a_heartbeat(context, 1, cordoned_log_dirs=[*reversed(both), uuid(7)])).records
    assert not ask(context, a_heartbeat(context, 1)).records, "it says nothing of them"
    assert len(records_of(ask(context, a_heartbeat(context, 1, cordoned_log_dirs=[])))) == 1
