"""AddRaftVoter, RemoveRaftVoter, UpdateRaftVoter (KIP-853): one change at a time, behind a committed epoch."""

from typing import Any

import pytest

from kcore.protocol_errors import Errors
from kcore.raft.effects import Flush, Send
from kcore.raft.log.control_records import control_batch, kraft_version_record
from kcore.raft.log.memory_log import MemoryLog
from kcore.raft.membership.voters import VoterSet
from kcore.schema.api_versions import ApiVersionsRequest, ApiVersionsResponse, SupportedFeatureKey
from kcore.schema.fetch import FetchRequest
from kcore.schema.raft_voters import (
    AddRaftVoterRequest,
    AddRaftVoterResponse,
    CurrentLeader,
    Listener,
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
    UpdateRaftVoterRequest,
    UpdateRaftVoterResponse,
)
from kcore.types import Uuid
from raft.nodes import LISTENER, address, begin_request, directory, follower, leader, sent, voter
from raft.replication import (
    append,
    committed,
    committed_leader,
    dynamic_leader,
    dynamic_log,
    dynamic_voters,
    fetch,
    fetch_request,
    fetch_response,
    flush,
    open_fetch,
)
from raft.voter_requests import (
    add_request,
    ask,
    change_answer,
    error,
    follows,
    listeners,
    remove_request,
    update_request,
)


def dynamic(*ids: int) -> Any:
    """Node 1 leads these voters, its first records are committed; node 4 observes and has all of it."""
    node, _ = dynamic_leader(*(ids or (1, 2, 3)), append_linger_ms=0)
    node.on_flushed(Flush(node.log.end_offset), 1000)
    if ids != (1,):
        fetch(node, fetch_request(3, max_wait_ms=0), 1000)
    fetch(node, fetch_request(3, replica=4, max_wait_ms=0), 1000)
    assert node.high_watermark == 3
    return node


def asked_versions(effects: list[Any]) -> Send:
    (only,) = sent(effects, ApiVersionsRequest)
    return only


def versions(lowest: int = 0, highest: int = 1, error_code: int = 0, feature: str = "kraft.version") -> Any:
    row = SupportedFeatureKey(name=feature, min_version=lowest, max_version=highest)
    return ApiVersionsResponse(error_code=error_code, supported_features=[row])


def added(node: Any, response: Any = None, now_ms: int = 1000, **changed: Any) -> list[Any]:
    """The effects of what node 4 can do."""
    send = asked_versions(ask(node, add_request(**changed), now_ms))
    return list(node.on_response(send.correlation_id, response or versions(), now_ms))


# AddRaftVoter.


def test_a_new_voter_is_asked_what_it_can_do() -> None:
    node = dynamic()
    effects = ask(node, add_request())
    assert change_answer(effects) is None
    assert (asked_versions(effects).destination, asked_versions(effects).address) == (4, address(4))
    assert node.voters.ids == {1, 2, 3}


def test_a_new_voter_counts_once_it_is_written() -> None:
    node = dynamic()
    effects = added(node)
    assert change_answer(effects) is None
    assert node.voters.ids == {1, 2, 3, 4}
    assert (node.voter_history.last_voters_offset, set(node.leading.voters)) == (3, {1, 2, 3, 4})
    assert node.leading.voters[4].end_offset == 3  # The replica's progress is kept.
    assert node.leading.observers == {}
    flush(node, effects, 1000)
    assert committed(fetch(node, fetch_request(4, max_wait_ms=0), 1000)[1]) == []  # Two of four.
    _, effects = fetch(node, fetch_request(4, replica=4, max_wait_ms=0), 1000)
    assert committed(effects) == [4]
    assert change_answer(effects) == AddRaftVoterResponse(error_message=None)


