"""Many topics are deleted: in parts of bounded size, with the work of what was answered, and safe to be interrupted."""

import itertools
from collections.abc import Iterator

import pytest

from controller.zk.admin import answer_stops, epoch_of, small, stop_event
from controller.zk.tree import Cluster
from kcore import schema
from kcore.controller.zk import events
from kcore.controller.zk.effects import Effect, HandleLater, Send, SendResponse
from kcore.controller.zk.topics import deletion_steps, topic_changes
from kcore.metadata.table import partition_rows
from kcore.metadata.zookeeper import znodes
from kcore.metadata.zookeeper.znode_operations import (
    Delete,
    DeletePartitions,
    OperationResult,
    ReadChildren,
    WriteNodes,
)
from kcore.protocol_errors import Errors
from kcore.schema.stop_replica import StopReplicaPartitionError
from kcore.schema.topics import DeleteTopicState
from kcore.types import Uuid

TOPICS, PARTITIONS = 30, 4


@pytest.fixture
def in_small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deletion_steps, "MOST_STARTED", 10)
    monkeypatch.setattr(deletion_steps, "MOST_REMOVED", 6)


def many(topics: int = TOPICS, partitions: int = PARTITIONS) -> Cluster:
    """Topics t0, t1 ... on brokers 1 and 2, all of which somebody wishes to be deleted; nothing has been handled."""
    cluster = small()
    for number in range(topics):
        topic_id = Uuid((number + 1).to_bytes(16, "big"))
        cluster.write_topic(f"t{number}", *[[1, 2]] * partitions, topic_id=topic_id)
    cluster.run()
    cluster.requests()
    cluster.effects.clear()
    for number in range(topics):
        cluster.tree.create(znodes.delete_topic_path(f"t{number}"))
    return cluster


def left_of(cluster: Cluster) -> list[str]:
    paths = ("/brokers/topics/", "/config/topics/", "/admin/delete_topics/")
    return [path for path in cluster.tree.nodes if path.startswith(paths)]


def of_kind(cluster: Cluster, kind: type[Effect]) -> Iterator[Effect]:
    return (each for each in cluster.effects if isinstance(each, kind))


def test_the_work_is_that_of_the_partitions_and_no_tree_is_read() -> None:
    cluster = many()
    cluster.run()
    answer_stops(cluster)
    assert left_of(cluster) == []
    removed = [each for each in cluster.effects if isinstance(each, DeletePartitions)]
    assert sum(len(each.rows) for each in removed) == TOPICS * PARTITIONS
    children = {path for each in cluster.effects if isinstance(each, ReadChildren) for path in each.paths}
    assert children <= {znodes.TOPICS, znodes.DELETE_TOPICS}, "which znodes a topic has is known"
    stops = [each for each in cluster.effects if isinstance(each, Send)]
    assert len(stops) == 3, "who leads; stop; delete: each for all topics at once"


def test_an_answer_costs_what_it_names() -> None:
    cluster = many()
    cluster.run()
    sent, cluster.sent = cluster.sent, []
    cluster.sent = [each for each in sent if 1 in each.broker_ids]
    answer_stops(cluster)
    cluster.effects.clear()
    errors = [StopReplicaPartitionError(topic_name="t7", partition_index=index) for index in range(PARTITIONS)]
    cluster.run(stop_event(2, epoch_of(cluster, 2), True, errors), settle=False)
    assert [type(each) for each in cluster.effects] == [HandleLater]
    cluster.run()
    removed = [each for each in cluster.effects if isinstance(each, DeletePartitions)]
    assert [len(each.rows) for each in removed] == [PARTITIONS]
    written = [each.operations for each in cluster.effects if isinstance(each, WriteNodes)]
    assert sum(map(len, written)) == 4, "the topic's own znodes"
    assert "t7" not in cluster.active.table.topics and len(cluster.active.deletion.started) == TOPICS - 1


@pytest.mark.usefixtures("in_small_parts")
@pytest.mark.parametrize(("topics", "partitions", "started"), [(30, 4, 12), (2, 20, 20), (30, 1, 10)])
def test_no_event_does_more_than_a_part(topics: int, partitions: int, started: int) -> None:
    """The requests to brokers cover a whole topic; its znodes may be deleted in several parts."""
    cluster = many(topics, partitions)
    most: dict[str, int] = {}

    def measure(effect: Effect) -> None:
        if isinstance(effect, Send):
            states = [each.columns.topic_states.partition_states for each in effect.requests]
            most["started"] = max(most.get("started", 0), *map(len, states))
        if isinstance(effect, DeletePartitions):
            most["removed"] = max(most.get("removed", 0), len(effect.rows))

    cluster.before = measure
    cluster.run()
    answer_stops(cluster)
    assert left_of(cluster) == []
    assert most["started"] == started and 0 < most["removed"] <= 6
    parts = [each for each in cluster.effects if isinstance(each, DeletePartitions)]
    assert sum(len(each.rows) for each in parts) == topics * partitions
    steps = sum(isinstance(each, events.TopicDeletionStep) for each in cluster.handled)
    assert steps == len([*of_kind(cluster, HandleLater)]) >= topics * partitions // 6


