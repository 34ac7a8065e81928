"""The table of the states, and that nothing goes where it does not lead."""

import re

import pytest

from kcore.raft.membership.replicas import ReplicaKey
from kcore.raft.states import Candidate, Election
from kcore.raft.transitions import (
    CANDIDATE,
    FOLLOWER,
    LEADER,
    PROSPECTIVE,
    RESIGNED,
    START,
    STATES,
    UNATTACHED,
    Event,
    as_text,
    transitions,
)
from raft.cluster import Cluster
from raft.nodes import candidate, leader, raft_node, started

# As the comment at the head of Kafka's class QuorumState has them, for voters.
KAFKA_4_3 = {
    RESIGNED: {UNATTACHED, FOLLOWER},
    UNATTACHED: {UNATTACHED, PROSPECTIVE, FOLLOWER},
    PROSPECTIVE: {UNATTACHED, CANDIDATE, FOLLOWER},
    CANDIDATE: {UNATTACHED, PROSPECTIVE, LEADER},
    LEADER: {UNATTACHED, RESIGNED, FOLLOWER},
    FOLLOWER: {UNATTACHED, PROSPECTIVE, FOLLOWER},
}
KAFKA_3_9 = {
    RESIGNED: {UNATTACHED, CANDIDATE, FOLLOWER},
    UNATTACHED: {UNATTACHED, CANDIDATE, FOLLOWER},
    CANDIDATE: {UNATTACHED, CANDIDATE, LEADER},
    LEADER: {UNATTACHED, RESIGNED},
    FOLLOWER: {UNATTACHED, CANDIDATE, FOLLOWER},
}
# Transitions in Kafka's code that its comment omits: a granted vote, a sole voter's start, an earlier winner.
UNSAID_4_3 = {(PROSPECTIVE, PROSPECTIVE), (RESIGNED, PROSPECTIVE), (CANDIDATE, FOLLOWER)}
UNSAID_3_9 = {(CANDIDATE, FOLLOWER), (LEADER, FOLLOWER)}


@pytest.mark.parametrize(
    ("pre_vote", "kafka", "unsaid"), [(True, KAFKA_4_3, UNSAID_4_3), (False, KAFKA_3_9, UNSAID_3_9)]
)
def test_the_ways_are_kafkas(pre_vote: bool, kafka: dict[str, set[str]], unsaid: set[tuple[str, str]]) -> None:
    own = {(way.source, way.target) for way in transitions(pre_vote=pre_vote) if way.source != START}
    assert own == {(source, target) for source, targets in kafka.items() for target in targets} | unsaid


@pytest.mark.covers("E7")
@pytest.mark.parametrize("pre_vote", [True, False])
def test_no_transition_of_an_observer_leads_to_an_election(pre_vote: bool) -> None:
    """KAFKA-17067 (E7): none of them leads to an election; whoever is no voter any more gets out of all others."""
    ways = [way for way in transitions(pre_vote=pre_vote) if not way.voters_only]
    reached, new = set(), {START}
    while new:
        reached |= new
        new = {way.target for way in ways if way.source in reached and way.event is not Event.INITIALIZE} - reached
        new |= {UNATTACHED, FOLLOWER} - reached
    assert reached == {START, UNATTACHED, FOLLOWER}
    for state in {way.source for way in transitions(pre_vote=pre_vote)} - {START}:
        assert {way.target for way in ways if way.source == state} & {UNATTACHED, FOLLOWER}


def test_a_printed_table_has_every_way_and_its_count() -> None:
    cluster = Cluster()
    node = cluster.elect()
    ways = transitions(pre_vote=True)
    text = as_text(ways, node.quorum.taken)
    assert len(text.splitlines()) == len(ways)
    assert re.search(r"1  Candidate   -> Leader      a majority has granted the vote \(voters\)", text)
    assert re.search(r"0  Leader      -> Resigned    it shuts down", text)
    assert as_text(ways).splitlines()[0].startswith("(start)")
    assert sum(node.quorum.taken.values()) >= 4


def test_no_state_is_a_dead_end() -> None:
    for pre_vote in (True, False):
        ways = transitions(pre_vote=pre_vote)
        assert {way.target for way in ways} == {way.source for way in ways} - {START}
        assert {way.source for way in ways} - {START} == set(STATES) - ({PROSPECTIVE} if not pre_vote else set())


def test_a_way_that_is_not_in_the_table_is_a_bug_with_its_story() -> None:
    node, _ = leader()
    with pytest.raises(AssertionError, match="Leader does not become Candidate when the election time-out is over"):
        node.quorum.become_candidate(Event.ELECTION_TIMEOUT, 2000)
    with pytest.raises(AssertionError, match="epoch=1"):
        node.quorum.become_prospective(Event.FETCH_TIMEOUT, 2000)
    node, _ = started(9)
    with pytest.raises(AssertionError, match="an observer does not become Prospective"):
        node.quorum.become_prospective(Event.ELECTION_TIMEOUT, 2000)
    node, _ = candidate()
    with pytest.raises(AssertionError):
        node.quorum.become_leader(2000)
    with pytest.raises(AssertionError):
        node.quorum.become_unattached(node.epoch, 2000)
    with pytest.raises(AssertionError):
        node.quorum.become_follower(node.epoch, node.local.id, node.config.endpoints, 2000)


def test_states_print_their_story() -> None:
    node = raft_node()
    node.start(None, 0)
    assert repr(node.state) == "Unattached(epoch=0, leader_id=-1, voted=None)"


# Counting votes.


def test_an_election_counts_the_voters_and_nobody_else() -> None:
    """Source: EpochElection."""
    election = Election([ReplicaKey(i) for i in (1, 2, 3, 4)], 1)
    assert election.majority == 3
    assert [key.id for key in election.unrecorded] == [2, 3, 4]
    election.record(9, True)
    election.record(2, True)
    assert not election.is_won
    election.record(2, False)
    assert not election.is_lost
    election.record(3, False)
    assert election.is_lost
    election.record(3, True)
    election.record(4, True)
    assert election.is_won
    assert [key.id for key in election.granting_voters] == [1, 3, 4]
    assert not election.unrecorded


def test_a_candidate_that_is_no_voter_has_no_vote() -> None:
    assert not Election([ReplicaKey(2)], 1).granted
    assert isinstance(candidate()[0].state, Candidate)
