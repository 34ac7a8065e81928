"""Partitions move: both phases, cancelled, overruled, resumed; asked for in a request or in ZooKeeper."""

from typing import Any

import pytest

from controller.zk import admin
from controller.zk.admin import alter_partition, small
from controller.zk.tree import Cluster
from kcore import schema
from kcore.controller.zk import events
from kcore.metadata.zookeeper import znodes
from kcore.protocol_errors import Errors
from kcore.schema.partitions import ListPartitionReassignmentsTopics, ReassignablePartition, ReassignableTopic

PATH = znodes.REASSIGN_PARTITIONS


def reassign(cluster: Cluster, moves: dict[int, list[int] | None], topic: str = "t") -> dict[int, Errors]:
    """The error of each partition."""
    partitions = [ReassignablePartition(partition_index=index, replicas=each) for index, each in moves.items()]
    request = schema.AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name=topic, partitions=partitions)])
    response = admin.ask(cluster, request)
    assert response.error_code == Errors.NONE
    return {each.partition_index: Errors(each.error_code) for topic in response.responses for each in topic.partitions}


def assignment(cluster: Cluster, partition: int = 0) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Replicas, adding and removing in the topic's znode; the table must say the same."""
    node = znodes.decode_topic("t", cluster.tree.nodes["/brokers/topics/t"].data).partitions[partition]
    state = cluster.active.table.state(cluster.active.table.row_of("t", partition))
    assert (state.replicas, state.adding, state.removing) == node
    return tuple(node)


def under_way(cluster: Cluster, topics: dict[str, list[int]] | None = None) -> dict[tuple[str, int], Any]:
    asked = topics and [
        ListPartitionReassignmentsTopics(name=name, partition_indexes=each) for name, each in topics.items()
    ]
    request = schema.ListPartitionReassignmentsRequest(topics=asked)
    response = admin.ask(cluster, request)
    return {
        (topic.name, each.partition_index): (each.replicas, each.adding_replicas, each.removing_replicas)
        for topic in response.topics
        for each in topic.partitions
    }


def states(request: dict[str, Any]) -> list[dict[str, Any]]:
    return [state for topic in request["topicStates"] for state in topic["partitionStates"]]


@pytest.mark.covers("story 5")
@pytest.mark.recorded
def test_step_5_of_the_story_t2_moves_from_broker_3_to_1() -> None:
    cluster = admin.recorded(4)
    cluster.tree.create(PATH, znodes.encode_reassign_partitions({("t2", 0): (1, 2)}))
    cluster.run()
    for event, answer in admin.recorded_alter_partitions(5):
        cluster.run(event)
        assert admin.as_json(cluster.answers[event.request_id], event.version) == answer
    assert admin.subjects(cluster) == admin.recorded_subjects(5)
    ours = [request for kind, _, request in cluster.requests() if kind == "StopReplica"]
    recorded = [each["request"] for each in admin.story.requests_before(5, "STOP_REPLICA")]
    assert [states(each)[0]["deletePartition"] for each in ours] == [
        states(each)[0]["deletePartition"] for each in recorded
    ]


@pytest.mark.covers("reassignment A1", "reassignment A2")
def test_the_first_phase() -> None:
    cluster = small([1, 2, 3])
    assert reassign(cluster, {0: [4, 2]}) == {0: Errors.NONE}
    assert assignment(cluster) == ((4, 2, 1, 3), (4,), (1, 3))
    assert cluster.state("t") == (1, (1, 2, 3), 1)
    requests = cluster.requests()
    orders = {receivers[0]: states(request)[0] for kind, receivers, request in requests if kind == "LeaderAndIsr"}
    assert {broker: state["isNew"] for broker, state in orders.items()} == {1: False, 2: False, 3: False, 4: True}
    for state in orders.values():
        assert (state["replicas"], state["addingReplicas"], state["removingReplicas"]) == ([4, 2, 1, 3], [4], [1, 3])
    assert under_way(cluster) == {("t", 0): ([4, 2, 1, 3], [4], [1, 3])}
    assert under_way(cluster, {"t": [0, 1], "u": [0]}) == under_way(cluster)
    assert under_way(cluster, {"t": [1]}) == {}


