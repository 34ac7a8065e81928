"""Tests the granting of votes and the results of elections (KIP-595, KIP-853, KIP-996)."""

import pytest

from kcore.protocol_errors import Errors
from kcore.raft.effects import SendResponse, StoreElection
from kcore.raft.membership.replicas import NO_DIRECTORY, ElectionState, ReplicaKey
from kcore.schema.raft_votes import VoteRequest
from kcore.types import Uuid
from raft.nodes import (
    answer,
    candidate,
    directory,
    follower,
    grant,
    leader,
    log_of,
    of,
    partition,
    raft_node,
    sent,
    started,
    state,
    stored,
    vote_request,
    vote_response,
    voter,
)

# Giving votes.


def test_a_vote_is_durable_before_it_is_given() -> None:
    """A crash behind the answer must not let it vote again in that epoch: the store is a barrier before the answer."""
    node, _ = started()
    effects = node.on_request(vote_request(1), 2, "a", 10)
    assert partition(answer(effects)).vote_granted
    kinds = [type(effect) for effect in effects]
    last_store = len(kinds) - 1 - kinds[::-1].index(StoreElection)
    assert last_store < kinds.index(SendResponse)
    assert stored(effects)[-1] == ElectionState(1, -1, ReplicaKey(2, directory(2)))


def test_one_vote_an_epoch() -> None:
    node, _ = started()
    assert partition(answer(node.on_request(vote_request(1, 2), 2, "a", 0))).vote_granted
    assert not partition(answer(node.on_request(vote_request(1, 3), 2, "b", 0))).vote_granted
    again = node.on_request(vote_request(1, 2), 2, "c", 0)  # Its answer was lost.
    assert partition(answer(again)).vote_granted
    assert not stored(again)
    assert partition(answer(node.on_request(vote_request(2, 3), 2, "d", 0))).vote_granted


def test_the_vote_is_for_a_directory() -> None:
    """A candidate that came back with an empty disk is another one (KIP-853)."""
    node, _ = started()
    node.on_request(vote_request(1, 2), 2, "a", 0)
    other = vote_request(1, 2, candidate_directory=directory(99))
    assert not partition(answer(node.on_request(other, 2, "b", 0))).vote_granted


def test_a_vote_without_a_directory_is_for_any() -> None:
    """It was cast at kraft.version 0."""
    node, _ = started(election=ElectionState(1, -1, ReplicaKey(2, NO_DIRECTORY)))
    assert partition(answer(node.on_request(vote_request(1, 2), 2, "a", 0))).vote_granted


@pytest.mark.parametrize(
    ("last", "granted"),
    [
        ((1, 2), False),
        ((2, 2), False),
        ((2, 3), True),
        ((2, 4), True),
        ((3, 1), True),
        ((1, 9), False),
        ((0, 0), False),
    ],
)
@pytest.mark.parametrize("pre_vote", [False, True])
def test_only_a_log_that_is_as_good_gets_a_vote(last: tuple[int, int], granted: bool, pre_vote: bool) -> None:
    """The last epoch decides, then the length: whoever has less may lack what is committed."""
    node, _ = started(log=log_of(1, 1, 2))
    effects = node.on_request(vote_request(5, last=last, pre_vote=pre_vote), 2, "a", 0)
    assert partition(answer(effects)).vote_granted is granted


def test_a_vote_given_again_is_for_a_log_that_is_still_as_good() -> None:
    """A candidate that crashed in between may have lost a record that was committed when it got the vote first."""
    node, _ = started(log=log_of(1, 1))
    assert partition(answer(node.on_request(vote_request(2, last=(1, 2)), 2, "a", 0))).vote_granted
    assert not partition(answer(node.on_request(vote_request(2, last=(1, 1)), 2, "b", 0))).vote_granted
    again = node.on_request(vote_request(2, last=(1, 2)), 2, "c", 0)  # The first answer was lost, nothing else.
    assert partition(answer(again)).vote_granted
    assert not stored(again)


