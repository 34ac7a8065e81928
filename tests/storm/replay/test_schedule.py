"""When a replay does each event, and the requests that it sends."""

from typing import Any

import pytest

from kcore.measure.storm.replay import requests
from kcore.measure.storm.replay.causes import UNFENCED
from kcore.measure.storm.replay.events import (
    Consequence,
    Elected,
    Event,
    MissedHeartbeats,
    NewTopic,
    NotReplayed,
    Partition,
    PartitionsAdded,
    Registration,
    Setting,
    TopicsCreated,
    TopicsDeleted,
)
from kcore.measure.storm.replay.schedule import schedule, subjects_of
from kcore.protocol_errors import Errors
from kcore.schema import topics

CREATED = TopicsCreated((NewTopic("t", {0: (1, 2)}, {"retention.ms": "1"}),))


def events(*found: tuple[int, Any]) -> list[Event]:
    return [Event(time_ms, at, what) for at, (time_ms, what) in enumerate(found)]


def test_times_are_divided_by_the_speed_and_consequences_are_left_out() -> None:
    found = schedule(
        events((1_000, CREATED), (21_000, TopicsDeleted(("t",))), (22_000, NotReplayed("ACL change", "no authorizer"))),
        1_000, 10, 3_000, {1, 2},
    )  # fmt: skip
    assert [each.due_ms for each in found] == [0, 2_000]
    assert found[0].in_service == {1, 2} and not found[0].ended


def test_a_broker_ends_a_session_before_its_fencing_but_after_its_last_action() -> None:
    story = events(
        (0, Registration(1, None, ())),
        (1_000, Consequence(UNFENCED, broker_id=1)),
        (30_000, MissedHeartbeats(1)),
        (40_000, Registration(1, None, ())),
        (41_000, Consequence(UNFENCED, broker_id=1)),
        (43_000, MissedHeartbeats(1)),
    )
    found = schedule(story, 0, 1, 9_000, set())
    assert [(each.cause.kind, each.due_ms) for each in found] == [
        ("registration", 0), ("missed heartbeats", 21_000), ("registration", 40_000), ("missed heartbeats", 41_000),
    ]  # fmt: skip


def test_an_event_waits_for_the_brokers_that_were_in_service_or_had_ended() -> None:
    [_, created] = schedule(events((0, MissedHeartbeats(2)), (5, CREATED)), 0, 1, 0, {1, 2})
    assert (created.in_service, created.ended) == ({1}, {2})


def test_events_of_a_topic_or_broker_follow_each_other() -> None:
    assert subjects_of(CREATED) == subjects_of(TopicsDeleted(("t",))) == [("topic", "t")]
    assert subjects_of(Registration(3, None, ())) == subjects_of(MissedHeartbeats(3)) == [("broker", "3")]


def test_requests_have_the_recorded_replicas() -> None:
    [topic] = requests.create_topics(CREATED).topics
    assert (topic.name, topic.num_partitions, topic.replication_factor) == ("t", -1, -1)
    assert [(each.partition_index, each.broker_ids) for each in topic.assignments] == [(0, [1, 2])]
    assert [(each.name, each.value) for each in topic.configs] == [("retention.ms", "1")]
    [more] = requests.create_partitions(PartitionsAdded("t", {2: (3,), 1: (2,)})).topics
    assert (more.count, [each.broker_ids for each in more.assignments or ()]) == (3, [[2], [3]])
    moves: Any = {Partition("t", 0): (1, 3), Partition("t", 1): None}
    [moved] = requests.reassign(moves).topics
    assert [each.replicas for each in moved.partitions] == [[1, 3], None]
    [wanted] = requests.elect(Elected((Partition("t", 4),))).topic_partitions or []
    assert (wanted.topic, wanted.partitions) == ("t", [4])
    [resource] = requests.alter_configs((Setting(2, "t", "a", "1"), Setting(2, "t", "b", None))).resources
    assert [(each.name, each.config_operation, each.value) for each in resource.configs] == [
        ("a", 0, "1"),
        ("b", 1, None),
    ]


@pytest.mark.parametrize(("code", "expected"), [(0, []), (36, [Errors.TOPIC_ALREADY_EXISTS])])
def test_errors_of_items_are_found(code: int, expected: list[Errors]) -> None:
    answer = topics.CreateTopicsResponse(topics=[topics.CreatableTopicResult(name="t", error_code=code)])
    assert requests.errors_of(answer) == expected
