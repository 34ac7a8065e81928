"""Topics are deleted: UpdateMetadata, StopReplica twice, then the znodes go; waiting for brokers and reassignments."""

from typing import Any

import pytest

from controller.zk import admin
from controller.zk.admin import answer_stops, epoch_of, small, stop_answer, stop_event
from controller.zk.tree import Cluster
from kcore import schema
from kcore.controller.zk import events
from kcore.metadata.zookeeper import znodes
from kcore.metadata.zookeeper.znode_operations import DeletePartitions, WriteNodes, WriteStates
from kcore.protocol_errors import Errors
from kcore.schema.partitions import ReassignablePartition, ReassignableTopic
from kcore.schema.stop_replica import StopReplicaPartitionError


def wish(cluster: Cluster, topic: str = "t") -> None:
    """Somebody asks in ZooKeeper for a topic to be deleted."""
    cluster.tree.create(znodes.delete_topic_path(topic))
    cluster.run()


def with_config(*partitions: list[int], **config: Any) -> Cluster:
    cluster = small(*partitions, **config)
    cluster.tree.create(znodes.config_path("topics", "t"), znodes.encode_config({}))
    return cluster


def is_gone(cluster: Cluster) -> bool:
    left = [
        path
        for path in cluster.tree.nodes
        if path.startswith(("/brokers/topics/t", "/config/topics/t", "/admin/delete_topics/t"))
    ]
    known = "t" in cluster.active.table.topics
    assert known == bool(left), left
    return not known


@pytest.mark.covers("story 6", "article B.4")
@pytest.mark.recorded
def test_step_6_of_the_story_t1_is_deleted() -> None:
    cluster = admin.recorded(5)
    wish(cluster, "t1")
    shown, *stops = cluster.requests()
    assert (shown[0], shown[1]) == ("UpdateMetadata", [1, 2, 3])
    last = admin.story.requests_before(6, "UPDATE_METADATA")[-1]["request"]["topicStates"]
    assert _by_partition(shown[2]["topicStates"]) == _by_partition(last)
    recorded = [each["request"]["topicStates"] for each in admin.story.requests_before(6, "STOP_REPLICA")]
    assert [_by_partition(request["topicStates"]) for _, _, request in stops] == [
        _by_partition(each) for each in recorded
    ]
    _answer_again(cluster, "t1")
    assert admin.subjects(cluster) == admin.recorded_subjects(6)


def _by_partition(topics: list[dict[str, Any]]) -> dict[tuple[str, int], dict[str, Any]]:
    return {
        (topic["topicName"], state["partitionIndex"]): state for topic in topics for state in topic["partitionStates"]
    }


def _answer_again(cluster: Cluster, topic: str) -> None:
    """All brokers say that they have deleted their replicas."""
    for broker in cluster.active.table.brokers.ids.tolist():
        rows = cluster.active.table.rows_of_topic(topic)
        held = [row for row in rows.tolist() if broker in cluster.active.table.state(row).replicas]
        errors = [
            StopReplicaPartitionError(topic_name=topic, partition_index=cluster.active.table.state(row).partition)
            for row in held
        ]
        cluster.run(stop_event(broker, epoch_of(cluster, broker), True, errors))


@pytest.mark.covers("A6", "article B.4")
def test_replicas_of_a_deleted_topic_stop_before_they_are_deleted_in_the_epoch_of_a_deletion() -> None:
    # KAFKA-9539: an epoch that no later incarnation of the topic can have.
    cluster = with_config([1, 2, 3], [2, 3])
    cluster.effects.clear()
    wish(cluster)
    requests = cluster.requests()
    assert [(kind, receivers) for kind, receivers, _ in requests] == [
        ("UpdateMetadata", [1, 2, 3, 4]),
        *(("StopReplica", [broker]) for broker in (1, 2, 3)),
        *(("StopReplica", [broker]) for broker in (1, 2, 3)),
    ]
    assert {state["leader"] for state in _states(requests[0][2])} == {-2}
    stops = [state for _, _, request in requests[1:] for state in _states(request)]
    assert {state["leaderEpoch"] for state in stops} == {-2}
    assert [state["deletePartition"] for state in stops] == [False] * 5 + [True] * 5
    assert not any(isinstance(each, WriteStates) for each in cluster.effects), "nobody will read their states"


def _states(request: dict[str, Any]) -> list[dict[str, Any]]:
    return [state for topic in request["topicStates"] for state in topic["partitionStates"]]


def test_the_znodes_go_when_every_broker_has_deleted() -> None:
    cluster = with_config([1, 2, 3], [2, 3])
    wish(cluster)
    sent = list(cluster.sent)
    answer_stops(cluster, brokers=[1, 2])
    assert not is_gone(cluster)
    cluster.sent = sent
    answer_stops(cluster, brokers=[3])
    assert is_gone(cluster)
    assert not cluster.active.deletion.started
    cluster.write_topic("t", [1, 2])
    cluster.run()
    assert cluster.state("t") == (1, (1, 2), 0), "a new topic may have the name"