def test_a_voter_may_be_acknowledged_when_it_is_written() -> None:
    """KIP-1186."""
    node = dynamic()
    effects = added(node, ack_when_committed=False)
    assert error(effects) == Errors.NONE
    assert node.leading.change is not None  # The next change must wait all the same.
    flush(node, effects, 1000)
    fetch(node, fetch_request(4, max_wait_ms=0), 1000)
    _, effects = fetch(node, fetch_request(4, replica=4, max_wait_ms=0), 1000)
    assert (change_answer(effects), node.leading.change) == (None, None)


def test_the_leader_of_one_voter_takes_another() -> None:
    """From then on it needs the other's fetches to go on leading."""
    node = dynamic(1)
    assert node.leading.check_quorum_deadline_ms > 10**9
    effects = added(node)
    assert node.leading.check_quorum_deadline_ms == 4000
    assert committed(flush(node, effects, 1000)) == []
    assert committed(fetch(node, fetch_request(4, replica=4, max_wait_ms=0), 1000)[1]) == [4]


@pytest.mark.covers("E1")
def test_who_is_left_alone_leads_on() -> None:
    """E1: there is nobody whose fetches it could wait for."""
    node = dynamic(1, 2)
    flush(node, ask(node, remove_request(2)), 1000)
    node.on_timer(100_000)
    assert (node.state.name, node.high_watermark) == ("Leader", 4)


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        (versions(error_code=35), Errors.REQUEST_TIMED_OUT),
        (versions(0, 0), Errors.INVALID_REQUEST),
        (versions(2, 3), Errors.INVALID_REQUEST),
        (versions(feature="metadata.version"), Errors.INVALID_REQUEST),
    ],
    ids=["error", "too old", "too new", "unknown"],
)
def test_a_voter_that_cannot_do_it_is_not_added(response: Any, expected: Errors) -> None:
    node = dynamic()
    assert error(added(node, response)) == expected
    assert (node.voters.ids, node.leading.change) == ({1, 2, 3}, None)


def test_a_voter_that_lags_behind_is_not_added() -> None:
    """It would take a majority's power to commit with it."""
    node = dynamic()
    assert error(added(node, node_id=5)) == Errors.REQUEST_TIMED_OUT
    node.leading.check_quorum_deadline_ms = 10**9
    assert error(added(node, now_ms=1000 + 3_600_000)) == Errors.REQUEST_TIMED_OUT


def test_a_voter_that_does_not_answer_is_not_added() -> None:
    node = dynamic()
    send = asked_versions(ask(node, add_request()))
    assert error(list(node.on_response(send.correlation_id, None, 1100))) == Errors.REQUEST_TIMED_OUT
    assert node.leading.change is None


def test_a_change_takes_no_longer_than_a_request_may() -> None:
    node = dynamic()
    ask(node, add_request())
    assert change_answer(list(node.on_timer(2999))) is None
    assert error(list(node.on_timer(3000))) == Errors.REQUEST_TIMED_OUT


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"cluster_id": "another"}, Errors.INCONSISTENT_CLUSTER_ID),
        ({"voter_id": -1}, Errors.INVALID_REQUEST),
        ({"voter_directory_id": Uuid()}, Errors.INVALID_REQUEST),
        ({"listeners": listeners(4, "OTHER")}, Errors.INVALID_REQUEST),
        ({"voter_id": 3}, Errors.DUPLICATE_VOTER),
    ],
    ids=str,
)
def test_who_cannot_be_added(changed: dict[str, Any], expected: Errors) -> None:
    node = dynamic()
    assert error(ask(node, add_request(**changed))) == expected
    assert node.leading.change is None


# Rules for all changes.

CHANGES = [add_request(), remove_request(3)]


@pytest.mark.parametrize("request_", CHANGES, ids=["add", "remove"])
def test_only_a_leader_changes_voters(request_: Any) -> None:
    assert error(ask(follower(), request_)) == Errors.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize("request_", [add_request(5), remove_request(3)], ids=["add", "remove"])
@pytest.mark.parametrize("first", [add_request(4), remove_request(2)], ids=["adding", "removing"])
def test_one_change_at_a_time(first: Any, request_: Any) -> None:
    """Though nothing of the first may be written yet."""
    node = dynamic()
    node.on_request(first, 0, "first", 1000)
    before = node.voters.ids
    assert error(ask(node, request_)) == Errors.REQUEST_TIMED_OUT
    assert node.voters.ids == before


