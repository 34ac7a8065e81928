"""`kcore quorum describe` prints the same as Kafka's tool for such a quorum, and the document's tables."""

from typing import Any

import pytest

from kcore.cli.servers import quorum_tables
from kcore.errors import TargetError
from kcore.schema.describe_quorum import DescribeQuorumResponsePartitionData, Listener, Node, ReplicaState
from kcore.server.quorum_node.describe import QuorumDescription
from kcore.types import ZERO_UUID, Uuid

# Printed by kafka-metadata-quorum.sh of 4.3.1: three controllers and two brokers.
REPLICATION = """\
NodeId\tDirectoryId           \tLogEndOffset\tLag\tLastFetchTimestamp\tLastCaughtUpTimestamp\tStatus  \t
3001  \t7VHjOcspTlaDEmxSSjIi9Q\t41          \t0  \t1795248115063     \t1795248115063        \tLeader  \t
3002  \tmDNKFJRKTSqH50mnV4tRrA\t41          \t0  \t1795248114741     \t1795248114741        \tFollower\t
3003  \tYAVI0POcSuOc1f76kbL28g\t41          \t0  \t1795248114717     \t1795248114717        \tFollower\t
2     \txueRyCcxPQVworBwDWciJQ\t41          \t0  \t1795248114722     \t1795248114722        \tObserver\t
1     \t_bmqlEAtJpgVNBAxZ0dREQ\t41          \t0  \t1795248114717     \t1795248114717        \tObserver\t
"""
STATUS = """\
ClusterId:              MkU3OEVBNTcwNTJENDM2Qg
LeaderId:               3001
LeaderEpoch:            1
HighWatermark:          37
MaxFollowerLag:         0
MaxFollowerLagTimeMs:   0
CurrentVoters:          [{"id": 3001, "directoryId": "7VHjOcspTlaDEmxSSjIi9Q", "endpoints": \
["CONTROLLER://127.0.0.1:29301"]}, {"id": 3002, "directoryId": "mDNKFJRKTSqH50mnV4tRrA", "endpoints": \
["CONTROLLER://127.0.0.1:29302"]}, {"id": 3003, "directoryId": "YAVI0POcSuOc1f76kbL28g", "endpoints": \
["CONTROLLER://127.0.0.1:29303"]}]
CurrentObservers:       [{"id": 2, "directoryId": "xueRyCcxPQVworBwDWciJQ"}, {"id": 1, "directoryId": \
"_bmqlEAtJpgVNBAxZ0dREQ"}]
"""
# KIP-595's own, copied with its tabs.
SEED_STATUS = """\
ClusterId:              SomeClusterId
LeaderId:\t\t\t\t0
LeaderEpoch: \t\t\t15
HighWatermark:\t\t\t234130
MaxFollowerLag: \t\t34
MaxFollowerLagTimeMs:\t15
CurrentVoters:\t\t\t[0, 1, 2]
"""
SEED_REPLICATION = """\
ReplicaId\tLogEndOffset\tLag\t\tLagTimeMs\tStatus
0\t\t\t234134\t\t\t0\t\t0\t\t\tLeader
1\t\t\t234130\t\t\t4\t\t10\t\t\tFollower
2\t\t\t234100\t\t\t34\t\t15\t\t\tFollower
3\t\t\t234124\t\t\t10\t\t12\t\t\tObserver
4\t\t\t234130\t\t\t4\t\t15\t\t\tObserver
"""


def replica(replica_id: int, end: int, fetched: int = -1, caught_up: int = -1, directory: str = "") -> ReplicaState:
    return ReplicaState(
        replica_id=replica_id,
        replica_directory_id=Uuid(directory) if directory else ZERO_UUID,
        log_end_offset=end,
        last_fetch_timestamp=fetched,
        last_caught_up_timestamp=caught_up,
    )


def description(
    voters: list[ReplicaState], observers: list[ReplicaState], nodes: list[Node], cluster_id: str, **values: Any
) -> QuorumDescription:
    values = {"error_code": 0, "partition_index": 0, **values}
    partition = DescribeQuorumResponsePartitionData(current_voters=voters, observers=observers, **values)
    return QuorumDescription(cluster_id, partition, nodes)


def recorded() -> QuorumDescription:
    at = 1795248114717
    nodes = [
        Node(node_id=each, listeners=[Listener(name="CONTROLLER", host="127.0.0.1", port=26_300 + each)])
        for each in (3001, 3002, 3003)
    ]
    return description(
        [
            replica(3001, 41, at + 346, at + 346, "7VHjOcspTlaDEmxSSjIi9Q"),
            replica(3002, 41, at + 24, at + 24, "mDNKFJRKTSqH50mnV4tRrA"),
            replica(3003, 41, at, at, "YAVI0POcSuOc1f76kbL28g"),
        ],
        [
            replica(2, 41, at + 5, at + 5, "xueRyCcxPQVworBwDWciJQ"),
            replica(1, 41, at, at, "_bmqlEAtJpgVNBAxZ0dREQ"),
        ],
        nodes,
        "MkU3OEVBNTcwNTJENDM2Qg",
        leader_id=3001,
        leader_epoch=1,
        high_watermark=37,
    )