@pytest.mark.covers("A7")
def test_replicas_that_only_stopped_are_not_deleted() -> None:
    # KAFKA-9946
    cluster = small([1, 2])
    wish(cluster)
    stops = [each for each in cluster.sent if each.message is schema.StopReplicaRequest]
    answers = [stop_answer(each, int(each.broker_ids[0]), int(each.broker_epochs[0])) for each in stops]
    assert [each.delete for each in answers] == [False, False, True, True]
    for answer in answers[:2] * 2:
        cluster.run(answer)
    assert not is_gone(cluster)
    for answer in answers[2:]:
        cluster.run(answer)
    assert is_gone(cluster)


@pytest.mark.covers("A2")
def test_a_stop_replica_answer_of_an_earlier_incarnation_counts_for_nothing() -> None:
    cluster = small([1])
    wish(cluster)
    [*_, stop] = [each for each in cluster.sent if each.message is schema.StopReplicaRequest]
    late = stop_answer(stop, 1, epoch_of(cluster, 1))
    cluster.unregister(1)
    cluster.register(1)
    cluster.run()
    cluster.run(late)
    assert not is_gone(cluster)
    answer_stops(cluster)
    assert is_gone(cluster)


@pytest.mark.covers("article E.4")
def test_a_topic_waits_for_a_dead_broker_and_goes_on_when_it_is_back() -> None:
    cluster = small([1, 2], [2, 3])
    cluster.unregister(2)
    cluster.run()
    wish(cluster)
    answer_stops(cluster)
    assert not is_gone(cluster)
    assert cluster.active.deletion.ineligible == {"t"}
    cluster.register(2)
    cluster.run()
    sent = [(kind, receivers) for kind, receivers, request in _peek(cluster) if kind == "StopReplica"]
    assert sent == [("StopReplica", [2])] * 2, "those that are deleted already are not asked again"
    answer_stops(cluster)
    assert is_gone(cluster)


def _peek(cluster: Cluster) -> list[Any]:
    sent = list(cluster.sent)
    requests = cluster.requests()
    cluster.sent = sent
    return requests


def test_a_broker_that_dies_before_it_answers_is_asked_again() -> None:
    cluster = small([1, 2])
    wish(cluster)
    answer_stops(cluster, brokers=[1])
    cluster.unregister(2)
    cluster.run()
    assert cluster.active.deletion.ineligible == {"t"}
    cluster.register(2)
    cluster.run()
    answer_stops(cluster)
    assert is_gone(cluster)


def test_a_replica_that_cannot_be_deleted_halts_the_topic() -> None:
    cluster = small([1, 2])
    wish(cluster)
    answer_stops(cluster, error=Errors.KAFKA_STORAGE_ERROR)
    assert not is_gone(cluster)
    assert cluster.active.deletion.ineligible == {"t"}
    assert cluster.requests() == []


def test_a_topic_that_is_being_reassigned_is_deleted_after_that() -> None:
    cluster = small([1, 2])
    moves = [ReassignableTopic(name="t", partitions=[ReassignablePartition(partition_index=0, replicas=[3, 2])])]
    admin.ask(cluster, schema.AlterPartitionReassignmentsRequest(topics=moves))
    cluster.requests()
    wish(cluster)
    assert cluster.requests() == []
    assert cluster.active.deletion.ineligible == {"t"}
    assert admin.alter_partition(cluster, 1, [1, 2, 3]).error_code == Errors.NONE
    answer_stops(cluster)
    assert is_gone(cluster)


@pytest.mark.covers("article D.8")
def test_a_deletion_goes_on_after_a_failover() -> None:
    cluster = small([1, 2])
    wish(cluster)
    cluster.run(events.SessionLost())
    cluster.sent.clear()
    cluster.elect()
    leaders = [
        state["leader"] for kind, _, request in _peek(cluster) if kind == "UpdateMetadata" for state in _states(request)
    ]
    assert set(leaders) == {-2}
    answer_stops(cluster)
    assert is_gone(cluster)


def test_a_wish_for_no_topic_is_removed() -> None:
    cluster = small([1, 2])
    wish(cluster, "nowhere")
    assert cluster.tree.children[znodes.DELETE_TOPICS] == set()
    assert cluster.requests() == []


