"""Epochs that others name: none far ahead is taken, so that no forged request brings epochs to their end."""

from typing import Any

import pytest

from kcore.errors import RaftLogError
from kcore.protocol_errors import Errors
from kcore.raft.effects import Notice, StoreElection
from kcore.raft.epoch_limits import LAST_EPOCH, MOST_AHEAD, PER_SECOND, EpochAllowance
from kcore.raft.membership.replicas import ElectionState, ReplicaKey
from kcore.schema.raft_votes import BeginQuorumEpochResponse, VoteRequest
from raft.cluster import Cluster
from raft.nodes import (
    answer,
    begin_request,
    candidate,
    directory,
    end_request,
    epoch_response,
    grant,
    leader,
    log_of,
    of,
    partition,
    sent,
    started,
    state,
    stored,
    vote_request,
    vote_response,
)
from raft.replication import fetch_response, open_fetch

NOW_MS = 1_700_000_000_000
DAY_MS = 24 * 60 * 60 * 1000
FAR = 2**31 - 1


# How much there is.


def test_what_was_taken_grows_again_with_time() -> None:
    allowance = EpochAllowance()
    assert allowance.epochs(NOW_MS) == MOST_AHEAD
    allowance.take(MOST_AHEAD, NOW_MS)
    assert [allowance.epochs(NOW_MS + ms) for ms in (0, 15, 16, 1000)] == [0, 0, 1, PER_SECOND]
    assert allowance.epochs(NOW_MS + 365 * DAY_MS) == MOST_AHEAD


def test_it_grows_however_often_a_little_is_taken() -> None:
    """One millisecond adds less than one epoch to the allowance; the fraction is kept."""
    allowance = EpochAllowance()
    allowance.take(MOST_AHEAD, NOW_MS)
    taken = 0
    for now_ms in range(NOW_MS, NOW_MS + 10_000):
        if allowance.epochs(now_ms):
            allowance.take(1, now_ms)
            taken += 1
    assert taken == 10 * PER_SECOND - 1


def test_the_end_is_more_than_a_year_of_forged_requests_away() -> None:
    assert (LAST_EPOCH - MOST_AHEAD) / PER_SECOND / 86_400 > 365
    assert PER_SECOND > 60, "and elections raise it more slowly"


# Sources of a higher epoch.


def believed(node: Any, epoch: int, how: str, now_ms: int) -> int:
    """The error that tells a peer that it is not, or 0."""
    if how in ("vote", "pre-vote"):
        request: Any = vote_request(epoch, 9, (0, 0), pre_vote=how == "pre-vote")
    else:
        request = begin_request(epoch, 9) if how == "begin" else end_request(epoch, 9)
    return int(partition(answer(node.on_request(request, 2 if "vote" in how else 1, how, now_ms))).error_code)


@pytest.mark.parametrize("how", ["vote", "pre-vote", "begin", "end"])
@pytest.mark.parametrize("epoch", [7 + MOST_AHEAD + 1, LAST_EPOCH, FAR])
def test_an_epoch_far_ahead_is_not_taken_from_a_request(how: str, epoch: int) -> None:
    node, _ = started(election=ElectionState(7), now_ms=NOW_MS)
    assert believed(node, epoch, how, NOW_MS) == Errors.INVALID_REQUEST
    assert node.epoch == 7
    assert believed(node, 7 + MOST_AHEAD, how, NOW_MS) == Errors.NONE
    assert node.epoch == 7 + MOST_AHEAD


def test_a_follower_goes_on_following() -> None:
    node, _ = started(now_ms=NOW_MS)
    node.on_request(begin_request(7), 1, "begin", NOW_MS)
    effects = node.on_request(vote_request(FAR, 9), 2, "far", NOW_MS)
    assert state(node) == ("Follower", 7, 2)
    assert of(StoreElection, effects) == []
    (notice,) = of(Notice, effects)
    assert notice.text == f"epoch {FAR} is too far above epoch 7: it is not adopted"
    assert of(Notice, node.on_request(vote_request(FAR, 9), 2, "again", NOW_MS)) == [], "a stranger fills no log"


@pytest.mark.parametrize("epoch", [2 + MOST_AHEAD, FAR])
def test_an_epoch_far_ahead_is_not_taken_from_an_answer(epoch: int) -> None:
    node, _ = started()
    open_ = open_fetch(node.on_request(begin_request(1), 1, "begin", 0))
    node.on_response(
        open_.correlation_id, fetch_response(epoch=epoch, leader_id=3, error=Errors.FENCED_LEADER_EPOCH), 1
    )
    assert state(node) == ("Follower", 1, 2)
    assert node.connections.is_backing_off(2, 1)
    node, effects = candidate()
    (send, *_) = sent(effects, VoteRequest)
    node.on_response(send.correlation_id, vote_response(epoch, False), 1000)
    assert state(node) == ("Candidate", 1, -1)
    node, effects = leader()
    (send, *_) = sent(effects, object)
    node.on_response(send.correlation_id, epoch_response(BeginQuorumEpochResponse, epoch), 1000)
    assert state(node) == ("Leader", 1, 1)


def test_many_small_steps_come_no_farther() -> None:
    """A stranger sends higher epochs again and again, for a day."""
    node, _ = started(now_ms=NOW_MS)
    for second in range(0, 86_400, 60):
        for step in range(20):
            believed(node, node.epoch + (1 << step), "vote", NOW_MS + second * 1000)
        believed(node, node.epoch + MOST_AHEAD, "vote", NOW_MS + second * 1000)
    assert MOST_AHEAD < node.epoch <= MOST_AHEAD + 86_400 * PER_SECOND