def of_the_document() -> QuorumDescription:
    now = 1_000_000
    ends = [(0, 234134, 0), (1, 234130, 10), (2, 234100, 15), (3, 234124, 12), (4, 234130, 15)]
    replicas = [replica(each, end, now, now - lag) for each, end, lag in ends]
    values = {"leader_id": 0, "leader_epoch": 15, "high_watermark": 234130}
    return description(replicas[:3], replicas[3:], [], "SomeClusterId", **values)


def text(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def test_as_kafka_prints_it() -> None:
    assert text(quorum_tables.replication(recorded())) == REPLICATION
    assert text(quorum_tables.status(recorded())) == STATUS


@pytest.mark.covers("KIP-595 describe --status", "KIP-595 describe --replication")
def test_as_the_document_drew_it() -> None:
    """KIP-595, "Tooling Support": the tables of `describe --status` and `describe --replication`."""
    assert text(quorum_tables.seed_status(of_the_document())) == SEED_STATUS
    assert text(quorum_tables.seed_replication(of_the_document())) == SEED_REPLICATION


def test_the_leader_comes_first_whatever_its_place_among_the_voters() -> None:
    description = recorded()
    description.partition.leader_id = 3003
    assert [line.split()[0] for line in quorum_tables.replication(description)[1:]] == [
        "3003",
        "3001",
        "3002",
        "2",
        "1",
    ]


def test_human_readable_times() -> None:
    description = recorded()
    lines = quorum_tables.replication(description, 1795248115063)
    assert "\t0 ms ago          \t0 ms ago             \t" in lines[1]
    assert "\t346 ms ago        \t346 ms ago           \t" in lines[3]
    with pytest.raises(TargetError, match="possible drift in system clock"):
        quorum_tables.replication(description, 1795248115062)


def test_what_is_unknown_is_minus_one() -> None:
    """A voter that has never fetched: its end, its times and so its lag in time."""
    description = recorded()
    description.partition.current_voters[1] = replica(3002, -1)
    status = quorum_tables.status(description)
    assert status[4:6] == ["MaxFollowerLag:         42", "MaxFollowerLagTimeMs:   -1"]
    assert quorum_tables.replication(description)[2].split() == [
        *("3002", "AAAAAAAAAAAAAAAAAAAAAA", "-1", "42", "-1", "-1", "Follower")
    ]
    assert quorum_tables.replication(description, 1795248115063)[2].split()[4:] == ["-1", "-1", "Follower"]
    assert quorum_tables.seed_replication(description)[2] == "3002\t\t-1\t\t\t\t42\t\t-1\t\t\tFollower"


def test_the_slowest_voter_is_the_first_with_the_smallest_end() -> None:
    """The leader itself, where it is that: then there is no lag in time."""
    description = recorded()
    assert quorum_tables.status(description)[5].endswith(" 0")
    description.partition.current_voters.reverse()
    assert quorum_tables.status(description)[4:6] == ["MaxFollowerLag:         0", "MaxFollowerLagTimeMs:   346"]


def test_static_voters_have_no_directory_and_no_endpoints() -> None:
    """Releases differ in how they say that."""
    description = of_the_document()
    assert quorum_tables.status(description)[6] == 'CurrentVoters:          [{"id": 0}, {"id": 1}, {"id": 2}]'
    assert quorum_tables.status(description, "3.9")[7] == (
        'CurrentObservers:       [{"id": 3, "directoryId": null}, {"id": 4, "directoryId": null}]'
    )


def test_an_address_of_ipv6_stands_in_brackets() -> None:
    description = recorded()
    description.nodes[0].listeners[0].host = "::1"
    assert '"endpoints": ["CONTROLLER://[::1]:29301"]' in quorum_tables.status(description)[6]


def test_a_leader_that_is_no_voter() -> None:
    """It leads on until its removal is committed (KIP-853); Kafka's tool dies of that with "No value present"."""
    description = recorded()
    description.partition.leader_id = 3009
    for lines in (quorum_tables.status, quorum_tables.replication, quorum_tables.seed_replication):
        with pytest.raises(TargetError, match="the leader 3009 of epoch 1 is none of the voters"):
            lines(description)


def test_json_has_all_of_it() -> None:
    printed = quorum_tables.as_json(recorded())
    assert (printed["clusterId"], printed["leaderId"], printed["highWatermark"]) == ("MkU3OEVBNTcwNTJENDM2Qg", 3001, 37)
    assert printed["replicas"][0] == {
        "replicaId": 3001,
        "directoryId": "7VHjOcspTlaDEmxSSjIi9Q",
        "logEndOffset": 41,
        "lastFetchTimestamp": 1795248115063,
        "lastCaughtUpTimestamp": 1795248115063,
        "status": "Leader",
        "endpoints": ["CONTROLLER://127.0.0.1:29301"],
    }
    assert [each["status"] for each in printed["replicas"]] == [
        "Leader",
        "Follower",
        "Follower",
        "Observer",
        "Observer",
    ]