@pytest.mark.parametrize(
    ("epoch", "last", "pre_vote", "error"),
    [
        (3, (3, 5), False, Errors.INVALID_REQUEST),  # Nobody has records of the epoch it stands for.
        (3, (3, 5), True, Errors.NONE),  # A pre-vote names the epoch before that.
        (3, (4, 5), True, Errors.INVALID_REQUEST),
        (3, (-1, 5), False, Errors.INVALID_REQUEST),
        (3, (1, -1), False, Errors.INVALID_REQUEST),
        (2, (2, 1), True, Errors.NONE),
        (1, (0, 1), False, Errors.FENCED_LEADER_EPOCH),
        (1, (1, 1), True, Errors.FENCED_LEADER_EPOCH),
    ],
)
def test_what_a_vote_request_must_be(epoch: int, last: tuple[int, int], pre_vote: bool, error: Errors) -> None:
    """Source: handleVoteRequest."""
    node, _ = started(election=ElectionState(2))
    vote = partition(answer(node.on_request(vote_request(epoch, last=last, pre_vote=pre_vote), 2, "a", 0)))
    assert vote.error_code == error
    assert vote.vote_granted is (error is Errors.NONE)


def test_a_replica_without_an_id_gets_no_vote() -> None:
    node, _ = started()
    assert partition(answer(node.on_request(vote_request(1, -1), 2, "a", 0))).error_code == Errors.INVALID_REQUEST


def test_another_cluster_and_another_topic() -> None:
    node, _ = started()
    stranger = node.on_request(vote_request(1, cluster_id="another"), 2, "a", 0)
    assert answer(stranger).error_code == Errors.INCONSISTENT_CLUSTER_ID
    request = vote_request(1)
    request.topics[0].topic_name = "t"
    assert answer(node.on_request(request, 2, "b", 0)).error_code == Errors.INVALID_REQUEST
    assert answer(node.on_request(VoteRequest(), 2, "c", 0)).error_code == Errors.INVALID_REQUEST
    request = vote_request(1)
    partition(request).partition_index = 1
    assert answer(node.on_request(request, 2, "d", 0)).error_code == Errors.INVALID_REQUEST
    assert partition(answer(node.on_request(vote_request(1, cluster_id=None), 2, "e", 0))).vote_granted


@pytest.mark.parametrize(
    ("voter_id", "voter_directory", "error"),
    [
        (1, directory(1), Errors.NONE),
        (1, NO_DIRECTORY, Errors.NONE),
        (1, directory(7), Errors.INVALID_VOTER_KEY),
        (2, directory(1), Errors.INVALID_VOTER_KEY),
        (-1, NO_DIRECTORY, Errors.NONE),  # Version 0 names nobody.
    ],
)
def test_the_voter_that_is_asked_must_be_this_one(voter_id: int, voter_directory: Uuid, error: Errors) -> None:
    """KIP-853. The epoch is believed all the same."""
    node, _ = started()
    request = vote_request(3, voter_id=voter_id, voter_directory=voter_directory)
    vote = partition(answer(node.on_request(request, 2, "a", 0)))
    assert (vote.error_code, vote.vote_granted) == (error, error is Errors.NONE)
    assert node.epoch == 3


def test_a_higher_epoch_in_a_vote_request_ends_the_own() -> None:
    """Whether the vote is given or not."""
    node, _ = leader(log=log_of(0))
    effects = node.on_request(vote_request(7, last=(0, 0)), 2, "a", 1100)
    assert not partition(answer(effects)).vote_granted
    assert state(node) == ("Unattached", 7, -1)
    assert stored(effects) == [ElectionState(7)]


def test_a_higher_epoch_in_a_pre_vote_ends_the_own_too() -> None:
    node, _ = started()
    node.on_request(vote_request(7, pre_vote=True), 2, "a", 0)
    assert node.epoch == 7


