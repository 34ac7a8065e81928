"""The answers to clients about the cluster."""

import asyncio
from typing import Any

import numpy as np
import pytest

from kcore.metadata.table.broker_registration import LiveBroker
from kcore.metadata.table.broker_table import BrokerTable, Endpoint
from kcore.metadata.table.partition_table import PartitionTable
from kcore.metadata.table.topic_table import TopicTable
from kcore.net.limits import work_in_parts
from kcore.protocol_errors import Errors
from kcore.schema.cluster_metadata import (
    DescribeClusterRequest,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponseTopic,
)
from kcore.server.cluster_view import CLUSTER_OPERATIONS, TOPIC_OPERATIONS, TOPICS_A_SCAN, ClusterView, FilterOf
from kcore.types import ZERO_UUID, Uuid
from kcore.wire.codec import encode
from net.loops import with_turns_of_others

LISTENER, OTHER = "CLIENTS", "BROKERS"
A, B = Uuid(b"a" * 16), Uuid(b"b" * 16)
CONTROLLER = LiveBroker(1000, (Endpoint(9090, "controller", LISTENER, 0),), "r0")


def listener(broker_id: int, name: str = LISTENER) -> Endpoint:
    return Endpoint(9000 + broker_id, f"host{broker_id}", name, 0)


def view(**changes: Any) -> ClusterView:
    """Brokers 1, 2 and 3 live, 3 without the clients' listener, 4 dead. a: three partitions; b: one, leaderless;
    __consumer_offsets: no state yet."""
    brokers = BrokerTable.from_arrays(
        [1, 2, 3, 4],
        live=[True, True, True, False],
        racks=["r1", None, None, None],
        endpoints=[[listener(1)], [listener(2), listener(2, OTHER)], [listener(3, OTHER)], []],
    )
    table = PartitionTable.from_arrays(
        [[1, 2], [2, 4], [3, 1], [4, -1], [1, 2]],
        isr=[[2, 1], [2, -1], [3, 1], [4, -1], [1, 2]],
        leaders=[1, 2, 3, -1, 1],
        leader_epochs=[5, 6, 7, 8, -1],
        topics=TopicTable(["a", "b", "__consumer_offsets"], [A, B, Uuid(b"c" * 16)]),
        topic_rows=[0, 0, 0, 1, 2],
        brokers=brokers,
    )
    return ClusterView(
        **({"table": table, "listener": LISTENER, "controller": CONTROLLER, "cluster_id": "me"} | changes)
    )


def metadata(request: MetadataRequest, version: int, filter_of: FilterOf | None = None, **changes: Any) -> Any:
    return asyncio.run(view(**changes).metadata(request, version, filter_of))


def asked(*names: str | None, ids: tuple[Uuid, ...] = ()) -> MetadataRequest:
    topics = [MetadataRequestTopic(name=name) for name in names]
    return MetadataRequest(topics=topics + [MetadataRequestTopic(topic_id=each, name=None) for each in ids])


def test_brokers_are_those_with_the_listener_and_the_controller() -> None:
    response = metadata(MetadataRequest(topics=[]), 12)
    assert [(each.node_id, each.host, each.port, each.rack) for each in response.brokers] == [
        (1, "host1", 9001, "r1"),
        (2, "host2", 9002, None),
        (1000, "controller", 9090, "r0"),
    ]
    assert (response.controller_id, response.cluster_id, response.topics) == (1000, "me", [])


def test_partitions_as_brokers_would_tell_them() -> None:
    [topic] = metadata(asked("a"), 12).topics
    assert (topic.error_code, topic.name, topic.topic_id, topic.is_internal) == (Errors.NONE, "a", A, False)
    assert [
        (each.error_code, each.leader_id, each.leader_epoch, each.replica_nodes, each.isr_nodes, each.offline_replicas)
        for each in topic.partitions
    ] == [
        (Errors.NONE, 1, 5, [1, 2], [2, 1], []),
        (Errors.NONE, 2, 6, [2, 4], [2], [4]),
        (Errors.LISTENER_NOT_FOUND, -1, 7, [3, 1], [3, 1], []),
    ]


def test_replicas_on_failed_disks_are_offline() -> None:
    lost = {1: {1, 2}, 2: {1}}
    [topic] = metadata(
        asked("a"), 12, offline=lambda row: [broker for broker, rows in lost.items() if row in rows]
    ).topics
    assert [each.offline_replicas for each in topic.partitions] == [[], [2, 4], [1]]


