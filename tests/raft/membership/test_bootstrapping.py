"""KIP-595, "Cluster Bootstrapping", sentence by sentence, and how a leader is found later on (KIP-853)."""

import pytest

from kcore.protocol_errors import Errors
from kcore.raft.driver import StateMachineDriver
from kcore.raft.membership.cluster_id import ClusterIdMaker
from kcore.raft.membership.replicas import Address, ElectionState
from kcore.schema.fetch import FetchRequest
from kcore.schema.raft_votes import VoteRequest
from raft.cluster import Cluster
from raft.nodes import CLUSTER, address, answer, begin_request, raft_node, sent, started, state, vote_request


@pytest.mark.covers("KIP-595 bootstrapping 1")
def test_the_voters_find_each_other_through_the_static_voters_configuration() -> None:
    """ "When the cluster is initialized for the first time, the voters will find each other through the static
    quorum.voters configuration": without any file, log or other help.
    """
    node, effects = started()
    asked = sent(effects, FetchRequest)
    assert [(send.destination, send.address) for send in asked] == [(2, address(2))]
    votes = sent(node.on_timer(1000), VoteRequest)
    assert [(send.destination, send.address) for send in votes] == [(2, address(2)), (3, address(3))]
    assert Cluster().elect().epoch >= 1


@pytest.mark.covers("KIP-595 bootstrapping 2", "KIP-595 bootstrapping 3", "KIP-595 bootstrapping 4")
def test_the_cluster_id_is_stored_in_the_log_and_propagated_through_the_replication_protocol() -> None:
    """ "It is the job of the first elected leader [...] to generate a UUID that will serve as a unique clusterId.

    "This ID will be stored in the metadata log as a message and will be propagated to all brokers in the cluster
    through the replication protocol". The first leader appends the record at the start of its epoch; all nodes get it,
    observers included.
    """
    cluster = Cluster(cluster_id=None)
    cluster.add(9)
    leader = cluster.elect()
    assert cluster.leaders[leader.local.id][-1] == (leader.local.id, leader.epoch)
    (append,) = ClusterIdMaker(lambda: "drawn").on_leader(leader.epoch, leader.next_offset)
    end = cluster.append(*append.records)
    assert cluster.run(5000, lambda: all(cluster.committed.get(i) == end for i in (1, 2, 3, 9)))
    for node_id in (1, 2, 3, 9):
        maker = ClusterIdMaker(lambda: "another")
        driver = StateMachineDriver(cluster.nodes[node_id], maker)
        while driver.has_more:
            driver.catch_up()
        assert maker.cluster_id == "drawn"


@pytest.mark.covers("KIP-595 bootstrapping 5")
def test_the_raft_library_knows_the_cluster_id() -> None:
    """ "The Raft library will provide a hook for the initialization of the clusterId": once it is there the node
    names it in all requests, and refuses those of another.
    """
    node, effects = started()
    effects += node.on_timer(1000)
    requests = [send.request for send in sent(effects, FetchRequest) + sent(effects, VoteRequest)]
    assert {request.cluster_id for request in requests} == {CLUSTER}  # type: ignore[attr-defined]
    refused = node.on_request(vote_request(1, cluster_id="another"), 2, "a", 1000)
    assert answer(refused).error_code == Errors.INCONSISTENT_CLUSTER_ID


@pytest.mark.covers("KIP-595 bootstrapping 5")
def test_a_node_that_does_not_know_its_cluster_names_none_and_takes_what_comes() -> None:
    node, effects = started(cluster_id=None)
    effects += node.on_timer(1000)
    requests = [send.request for send in sent(effects, FetchRequest) + sent(effects, VoteRequest)]
    assert {request.cluster_id for request in requests} == {None}  # type: ignore[attr-defined]
    taken = node.on_request(vote_request(1, cluster_id="any"), 2, "a", 1000)
    assert answer(taken).error_code == Errors.NONE
    node.cluster_id = "it-is-known-now"
    refused = node.on_request(vote_request(1, cluster_id="any"), 2, "b", 1000)
    assert answer(refused).error_code == Errors.INCONSISTENT_CLUSTER_ID


# Later on.


def test_bootstrap_servers_are_asked_under_ids_of_their_own() -> None:
    """-2, -3, ...: nobody knows theirs yet (KIP-853). From a random one on, one at a time."""
    servers = tuple(Address(f"server{i}", 9000) for i in range(3))
    for jitter in range(3):
        node = raft_node(9, voters=(), bootstrap_servers=servers, jitter=jitter)
        (send,) = sent(node.start(None, 0), FetchRequest)
        assert (send.destination, send.address) == (-2 - jitter, servers[jitter])
        assert not sent(node.on_timer(1), FetchRequest)


def test_one_that_does_not_answer_is_left_alone_and_another_is_asked() -> None:
    servers = tuple(Address(f"server{i}", 9000) for i in range(3))
    node = raft_node(9, voters=(), bootstrap_servers=servers)
    effects = node.start(None, 0)
    asked = []
    for now_ms in (1, 2, 3):
        (send,) = sent(effects, FetchRequest)
        asked.append(send.destination)
        effects = node.on_response(send.correlation_id, None, now_ms)
    assert asked == [-2, -3, -4]
    assert not sent(effects, FetchRequest), "all of them back off"
    assert node.next_deadline_ms == 21
    assert [send.destination for send in sent(node.on_timer(21), FetchRequest)] == [-2]


def test_a_request_without_an_answer_is_given_up_at_its_time_out() -> None:
    node, effects = started(fetch_timeout_ms=9000, election_timeout_ms=9000)
    (first,) = sent(effects, FetchRequest)
    assert first.timeout_ms == 2000
    assert not sent(node.on_timer(1999), FetchRequest)
    assert len(sent(node.on_timer(2000), FetchRequest)) == 1


def test_an_observer_finds_the_leader_by_fetching_from_anyone() -> None:
    """Any voter's Fetch response names the leader; the observer then fetches from that leader."""
    cluster = Cluster()
    leader = cluster.elect()
    cluster.add(9)
    assert cluster.run(500, lambda: cluster.nodes[9].leader_id == leader.local.id)
    assert state(cluster.nodes[9])[0] == "Follower"


@pytest.mark.covers("KIP-595 fetch response 1 retry", "KIP-595 fetch response 1 begin")
def test_a_follower_whose_leader_does_not_answer_asks_the_other_voters_at_random() -> None:
    """KIP-595, Fetch response: "retry to the Fetch request again against one of the remaining voters at random".

    It goes on: "it may receive BeginQuorumEpoch request which would also update the new epoch / leader as well".
    """
    node, effects = started(election=ElectionState(1, 2), jitter=1)
    (lost,) = sent(effects, FetchRequest)
    assert lost.destination == 2
    effects = node.on_response(lost.correlation_id, None, 10)
    assert [send.destination for send in sent(effects, FetchRequest)] == [3]
    node.on_request(begin_request(2, 3), 1, "begin", 11)
    assert state(node) == ("Follower", 2, 3)
