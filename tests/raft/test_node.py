"""The node's public face: what each call may do, and when nothing comes of it."""

import pytest

from kcore.errors import RaftLogError
from kcore.raft.effects import Committed, Flush, Stopped
from kcore.raft.log.raft_log import Appended, Refused
from kcore.raft.membership.replicas import ElectionState
from kcore.schema.raft_votes import EndQuorumEpochRequest, VoteRequest
from raft.nodes import (
    begin_request,
    candidate,
    follower,
    leader,
    leaders,
    of,
    sent,
    started,
    state,
    vote_request,
    vote_response,
)


def test_an_answer_that_nobody_waits_for_changes_nothing() -> None:
    node, _ = started()
    assert node.on_response(12345, vote_response(9, True), 0) == []
    assert node.on_response(-1, None, 0) == []
    assert state(node) == ("Unattached", 0, -1)


def test_only_the_leader_of_an_epoch_appends_to_it() -> None:
    """Another epoch is refused as a value: it may have begun while the append was under way."""
    node, _ = leader()
    for epoch in (0, 2):
        assert node.append([b"x"], epoch, 1, 1000) == (Refused(1, 1), [])
    assert node.append([b"x", b"y"], 1, 1, 1000)[0] == Appended(1, 2)
    assert follower().append([b"x"], 1, 0, 0) == (Refused(-1, -1), [])
    assert follower().append([b"x"], -1, -1, 0) == (Refused(-1, -1), [])


@pytest.mark.covers("E4")
def test_an_only_voter_leads_for_its_state_machine_once_its_record_is_flushed() -> None:
    """Not when it is elected: what it has not committed may be gone (KAFKA-12619)."""
    node, effects = started(voters=(1,))
    assert state(node) == ("Leader", 1, 1)
    assert leaders(effects) == []
    (flush,) = of(Flush, effects)
    node.log.flush()
    effects = node.on_flushed(flush, 1)
    assert isinstance(effects[0], Committed)
    assert leaders(effects) == [(1, 1)]
    assert leaders(node.on_timer(2)) == [], "it gets one line"


@pytest.mark.covers("E5")
def test_resigning() -> None:
    """Source: KafkaRaftClient.resign."""
    node, _ = leader()
    for epoch in (-1, 2):
        with pytest.raises(RaftLogError):
            node.resign(epoch, 1000)
    assert node.resign(0, 1000) == [], "another epoch has begun since"
    assert state(node) == ("Leader", 1, 1)
    node.resign(1, 1000)
    assert state(node) == ("Resigned", 1, 1)
    assert not node.leads
    assert not sent(node.resign(1, 1000), EndQuorumEpochRequest), "once is enough"
    with pytest.raises(RaftLogError):
        follower().resign(1, 0)


@pytest.mark.covers("E6")
def test_a_resigned_leader_is_unattached_in_the_next_epoch() -> None:
    """The next epoch makes sure that no node names it as leader of the epoch that it has resigned."""
    node, _ = leader()
    node.resign(1, 1000)
    node.on_timer(1999)
    assert state(node) == ("Resigned", 1, 1)
    node.on_timer(2000)
    assert state(node) == ("Prospective", 2, -1), "its time-out is over: it asks for votes at once"


# Shutdown.


def test_followers_observers_and_only_voters_stop_at_once() -> None:
    """Nobody waits for them."""
    observer, _ = started(9)
    alone, _ = started(voters=(1,))
    for node in (follower(), observer, alone):
        effects = node.shutdown(10)
        assert of(Stopped, effects)
        assert node.next_deadline_ms is None
        assert not of(Stopped, node.on_timer(20))


def test_a_leader_stops_once_another_one_leads() -> None:
    node, _ = leader()
    effects = node.shutdown(1500)
    assert state(node) == ("Resigned", 1, 1)
    assert not of(Stopped, effects)
    assert not of(Stopped, node.on_request(vote_request(2, last=(1, 9)), 2, "a", 1510))
    assert of(Stopped, node.on_request(begin_request(2), 1, "b", 1520))


def test_or_at_the_time_out() -> None:
    node, _ = leader()
    node.shutdown(1500, 700)
    assert not of(Stopped, node.on_timer(2199))
    assert state(node) == ("Resigned", 1, 1), "its own time-out makes it no candidate"
    assert of(Stopped, node.on_timer(2200))


def test_a_candidate_that_stops_ends_its_election_first() -> None:
    """If it wins it can resign; else another one leads."""
    node, effects = candidate()
    asked = sent(effects, VoteRequest)
    assert not of(Stopped, node.shutdown(1100))
    assert state(node) == ("Candidate", 1, -1)
    node.on_timer(2500)
    assert state(node) == ("Candidate", 1, -1), "it begins no other"
    effects = node.on_response(asked[0].correlation_id, vote_response(1, True), 2500)
    assert state(node) == ("Resigned", 1, 1)
    assert len(sent(effects, EndQuorumEpochRequest)) == 2


def test_a_prospective_and_an_unattached_that_stop_begin_nothing() -> None:
    node, _ = started()
    node.on_timer(1000)
    node.shutdown(1100)
    node.on_timer(2500)
    assert state(node) == ("Prospective", 0, -1)
    node, _ = started()
    node.shutdown(100)
    assert not sent(node.on_timer(1500), VoteRequest)
    assert state(node) == ("Unattached", 0, -1)


def test_the_effects_for_the_state_machine() -> None:
    """Each leader and each epoch once; a Follower's leader, nobody, another."""
    node, effects = started(election=ElectionState(3, 2))
    effects += node.on_timer(10)
    effects += node.on_request(begin_request(3), 1, "a", 20)
    effects += node.on_request(vote_request(5, 3), 2, "b", 30)
    effects += node.on_request(begin_request(5, 3), 1, "c", 40)
    effects += node.on_request(begin_request(5, 3), 1, "d", 50)
    assert leaders(effects) == [(2, 3), (-1, 5), (3, 5)]