@pytest.mark.covers("reassignment B1", "reassignment B2", "reassignment B3")
def test_the_second_phase_moves_the_leader_then_stops_and_deletes() -> None:
    cluster = small([1, 2, 3])
    reassign(cluster, {0: [4, 2]})
    cluster.requests()
    assert alter_partition(cluster, 1, [1, 2, 3, 4]).error_code == Errors.NONE
    assert assignment(cluster) == ((4, 2), (), ())
    assert cluster.state("t")[:2] == (4, (2, 4)), "the first of the target leads, those that go are out of the ISR"
    requests = cluster.requests()
    sent = [
        (kind, receivers, states(request)[0]["leader"])
        for kind, receivers, request in requests
        if kind == "LeaderAndIsr"
    ]
    assert sent == [("LeaderAndIsr", [2], 4), ("LeaderAndIsr", [4], 4)]
    stops = [
        (receivers, states(request)[0]["deletePartition"])
        for kind, receivers, request in requests
        if kind == "StopReplica"
    ]
    assert stops == [([1], False), ([3], False), ([1], True), ([3], True)]
    assert [kind for kind, _, _ in requests][-1] == "UpdateMetadata"
    assert under_way(cluster) == {}


@pytest.mark.covers("A10")
def test_brokers_and_clients_are_told_the_raised_epoch() -> None:
    # KAFKA-9212: the epoch in the controller's table was the one from before.
    cluster = small([1, 2, 3])
    reassign(cluster, {0: [4, 2, 3]})
    epochs = {kind: {states(request)[0]["leaderEpoch"]} for kind, _, request in cluster.requests()}
    assert epochs == {"UpdateMetadata": {1}, "LeaderAndIsr": {1}}
    alter_partition(cluster, 1, [1, 2, 3, 4])
    last = cluster.state("t")[2]
    requests = cluster.requests()
    assert [states(request)[0]["leaderEpoch"] for kind, _, request in requests if kind == "LeaderAndIsr"] == [last] * 3
    assert states(requests[-1][2])[0]["leaderEpoch"] == last


@pytest.mark.covers("B11")
def test_a_move_ends_only_when_every_target_is_in_the_isr() -> None:
    # KAFKA-15665
    cluster = small([1, 2])
    reassign(cluster, {0: [3, 4]})
    cluster.requests()
    alter_partition(cluster, 1, [1, 2, 3])
    assert assignment(cluster) == ((3, 4, 1, 2), (3, 4), (1, 2))
    assert {kind for kind, _, _ in cluster.requests()} == {"UpdateMetadata"}
    alter_partition(cluster, 1, [1, 3, 4])
    assert assignment(cluster) == ((3, 4), (), ())
    assert cluster.state("t")[:2] == (3, (3, 4))


def test_a_move_whose_target_is_in_sync_already_ends_at_once() -> None:
    cluster = small([1, 2, 3])
    assert reassign(cluster, {0: [3, 1]}) == {0: Errors.NONE}
    assert assignment(cluster) == ((3, 1), (), ())
    assert cluster.state("t")[:2] == (1, (1, 3)), "a leader that stays is not moved"


def test_replicas_in_another_order() -> None:
    cluster = small([1, 2, 3])
    assert reassign(cluster, {0: [3, 2, 1]}) == {0: Errors.NONE}
    assert assignment(cluster) == ((3, 2, 1), (), ())
    assert cluster.state("t") == (1, (1, 2, 3), 1)
    assert not [kind for kind, _, _ in cluster.requests() if kind == "StopReplica"]


def test_a_cancelled_move_leaves_what_there_was() -> None:
    cluster = small([1, 2])
    reassign(cluster, {0: [3, 4]})
    alter_partition(cluster, 1, [1, 2, 3])
    cluster.requests()
    assert reassign(cluster, {0: None}) == {0: Errors.NONE}
    assert assignment(cluster) == ((1, 2), (), ())
    assert cluster.state("t")[:2] == (1, (1, 2))
    stopped = {receivers[0] for kind, receivers, _ in cluster.requests() if kind == "StopReplica"}
    assert stopped == {3, 4}
    assert reassign(cluster, {0: None}) == {0: Errors.NO_REASSIGNMENT_IN_PROGRESS}


def test_a_move_that_overrules_another_stops_what_nobody_wants_any_more() -> None:
    cluster = small([1, 2], brokers=[1, 2, 3, 4, 5])
    reassign(cluster, {0: [3, 2]})
    alter_partition(cluster, 1, [1, 2, 3])  # That ended it: 3 leads.
    reassign(cluster, {0: [4, 2]})
    cluster.requests()
    assert reassign(cluster, {0: [5, 2]}) == {0: Errors.NONE}
    assert assignment(cluster) == ((5, 2, 3), (5,), (3,))
    stops = [
        (receivers, states(request)[0]["deletePartition"])
        for kind, receivers, request in cluster.requests()
        if kind == "StopReplica"
    ]
    assert stops == [([4], False), ([4], True)]


