"""BeginQuorumEpoch and EndQuorumEpoch (KIP-595, KIP-853)."""

import pytest

from kcore.protocol_errors import Errors
from kcore.raft.membership.replicas import NO_DIRECTORY, Address, ElectionState, ReplicaKey
from kcore.raft.states import Follower, Resigned
from kcore.schema.raft_votes import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
)
from kcore.types import Uuid
from raft.nodes import (
    LISTENER,
    answer,
    begin_request,
    candidate,
    directory,
    end_request,
    epoch_response,
    follower,
    grant,
    leader,
    leaders,
    log_of,
    partition,
    sent,
    started,
    state,
    stored,
    vote_request,
)

# BeginQuorumEpoch.


def test_a_new_leader_tells_the_others_at_once() -> None:
    """Behind the store of quorum-state: it must not lead again as another after a crash."""
    node, effects = candidate()
    effects = grant(node, effects, 1000, 1)
    requests = sent(effects, BeginQuorumEpochRequest)
    assert [send.destination for send in requests] == [2, 3]
    request = requests[0].request
    assert isinstance(request, BeginQuorumEpochRequest)
    assert request.voter_id == 2
    assert [(e.name, e.host, e.port) for e in request.leader_endpoints] == [(LISTENER, "host1", 9001)]
    assert (partition(request).leader_id, partition(request).leader_epoch) == (1, 1)
    kinds = [type(effect).__name__ for effect in effects]
    assert kinds.index("StoreElection") < kinds.index("Send")


def test_a_voter_that_does_not_fetch_gets_begin_quorum_epoch_again() -> None:
    """Each half of the fetch time-out; who fetches is not (4.x)."""
    node, effects = leader()
    for send in sent(effects, BeginQuorumEpochRequest):
        node.on_response(send.correlation_id, epoch_response(BeginQuorumEpochResponse, 1, 1), 1001)
    node.leading.progress_of(ReplicaKey(2, directory(2))).last_fetch_ms = 1500
    assert not sent(node.on_timer(1999), BeginQuorumEpochRequest)
    again = sent(node.on_timer(2000), BeginQuorumEpochRequest)
    assert [send.destination for send in again] == [3]


def test_a_lost_begin_quorum_epoch_is_sent_again() -> None:
    node, effects = leader()
    for send in sent(effects, BeginQuorumEpochRequest):
        assert not sent(node.on_response(send.correlation_id, None, 1001), BeginQuorumEpochRequest)
    assert len(sent(node.on_timer(2000), BeginQuorumEpochRequest)) == 2


@pytest.mark.parametrize("before", [ElectionState(0), ElectionState(1, -1, ReplicaKey(3, directory(3)))])
def test_a_voter_follows_after_begin_quorum_epoch(before: ElectionState) -> None:
    """Stored before the answer; a vote that it gave in that epoch stays with it."""
    node, _ = started(election=before)
    effects = node.on_request(begin_request(1), 1, "a", 0)
    assert state(node) == ("Follower", 1, 2)
    assert stored(effects)[-1] == ElectionState(1, 2, before.voted)
    kinds = [type(effect).__name__ for effect in effects]
    assert kinds.index("StoreElection") < kinds.index("SendResponse")
    assert partition(answer(effects)).error_code == Errors.NONE
    assert leaders(effects)[-1] == (2, 1)
    assert node.state.leader_endpoints == {LISTENER: Address("host2", 9000)}


def test_a_second_begin_quorum_epoch_changes_nothing() -> None:
    """Otherwise a leader that repeats BeginQuorumEpoch would keep its followers from standing for election."""
    node = follower()
    before = node.state
    effects = node.on_request(begin_request(1), 1, "a", 1900)
    assert node.state is before
    assert partition(answer(effects)).error_code == Errors.NONE
    node.on_timer(2000)
    assert node.state.name == "Prospective"


def test_an_old_leader_gets_the_newer_epoch() -> None:
    node = follower(epoch=4)
    response = partition(answer(node.on_request(begin_request(3, 3), 1, "a", 0)))
    assert (response.error_code, response.leader_id, response.leader_epoch) == (Errors.FENCED_LEADER_EPOCH, 2, 4)
    assert state(node) == ("Follower", 4, 2)


@pytest.mark.parametrize(
    ("voter_id", "voter_directory", "error"),
    [
        (1, directory(1), Errors.NONE),
        (1, directory(8), Errors.INVALID_VOTER_KEY),
        (4, NO_DIRECTORY, Errors.INVALID_VOTER_KEY),
        (-1, NO_DIRECTORY, Errors.NONE),
    ],
)
def test_a_leader_that_means_another_voter_is_believed_all_the_same(
    voter_id: int, voter_directory: Uuid, error: Errors
) -> None:
    """KIP-853."""
    node, _ = started()
    effects = node.on_request(begin_request(1, 2, voter_id, voter_directory), 1, "a", 0)
    assert partition(answer(effects)).error_code == error
    assert state(node) == ("Follower", 1, 2)


