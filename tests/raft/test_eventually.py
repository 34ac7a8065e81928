"""Tests what KIP-595 promises eventually: epochs converge, voters follow the leader, divergent logs are truncated."""

from collections.abc import Callable

import pytest

from kcore.protocol_errors import Errors
from kcore.schema.fetch import FetchRequest
from kcore.schema.raft_votes import BeginQuorumEpochRequest
from kcore.schema.structure import Message
from raft.cluster import Cluster
from raft.nodes import answer, begin_request, leader, log_of, sent, started, state, stored
from raft.replication import committed_leader, fetch, fetch_request, fetch_response, flush, open_fetch, whole


@pytest.mark.covers("KIP-595 fetch 2.1")
def test_a_voter_of_a_smaller_epoch_gets_this_one() -> None:
    """ "If the leader epoch is smaller, then eventually this leader's BeginQuorumEpoch would reach the voter and that
    voter would update the epoch". Here the first request is lost, and the voter fetches all the time.
    """
    node, effects = leader()
    for lost in sent(effects, BeginQuorumEpochRequest):
        node.on_response(lost.correlation_id, None, 1001)
    for now_ms in range(1100, 2000, 100):
        refused, _ = fetch(node, fetch_request(0, 0, 0, replica=3), now_ms)
        assert refused.error_code == Errors.FENCED_LEADER_EPOCH
    (begin,) = [send for send in sent(node.on_timer(2000), BeginQuorumEpochRequest) if send.destination == 3]

    voter, _ = started(3)
    effects = voter.on_request(begin.request, 1, "begin", 2000)
    assert answer(effects).topics[0].partitions[0].error_code == Errors.NONE
    assert (state(voter), [election.epoch for election in stored(effects)]) == (("Follower", 1, 1), [1])
    assert open_fetch(effects).request.topics[0].partitions[0].current_leader_epoch == 1


@pytest.mark.covers("KIP-595 fetch 2.2")
def test_a_larger_epoch_is_not_learnt_from_who_asks() -> None:
    """ "If the leader epoch is larger, then eventually the receiver would learn about the new epoch anyways"."""
    node = committed_leader()
    refused, _ = fetch(node, fetch_request(1, epoch=5, replica=3), 1100)
    assert (refused.error_code, state(node)) == (Errors.UNKNOWN_LEADER_EPOCH, ("Leader", 1, 1))
    node.on_request(begin_request(5, leader_id=2), 1, "begin", 1200)
    assert state(node) == ("Follower", 5, 2)


class Watching(Cluster):
    """Looks at every Fetch that goes to the leader of its epoch."""

    fetches = 0

    def _deliver(self, target: int, request: Message, answered: Callable[[Message], None]) -> None:
        if isinstance(request, FetchRequest):
            asks, epoch = request.replica_state.replica_id, request.topics[0].partitions[0].current_leader_epoch
            if (self.nodes[asks].leader_id, self.nodes[asks].epoch) == (target, epoch):
                self.fetches += 1
                assert self.nodes[target].epoch >= epoch
        super()._deliver(target, request, answered)


@pytest.mark.covers("KIP-595 fetch 2.2 never")
@pytest.mark.parametrize("level", ["4.3", "3.9"])
def test_leaders_are_the_first_to_know_of_their_epoch(level: str) -> None:
    """ "Actually this case should not happen since [...] leaders are always the first to discover that they have been
    elected". A follower finds its leader in the same epoch, also after crashes and restarts.
    """
    cluster = Watching((1, 2, 3, 4, 5), level=level)
    for _ in range(6):
        node_id = cluster.elect().local.id
        log = cluster.kill(node_id)
        cluster.elect()
        cluster.add(node_id, log)
    cluster.elect()
    assert cluster.fetches > 20


@pytest.mark.covers("KIP-595 fetch response 1", "KIP-595 fetch response 1 role")
@pytest.mark.parametrize("voters", [(1, 2, 3), (2, 3, 4)])
def test_follows_with_voting_power_or_without(voters: tuple[int, ...]) -> None:
    """ "Become a "follower" (may or may not have voting power) of that leader"."""
    node, _ = started(voters=voters)
    fetch_ = open_fetch(node.on_request(begin_request(1), 1, "begin", 0))
    refusal = fetch_response(epoch=4, leader_id=3, error=Errors.FENCED_LEADER_EPOCH)
    effects = node.on_response(fetch_.correlation_id, refusal, 10)
    assert (state(node), node.is_voter) == (("Follower", 4, 3), 1 in voters)
    assert [(election.epoch, election.leader_id) for election in stored(effects)] == [(4, 3)]


@pytest.mark.covers("KIP-595 fetch 3 round trips", "KIP-595 fetch response 2", "KIP-595 fetch response 2 epoch")
@pytest.mark.parametrize(
    ("leaders", "followers", "round_trips"),
    [
        ((1, 1, 3, 3, 3), (1, 1, 1, 2, 2, 2, 2), 1),
        ((1, 2, 4), (1, 3, 3, 3), 1),
        ((1, 1, 1, 1, 5), (1, 2, 3, 4, 4, 4, 4), 1),
        ((1, 1, 2, 2, 2, 4), (1, 1, 1, 1, 1, 3, 3), 2),
        ((1, 1, 1), (1, 1), 0),
    ],
)
def test_a_divergent_log_is_mended_in_few_round_trips(
    leaders: tuple[int, ...], followers: tuple[int, ...], round_trips: int
) -> None:
    """ "An optimization to truncation to let the follower truncate as much as possible to get to the starting
    divergence point with fewer Fetch round-trips". The follower needs at most one round-trip per epoch of its own log.
    """
    node, effects = leader(log=log_of(*leaders))
    flush(node, effects, 1000)
    behind, _ = started(2, log=log_of(*followers))
    effects = behind.on_request(begin_request(node.epoch, 1, voter_id=2), 1, "begin", 1000)
    answers = []
    for now_ms in range(1001, 1010):
        ask = open_fetch(effects)
        response = answer(node.on_request(ask.request, 17, now_ms, now_ms))
        answers.append(response.responses[0].partitions[0])
        effects = behind.on_response(ask.correlation_id, response, now_ms)
        if answers[-1].records:
            break
    assert [data.diverging_epoch.epoch >= 0 for data in answers] == [True] * round_trips + [False]
    assert whole(behind.log) == whole(node.log)