def test_a_partition_without_a_leader() -> None:
    [topic] = metadata(asked("b"), 12).topics
    [partition] = topic.partitions
    assert (partition.error_code, partition.leader_id) == (Errors.LEADER_NOT_AVAILABLE, -1)


def test_before_version_6_a_missing_listener_is_a_missing_leader() -> None:
    [topic] = metadata(asked("a"), 5).topics
    assert [each.error_code for each in topic.partitions] == [Errors.NONE, Errors.NONE, Errors.LEADER_NOT_AVAILABLE]


def test_version_0_names_live_brokers_alone() -> None:
    [topic] = metadata(asked("a"), 0).topics
    assert [(each.error_code, each.replica_nodes, each.isr_nodes) for each in topic.partitions] == [
        (Errors.NONE, [1, 2], [2, 1]),
        (Errors.REPLICA_NOT_AVAILABLE, [2], [2]),
        (Errors.LEADER_NOT_AVAILABLE, [1], [1]),
    ]


@pytest.mark.parametrize(("topics", "version"), [(None, 12), (None, 1), ([], 0)])
def test_all_topics_are_those_with_states(topics: list[MetadataRequestTopic] | None, version: int) -> None:
    assert [each.name for each in metadata(MetadataRequest(topics=topics), version).topics] == ["a", "b"]


def test_topics_that_are_unknown_new_or_going() -> None:
    response = metadata(asked("c", "b", "__consumer_offsets", "c"), 12, hidden={"b"}).topics
    assert [(each.error_code, each.name, each.is_internal) for each in response] == [
        (Errors.UNKNOWN_TOPIC_OR_PARTITION, "c", False),
        (Errors.UNKNOWN_TOPIC_OR_PARTITION, "b", False),
        (Errors.UNKNOWN_TOPIC_OR_PARTITION, "__consumer_offsets", True),
    ]


def test_topics_by_id() -> None:
    stranger = Uuid(b"x" * 16)
    response = metadata(asked(ids=(B, stranger, B, B, stranger)), 12).topics  # Each once, as Kafka.
    assert [(each.error_code, each.name, each.topic_id) for each in response] == [
        (Errors.NONE, "b", B),
        (Errors.UNKNOWN_TOPIC_ID, None, stranger),
    ]


@pytest.mark.parametrize("by_id", [False, True])
def test_a_topic_that_is_asked_for_again_is_answered_once(by_id: bool) -> None:
    """A topic may have thousands of partitions: a small request would have an answer without bound."""
    request = asked(ids=(A, B) * 50) if by_id else asked(*("a", "b") * 50)
    assert [each.name for each in metadata(request, 12).topics] == ["a", "b"]


def test_operations_where_they_are_asked_for() -> None:
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name="a")],
        include_cluster_authorized_operations=True,
        include_topic_authorized_operations=True,
    )
    response = metadata(request, 8)
    assert response.cluster_authorized_operations == CLUSTER_OPERATIONS
    assert response.topics[0].topic_authorized_operations == TOPIC_OPERATIONS
    silent = metadata(asked("a"), 8)
    assert (
        silent.cluster_authorized_operations == silent.topics[0].topic_authorized_operations == np.iinfo(np.int32).min
    )


def test_the_cluster() -> None:
    response = view().describe(DescribeClusterRequest(include_cluster_authorized_operations=True))
    assert [each.broker_id for each in response.brokers] == [1, 2, 1000]
    assert (response.controller_id, response.cluster_id) == (1000, "me")
    assert response.cluster_authorized_operations == CLUSTER_OPERATIONS
    assert view().describe(DescribeClusterRequest(endpoint_type=2)).error_code == Errors.UNSUPPORTED_ENDPOINT_TYPE


@pytest.mark.parametrize("version", range(10, 13))
def test_a_topic_without_a_name_or_an_id_is_refused_with_all_that_were_asked_for(version: int) -> None:
    """As KafkaApis refuses it below version 12; 12 has names that are null, for topics that are asked for by id."""
    topics = metadata(asked("a", None, "b"), version).topics
    assert [(each.error_code, each.name) for each in topics] == [
        (Errors.INVALID_REQUEST, "a"),
        (Errors.INVALID_REQUEST, ""),
        (Errors.INVALID_REQUEST, "b"),
    ]
    encode(metadata(asked("a", None, "b"), version), version)