@pytest.mark.parametrize("request_", CHANGES, ids=["add", "remove"])
def test_no_change_before_the_epoch_has_committed(request_: Any) -> None:
    """Otherwise two leaders could change the same voters differently; an older epoch's high watermark is invalid."""
    log = MemoryLog()
    records = [kraft_version_record(1), VoterSet.of(dynamic_voters(1, 2, 3)).to_record()]
    log.append_as_leader(control_batch(records, 0, 1, 0), 1)
    log.flush()
    log.update_high_watermark(2)
    node, effects = leader(voters=(), log=log, bootstrap_servers=(address(2),))
    flush(node, effects, 1000)
    fetch(node, fetch_request(3, 2, 2, replica=4, max_wait_ms=0), 1000)
    assert (node.voter_history.last_voters_offset, node.high_watermark) == (1, None)
    assert error(ask(node, request_)) == Errors.REQUEST_TIMED_OUT
    assert node.voters.ids == {1, 2, 3}


@pytest.mark.parametrize("request_", CHANGES, ids=["add", "remove"])
def test_no_change_before_the_last_one_is_committed(request_: Any) -> None:
    """Though nobody waits for that one's answer any more."""
    node = dynamic()
    ask(node, remove_request(2))
    node.on_timer(3000)
    assert node.leading.change is None
    assert error(ask(node, request_, 3000)) == Errors.REQUEST_TIMED_OUT
    assert node.voters.ids == {1, 3}


@pytest.mark.parametrize("request_", CHANGES, ids=["add", "remove"])
def test_configured_voters_do_not_change(request_: Any) -> None:
    """At kraft.version 0."""
    assert error(ask(committed_leader(), request_)) == Errors.UNSUPPORTED_VERSION


def test_a_leader_no_more_answers_so() -> None:
    node = dynamic()
    ask(node, remove_request(3))
    effects = node.on_request(begin_request(5, leader_id=2, voter_directory=directory(1)), 1, "begin", 1000)
    assert change_answer(list(effects)).error_code == Errors.NOT_LEADER_OR_FOLLOWER


# RemoveRaftVoter.


def test_a_voter_is_removed() -> None:
    """Answered once its record is committed, not what is before that."""
    node = dynamic()
    append(node, b"a")
    effects = ask(node, remove_request(3))
    assert (change_answer(effects), node.voters.ids) == (None, {1, 2})
    assert [key.id for key in node.leading.observers] == [4, 3]
    flush(node, effects, 1000)
    _, effects = fetch(node, fetch_request(4, max_wait_ms=0), 1000)
    assert (committed(effects), change_answer(effects)) == ([4], None)
    _, effects = fetch(node, fetch_request(5, max_wait_ms=0), 1000)
    assert (committed(effects), change_answer(effects)) == ([5], RemoveRaftVoterResponse(error_message=None))
    assert node.state.name == "Leader"


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (remove_request(3, cluster_id="another"), Errors.INCONSISTENT_CLUSTER_ID),
        (remove_request(3, Uuid()), Errors.INVALID_REQUEST),
        (remove_request(-1, directory(3)), Errors.INVALID_REQUEST),
        (remove_request(3, directory(99)), Errors.VOTER_NOT_FOUND),
        (remove_request(4), Errors.VOTER_NOT_FOUND),
    ],
)
def test_who_cannot_be_removed(request_: Any, expected: Errors) -> None:
    node = dynamic()
    assert error(ask(node, request_)) == expected
    assert node.voters.ids == {1, 2, 3}


def test_the_only_voter_stays() -> None:
    assert error(ask(dynamic(1), remove_request(1))) == Errors.VOTER_NOT_FOUND


