"""DescribeTopicPartitions: topics page by page, as kafka-topics asks for them."""

from pathlib import Path

import pytest

from kcore.metadata.acl_codes import DESCRIBE, TOPIC
from kcore.net.request_context import ClientSession
from kcore.protocol_errors import Errors
from kcore.schema.cluster_metadata import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from kcore.server.cluster_view import TOPIC_OPERATIONS
from kcore.server.kraft_broker.kraft_broker_request_handlers import MOST, describe_topic_partitions
from kcore.server.security.rights import Rights
from kcore.steps import finished
from kcore.types import ZERO_UUID
from net.loops import story, until
from server.kraft.test_kraft_broker import cluster_in
from server.test_cluster_view import A, B, view

INTERNAL = "__consumer_offsets"


class MayDescribe:
    """Lets everybody describe these topics, and do nothing else."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def allows(self, _who: object, _where: str, operation: int, resource_type: int = 4, name: str = "") -> bool:
        return (operation, resource_type) == (DESCRIBE, TOPIC) and name in self.names

    def allows_on_any(self, _who: object, _where: str, operation: int, resource_type: int) -> bool:
        return False


def rights(*names: str) -> Rights:
    return Rights(MayDescribe(*names), ClientSession("PLAINTEXT", "127.0.0.1"))


def page(
    *names: str, limit: int = MOST, cursor: tuple[str, int] | None = None, allowed: Rights | None = None
) -> DescribeTopicPartitionsResponse:
    return finished(
        describe_topic_partitions(
            view(),
            DescribeTopicPartitionsRequest(
                topics=[TopicRequest(name=name) for name in names],
                response_partition_limit=limit,
                cursor=cursor and Cursor(topic_name=cursor[0], partition_index=cursor[1]),
            ),
            allowed,
        )
    )


def shown(response: DescribeTopicPartitionsResponse) -> tuple[dict[str | None, list[int]], tuple[str, int] | None]:
    """The partitions by topic, and where the next page begins."""
    cursor = response.next_cursor
    return (
        {topic.name: [each.partition_index for each in topic.partitions] for topic in response.topics},
        cursor and (cursor.topic_name, cursor.partition_index),
    )


def test_a_topic_with_its_partitions() -> None:
    [topic] = page("a").topics
    assert (topic.error_code, topic.topic_id, topic.is_internal) == (Errors.NONE, A, False)
    assert topic.topic_authorized_operations == TOPIC_OPERATIONS
    assert [
        (each.leader_id, each.leader_epoch, each.replica_nodes, each.isr_nodes, each.offline_replicas)
        for each in topic.partitions
    ] == [(1, 5, [1, 2], [2, 1], []), (2, 6, [2, 4], [2], [4]), (-1, 7, [3, 1], [3, 1], [])]
    assert {each.error_code for each in topic.partitions} == {Errors.NONE}


def test_topics_without_the_right_are_refused_if_named_and_left_out_otherwise() -> None:
    assert shown(page(allowed=rights("b"))) == ({"b": [0]}, None)
    [b, a, missing] = page("missing", "b", "a", allowed=rights("b")).topics
    assert (b.error_code, b.topic_authorized_operations) == (Errors.NONE, 1 << DESCRIBE)
    refused = Errors.TOPIC_AUTHORIZATION_FAILED  # The error does not show whether the topic exists.
    assert [(each.name, each.error_code, each.topic_id, each.partitions) for each in (a, missing)] == [
        ("a", refused, ZERO_UUID, []),
        ("missing", refused, ZERO_UUID, []),
    ]


def test_pages_go_by_name_and_end() -> None:
    assert shown(page()) == ({INTERNAL: [0], "a": [0, 1, 2], "b": [0]}, None)
    assert page().topics[0].is_internal
    assert shown(page(limit=2)) == ({INTERNAL: [0], "a": [0]}, ("a", 1))
    assert shown(page(limit=2, cursor=("a", 1))) == ({"a": [1, 2]}, ("b", 0))
    assert shown(page(limit=2, cursor=("b", 0))) == ({"b": [0]}, None)
    assert shown(page("b", "a", limit=3)) == ({"a": [0, 1, 2]}, ("b", 0))
    assert shown(page(limit=0)) == ({INTERNAL: [0]}, ("a", 0))
    assert shown(page(cursor=("aa", 0))) == ({"b": [0]}, None)


def test_unknown_topics_are_errors_where_they_are_asked_for() -> None:
    known, unknown, invalid = page("b", "x", "y y").topics
    assert known.topic_id == B
    assert (unknown.error_code, unknown.name, unknown.topic_id) == (Errors.UNKNOWN_TOPIC_OR_PARTITION, "x", ZERO_UUID)
    assert invalid.error_code == Errors.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize("cursor", [("c", 0), ("a", -1)])
def test_a_cursor_that_is_refused(cursor: tuple[str, int]) -> None:
    assert [each.error_code for each in page("a", cursor=cursor).topics] == [Errors.INVALID_REQUEST]


@story
async def test_a_broker_names_eligible_leaders(tmp_path: Path) -> None:
    """Replicas that left the ISR with all that is committed."""
    levels = {"metadata.version": 30, "eligible.leader.replicas.version": 1}
    async with cluster_in(tmp_path, levels=levels) as cluster:
        assert await cluster.create("t", [1, 2], min_insync_replicas="2") is Errors.NONE
        await cluster.until_led("t", 1, 1, 2)
        await cluster.stop(2)
        await cluster.until_led("t", 1, 1)
        request = DescribeTopicPartitionsRequest(topics=[TopicRequest(name="t")])

        def known() -> bool:
            replica = cluster.brokers[1].runtime.manager.partitions["t", 0]
            return replica.isr == (1,)

        await until(known)
        [topic] = (await cluster.ask(1, request)).topics
        [partition] = topic.partitions
        assert (partition.isr_nodes, partition.eligible_leader_replicas, partition.offline_replicas) == ([1], [2], [2])