def test_a_pre_vote_binds_nobody() -> None:
    """KIP-996: nothing is stored, and another may get one, and the vote itself."""
    node, _ = started(election=ElectionState(3))
    for who in (2, 3):
        effects = node.on_request(vote_request(3, who, pre_vote=True), 2, who, 0)
        assert partition(answer(effects)).vote_granted
        assert not stored(effects)
    assert partition(answer(node.on_request(vote_request(4, 3), 2, "a", 0))).vote_granted


def test_who_votes_waits_its_time_out_anew() -> None:
    """The candidate may well win: no reason to stand against it."""
    node, _ = started()
    node.on_request(vote_request(1), 2, "a", 900)
    node.on_timer(1899)
    assert node.state.name == "Unattached"
    node.on_timer(1900)
    assert node.state.name == "Prospective"


def test_a_refused_candidate_does_not_delay_the_others() -> None:
    """A higher epoch alone leaves the time-out running: a node with a short log must not hold the quorum up."""
    node, _ = started(log=log_of(0))
    node.on_request(vote_request(5, last=(0, 0)), 2, "a", 900)
    assert state(node) == ("Unattached", 5, -1)
    node.on_timer(1000)
    assert node.state.name == "Prospective"


def test_a_prospective_votes_and_goes_on_asking() -> None:
    """KIP-996: for an election in its own epoch; it stays what it is, with its vote given."""
    node, _ = started(election=ElectionState(3))
    node.on_timer(1000)
    assert state(node) == ("Prospective", 3, -1)
    effects = node.on_request(vote_request(3, 2), 2, "a", 1500)
    assert partition(answer(effects)).vote_granted
    assert state(node) == ("Prospective", 3, -1)
    assert stored(effects) == [ElectionState(3, -1, ReplicaKey(2, directory(2)))]
    assert not partition(answer(node.on_request(vote_request(3, 3), 2, "b", 1500))).vote_granted


def test_who_has_found_its_leader_votes_for_nobody_else() -> None:
    """A second leader of the epoch could come of it. 4.x gives pre-votes until it has fetched (KIP-996)."""
    node = follower()
    assert not partition(answer(node.on_request(vote_request(1, 3), 2, "a", 0))).vote_granted
    assert partition(answer(node.on_request(vote_request(1, 3, pre_vote=True), 2, "b", 0))).vote_granted


def test_who_knows_its_leader_but_not_where_votes_for_nobody_else() -> None:
    """Unattached with a leader, as at a start."""
    node, _ = started(election=ElectionState(1, 9))
    assert state(node) == ("Unattached", 1, 9)
    assert not partition(answer(node.on_request(vote_request(1, 3), 2, "a", 0))).vote_granted


@pytest.mark.covers("E22")
def test_a_follower_of_a_live_leader_denies_pre_votes() -> None:
    """KAFKA-17030 (E22): a removed voter that missed its removal asks for ever, and moves nobody and no epoch."""
    node = follower()
    node.state.has_fetched_from_leader = True  # type: ignore[union-attr]
    effects = node.on_request(vote_request(1, 3, pre_vote=True), 2, "a", 0)
    assert not partition(answer(effects)).vote_granted
    assert state(node) == ("Follower", 1, 2)
    lead, _ = leader()
    effects = lead.on_request(vote_request(1, 3, (1, 9), pre_vote=True), 2, "a", 1000)
    assert not partition(answer(effects)).vote_granted
    assert state(lead) == ("Leader", 1, 1)


def test_a_candidate_votes_for_nobody_in_its_epoch() -> None:
    """It has voted: for itself. A pre-vote costs it nothing."""
    node, _ = candidate()
    assert not partition(answer(node.on_request(vote_request(1, 3), 2, "a", 1000))).vote_granted
    assert partition(answer(node.on_request(vote_request(1, 3, pre_vote=True), 2, "b", 1000))).vote_granted