def test_endpoints_come_from_the_voter_set_if_the_leader_names_none() -> None:
    """Version 0."""
    node, _ = started()
    node.on_request(begin_request(1, endpoints=False), 0, "a", 0)
    assert node.state.leader_endpoints == {LISTENER: Address("host2", 9002)}


def test_a_leader_that_nobody_can_reach_is_not_followed() -> None:
    """Its epoch counts; Kafka's process ends there."""
    node, _ = started()
    node.on_request(begin_request(3, 9, endpoints=False), 0, "a", 0)
    assert state(node) == ("Unattached", 3, -1)


@pytest.mark.parametrize("epoch", [1, 2])
@pytest.mark.parametrize("kind", ["begin", "end"])
def test_nobody_makes_a_node_follow_itself(epoch: int, kind: str) -> None:
    """Kafka's process ends there; this one takes no notice."""
    node = follower()
    request = begin_request(epoch, 1) if kind == "begin" else end_request(epoch, 1)
    effects = node.on_request(request, 1, "a", 0)
    assert partition(answer(effects)).error_code == Errors.UNKNOWN_SERVER_ERROR
    assert state(node) == ("Follower", 1, 2)


def test_a_second_leader_of_the_same_epoch_is_not_believed() -> None:
    """There is none, unless a disk was lost."""
    node = follower()
    assert partition(answer(node.on_request(begin_request(1, 3), 1, "a", 0))).error_code == -1
    assert state(node) == ("Follower", 1, 2)
    lead, _ = leader()
    assert partition(answer(lead.on_request(begin_request(1, 3), 1, "b", 1000))).error_code == -1
    assert state(lead) == ("Leader", 1, 1)


def test_a_leader_steps_down_for_the_next_one() -> None:
    node, _ = leader()
    effects = node.on_request(begin_request(2), 1, "a", 1100)
    assert state(node) == ("Follower", 2, 2)
    assert not node.leads
    assert leaders(effects) == [(2, 2)]


def test_a_leader_learns_of_a_higher_epoch_from_an_answer() -> None:
    node, effects = leader()
    first = sent(effects, BeginQuorumEpochRequest)[0]
    response = epoch_response(BeginQuorumEpochResponse, 9, -1, Errors.FENCED_LEADER_EPOCH)
    node.on_response(first.correlation_id, response, 1001)
    assert state(node) == ("Unattached", 9, -1)


@pytest.mark.parametrize("kind", [BeginQuorumEpochRequest, EndQuorumEpochRequest])
def test_another_cluster_and_another_topic(kind: type) -> None:
    node, _ = started()
    effects = node.on_request(kind(cluster_id="another"), 1, "a", 0)
    assert answer(effects).error_code == Errors.INCONSISTENT_CLUSTER_ID
    assert answer(node.on_request(kind(), 1, "b", 0)).error_code == Errors.INVALID_REQUEST


def test_a_leader_without_an_id_is_none() -> None:
    node, _ = started()
    for request in (begin_request(1, -1), end_request(1, -1)):
        response = partition(answer(node.on_request(request, 1, request.api_key, 0)))
        assert response.error_code == Errors.INVALID_REQUEST


# EndQuorumEpoch.


def test_a_leader_that_stops_tells_who_should_follow_it() -> None:
    """Those with the longest logs first (KIP-595)."""
    node, effects = leader()
    for send in sent(effects, BeginQuorumEpochRequest):
        node.on_response(send.correlation_id, epoch_response(BeginQuorumEpochResponse, 1, 1), 1001)
    node.leading.progress_of(ReplicaKey(2, directory(2))).end_offset = 3
    node.leading.progress_of(ReplicaKey(3, directory(3))).end_offset = 5
    effects = node.shutdown(1500)
    assert state(node) == ("Resigned", 1, 1)
    requests = sent(effects, EndQuorumEpochRequest)
    assert [send.destination for send in requests] == [2, 3]
    end = partition(requests[0].request)
    assert (end.leader_id, end.leader_epoch) == (1, 1)
    assert end.preferred_successors == [3, 2]
    assert [info.candidate_id for info in end.preferred_candidates] == [3, 2]


def test_end_quorum_epoch_is_sent_until_it_is_acknowledged() -> None:
    node, _ = leader()
    effects = node.resign(1, 1500)
    second, third = sent(effects, EndQuorumEpochRequest)
    node.on_response(second.correlation_id, epoch_response(EndQuorumEpochResponse, 1, 1), 1510)
    assert isinstance(node.state, Resigned)
    assert node.state.unacknowledged == {3}
    node.on_response(third.correlation_id, None, 1510)
    assert [send.destination for send in sent(node.on_timer(1530), EndQuorumEpochRequest)] == [3]