def test_delete_topic_enable_false() -> None:
    cluster = small([1, 2], delete_topic_enable=False)
    wish(cluster)
    assert cluster.tree.children[znodes.DELETE_TOPICS] == set()
    assert cluster.requests() == []
    assert not is_gone(cluster)
    cluster.run(events.SessionLost())
    cluster.tree.create(znodes.delete_topic_path("t"))
    cluster.elect()
    assert cluster.tree.children[znodes.DELETE_TOPICS] == set()
    assert not cluster.active.topics_to_be_deleted


def test_partitions_that_are_added_meanwhile_are_taken_back() -> None:
    cluster = small([1, 2])
    wish(cluster)
    cluster.write_topic("t", [1, 2], [2, 1])
    cluster.run()
    written = znodes.decode_topic("t", cluster.tree.nodes["/brokers/topics/t"].data)
    assert list(written.partitions) == [0]
    answer_stops(cluster)
    assert is_gone(cluster)


def test_a_replica_on_a_failed_log_directory_waits() -> None:
    cluster = small([1, 2])
    cluster.active.offline_dirs[2] = {0}
    wish(cluster)
    answer_stops(cluster)
    assert not is_gone(cluster)
    assert cluster.active.deletion.ineligible == {"t"}


def test_two_topics_go_each_at_its_own_pace() -> None:
    cluster = small([1, 2])
    cluster.write_topic("u", [2, 3])
    cluster.run()
    cluster.requests()
    for topic in ("t", "u"):
        cluster.tree.create(znodes.delete_topic_path(topic))
    cluster.run()
    sent = list(cluster.sent)
    answer_stops(cluster, brokers=[1, 2])
    assert is_gone(cluster)
    assert "u" in cluster.active.table.topics
    cluster.sent = sent
    answer_stops(cluster, brokers=[3])
    assert cluster.active.table.topics.names == ["", ""]


@pytest.mark.parametrize("protocol", ["2.1", "2.2", "2.6", "3.9"])
def test_every_version_of_the_protocol(protocol: str) -> None:
    cluster = small([1, 2], [2, 1], inter_broker_protocol=protocol)
    wish(cluster)
    stops = [each for each in cluster.sent if each.message is schema.StopReplicaRequest]
    assert len(stops) == 4


def test_topics_that_are_done_together_are_removed_together() -> None:
    cluster = small()
    for number in range(20):
        cluster.write_topic(f"t-{number}", [1, 2], [2, 1])
    cluster.run()
    for number in range(20):
        cluster.tree.create(znodes.delete_topic_path(f"t-{number}"))
    cluster.run()
    answer_stops(cluster, brokers=[2])
    cluster.sent.clear()
    cluster.effects.clear()
    for number in range(20):
        _answer_by(cluster, 1, [f"t-{number}"] if number < 18 else [])
    assert len(cluster.active.table.topics.names) - cluster.active.table.topics.names.count("") == 2
    cluster.effects.clear()
    _answer_by(cluster, 1, ["t-18", "t-19"])
    assert cluster.tree.children["/brokers/topics"] == set()
    removed = [each for each in cluster.effects if isinstance(each, WriteNodes | DeletePartitions)]
    assert len(removed) == 3, "the partitions of both, then what is above them, then settings and wishes"


def _answer_by(cluster: Cluster, broker: int, topics: list[str]) -> None:
    named = [(topic, index) for topic in topics for index in (0, 1)]
    errors = [StopReplicaPartitionError(topic_name=topic, partition_index=index) for topic, index in named]
    cluster.run(stop_event(broker, epoch_of(cluster, broker), True, errors))


def test_a_topic_without_partitions_goes_at_once() -> None:
    cluster = small()
    cluster.write_topic("t")
    cluster.run()
    wish(cluster)
    assert is_gone(cluster)


def test_a_broker_that_comes_back_ends_the_wait_for_a_reassignment() -> None:
    # Broker 1 was all that was in sync: of a topic that is to be deleted no leader is elected any more.
    cluster = small([1, 2])
    cluster.tree.create(znodes.REASSIGN_PARTITIONS, znodes.encode_reassign_partitions({("t", 0): (3, 2)}))
    cluster.run()
    admin.alter_partition(cluster, 1, [1])
    wish(cluster)
    cluster.unregister(1)
    cluster.run()
    assert cluster.active.deletion.ineligible == {"t"}
    cluster.register(1)
    cluster.run()
    answer_stops(cluster)
    assert is_gone(cluster)
    assert not cluster.active.table.adding
    assert znodes.REASSIGN_PARTITIONS not in cluster.tree.nodes


def test_a_replica_that_is_deleted_does_not_come_back_with_its_broker() -> None:
    cluster = small([1, 2])
    wish(cluster)
    answer_stops(cluster, brokers=[1])
    cluster.unregister(1)
    cluster.run()
    cluster.sent.clear()
    cluster.register(1)
    cluster.run()
    assert [kind for kind, receivers, _ in cluster.requests() if receivers == [1]] == ["UpdateMetadata"]
