"""CreatePartitions: topics grow, and every refusal."""

from typing import Any

import pytest

import kcore
from controller.zk import admin
from controller.zk.admin import small
from controller.zk.tree import Cluster
from kcore import schema
from kcore.controller.zk import events
from kcore.metadata.table.partition_state import ReplicaAssignment
from kcore.metadata.zookeeper import znodes
from kcore.metadata.zookeeper.znode_operations import ReadNodes, WriteNodes
from kcore.protocol_errors import Errors
from kcore.schema.partitions import CreatePartitionsAssignment, CreatePartitionsTopic


def grow(
    cluster: Cluster,
    count: int,
    *replicas: list[int],
    name: str = "t",
    validate_only: bool = False,
    timeout_ms: int = 5000,
) -> tuple[Errors, str | None]:
    assignments = [CreatePartitionsAssignment(broker_ids=each) for each in replicas] if replicas else None
    return grow_all(
        cluster,
        CreatePartitionsTopic(name=name, count=count, assignments=assignments),
        validate_only=validate_only,
        timeout_ms=timeout_ms,
    )[name]


def grow_all(cluster: Cluster, *topics: CreatePartitionsTopic, **options: Any) -> dict[str, tuple[Errors, str | None]]:
    request = schema.CreatePartitionsRequest(topics=list(topics), **{"timeout_ms": 5000} | options)
    response = admin.ask(cluster, request)
    decoded = kcore.decode("CreatePartitionsResponse", 3, kcore.encode(response, 3))
    return {each.name: (Errors(each.error_code), each.error_message) for each in decoded.results}


def partitions(cluster: Cluster) -> list[list[int]]:
    written = znodes.decode_topic("t", cluster.tree.nodes["/brokers/topics/t"].data)
    return [[*each.replicas] for each in written.partitions.values()]


def test_a_topic_grows_where_its_first_partition_left_off() -> None:
    cluster = small([3, 4], [4, 1])
    assert grow(cluster, 4) == (Errors.NONE, None)
    expected = kcore.tables.place("kafka-3.9", [1, 2, 3, 4], 2, 2, start=2, start_partition=2).tolist()
    assert partitions(cluster) == [[3, 4], [4, 1], *expected]
    for index, each in enumerate(expected, start=2):
        assert cluster.state("t", index) == (each[0], tuple(each), 0)


def test_new_partitions_get_the_requested_replicas() -> None:
    cluster = small([1, 2])
    assert grow(cluster, 3, [3, 4], [4, 1]) == (Errors.NONE, None)
    assert partitions(cluster) == [[1, 2], [3, 4], [4, 1]]


@pytest.mark.parametrize(
    ("count", "replicas", "expected"),
    [
        (
            1,
            [],
            (Errors.INVALID_PARTITIONS, "Topic currently has 2 partitions, which is higher than the requested 1."),
        ),
        (2, [], (Errors.INVALID_PARTITIONS, "Topic already has 2 partitions.")),
        (
            3,
            [[1, 9]],
            (Errors.INVALID_REPLICA_ASSIGNMENT, "Unknown broker(s) in replica assignment: 9."),
        ),
        (
            3,
            [[1, 2], [2, 3]],
            (
                Errors.INVALID_REPLICA_ASSIGNMENT,
                "Increasing the number of partitions by 1 but 2 assignments provided.",
            ),
        ),
        (
            3,
            [[1, 1]],
            (
                Errors.INVALID_REPLICA_ASSIGNMENT,
                "Duplicate brokers not allowed in replica assignment: 1, 1 for partition id 2.",
            ),
        ),
        (
            3,
            [[1]],
            (
                Errors.INVALID_REPLICA_ASSIGNMENT,
                "Inconsistent replication factor between partitions, partition 0 has 2 while "
                "partitions [2] have replication factors [1], respectively.",
            ),
        ),
        (
            4,
            [[1, 2], []],
            (Errors.INVALID_REPLICA_ASSIGNMENT, "Cannot have replication factor of 0 for partition id 3."),
        ),
    ],
)
def test_what_cannot_grow(count: int, replicas: list[list[int]], expected: tuple[Errors, str]) -> None:
    cluster = small([1, 2], [2, 3])
    assert grow(cluster, count, *replicas) == expected
    assert partitions(cluster) == [[1, 2], [2, 3]]


