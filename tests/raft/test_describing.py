"""DescribeQuorum: KIP-595's request handling, sentence by sentence, and what KIP-836 and KIP-853 added."""

from typing import Any

import pytest

from kcore.protocol_errors import Errors
from kcore.raft.effects import SendResponse
from kcore.schema.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
)
from kcore.types import Uuid
from kcore.wire.codec import encode
from raft.nodes import directory, follower, of, started
from raft.replication import append, committed_leader, dynamic_leader, fetch, fetch_request, flush, take


def request(topic: str = "__cluster_metadata", partition: int = 0) -> DescribeQuorumRequest:
    rows = [DescribeQuorumRequestPartitionData(partition_index=partition)]
    return DescribeQuorumRequest(topics=[DescribeQuorumRequestTopicData(topic_name=topic, partitions=rows)])


def described(node: Any, now_ms: int = 1000, version: int = 2, asked: DescribeQuorumRequest | None = None) -> Any:
    (answer,) = of(SendResponse, node.on_request(asked or request(), version, "asked", now_ms))
    return answer.response


def replicas(rows: Any) -> list[tuple[int, int, int, int]]:
    """Id, log end, last fetch, last caught up."""
    return [
        (row.replica_id, row.log_end_offset, row.last_fetch_timestamp, row.last_caught_up_timestamp) for row in rows
    ]


# "First check whether the node is the leader. If not, then return an error to let the client retry with Metadata. If
# the current leader is known to the receiving node, then include the LeaderId and LeaderEpoch in the response."


@pytest.mark.covers("KIP-595 describe 0", "KIP-595 describe 1", "KIP-595 describe 1 leader")
def test_a_follower_names_the_leader() -> None:
    partition = described(follower(epoch=3)).topics[0].partitions[0]
    assert partition.error_code == Errors.NOT_LEADER_OR_FOLLOWER
    assert (partition.leader_id, partition.leader_epoch) == (2, 3)


@pytest.mark.covers("KIP-595 describe 1 leader")
def test_a_node_that_knows_no_leader_names_none() -> None:
    node, _ = started()
    partition = described(node).topics[0].partitions[0]
    assert (partition.error_code, partition.leader_id) == (Errors.NOT_LEADER_OR_FOLLOWER, -1)


@pytest.mark.parametrize("asked", [request("another"), request(partition=1)], ids=["topic", "partition"])
def test_only_one_partition_has_a_quorum(asked: DescribeQuorumRequest) -> None:
    response = described(committed_leader(), asked=asked)
    assert response.topics[0].topic_name == asked.topics[0].topic_name
    (partition,) = response.topics[0].partitions
    assert partition.partition_index == asked.topics[0].partitions[0].partition_index
    assert (partition.error_code, partition.error_message) == (3, "This server does not host this topic-partition.")


# "Build the response using current assignment information and cached state about replication progress."


@pytest.mark.covers("KIP-595 describe 2")
def test_the_leader_describes_voters_and_observers() -> None:
    node = committed_leader()
    take(node, [b"a"], 1000)  # Written, not flushed yet.
    fetch(node, fetch_request(1, replica=7), 1200)
    partition = described(node, 1500).topics[0].partitions[0]
    assert (partition.error_code, partition.leader_id, partition.leader_epoch) == (0, 1, 1)
    assert partition.high_watermark == 1
    # The leader is always caught up; node 3 has never fetched.
    assert replicas(partition.current_voters) == [(1, 2, 1500, 1500), (2, 1, 1000, 1000), (3, -1, -1, -1)]
    assert replicas(partition.observers) == [(7, 1, 1200, -1)]


@pytest.mark.parametrize("version", [0, 1])
def test_old_versions_tell_no_directories(version: int) -> None:
    """They have no field for them, nor for texts; a leader of a dynamic quorum knows its voters' directories."""
    node, _ = dynamic_leader(1, 2, 3)
    for asked in (request(), request("another")):
        response = described(node, version=version, asked=asked)
        assert encode(response, version)
    assert described(node, version=2).topics[0].partitions[0].current_voters[0].replica_directory_id == directory(1)


def test_no_high_watermark_is_minus_one() -> None:
    node, _ = dynamic_leader(1, 2, 3)
    assert described(node).topics[0].partitions[0].high_watermark == -1


def test_caught_up_when_it_had_all_that_there_was_at_the_fetch_before() -> None:
    """KIP-836: a follower that is always one fetch behind on a busy log keeps up nevertheless."""
    node = committed_leader()
    append(node, b"a")
    fetch(node, fetch_request(1, replica=3, max_wait_ms=0), 1100)  # The log ends at 2.
    append(node, b"b")
    fetch(node, fetch_request(2, replica=3, max_wait_ms=0), 1200)
    append(node, b"c")
    fetch(node, fetch_request(2, replica=3, max_wait_ms=0), 1300)  # Not all that there was at 1200.
    voter = replicas(described(node, 1500).topics[0].partitions[0].current_voters)[2]
    assert voter == (3, 2, 1300, 1100)


def test_directories_and_listeners_of_voters() -> None:
    """KIP-853, version 2."""
    node, effects = dynamic_leader(1, 2, 3)
    flush(node, effects, 1000)
    response = described(node)
    voters = response.topics[0].partitions[0].current_voters
    assert [voter.replica_directory_id for voter in voters] == [directory(1), directory(2), directory(3)]
    assert [(row.node_id, row.listeners[0].name, row.listeners[0].port) for row in response.nodes] == [
        (node_id, "CONTROLLER", 9000 + node_id) for node_id in (1, 2, 3)
    ]
    assert described(node, version=1).nodes == []


def test_static_voters_have_no_directories() -> None:
    partition = described(committed_leader()).topics[0].partitions[0]
    assert {voter.replica_directory_id for voter in partition.current_voters} == {Uuid()}


def test_observers_that_are_silent_for_five_minutes_are_forgotten() -> None:
    node = committed_leader()
    fetch(node, fetch_request(1, replica=7, max_wait_ms=0), 1000)
    node.leading.check_quorum_deadline_ms = 10**9
    assert replicas(described(node, 300_999).topics[0].partitions[0].observers) == [(7, 1, 1000, 1000)]
    assert described(node, 301_000).topics[0].partitions[0].observers == []