def test_an_answer_names_the_leader_and_its_endpoint() -> None:
    node = follower()
    response = answer(node.on_request(vote_request(1, 3), 2, "a", 0))
    assert (partition(response).leader_id, partition(response).leader_epoch) == (2, 1)
    assert [(e.node_id, e.host) for e in response.node_endpoints] == [(2, "host2")]
    assert answer(node.on_request(vote_request(1, 3), 0, "b", 0)).node_endpoints == []


# Asking for votes.


def test_an_election_by_pre_votes_and_votes() -> None:
    """Unattached, Prospective, Candidate, Leader (KIP-996)."""
    node, effects = started()
    assert state(node) == ("Unattached", 0, -1)
    effects = node.on_timer(1000)
    assert state(node) == ("Prospective", 0, -1)
    requests = sent(effects, VoteRequest)
    assert [send.destination for send in requests] == [2, 3]
    assert [send.request.voter_id for send in requests] == [2, 3]  # type: ignore[attr-defined]
    asked = partition(requests[0].request)
    assert (asked.replica_epoch, asked.replica_id, asked.pre_vote) == (0, 1, True)

    effects = grant(node, effects, 1005, 1)
    assert state(node) == ("Candidate", 1, -1)
    assert stored(effects) == [ElectionState(1, -1, ReplicaKey(1, directory(1)))]
    kinds = [type(effect).__name__ for effect in effects]
    assert kinds.index("StoreElection") < kinds.index("Send"), "it asks only when its own vote is durable"
    assert not partition(sent(effects, VoteRequest)[0].request).pre_vote

    effects = grant(node, effects, 1010, 1)
    assert state(node) == ("Leader", 1, 1)
    assert ElectionState(1, 1) in stored(effects)


def test_no_majority_no_leader() -> None:
    """With five voters, the candidate's own vote and one more are no majority."""
    node, effects = candidate(voters=(1, 2, 3, 4, 5))
    later = grant(node, effects, 1000, 1)
    assert state(node) == ("Candidate", 1, -1)
    assert not of(StoreElection, later)
    grant(node, sent(effects, VoteRequest)[1:], 1000, 1)
    assert state(node) == ("Leader", 1, 1)


def test_a_voter_counts_once() -> None:
    """However often its answer comes."""
    node, effects = candidate(voters=(1, 2, 3, 4, 5))
    first = sent(effects, VoteRequest)[0]
    for _ in range(3):
        node.on_response(first.correlation_id, vote_response(1, True), 1000)
    assert node.state.name == "Candidate"


@pytest.mark.covers("E25")
def test_an_answer_of_the_pre_vote_is_no_vote() -> None:
    """E25: an answer does not say which round it is of: a late pre-vote would make a leader of a minority."""
    node, _ = started(voters=(1, 2, 3, 4, 5))
    effects = node.on_timer(1000)
    asked = sent(effects, VoteRequest)
    effects = grant(node, asked, 1000, 2)
    assert state(node) == ("Candidate", 1, -1)
    grant(node, effects, 1000, 1)
    for send in asked[2:]:
        node.on_response(send.correlation_id, vote_response(1, True), 1000)
    assert state(node) == ("Candidate", 1, -1)


@pytest.mark.covers("E25")
def test_every_vote_request_names_its_voter() -> None:
    """E25: Kafka's voters were seen to refuse voter id -1; with directories where they are known (KIP-853)."""
    voters = [voter(1, directory(1)), voter(2, directory(2)), voter(3, directory(3))]
    node = raft_node(voters=voters)
    node.start(None, 0)
    for send in sent(node.on_timer(1000), VoteRequest):
        assert send.request.voter_id == send.destination  # type: ignore[attr-defined]
        assert partition(send.request).voter_directory_id == directory(send.destination)
        assert partition(send.request).replica_directory_id == directory(1)