def test_internal_topics_grow_where_groups_are_coordinated() -> None:
    name = "__consumer_offsets"
    cluster = Cluster()
    for broker in (1, 2, 7):
        cluster.register(broker, coordinates=broker != 7)
    cluster.write_topic(name, [1, 2])
    cluster.elect()
    by_hand = [CreatePartitionsAssignment(broker_ids=[1, 7])]
    [error, _] = grow_all(cluster, CreatePartitionsTopic(name=name, count=2, assignments=by_hand))[name]
    assert error is Errors.INVALID_REPLICA_ASSIGNMENT
    asked = CreatePartitionsTopic(name=name, count=9, assignments=None)
    assert grow_all(cluster, asked) == {name: (Errors.NONE, None)}
    table = cluster.active.table
    assert {broker for row in table.rows_of_topic(name) for broker in table.state(int(row)).replicas} == {1, 2}


def test_topics_that_cannot_grow() -> None:
    cluster = small([1, 2])
    cluster.write_topic("deleted", [1])
    cluster.run()
    cluster.active.topics_to_be_deleted.add("deleted")
    asked = [
        CreatePartitionsTopic(name=name, count=2, assignments=None) for name in ("twice", "twice", "deleted", "gone")
    ]
    assert grow_all(cluster, *asked) == {
        "twice": (Errors.INVALID_REQUEST, "Duplicate topic in request."),
        "deleted": (Errors.INVALID_TOPIC_EXCEPTION, "The topic is queued for deletion."),
        "gone": (Errors.UNKNOWN_TOPIC_OR_PARTITION, "The topic 'gone' does not exist."),
    }


def test_a_topic_that_is_being_reassigned_does_not_grow() -> None:
    cluster = small([1, 2])
    moved = ReplicaAssignment((3, 1, 2), (3,), (1,))
    cluster.tree.set_data("/brokers/topics/t", znodes.encode_topic(znodes.TopicAssignment(None, {0: moved})))
    assert grow(cluster, 2) == (
        Errors.REASSIGNMENT_IN_PROGRESS,
        "A partition reassignment is in progress for the topic 't'.",
    )


def test_growth_waits_for_leaders_until_time_is_up() -> None:
    cluster = small([1])
    cluster.unregister(1)
    cluster.run()
    grown = CreatePartitionsTopic(name="t", count=2, assignments=None)
    request = schema.CreatePartitionsRequest(topics=[grown], timeout_ms=5_000)
    assert admin.ask(cluster, request) is None, "partition 0 is led by nobody"
    [request_id] = cluster.active.waiting
    cluster.run(events.Tick(), 5_000)
    assert cluster.answers[request_id].results[0].error_code == Errors.REQUEST_TIMED_OUT
    assert len(partitions(cluster)) == 2


def test_growth_that_is_only_validated_or_not_waited_for() -> None:
    cluster = small([1, 2])
    assert grow(cluster, 2, validate_only=True) == (Errors.NONE, None)
    assert partitions(cluster) == [[1, 2]]
    assert grow(cluster, 2, timeout_ms=0) == (Errors.REQUEST_TIMED_OUT, None)
    assert len(partitions(cluster)) == 2


def test_an_assignment_that_somebody_else_changed_is_not_overwritten() -> None:
    cluster = small([1, 2])

    def before(effect: object) -> None:
        if isinstance(effect, WriteNodes):
            cluster.before = lambda _: None
            cluster.write_topic("t", [1, 2], [4, 3])

    cluster.before = before
    assert grow(cluster, 2)[0] is Errors.UNKNOWN_SERVER_ERROR
    assert partitions(cluster) == [[1, 2], [4, 3]]
    assert cluster.state("t", 1) == (4, (4, 3), 0)


def test_an_assignment_that_makes_no_sense_does_not_grow() -> None:
    cluster = small([1, 2])

    def before(effect: object) -> None:
        if isinstance(effect, ReadNodes):
            cluster.before = lambda _: None
            cluster.tree.watched.clear()
            cluster.tree.set_data("/brokers/topics/t", b"no JSON")

    cluster.before = before
    assert grow(cluster, 2)[0] is Errors.UNKNOWN_SERVER_ERROR