@pytest.mark.parametrize("version", [10, 11])
def test_topic_ids_are_refused_where_kafka_takes_none(version: int) -> None:
    topics = metadata(asked("a", ids=(A,)), version).topics
    assert [(each.error_code, each.name, each.topic_id) for each in topics] == [
        (Errors.INVALID_REQUEST, "a", ZERO_UUID),
        (Errors.INVALID_REQUEST, "", A),
    ]


@pytest.mark.parametrize("name", ["", "..", "a/b", "a" * 250])
def test_a_name_that_no_topic_may_have(name: str) -> None:
    [topic] = metadata(asked(name), 12).topics
    assert (topic.error_code, topic.name) == (Errors.INVALID_TOPIC_EXCEPTION, name)


@pytest.mark.parametrize("by_id", [False, True])
def test_a_request_for_many_topics_is_answered_in_turns(by_id: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tasks run after each part, here of one topic; a topic named twice is answered once."""
    monkeypatch.setattr(work_in_parts, "PART_S", 0.0)
    count = 2 * TOPICS_A_SCAN + 1
    request = (
        asked(ids=(A, *(Uuid(each.to_bytes(16)) for each in range(1, count))))
        if by_id
        else asked("a", "a", *map(str, range(count - 2)))
    )
    answer, turns = asyncio.run(with_turns_of_others(view().metadata(request, 12)))
    topics = answer.topics
    assert len(topics) == count - (not by_id) and turns >= count - 1
    assert [each.error_code for each in topics[:2]] == [
        Errors.NONE,
        Errors.UNKNOWN_TOPIC_ID if by_id else Errors.UNKNOWN_TOPIC_OR_PARTITION,
    ]


def test_the_time_of_a_part_is_bounded_however_long_a_topic_takes() -> None:
    """An authorizer may need as long for ten topics as the view needs for fifty."""

    async def ask() -> int:
        loop, now_s = asyncio.get_running_loop(), 0.0
        loop.time = lambda: now_s  # type: ignore[method-assign]

        def slow(topic: MetadataResponseTopic) -> MetadataResponseTopic:
            nonlocal now_s
            now_s += work_in_parts.PART_S / 4
            return topic

        work = view().metadata(asked(*map(str, range(40))), 12, lambda *_: slow)
        return (await with_turns_of_others(work))[1]

    assert asyncio.run(ask()) >= 9


def test_a_topic_is_what_it_is_when_its_turn_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A topic that is deleted meanwhile and created again under its name is not shown under the old id."""
    monkeypatch.setattr(work_in_parts, "PART_S", 0.0)
    found = view()

    async def ask() -> Any:
        request = asked(ids=(*(Uuid(each.to_bytes(16)) for each in range(1, 100)), B))
        answer = asyncio.create_task(found.metadata(request, 12))
        await asyncio.sleep(0)
        found.table.topics.ids[found.table.topics.row("b")] = Uuid(b"n" * 16)
        return await answer

    topic = asyncio.run(ask()).topics[-1]
    assert (topic.error_code, topic.name, topic.topic_id) == (Errors.UNKNOWN_TOPIC_ID, None, B)


@pytest.mark.parametrize(("request_", "by_id"), [(asked("a", "b"), False), (asked("a", ids=(B,)), True)])
def test_each_topic_shows_what_the_filter_leaves(request_: MetadataRequest, by_id: bool) -> None:
    asks: list[tuple[int, bool]] = []

    def filter_of(request: MetadataRequest, version: int, has_ids: bool) -> Any:
        assert request is request_
        asks.append((version, has_ids))
        return lambda topic: None if topic.name == "b" else topic

    topics = metadata(request_, 12, filter_of).topics
    assert ([each.name for each in topics], asks) == ([] if by_id else ["a"], [(12, by_id)])


@pytest.mark.parametrize("version", [7, 8, 10, 11])
def test_the_operations_of_the_cluster_are_in_the_versions_that_have_them(version: int) -> None:
    """Metadata 11 has no such field any more: DescribeCluster tells (KIP-700)."""
    response = metadata(MetadataRequest(topics=[], include_cluster_authorized_operations=True), version)
    unset = np.iinfo(np.int32).min
    assert response.cluster_authorized_operations == (CLUSTER_OPERATIONS if 8 <= version <= 10 else unset)