def test_a_quorum_goes_on_behind_a_forged_epoch() -> None:
    """One of three has taken an epoch that is almost as high as may be; the others follow it there."""
    cluster = Cluster()
    cluster.elect()
    far = MOST_AHEAD - 1000
    cluster.perform(3, cluster.nodes[3].on_request(vote_request(far, 9, voter_id=3), 2, lambda _: None, cluster.now_ms))
    assert cluster.nodes[3].epoch == far
    cluster.kill(cluster.elect().local.id)
    assert cluster.elect().epoch >= far


# The last epoch.


def at_the_end(**settings: Any) -> Any:
    node, _ = started(election=ElectionState(LAST_EPOCH), **settings)
    return node


@pytest.mark.parametrize("level", ["4.3", "3.9"])
@pytest.mark.parametrize(
    ("election", "name"),
    [
        (ElectionState(LAST_EPOCH), "Unattached"),
        (ElectionState(LAST_EPOCH, 2), "Follower"),
        (ElectionState(LAST_EPOCH, 1), "Resigned"),
        (ElectionState(LAST_EPOCH, -1, ReplicaKey(1, directory(1))), "Unattached"),
    ],
)
@pytest.mark.parametrize("voters", [(1,), (1, 2, 3)])
def test_nobody_stands_behind_the_last_epoch(election: ElectionState, name: str, level: str, voters: Any) -> None:
    """The node keeps its state, looks for a leader as before, and sends one notice."""
    node, effects = started(election=election, level=level, voters=voters)
    effects += [effect for now_ms in range(0, 100_000, 500) for effect in node.on_timer(now_ms)]
    if name == "Follower" and voters == (1,):
        name = "Unattached"  # Its leader is not a voter.
    assert (node.state.name, node.epoch) == (name, LAST_EPOCH)
    assert sent(effects, VoteRequest) == []
    (notice,) = of(Notice, effects)
    assert notice.text.startswith(f"epoch {LAST_EPOCH} is the last one: this node starts no election any more")
    assert node.next_deadline_ms is None or node.next_deadline_ms > 99_500


@pytest.mark.parametrize("level", ["4.3", "3.9"])
def test_the_last_epoch_may_have_a_leader(level: str) -> None:
    """Elected in the last epoch but one; a leader that loses its followers resigns for good."""
    node, effects = started(election=ElectionState(LAST_EPOCH - 1), level=level)
    effects = node.on_timer(1000)
    while node.state.name != "Leader":
        effects = grant(node, effects, 1000, 1)
    assert state(node) == ("Leader", LAST_EPOCH, 1)
    for now_ms in range(1000, 100_000, 500):
        effects = node.on_timer(now_ms)
    assert state(node) == ("Resigned", LAST_EPOCH, 1)
    assert sent(effects, VoteRequest) == []


@pytest.mark.parametrize(("level", "endless"), [("4.3", False), ("4.3", True), ("3.9", False)])
def test_a_candidate_of_the_last_epoch_that_loses_stays_one(level: str, endless: bool) -> None:
    node, _ = started(election=ElectionState(LAST_EPOCH - 1), level=level, endless_elections=endless)
    effects = node.on_timer(1000)
    if level == "4.3":
        effects = grant(node, effects, 1000, 1)
    assert state(node) == ("Candidate", LAST_EPOCH, -1)
    for send in sent(effects, VoteRequest):
        node.on_response(send.correlation_id, vote_response(LAST_EPOCH, False), 1000)
    for now_ms in range(1000, 100_000, 500):
        node.on_timer(now_ms)
        assert node.next_deadline_ms is None or node.next_deadline_ms > now_ms
    assert state(node) == ("Candidate", LAST_EPOCH, -1)
    node.on_request(begin_request(LAST_EPOCH, 3), 1, "begin", 100_000)
    assert state(node) == ("Follower", LAST_EPOCH, 3)


def test_an_endless_leader_of_the_last_epoch_resigns() -> None:
    node, _ = started(election=ElectionState(LAST_EPOCH - 1), endless_elections=True)
    effects = node.on_timer(1000)
    while node.state.name != "Leader":
        effects = grant(node, effects, 1000, 1)
    for now_ms in range(1000, 10_000, 500):
        node.on_timer(now_ms)
    assert state(node) == ("Resigned", LAST_EPOCH, 1)


def test_votes_are_given_in_the_last_epoch_and_in_none_behind_it() -> None:
    node = at_the_end()
    assert partition(answer(node.on_request(vote_request(LAST_EPOCH, 2), 2, "last", 0))).vote_granted
    effects = node.on_request(vote_request(FAR, 2), 2, "behind", 0)
    assert (partition(answer(effects)).error_code, stored(effects)) == (Errors.INVALID_REQUEST, [])
    node.on_timer(100_000)
    assert state(node) == ("Unattached", LAST_EPOCH, -1)


@pytest.mark.parametrize("level", ["4.3", "3.9"])
def test_an_epoch_past_the_last_one_is_an_error_at_the_start(level: str) -> None:
    """As Kafka's nodes have it on their disks behind such a request, and end with an exception of Java's."""
    for settings in ({"election": ElectionState(FAR)}, {"log": log_of(FAR)}):
        with pytest.raises(RaftLogError, match=rf"above {LAST_EPOCH}, the last one: docs/guides/repair-epochs\.md"):
            started(level=level, **settings)
