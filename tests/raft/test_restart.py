"""The state of a node at its start: from quorum-state and its log (QuorumState.initialize)."""

import pytest

from kcore.errors import RaftLogError
from kcore.raft.log.memory_log import MemoryLog
from kcore.raft.log.raft_log import Refused
from kcore.raft.membership.replicas import ElectionState, ReplicaKey
from kcore.raft.states import Follower, Resigned, Unattached
from kcore.schema.fetch import FetchRequest
from kcore.schema.raft_votes import EndQuorumEpochRequest, VoteRequest
from raft.nodes import (
    answer,
    directory,
    grant,
    leaders,
    log_of,
    partition,
    raft_node,
    sent,
    started,
    state,
    stored,
    vote_request,
    voter,
)

OWN = ReplicaKey(1, directory(1))


def test_the_very_first_start() -> None:
    """KIP-595's "unattached": no epoch, no vote, no leader; and that is written down."""
    node, effects = started()
    assert state(node) == ("Unattached", 0, -1)
    assert stored(effects) == [ElectionState(0)]
    assert node.high_watermark is None


@pytest.mark.covers("E2")
def test_a_restarted_leader_does_not_lead_its_epoch() -> None:
    """KAFKA-10527 (E2): else it gives an offset of its epoch twice, to a record that it lost and to another one."""
    node, effects = started(election=ElectionState(5, 1), log=log_of(5))
    assert state(node) == ("Resigned", 5, 1)
    assert leaders(effects) == [(-1, 5)], "nor does its state machine"
    assert node.append([b"x"], 5, 1, 0) == (Refused(-1, -1), [])
    assert [send.destination for send in sent(effects, EndQuorumEpochRequest)] == [2, 3], "others need not wait"
    assert partition(sent(effects, EndQuorumEpochRequest)[0].request).preferred_candidates == []


@pytest.mark.covers("E3")
def test_a_restarted_leader_does_not_vote_in_its_epoch() -> None:
    """KAFKA-10661 (E3): two leaders of one epoch could come of it."""
    node, _ = started(election=ElectionState(5, 1))
    effects = node.on_request(vote_request(5, last=(4, 9)), 2, "a", 0)
    assert not partition(answer(effects)).vote_granted
    assert partition(answer(node.on_request(vote_request(6, last=(4, 9)), 2, "b", 0))).vote_granted


@pytest.mark.covers("E2")
def test_a_restarted_leader_goes_on_in_the_next_epoch() -> None:
    """Behind the election time-out, and never as a follower of its own."""
    node, _ = started(election=ElectionState(5, 1))
    node.on_timer(999)
    assert state(node) == ("Resigned", 5, 1)
    node.on_timer(1000)
    assert state(node) == ("Prospective", 6, -1)


@pytest.mark.parametrize("level", ["4.3", "3.9"])
def test_a_candidate_that_restarts_does_not_go_on_with_its_election(level: str) -> None:
    """A vote may have been given for a longer log than the crash has left: it counts for that election no more."""
    node, effects = started(election=ElectionState(4, -1, OWN), level=level)
    assert state(node) == ("Unattached", 4, -1)
    assert node.state.voted == OWN
    assert sent(effects, VoteRequest) == stored(effects) == []
    assert not partition(answer(node.on_request(vote_request(4, 3), 2, "a", 0))).vote_granted, "its vote of epoch 4"
    effects = node.on_timer(1000)
    if level == "4.3":
        effects = grant(node, effects, 1000, 1)
    assert state(node) == ("Candidate", 5, -1)
    assert stored(effects)[-1] == ElectionState(5, -1, OWN)
    assert partition(sent(effects, VoteRequest)[0].request).replica_epoch == 5


def test_a_candidate_that_lost_follows_its_leader_again() -> None:
    node, effects = started(election=ElectionState(4, 3, OWN))
    assert state(node) == ("Follower", 4, 3)
    assert (node.state.voted, sent(effects, VoteRequest)) == (OWN, [])


def test_a_vote_for_an_earlier_directory_of_its_own_is_not_for_itself() -> None:
    """The disk was replaced, quorum-state restored (KIP-853)."""
    node, _ = started(election=ElectionState(4, -1, ReplicaKey(1, directory(77))))
    assert state(node) == ("Unattached", 4, -1)
    assert node.state.voted == ReplicaKey(1, directory(77))