@pytest.mark.covers("E20", "E21")
def test_a_removed_leader_leads_until_its_removal_is_committed() -> None:
    """E20, KAFKA-17608; E21: by a majority of those that remain."""
    node = dynamic()
    effects = ask(node, remove_request(1))
    assert (node.is_voter, node.state.name) == (False, "Leader")
    flush(node, effects, 1000)
    _, effects = fetch(node, fetch_request(4, max_wait_ms=0), 1000)
    assert (committed(effects), node.state.name) == ([], "Leader")
    _, effects = fetch(node, fetch_request(4, replica=3, max_wait_ms=0), 1000)
    assert committed(effects) == [4]
    assert error(effects) == Errors.NONE
    assert (node.state.name, node.log.high_watermark) == ("Resigned", 4)


# UpdateRaftVoter.


def test_a_static_voter_is_answered_at_once() -> None:
    """Spikes 21: it does not fetch while it waits for this; nothing is written at kraft.version 0."""
    node = committed_leader()
    response = change_answer(ask(node, update_request(), 2500))
    assert response.error_code == Errors.NONE
    assert (response.current_leader.leader_id, response.current_leader.leader_epoch) == (1, 1)
    assert (response.current_leader.host, response.current_leader.port) == address(1)
    assert node.log.end_offset == 1
    assert node.leading.known_voters.voters[2].key.directory_id == directory(2)


@pytest.mark.covers("E1")
def test_an_update_is_as_good_as_a_fetch() -> None:
    """E1: for the leader progress time-out."""
    node = committed_leader()
    ask(node, update_request(), 2500)
    assert node.leading.check_quorum_deadline_ms == 5500


def test_a_dynamic_voter_is_written_anew() -> None:
    node = dynamic()
    moved = [Listener(name=LISTENER, host="elsewhere", port=1)]
    assert error(ask(node, update_request(listeners=moved))) == Errors.NONE
    assert node.voters.address(2, LISTENER) == ("elsewhere", 1)
    assert node.voter_history.last_voters_offset == 3
    assert error(ask(node, update_request())) == Errors.REQUEST_TIMED_OUT  # It is not committed yet.


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (update_request(cluster_id="another"), Errors.INCONSISTENT_CLUSTER_ID),
        (update_request(epoch=0), Errors.FENCED_LEADER_EPOCH),
        (update_request(epoch=2), Errors.UNKNOWN_LEADER_EPOCH),
        (update_request(voter_id=-1), Errors.INVALID_REQUEST),
        (update_request(voter_directory_id=Uuid()), Errors.INVALID_REQUEST),
        (update_request(listeners=listeners(2, "OTHER")), Errors.INVALID_REQUEST),
        (update_request(lowest=-1), Errors.INVALID_REQUEST),
        (update_request(lowest=1, highest=0), Errors.INVALID_REQUEST),
        (update_request(lowest=0, highest=0), Errors.INVALID_REQUEST),
        (update_request(node_id=4), Errors.VOTER_NOT_FOUND),
        (update_request(voter_directory_id=directory(99)), Errors.VOTER_NOT_FOUND),
    ],
)
def test_what_is_not_updated(request_: Any, expected: Errors) -> None:
    node = dynamic()
    assert error(ask(node, request_)) == expected
    assert node.voter_history.last_voters_offset == 2


def test_no_update_while_voters_change() -> None:
    node = dynamic()
    node.on_request(add_request(), 1, "first", 1000)
    assert error(ask(node, update_request())) == Errors.REQUEST_TIMED_OUT
    node, _ = dynamic_leader(1, 2, 3)
    assert error(ask(node, update_request())) == Errors.REQUEST_TIMED_OUT  # Nothing of the epoch is committed.


# Asked by a follower.