def test_each_partition_is_answered() -> None:
    cluster = small([1, 2], [1, 2], [1, 2], [1, 2], [1, 2], [1, 2])
    cluster.register(9)
    cluster.run()
    cluster.unregister(9)
    cluster.run()
    invalid = Errors.INVALID_REPLICA_ASSIGNMENT
    asked: dict[int, list[int] | None] = {0: [], 1: [2, 2], 2: [-1], 3: [9], 4: [3], 5: None, 6: [1], 7: None}
    assert reassign(cluster, asked) == {
        0: invalid,
        1: invalid,
        2: invalid,
        3: invalid,
        4: Errors.NONE,
        5: Errors.NO_REASSIGNMENT_IN_PROGRESS,
        6: Errors.UNKNOWN_TOPIC_OR_PARTITION,
        7: Errors.NO_REASSIGNMENT_IN_PROGRESS,
    }
    assert list(under_way(cluster)) == [("t", 4)]
    assert reassign(cluster, {0: [1]}, "nowhere") == {0: Errors.UNKNOWN_TOPIC_OR_PARTITION}
    cluster.active.topics_to_be_deleted.add("t")
    assert reassign(cluster, {0: [1]}) == {0: Errors.UNKNOWN_TOPIC_OR_PARTITION}


def test_a_broker_that_shuts_down_is_no_target() -> None:
    cluster = small([1, 2])
    cluster.active.table.brokers.set_shutting_down(3)
    assert reassign(cluster, {0: [3, 2]}) == {0: Errors.INVALID_REPLICA_ASSIGNMENT}
    assert reassign(cluster, {0: [1]}) == {0: Errors.NONE}


def test_internal_topics_do_not_move_where_nobody_coordinates() -> None:
    cluster = Cluster()
    for broker in (1, 2, 7):
        cluster.register(broker, coordinates=broker != 7)
    for name in ("__consumer_offsets", "t"):
        cluster.write_topic(name, [1, 2])
    cluster.elect()
    assert reassign(cluster, {0: [2, 7]}, "__consumer_offsets") == {0: Errors.INVALID_REPLICA_ASSIGNMENT}
    assert reassign(cluster, {0: [2, 7]}) == {0: Errors.NONE}


def test_more_replicas_than_fit_are_refused() -> None:
    cluster = small([1, 2], brokers=range(1, 40))
    assert reassign(cluster, {0: list(range(5, 38))}) == {0: Errors.INVALID_REPLICA_ASSIGNMENT}


@pytest.mark.covers("reassignment B3")
def test_the_znode_says_what_is_left_to_do_and_goes_with_the_last() -> None:
    cluster = small([1, 2], [1, 2], [1, 2])
    wanted = {("t", 0): (3, 2), ("t", 1): (4, 2), ("gone", 0): (1,), ("t", 9): (1,), ("t", 2): ()}
    cluster.tree.create(PATH, znodes.encode_reassign_partitions(wanted))
    cluster.run()
    assert znodes.decode_reassign_partitions(cluster.tree.nodes[PATH].data) == {("t", 0): (3, 2), ("t", 1): (4, 2)}
    alter_partition(cluster, 1, [1, 2, 3], partition=0)
    assert znodes.decode_reassign_partitions(cluster.tree.nodes[PATH].data) == {("t", 1): (4, 2)}
    alter_partition(cluster, 1, [1, 2, 4], partition=1)
    assert PATH not in cluster.tree.nodes
    cluster.tree.create(PATH, znodes.encode_reassign_partitions({("t", 2): (3, 2)}))
    cluster.run()
    assert assignment(cluster, 2) == ((3, 2, 1), (3,), (1,)), "the watch is set again"


def test_a_znode_that_makes_no_sense_is_let_be() -> None:
    cluster = small([1, 2])
    cluster.tree.create(PATH, b"{}")
    cluster.run()
    assert PATH in cluster.tree.nodes
    assert under_way(cluster) == {}


