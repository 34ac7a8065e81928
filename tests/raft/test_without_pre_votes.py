"""Elections as 3.9 holds them: no pre-vote, the next epoch at once, a random back-off behind a lost election."""

from dataclasses import replace

import pytest

from kcore.protocol_errors import Errors
from kcore.raft.membership.replicas import ElectionState, ReplicaKey
from kcore.raft.votes import backoff_ms
from kcore.schema.raft_votes import BeginQuorumEpochRequest, BeginQuorumEpochResponse, VoteRequest
from raft.nodes import (
    answer,
    directory,
    epoch_response,
    follower,
    grant,
    leader,
    partition,
    sent,
    started,
    state,
    stored,
    vote_request,
    vote_response,
)

LEVEL = {"level": "3.9"}


def test_unattached_becomes_candidate() -> None:
    node, _ = started(**LEVEL)
    effects = node.on_timer(1000)
    assert state(node) == ("Candidate", 1, -1)
    assert stored(effects) == [ElectionState(1, -1, ReplicaKey(1, directory(1)))]
    assert not partition(sent(effects, VoteRequest)[0].request).pre_vote
    grant(node, effects, 1000, 1)
    assert state(node) == ("Leader", 1, 1)


def test_a_follower_becomes_candidate() -> None:
    node = follower(**LEVEL)
    node.on_timer(1999)
    assert state(node) == ("Follower", 1, 2)
    node.on_timer(2000)
    assert state(node) == ("Candidate", 2, -1)


def test_a_resigned_voter_becomes_candidate_and_an_observer_unattached() -> None:
    node, _ = started(election=ElectionState(5, 1), **LEVEL)
    node.on_timer(1000)
    assert state(node) == ("Candidate", 6, -1)
    node, _ = started(election=ElectionState(5, 1), voters=(2, 3), **LEVEL)
    assert state(node) == ("Resigned", 5, 1)
    node.on_timer(1000)
    assert state(node) == ("Unattached", 6, -1)


def test_pre_votes_are_unknown() -> None:
    node, _ = started(**LEVEL)
    response = answer(node.on_request(vote_request(4, pre_vote=True), 2, "a", 0))
    assert response.error_code == Errors.UNSUPPORTED_VERSION
    assert node.epoch == 0


@pytest.mark.parametrize(("jitter", "backoff_ms"), [(1, 100), (0, 0)])
def test_a_lost_election_is_followed_by_a_back_off_and_the_next_epoch(jitter: int, backoff_ms: int) -> None:
    """Not by the rest of the time-out: a gridlock of votes should not last."""
    node, _ = started(jitter=jitter, **LEVEL)
    effects = node.on_timer(1001)
    for send in sent(effects, VoteRequest):
        node.on_response(send.correlation_id, vote_response(1, False), 1010)
    if backoff_ms:
        node.on_timer(1010 + backoff_ms - 1)
        assert state(node) == ("Candidate", 1, -1)
        node.on_timer(1010 + backoff_ms)
    assert state(node) == ("Candidate", 2, -1)


def test_a_timed_out_election_too() -> None:
    node, _ = started(jitter=3, **LEVEL)
    node.on_timer(1003)
    assert state(node) == ("Candidate", 1, -1)
    node.on_timer(2006)
    assert state(node) == ("Candidate", 1, -1)
    node.on_timer(2006 + 100)
    assert state(node) == ("Candidate", 2, -1)


def test_the_back_off_grows_to_its_bound() -> None:
    """Twice as long at most each time, up to quorum.election.backoff.max.ms."""
    node, _ = started(jitter=10**9, election_timeout_ms=1, **LEVEL)
    waits, now_ms = [], 1
    node.on_timer(now_ms)
    for _ in range(6):
        assert node.next_deadline_ms is not None
        epoch, lost_ms = node.epoch, now_ms
        while node.epoch == epoch:
            now_ms += 50
            node.on_timer(now_ms)
        waits.append(now_ms - lost_ms)
    assert waits == sorted(waits)
    assert waits[0] < 300
    assert 1000 <= waits[-1] <= 1100


@pytest.mark.parametrize("retries", [1, 4, 10, 2**31])
def test_the_back_off_is_drawn_below_its_bound(retries: int) -> None:
    """Not cut at it: two candidates that need each other's vote would nearly always wait the same."""
    node, _ = started(**LEVEL)
    waits_ms = []
    for tenth in range(10):  # Possible random draws.
        node.config = replace(node.config, jitter_ms=lambda bound, tenth=tenth: bound * tenth // 10)
        waits_ms.append(backoff_ms(node, retries))
    most_ms = min(100 * 2**retries, 1100) if retries < 20 else 1100
    assert len({*waits_ms}) >= min(most_ms // 100, 10) - 1 and waits_ms[-1] < most_ms


def test_a_late_vote_wins_during_the_back_off_still() -> None:
    node, _ = started(jitter=1, voters=(1, 2, 3, 4, 5), **LEVEL)
    asked = sent(node.on_timer(1001), VoteRequest)
    grant(node, asked, 1001, 1)
    node.on_timer(2002)
    assert state(node) == ("Candidate", 1, -1)
    grant(node, asked[1:], 2003, 1)
    assert state(node) == ("Leader", 1, 1)


def test_the_leader_tells_all_voters_each_time() -> None:
    """Whether they fetch or not."""
    node, effects = leader(**LEVEL)
    for send in sent(effects, BeginQuorumEpochRequest):
        node.on_response(send.correlation_id, epoch_response(BeginQuorumEpochResponse, 1, 1), 1001)
    for key in node.leading.successors():
        node.leading.progress_of(key).last_fetch_ms = 1999
    assert len(sent(node.on_timer(2000), BeginQuorumEpochRequest)) == 2


def test_one_vote_an_epoch_and_none_against_a_known_leader() -> None:
    node, _ = started(**LEVEL)
    assert partition(answer(node.on_request(vote_request(1, 2), 1, "a", 0))).vote_granted
    assert not partition(answer(node.on_request(vote_request(1, 3), 1, "b", 0))).vote_granted
    node = follower(**LEVEL)
    assert not partition(answer(node.on_request(vote_request(1, 3), 1, "c", 0))).vote_granted
