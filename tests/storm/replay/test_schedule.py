"""When a replay does each event, which events it waits for, and the requests that it sends."""

import asyncio
from typing import Any

import pytest

from kcore.measure.storm.replay import requests
from kcore.measure.storm.replay.effects import Effect, Step
from kcore.measure.storm.replay.events import (
    Cause,
    ConfigsAltered,
    Elected,
    Event,
    MissedHeartbeats,
    NewTopic,
    Partition,
    PartitionsAdded,
    Registration,
    Setting,
    TopicsCreated,
    TopicsDeleted,
    Unfenced,
)
from kcore.measure.storm.replay.partition_states import Epochs
from kcore.measure.storm.replay.schedule import Order, Planned, schedule, subjects_of
from kcore.protocol_errors import Errors
from kcore.schema import topics

CREATED = TopicsCreated((NewTopic("t", {0: (1, 2)}, {"retention.ms": "1"}),))


STATE = Effect(Partition("t", 0), 1, frozenset({1, 2}), (1, 2), Epochs(0, 0))


def planned(cause: Cause, *brokers: int, time_ms: int = 0) -> Planned:
    """An event that changes partitions of these brokers."""
    step = Step(Event(time_ms, 0, cause), cause, {STATE.partition: STATE}, {*brokers})
    [found] = schedule([step], 0, 1)
    return found


def order_of(*causes: tuple[Cause, tuple[int, ...]]) -> list[set[int]]:
    """By event, the earlier events that it waits for."""

    async def found() -> list[set[int]]:
        order, tasks = Order(), list[asyncio.Task[None]]()
        waited = []
        for cause, brokers in causes:
            event = planned(cause, *brokers)
            waited.append({tasks.index(each) for each in order.earlier(event)})
            tasks.append(asyncio.create_task(asyncio.sleep(60)))
            order.add(event, tasks[-1])
        for each in tasks:
            each.cancel()
        return waited

    return asyncio.run(found())


def test_times_are_divided_by_the_speed() -> None:
    steps = [Step(Event(time_ms, 0, CREATED), CREATED) for time_ms in (1_000, 21_000)]
    assert [each.due_ms for each in schedule(steps, 1_000, 10)] == [0, 2_000]


def test_a_broker_changes_its_state_between_the_events_of_its_partitions() -> None:
    other = TopicsDeleted(("u",))
    assert order_of(
        (CREATED, (1, 2)), (other, (2, 3)), (MissedHeartbeats(2), (1, 2)), (TopicsDeleted(("t",)), (1, 2)),
        (Registration(2, None, ()), ()), (Unfenced(3), ()),
    ) == [set(), set(), {0, 1}, {0, 2}, {2, 3}, {1}]  # fmt: skip


def test_events_of_different_topics_go_side_by_side() -> None:
    assert order_of((CREATED, (1, 2)), (TopicsDeleted(("u",)), (1, 2))) == [set(), set()]


def test_levels_and_settings_of_brokers_wait_for_all_and_all_wait_for_them() -> None:
    setting = ConfigsAltered((Setting(4, "", "min.insync.replicas", "2"),))
    of_topic = ConfigsAltered((Setting(2, "t", "min.insync.replicas", "2"),))
    assert order_of((CREATED, (1,)), (setting, ()), (Unfenced(1), ()), (of_topic, (1,))) == [
        set(), {0}, {0, 1}, {0, 1, 2},
    ]  # fmt: skip


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