def test_votes_are_asked_for_again_until_they_come() -> None:
    """Behind the retry back-off, and no sooner."""
    node, effects = candidate()
    first = sent(effects, VoteRequest)[0]
    assert not sent(node.on_response(first.correlation_id, None, 1100), VoteRequest)
    assert node.next_deadline_ms == 1120
    assert not sent(node.on_timer(1119), VoteRequest)
    assert [send.destination for send in sent(node.on_timer(1120), VoteRequest)] == [2]


def test_a_lost_pre_vote_leads_back_to_looking_for_a_leader() -> None:
    node, _ = started()
    effects = node.on_timer(1000)
    for send in sent(effects, VoteRequest):
        node.on_response(send.correlation_id, vote_response(0, False), 1010)
    assert state(node) == ("Unattached", 0, -1)
    node.on_timer(2009)
    assert state(node) == ("Unattached", 0, -1)
    node.on_timer(2010)  # A new time-out, as it was refused.
    assert state(node) == ("Prospective", 0, -1)


@pytest.mark.covers("E28")
def test_a_pre_vote_without_answers_uses_up_no_epoch() -> None:
    """That is what pre-votes are for (KIP-996); its time-out is that of Unattached, too: it asks again at once."""
    node, _ = started()
    node.on_timer(1000)
    effects = node.on_timer(2000)
    assert state(node) == ("Prospective", 0, -1)
    assert len(sent(effects, VoteRequest)) == 2


def test_a_lost_pre_vote_leads_back_to_the_leader_it_knew() -> None:
    """A node that alone cannot reach its leader is refused pre-votes and follows the leader again."""
    node = follower()
    effects = node.on_timer(2000)
    assert state(node) == ("Prospective", 1, 2)
    for send in sent(effects, VoteRequest):
        node.on_response(send.correlation_id, vote_response(1, False, 2), 2010)
    assert state(node) == ("Follower", 1, 2)


def test_a_candidate_that_lost_waits_and_is_prospective_then() -> None:
    """KIP-996."""
    node, effects = candidate()
    for send in sent(effects, VoteRequest):
        node.on_response(send.correlation_id, vote_response(1, False), 1010)
    assert state(node) == ("Candidate", 1, -1)
    assert not sent(node.on_timer(1500), VoteRequest), "nobody is left whose vote could change it"
    node.on_timer(1999)
    assert state(node) == ("Candidate", 1, -1)
    node.on_timer(2000)
    assert state(node) == ("Prospective", 1, -1)


def test_a_prospective_asks_for_votes_at_once_where_pre_votes_are_unknown() -> None:
    """A voter of 3.9 among them. Source: handleVoteResponse."""
    node, _ = started()
    effects = node.on_timer(1000)
    response = vote_response(0, False)
    response.error_code = Errors.UNSUPPORTED_VERSION
    node.on_response(sent(effects, VoteRequest)[0].correlation_id, response, 1000)
    assert state(node) == ("Candidate", 1, -1)


def test_a_candidate_follows_who_won_before_it() -> None:
    node, effects = candidate()
    node.on_response(sent(effects, VoteRequest)[0].correlation_id, vote_response(1, False, 3), 1000)
    assert state(node) == ("Follower", 1, 3)
    assert node.state.voted == ReplicaKey(1, directory(1)), "so that it does not vote twice"


def test_a_candidate_steps_down_for_a_higher_epoch() -> None:
    node, effects = candidate()
    node.on_response(sent(effects, VoteRequest)[0].correlation_id, vote_response(4, False, error=74), 1000)
    assert state(node) == ("Unattached", 4, -1)


def test_an_answer_of_a_past_epoch_changes_nothing() -> None:
    node, effects = candidate(voters=(1, 2))
    node.on_response(sent(effects, VoteRequest)[0].correlation_id, vote_response(0, True), 1000)
    assert state(node) == ("Candidate", 1, -1)


def test_jitter_parts_the_candidates() -> None:
    """Once to twice the time-out: who is first wins, as a rule."""
    node, _ = started(jitter=999)
    node.on_timer(1998)
    assert node.state.name == "Unattached"
    node.on_timer(1999)
    assert node.state.name == "Prospective"