def test_a_configured_voter_tells_each_leader_once_who_it_is() -> None:
    """So that the leader knows all directories when the quorum goes on to kraft.version 1."""
    node, effects = follows()
    (send,) = sent(effects, UpdateRaftVoterRequest)
    assert sent(effects, FetchRequest) == []
    assert (send.destination, send.request.voter_id, send.request.voter_directory_id) == (2, 1, directory(1))
    assert (send.request.current_leader_epoch, send.request.listeners) == (1, listeners(1))
    leader = CurrentLeader(leader_id=2, leader_epoch=1, host="host2", port=9002)
    effects = node.on_response(send.correlation_id, UpdateRaftVoterResponse(current_leader=leader), 2500)
    assert (node.state.has_updated_leader, node.state.fetch_deadline_ms) == (True, 4500)
    answered_fetch = node.on_response(open_fetch(effects).correlation_id, fetch_response(), 4100)
    assert sent(answered_fetch, UpdateRaftVoterRequest) == []


def test_3_9_tells_nobody() -> None:
    _, effects = follows(level="3.9")
    assert sent(effects, UpdateRaftVoterRequest) == []


def test_a_leader_that_knows_no_updates_is_left_in_peace() -> None:
    node, effects = follows()
    (send,) = sent(effects, UpdateRaftVoterRequest)
    leader = CurrentLeader(leader_id=2, leader_epoch=1)
    response = UpdateRaftVoterResponse(error_code=Errors.UNSUPPORTED_VERSION, current_leader=leader)
    assert open_fetch(node.on_response(send.correlation_id, response, 2500)).destination == 2
    assert node.state.has_updated_leader


def test_an_update_may_name_another_leader() -> None:
    node, effects = follows()
    (send,) = sent(effects, UpdateRaftVoterRequest)
    leader = CurrentLeader(leader_id=3, leader_epoch=4, host="host3", port=9003)
    response = UpdateRaftVoterResponse(error_code=Errors.FENCED_LEADER_EPOCH, current_leader=leader)
    node.on_response(send.correlation_id, response, 2500)
    assert (node.leader_id, node.epoch) == (3, 4)


def test_a_dynamic_voter_tells_what_the_log_has_otherwise() -> None:
    """Its endpoints, or what it can do."""
    _, effects = follows(voters=(), log=dynamic_log(*dynamic_voters(1, 2)))
    assert sent(effects, UpdateRaftVoterRequest) == []
    _, effects = follows(voters=(), log=dynamic_log(voter(1, directory(1), kraft_version=0), *dynamic_voters(2)))
    assert len(sent(effects, UpdateRaftVoterRequest)) == 1


def test_an_observer_joins_by_itself_if_it_may() -> None:
    settings: dict[str, Any] = {"voters": (), "log": dynamic_log(*dynamic_voters(2, 3))}
    _, effects = follows(**settings)
    assert sent(effects, AddRaftVoterRequest) == []
    _, effects = follows(**settings, auto_join=True, can_become_voter=False)
    assert sent(effects, AddRaftVoterRequest) == []
    node, effects = follows(**settings, auto_join=True)
    (send,) = sent(effects, AddRaftVoterRequest)
    assert (send.destination, send.request.voter_id, send.request.voter_directory_id) == (2, 1, directory(1))
    assert (send.request.listeners, send.request.ack_when_committed) == (listeners(1), False)
    effects = node.on_response(send.correlation_id, AddRaftVoterResponse(error_code=Errors.DUPLICATE_VOTER), 2100)
    assert open_fetch(effects).destination == 2


def test_an_observer_of_configured_voters_does_not_join() -> None:
    _, effects = follows(voters=(2, 3), auto_join=True)
    assert sent(effects, AddRaftVoterRequest) == []


def test_who_comes_back_with_another_disk_has_the_former_one_removed() -> None:
    log = dynamic_log(voter(1, directory(99)), *dynamic_voters(2, 3))
    node, effects = follows(voters=(), log=log, auto_join=True)
    (send,) = sent(effects, RemoveRaftVoterRequest)
    assert (send.request.voter_id, send.request.voter_directory_id) == (1, directory(99))
    effects = node.on_response(send.correlation_id, RemoveRaftVoterResponse(error_code=Errors.VOTER_NOT_FOUND), 2100)
    assert open_fetch(effects).destination == 2