@pytest.mark.covers("E7")
def test_a_voted_candidate_that_votes_no_more_is_none() -> None:
    """E7 (KAFKA-17067), at a start."""
    node, _ = started(election=ElectionState(4, -1, OWN), voters=(2, 3, 4))
    node.on_timer(60_000)
    assert state(node) == ("Unattached", 4, -1)


def test_a_vote_for_another_is_remembered() -> None:
    node, _ = started(election=ElectionState(4, -1, ReplicaKey(2, directory(2))))
    assert not partition(answer(node.on_request(vote_request(4, 3), 2, "a", 0))).vote_granted


def test_a_follower_is_one_again() -> None:
    node, effects = started(election=ElectionState(4, 3, ReplicaKey(2, directory(2))))
    assert state(node) == ("Follower", 4, 3)
    assert isinstance(node.state, Follower)
    assert [send.destination for send in sent(effects, FetchRequest)] == [3]
    assert leaders(effects) == [(3, 4)]
    assert not stored(effects), "nothing has changed"


def test_a_leader_that_nobody_can_reach_is_looked_for() -> None:
    """It is in no voter set that this node knows: it asks the bootstrap servers."""
    node, effects = started(election=ElectionState(4, 9))
    assert state(node) == ("Unattached", 4, 9)
    assert len(sent(effects, FetchRequest)) == 1
    elsewhere = voter(3)._replace(endpoints={"ANOTHER": ("host3", 9003)})
    node = raft_node(voters=[voter(1), voter(2), elsewhere])
    node.start(ElectionState(4, 3), 0)
    assert state(node) == ("Unattached", 4, 3)


def test_a_log_that_is_ahead_counts_more() -> None:
    """quorum-state was lost, or is an old copy."""
    node, effects = started(election=ElectionState(2, 1, None), log=log_of(1, 7))
    assert state(node) == ("Unattached", 7, -1)
    assert stored(effects) == [ElectionState(7)]
    node, effects = started(log=log_of(1, 7))
    assert state(node) == ("Unattached", 7, -1)


@pytest.mark.parametrize(
    "election", [None, ElectionState(3), ElectionState(3, 1), ElectionState(3, -1, OWN), ElectionState(3, 9)]
)
@pytest.mark.parametrize("level", ["4.3", "3.9"])
def test_an_only_voter_leads_at_once(election: ElectionState | None, level: str) -> None:
    """In a new epoch."""
    node, effects = started(election=election, voters=(1,), level=level)
    before = 0 if election is None else election.epoch
    assert state(node) == ("Leader", before + 1, 1)
    assert stored(effects)[-1] == ElectionState(node.epoch, 1)


def test_a_vote_needs_an_id() -> None:
    with pytest.raises(RaftLogError, match="without an id"):
        raft_node(-1).start(ElectionState(1, -1, ReplicaKey(2)), 0)


@pytest.mark.parametrize(
    ("election", "first"),
    [
        (ElectionState(5, 1), Resigned),
        (ElectionState(5, -1, OWN), Unattached),
        (ElectionState(5, 2), Follower),
    ],
)
def test_what_it_starts_as_survives_a_second_crash(election: ElectionState, first: type) -> None:
    """Nothing that it stores at its start takes back what it stored before."""
    node, effects = started(election=election)
    again, _ = started(election=(stored(effects) or [election])[-1], log=MemoryLog())
    assert type(node.state) is type(again.state) is first


def test_a_voter_that_came_back_with_an_empty_disk_is_an_observer() -> None:
    """Its id is a voter's, its directory is not: its vote would count twice (KIP-853)."""
    node = raft_node(voters=[voter(1, directory(77)), voter(2, directory(2)), voter(3, directory(3))])
    node.start(None, 0)
    for now_ms in range(0, 20_000, 100):
        node.on_timer(now_ms)
    assert state(node) == ("Unattached", 0, -1)
    assert not node.is_voter
    assert raft_node(voters=[voter(1, directory(1)), voter(2, directory(2))]).is_voter
