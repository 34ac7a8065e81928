"""The work of reassignments is in proportion to their partitions: they end in rounds, and znodes are read together."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest

from controller.zk.admin import alter_partition, small
from controller.zk.partitions.test_reassignment import assignment, reassign
from controller.zk.tree import Cluster
from kcore.controller.zk import events
from kcore.controller.zk.effects import HandleLater
from kcore.controller.zk.topics import reassignment, topic_changes
from kcore.metadata.table.partition_state import ReplicaAssignment
from kcore.metadata.zookeeper import znodes
from kcore.metadata.zookeeper.znode_operations import ReadNodes
from kcore.metadata.zookeeper.znodes import TopicAssignment
from kcore.protocol_errors import Errors

TOPIC = "/brokers/topics/t"


@contextmanager
def busy(cluster: Cluster) -> Iterator[None]:
    """Deferred work waits until the end of the `with`, as if other events were queued before it."""
    cluster.run = partial(Cluster.run, cluster, settle=False)  # type: ignore[method-assign]
    yield
    del cluster.run
    cluster.run()


def of_kind(cluster: Cluster, kind: type[events.Event]) -> int:
    return sum(isinstance(event, kind) for event in cluster.handled)


def test_moves_whose_replicas_catch_up_at_the_same_time_end_in_one_round() -> None:
    cluster = small(*[[1, 2], [2, 1]] * 10)
    reassign(cluster, {index: [3, 4] for index in range(20)})
    cluster.requests()
    before = cluster.tree.nodes[TOPIC].version
    with busy(cluster):
        for index in range(20):
            answer = alter_partition(cluster, 1 + index % 2, [1, 2, 3, 4], partition=index)
            assert answer.error_code == Errors.NONE, "the leader is answered before the move ends"
        assert all(assignment(cluster, index)[1] == (3, 4) for index in range(20))
        assert of_kind(cluster, events.ReassignmentStep) == 0
        cluster.requests()
    assert of_kind(cluster, events.ReassignmentStep) == 1
    assert cluster.tree.nodes[TOPIC].version == before + 1, "one write of the topic's znode"
    assert all(assignment(cluster, index) == ((3, 4), (), ()) for index in range(20))
    kinds = [kind for kind, _, _ in cluster.requests()]
    assert kinds == ["UpdateMetadata", *["LeaderAndIsr"] * 2, *["StopReplica"] * 4, "UpdateMetadata"]


def test_one_event_ends_so_many_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reassignment, "MOST_FINISHED", 3)
    cluster = small(*[[1, 2]] * 7)
    reassign(cluster, {index: [3, 2] for index in range(7)})
    with busy(cluster):
        for index in range(7):
            alter_partition(cluster, 1, [1, 2, 3], partition=index)
    assert of_kind(cluster, events.ReassignmentStep) == 3
    assert all(assignment(cluster, index) == ((3, 2), (), ()) for index in range(7))


def test_what_changed_while_the_end_of_a_move_waited_counts() -> None:
    cluster = small([1, 2], [1, 2], [1, 2])
    reassign(cluster, {0: [3, 2], 1: [3, 2], 2: [3, 2]})
    with busy(cluster):
        for index in range(3):
            alter_partition(cluster, 1, [1, 2, 3], partition=index)
        assert reassign(cluster, {0: None, 1: [4, 2]}) == {0: Errors.NONE, 1: Errors.NONE}
    assert assignment(cluster, 0)[1:] == ((), ()) and {*assignment(cluster, 0)[0]} == {1, 2}, "called off"
    assert assignment(cluster, 1)[1] == (4,), "another target, which is not in the ISR yet"
    assert assignment(cluster, 2) == ((3, 2), (), ())


def test_a_controller_that_resigns_forgets_what_it_had_put_off() -> None:
    cluster = small([1, 2])
    reassign(cluster, {0: [3, 2]})
    with busy(cluster):
        alter_partition(cluster, 1, [1, 2, 3])
        cluster.run(events.SessionLost())
        assert not cluster.active.reassigned and not cluster.active.modified_topics
    cluster.elect()
    assert assignment(cluster) == ((3, 2), (), ()), "the next one ends it"


def grow(cluster: Cluster, name: str, *replicas: tuple[int, ...]) -> None:
    topic_id = znodes.decode_topic(name, cluster.tree.nodes[znodes.topic_path(name)].data).topic_id
    data = znodes.encode_topic(TopicAssignment(topic_id, dict(enumerate(map(ReplicaAssignment, replicas)))))
    cluster.tree.set_data(znodes.topic_path(name), data)


def test_znodes_of_topics_that_change_meanwhile_are_read_together(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = small()
    names = [f"t{at}" for at in range(5)]
    for name in names:
        cluster.write_topic(name, [1, 2])
    cluster.run()
    monkeypatch.setattr(topic_changes, "MOST_READ", 3)
    cluster.effects.clear()
    for name in names:
        grow(cluster, name, (1, 2), (2, 3))
    cluster.run()
    reads = [len(each.paths) for each in cluster.effects if isinstance(each, ReadNodes) and each.watch]
    assert reads == [3, 2]
    assert [cluster.state(name, 1) for name in names] == [(2, (2, 3), 0)] * 5
    assert {znodes.topic_path(name) for name in names} <= cluster.tree.watched, "and watched again"


def test_what_this_controller_wrote_itself_is_not_decoded_and_what_others_wrote_after_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    decoded: list[str] = []
    read_topic = topic_changes.read_topic
    monkeypatch.setattr(topic_changes, "read_topic", lambda name, data: decoded.append(name) or read_topic(name, data))
    cluster = small([1, 2])
    reassign(cluster, {0: [3, 2]})
    assert decoded == [] and not cluster.active.written_topics, "its own watch fired, and was set again"
    with busy(cluster):
        reassign(cluster, {0: None})
        topic = znodes.decode_topic("t", cluster.tree.nodes[TOPIC].data)
        topic.partitions[1] = ReplicaAssignment((2, 1))
        cluster.tree.set_data(TOPIC, znodes.encode_topic(topic))
    assert decoded == ["t"] and cluster.state("t", 1) == (2, (2, 1), 0)


def test_nothing_is_put_off_without_a_move() -> None:
    cluster = small([1, 2])
    cluster.effects.clear()
    alter_partition(cluster, 1, [1])
    assert not [each for each in cluster.effects if isinstance(each, HandleLater)]