def test_an_error_is_no_acknowledgement() -> None:
    node, _ = leader()
    second = sent(node.resign(1, 1500), EndQuorumEpochRequest)[0]
    response = epoch_response(EndQuorumEpochResponse, 1, 1, Errors.BROKER_NOT_AVAILABLE)
    node.on_response(second.correlation_id, response, 1510)
    assert isinstance(node.state, Resigned)
    assert node.state.unacknowledged == {2, 3}


@pytest.mark.parametrize(
    ("candidates", "backoff_ms"),
    [
        ([1, 3, 4, 5], 0),
        ([3, 1, 4, 5], 125),  # 1,000 ms halved three times, for three candidates behind the first.
        ([3, 4, 1, 5], 250),
        ([3, 4, 5, 1], 500),
        ([3, 4, 5], 1000),
        ([], 0),  # A leader that has restarted knows none: all at once.
    ],
)
def test_the_further_in_front_the_sooner_a_candidate(candidates: list[int], backoff_ms: int) -> None:
    """The strict exponential back-off by position. Source: strictExponentialElectionBackoffMs."""
    node = follower(now_ms=100, voters=(1, 2, 3, 4, 5))
    assert isinstance(node.state, Follower)
    keys = [ReplicaKey(candidate_id, directory(candidate_id)) for candidate_id in candidates]
    node.on_request(end_request(1, 2, keys), 1, "a", 200)
    if backoff_ms:
        assert node.state.fetch_deadline_ms == 200 + backoff_ms
        node.on_timer(200 + backoff_ms - 1)
        assert node.state.name == "Follower"
        node.on_timer(200 + backoff_ms)
    assert node.state.name == "Prospective"


def test_a_candidate_of_another_directory_is_another() -> None:
    node = follower()
    node.on_request(end_request(1, 2, [ReplicaKey(1, directory(50)), ReplicaKey(1, NO_DIRECTORY)]), 1, "a", 200)
    assert isinstance(node.state, Follower)
    assert node.state.fetch_deadline_ms == 200 + (1000 >> 1)


def test_version_0_names_successors_without_directories() -> None:
    node = follower()
    node.on_request(end_request(1, 2, successors=[3, 1]), 0, "a", 200)
    assert isinstance(node.state, Follower)
    assert node.state.fetch_deadline_ms == 700


def test_an_end_of_another_epoch_ends_nothing() -> None:
    node = follower(epoch=4)
    response = partition(answer(node.on_request(end_request(3, 3), 1, "a", 200)))
    assert (response.error_code, response.leader_id, response.leader_epoch) == (Errors.FENCED_LEADER_EPOCH, 2, 4)
    assert state(node) == ("Follower", 4, 2)


@pytest.mark.covers("E24")
def test_a_follower_of_a_leader_that_resigned_denies_pre_votes() -> None:
    """KAFKA-20895 (E24), open in 4.3.1: who has fetched from the leader that resigned still denies pre-votes.

    With three voters the first successor wins, because the resigned leader grants. With five voters it needs one more
    vote, which it gets after the others' back-off. So every clean shutdown wastes an election.
    """
    resigned, _ = leader(voters=(1, 2, 3, 4, 5))
    resigned.resign(1, 1500)
    ask = vote_request(1, 3, (1, 9), pre_vote=True)
    assert partition(answer(resigned.on_request(ask, 2, "a", 1500))).vote_granted
    other = follower(1, voters=(1, 2, 3, 4, 5))
    assert isinstance(other.state, Follower)
    other.state.has_fetched_from_leader = True
    keys = [ReplicaKey(voter_id, directory(voter_id)) for voter_id in (3, 4, 5, 1)]
    other.on_request(end_request(1, 2, keys), 1, "b", 100)
    assert not partition(answer(other.on_request(ask, 2, "c", 100))).vote_granted
    other.on_timer(600)
    assert other.state.name == "Prospective"
    assert partition(answer(other.on_request(ask, 2, "d", 600))).vote_granted


@pytest.mark.covers("E24")
def test_an_option_grants_pre_votes_once_the_leader_has_resigned() -> None:
    """KAFKA-20895 (E24): not before, not for what another node says, and only to a log that is up to date."""
    node = follower(1, voters=(1, 2, 3, 4, 5), log=log_of(1, 1), pre_votes_after_resignation=True)
    assert isinstance(node.state, Follower)
    node.state.has_fetched_from_leader = True
    keys = [ReplicaKey(voter_id, directory(voter_id)) for voter_id in (3, 4, 5, 1)]

    def grants(offset: int) -> bool:
        ask = vote_request(1, 3, (1, offset), pre_vote=True)
        return bool(partition(answer(node.on_request(ask, 2, "ask", 100))).vote_granted)

    node.on_request(end_request(1, 4, keys), 1, "of no leader", 100)
    node.on_request(end_request(0, 2, keys), 1, "of an epoch that is over", 100)
    assert not grants(2)
    node.on_request(end_request(1, 2, keys), 1, "of the leader", 100)
    assert grants(2)
    assert not grants(1)