@pytest.mark.parametrize(("topics", "partitions", "most"), [(1, 45, 10), (20, 1, 4)])
def test_topics_leave_the_table_in_parts(
    topics: int, partitions: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two parts, each topic that is still in the table has all or the first of its partitions."""
    monkeypatch.setattr(partition_rows, "FREED_AT_ONCE", 10)
    monkeypatch.setattr(topic_changes, "TOPICS_AT_ONCE", 4)
    cluster = many(topics, partitions)
    table, sizes = cluster.active.table, [topics * partitions]

    def count(effect: Effect) -> None:
        sizes.append(table.partition_count)
        for name in filter(None, table.topics.names):
            indexes = table.partition_index__p[table.rows_of_topic(name)].tolist()
            assert indexes == [*range(len(indexes))]

    cluster.before = count
    cluster.run()
    answer_stops(cluster)
    assert left_of(cluster) == [] and table.partition_count == 0
    assert max(before - after for before, after in itertools.pairwise(sizes)) == most


@pytest.mark.usefixtures("in_small_parts")
def test_what_happens_meanwhile_is_handled_between_two_parts() -> None:
    """A broker dies while a deletion is under way: nobody waits for the end of it."""
    cluster = many()
    cluster.write_topic("stays", [3, 4])
    cluster.run(events.TopicChange(), settle=False)
    cluster.run(events.TopicDeletion(), settle=False)
    cluster.run(events.TopicDeletionStep(), settle=False)
    assert cluster.active.deletion.to_start and cluster.later
    cluster.unregister(3)
    cluster.run(events.BrokerChange(), settle=False)
    assert cluster.state("stays") == (4, (4,), 1)
    cluster.run()
    answer_stops(cluster)
    assert {path.split("/")[3] for path in left_of(cluster)} == {"stays"}


@pytest.mark.usefixtures("in_small_parts")
@pytest.mark.parametrize("effects", range(1, 40))
def test_a_controller_that_dies_between_two_effects_leaves_what_the_next_one_can_end(effects: int) -> None:
    cluster = many(topics=4)
    left = effects

    def depose(effect: Effect) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            cluster.depose()

    cluster.run()
    cluster.before = depose
    answer_stops(cluster)
    cluster.before = lambda effect: None
    topics = cluster.tree.children[znodes.TOPICS]
    assert topics <= cluster.tree.children[znodes.DELETE_TOPICS], "the wish lasts until the topic is gone"
    cluster.run(events.SessionLost())
    cluster.later.clear()
    cluster.sent.clear()
    cluster.elect()
    answer_stops(cluster)
    assert left_of(cluster) == []
    assert not cluster.active.deletion.started and not cluster.active.topics_to_be_deleted


def test_what_somebody_else_made_below_a_topic_goes_with_it() -> None:
    cluster = many(topics=3)
    path = f"{znodes.partition_path('t1', 2)}/mine/too"
    cluster.tree.create(path, parents=True)
    cluster.run()
    answer_stops(cluster)
    assert left_of(cluster) == []
    read = {path for each in cluster.effects if isinstance(each, ReadChildren) for path in each.paths}
    assert not any("t0" in path or "t2" in path for path in read), "only that one's tree is read"
    # The wish goes after the topic.
    order = [
        operation.path
        for each in cluster.effects
        if isinstance(each, WriteNodes)
        for operation in each.operations
        if isinstance(operation, Delete) and operation.path.endswith("t1")
    ]
    assert order.index(znodes.delete_topic_path("t1")) == len(order) - 1


def test_a_topic_that_somebody_removed_by_hand_is_forgotten_with_all_that_was_known_of_its_deletion() -> None:
    cluster = small([1, 2], [1, 2])
    request = schema.DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=60_000)
    cluster.run(events.RequestEvent(77, request, 6))
    answer_stops(cluster, brokers=[1])
    for path in sorted((path for path in cluster.tree.nodes if path.startswith("/brokers/topics/t")), reverse=True):
        assert cluster.tree.delete(path) is OperationResult.DONE
    cluster.run()
    assert cluster.answers[77].responses[0].error_code == Errors.NONE, "it is gone"
    assert cluster.tree.children[znodes.DELETE_TOPICS] == set(), "the next topic of that name is not meant"
    deletion = cluster.active.deletion
    assert (deletion.started, deletion.ineligible, deletion.awaited, cluster.active.topics_to_be_deleted) == (
        *({}, set(), {}, set()),
    )
    cluster.write_topic("t", [1, 2], [1, 2])
    cluster.run()
    cluster.sent.clear()
    cluster.tree.create(znodes.delete_topic_path("t"))
    cluster.run()
    sent = list(cluster.sent)
    answer_stops(cluster, brokers=[2])
    assert "t" in cluster.active.table.topics, "broker 1 has not deleted the new one"
    cluster.sent = sent
    answer_stops(cluster, brokers=[1])
    assert left_of(cluster) == []


def test_late_answers_and_steps_of_what_is_over_do_nothing() -> None:
    cluster = many(topics=2)
    cluster.run()
    sent = list(cluster.sent)
    answer_stops(cluster)
    cluster.effects.clear()
    cluster.sent = sent
    answer_stops(cluster)
    cluster.run(events.TopicDeletionStep())
    assert (
        not [*of_kind(cluster, Send)] and not [*of_kind(cluster, WriteNodes)] and not [*of_kind(cluster, SendResponse)]
    )
