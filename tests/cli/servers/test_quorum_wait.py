"""`kcore quorum wait`: its conditions and exit codes."""

from copy import copy

import pytest

from cli.invoking import kcore
from kcore.cli.servers.quorum_wait import why_not_ready
from kcore.measure.processes.local_process import free_ports
from kcore.raft.membership.replicas import Address
from kcore.schema.describe_quorum import (
    DescribeQuorumResponsePartitionData,
    Listener,
    Node,
    ReplicaState,
)
from kcore.server.quorum_node.describe import QuorumDescription

VOTERS = [ReplicaState(replica_id=1, log_end_offset=100), ReplicaState(replica_id=2, log_end_offset=97)]
PARTITION = DescribeQuorumResponsePartitionData(leader_id=1, leader_epoch=3, high_watermark=100, current_voters=VOTERS)
NODES = [Node(node_id=each, listeners=[Listener(name="CONTROLLER", host=f"c{each}", port=9093)]) for each in (1, 2)]
FOUND = QuorumDescription("cluster", PARTITION, NODES)


def test_a_voter_is_ready_when_it_has_all_that_is_committed() -> None:
    assert why_not_ready(FOUND, Address("c1", 9093)) is None
    assert why_not_ready(FOUND, Address("c2", 9093)) == "controller 2 is 3 records behind the high watermark"


def test_an_address_of_no_voter_is_never_ready() -> None:
    assert why_not_ready(FOUND, Address("c3", 9093)) == "no voter listens at c3:9093"


def test_where_the_leader_names_no_addresses_all_voters_count() -> None:
    unnamed = FOUND._replace(nodes=[])
    assert why_not_ready(unnamed, Address("c1", 9093)) == "controller 2 is 3 records behind the high watermark"


def test_nobody_is_ready_before_the_leader_knows_what_is_committed() -> None:
    elected = copy(PARTITION)
    elected.high_watermark = -1
    assert (
        why_not_ready(FOUND._replace(partition=elected), Address("c1", 9093))
        == "the leader, 1, does not know the high watermark yet"
    )


def test_help_says_that_only_logs_count() -> None:
    text = " ".join(kcore("quorum", "wait", "--help").stdout.split())
    assert "the named voters have all committed records" in text and "/ready" in text


def test_a_quorum_that_does_not_answer_is_one_line() -> None:
    [port] = free_ports(1)
    done = kcore("quorum", "wait", f"127.0.0.1:{port}", "--timeout", "0.3")
    assert done.exit_code == 1 and done.stdout == ""
    [line] = done.stderr.splitlines()
    assert line.startswith("kcore: not ready within 0.3 s: ")


@pytest.mark.parametrize("address", ["c1", "c1:99999", ""])
def test_an_address_that_is_none_is_usage(address: str) -> None:
    assert kcore("quorum", "wait", address).exit_code == 2