def test_a_request_overrules_the_znode() -> None:
    cluster = small([1, 2], [1, 2])
    cluster.tree.create(PATH, znodes.encode_reassign_partitions({("t", 0): (3, 2), ("t", 1): (3, 2)}))
    cluster.run()
    reassign(cluster, {0: None})
    assert znodes.decode_reassign_partitions(cluster.tree.nodes[PATH].data) == {("t", 1): (3, 2)}
    assert assignment(cluster, 0) == ((2, 1), (), ()), "the original order is lost, as in Kafka"


@pytest.mark.covers("article D.6")
def test_moves_go_on_after_a_failover() -> None:
    cluster = small([1, 2], [1, 2])
    reassign(cluster, {0: [3, 2], 1: [4, 2]})
    cluster.run(events.SessionLost())
    cluster.write_state("t", 0, 1, [1, 2, 3], 1, 1)
    cluster.elect()
    assert assignment(cluster, 0) == ((3, 2), (), ()), "all of its target had come into the ISR meanwhile"
    assert assignment(cluster, 1) == ((4, 2, 1), (4,), (1,))
    alter_partition(cluster, 1, [1, 2, 4], partition=1)
    assert assignment(cluster, 1) == ((4, 2), (), ())


def test_a_move_to_a_dead_broker_waits_for_it() -> None:
    cluster = small([1, 2])
    cluster.unregister(3)
    cluster.run()
    cluster.tree.create(PATH, znodes.encode_reassign_partitions({("t", 0): (3, 99)}))
    cluster.run()
    assert assignment(cluster) == ((3, 99, 1, 2), (3, 99), (1, 2))
    cluster.requests()
    cluster.register(3)
    cluster.run()
    new = [
        states(request)[0]["isNew"]
        for kind, receivers, request in cluster.requests()
        if (kind, receivers) == ("LeaderAndIsr", [3])
    ]
    assert True in new, "a replica that it has not had yet"


def test_a_leader_of_the_target_that_is_dead_is_replaced() -> None:
    cluster = small([1, 2], [3, 4])
    alter_partition(cluster, 1, [1])
    cluster.unregister(1)
    cluster.run()
    assert cluster.state("t", 0)[:2] == (-1, (1,))
    assert reassign(cluster, {0: [1]}) == {0: Errors.NONE}
    assert assignment(cluster) == ((1,), (), ())
    assert cluster.state("t", 0)[0] == -1, "nobody of the target can lead"


def test_a_topic_that_is_gone_meanwhile_fails_its_moves() -> None:
    cluster = small([1, 2])
    for path in ("partitions/0/state", "partitions/0", "partitions"):
        cluster.tree.delete(f"/brokers/topics/t/{path}")
    cluster.tree.watched.clear()
    cluster.tree.watched_children.clear()
    cluster.tree.delete("/brokers/topics/t")
    assert reassign(cluster, {0: [3, 2]}) == {0: Errors.UNKNOWN_SERVER_ERROR}
    assert under_way(cluster) == {}


def test_many_moves_of_one_topic_are_one_write_of_its_znode() -> None:
    cluster = small(*[[1, 2]] * 20)
    before = cluster.tree.nodes["/brokers/topics/t"].version
    reassign(cluster, {index: [3, 2] for index in range(20)})
    assert cluster.tree.nodes["/brokers/topics/t"].version == before + 1
    assert len(under_way(cluster)) == 20
    kinds = [(kind, receivers) for kind, receivers, _ in cluster.requests()]
    assert kinds == [("UpdateMetadata", [1, 2, 3, 4]), *(("LeaderAndIsr", [broker]) for broker in (1, 2, 3))]


def test_the_last_replica_in_sync_is_not_deleted_by_calling_a_move_off() -> None:
    cluster = small([1], [1])
    cluster.tree.create(PATH, znodes.encode_reassign_partitions({("t", 0): (3, 4), ("t", 1): (3, 4)}))
    cluster.run()
    for partition in (0, 1):
        alter_partition(cluster, 1, [1, 3], partition=partition)
    cluster.unregister(1)
    cluster.run()
    assert cluster.state("t")[:2] == (3, (3,)), "what 3 takes now, 1 does not have"
    assert reassign(cluster, {0: None, 1: [1]}) == dict.fromkeys((0, 1), Errors.INVALID_REPLICA_ASSIGNMENT)
    cluster.tree.set_data(PATH, znodes.encode_reassign_partitions({("t", 0): (1, 4)}))
    cluster.run(events.ZkPartitionReassignment())
    assert assignment(cluster) == ((3, 4, 1), (3, 4), (1,))
    assert cluster.state("t")[:2] == (3, (3,))
