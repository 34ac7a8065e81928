"""kraft.version goes up from 0 to 1 while the quorum runs (KIP-853): who may do it, what is written, what follows."""

from typing import Any

import pytest

from kcore.errors import RaftLogError
from kcore.protocol_errors import Errors
from kcore.raft import snapshots
from kcore.raft.effects import StoreElection
from kcore.raft.log.control_records import control_batch, kraft_version_record, leader_change, replay_log
from kcore.raft.membership.replicas import ElectionState
from kcore.raft.membership.voters import VoterHistory, VoterSet
from kcore.raft.node import RaftNode
from kcore.replication.raft_log import OffsetAndEpoch
from kcore.schema.fetch import FetchRequest
from kcore.schema.raft_voters import CurrentLeader, UpdateRaftVoterRequest, UpdateRaftVoterResponse
from kcore.schema.raft_votes import VoteRequest
from kcore.wire.records import control_message, decode_records
from raft.cluster import Cluster
from raft.nodes import (
    answer,
    begin_request,
    directory,
    follower,
    leader,
    of,
    partition,
    sent,
    started,
    vote_request,
    voter,
)
from raft.replication import (
    committed,
    committed_leader,
    dynamic_voters,
    fetch,
    fetch_request,
    fetch_response,
    flush,
    open_fetch,
    write_snapshot,
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

STATIC = tuple(voter(node_id, kraft_version=0) for node_id in (1, 2, 3))  # As a configuration names them.
NAMED = VoterSet.of(dynamic_voters(1, 2, 3))


def static_leader(*updated: int, **settings: Any) -> RaftNode:
    """Leader 1 of three in epoch 1, its first record committed; nodes `updated` (2, 3) have sent UpdateRaftVoter."""
    node = committed_leader(voters=STATIC, **settings)
    for node_id in updated or (2, 3):
        assert error(ask(node, update_request(node_id))) == Errors.NONE
    return node


def upgraded() -> tuple[RaftNode, list[Any]]:
    """By itself; what came of it."""
    node = static_leader()
    problem, effects = node.upgrade_kraft_version(1, 1, 1000)
    assert problem is None
    return node, effects


def control_records(node: RaftNode, offset: int) -> list[Any]:
    """The control messages from this offset on."""
    records = list(decode_records(node.log.read(offset, 1 << 20, node.log.end_offset)))
    return [control_message(record) for record in records if record.offset >= offset]


# The written records.


def test_version_and_voters_are_written_in_one_batch() -> None:
    node, _ = upgraded()
    batch = node.log.batches[-1]  # type: ignore[attr-defined]
    assert (batch.is_control, batch.base_offset, batch.last_offset) == (True, 1, 2)
    assert control_records(node, 1) == [kraft_version_record(1), NAMED.to_record()]


def test_the_voters_are_those_of_the_log_from_then_on() -> None:
    """With their directories: one of another directory is an observer, though the configuration has its id."""
    node, effects = upgraded()
    assert (node.voter_history.kraft_version, node.voters) == (1, NAMED)
    assert node.leading.voters[2].end_offset == 1, "what is known of it stays"
    flush(node, effects, 1000)
    _, effects = fetch(node, fetch_request(3, directory_id=directory(99), max_wait_ms=0), 1000)
    assert committed(effects) == []
    assert [key.directory_id for key in node.leading.observers] == [directory(99)]
    _, effects = fetch(node, fetch_request(3, max_wait_ms=0), 1000)
    assert committed(effects) == [3]


def test_a_voter_is_written_as_it_described_itself_last() -> None:
    node = static_leader()
    [elsewhere] = listeners(2)
    elsewhere.host = "elsewhere"
    assert error(ask(node, update_request(2, voter_directory_id=directory(99), listeners=[elsewhere]))) == 0
    node.upgrade_kraft_version(1, 1, 1000)
    written = node.voters.voters[2]
    assert (written.key.directory_id, written.max_kraft_version) == (directory(99), 1)
    assert written.endpoints["CONTROLLER"].host == "elsewhere"


def test_the_only_voter_needs_no_update_of_others() -> None:
    node, effects = leader(voters=(STATIC[0],))
    problem, more = node.upgrade_kraft_version(1, 1, 1000)
    assert problem is None
    flush(node, effects + more, 1000)
    assert (node.voters, node.high_watermark) == (VoterSet.of(dynamic_voters(1)), 3)


# Refused upgrades.


def refused(node: RaftNode, version: int = 1) -> int:
    end_offset = node.log.end_offset
    problem, _ = node.upgrade_kraft_version(version, 1, 1000)
    assert problem is not None and node.log.end_offset == end_offset
    return problem[0]


def test_not_while_a_voter_has_not_said_that_it_can() -> None:
    """As configured nobody can do more than version 0."""
    node = static_leader(2)
    assert refused(node) == Errors.INVALID_UPDATE_VERSION
    ask(node, update_request(3))
    assert node.upgrade_kraft_version(1, 1, 1000)[0] is None


def test_not_where_a_voter_says_that_it_cannot() -> None:
    node = static_leader()
    ask(node, update_request(3, highest=0))
    assert refused(node) == Errors.INVALID_UPDATE_VERSION


def test_not_while_a_directory_is_unknown() -> None:
    assert refused(committed_leader(voters=[voter(node_id) for node_id in (1, 2, 3)])) == Errors.UNKNOWN_SERVER_ERROR


def test_a_new_leader_needs_the_updates_again() -> None:
    """A predecessor's UpdateRaftVoter requests are not in the log."""
    cluster = Cluster(voters=STATIC)
    first = cluster.elect()
    assert cluster.run(10_000, lambda: first.leading.known_voters.supports(1))
    cluster.perform(first.local.id, first.resign(first.epoch, cluster.now_ms))
    assert cluster.run(10_000, lambda: cluster.leader not in (None, first) and cluster.is_led())
    second = cluster.leader
    assert second is not None
    problem, _ = second.upgrade_kraft_version(1, second.epoch, cluster.now_ms)
    assert problem is not None and problem[0] == Errors.INVALID_UPDATE_VERSION
    assert cluster.run(10_000, lambda: second.leading.known_voters.supports(1))


def test_not_down_and_not_beyond_what_there_is() -> None:
    node, _ = upgraded()
    assert refused(node, 0) == refused(node, 2) == Errors.INVALID_UPDATE_VERSION
    assert refused(static_leader(), 2) == Errors.INVALID_UPDATE_VERSION


def test_not_at_level_3_9() -> None:
    node, effects = leader(voters=(STATIC[0],), level="3.9")
    flush(node, effects, 1000)
    assert refused(node) == Errors.INVALID_UPDATE_VERSION


def test_the_same_version_again_writes_nothing() -> None:
    for node, version in ((static_leader(), 0), (upgraded()[0], 1)):
        end_offset = node.log.end_offset
        assert node.upgrade_kraft_version(version, 1, 1000)[0] is None
        assert node.log.end_offset == end_offset


def test_a_validation_finds_the_same_and_writes_nothing() -> None:
    node = static_leader()
    assert node.upgrade_kraft_version(1, 1, 1000, validate_only=True)[0] is None
    assert (node.log.end_offset, node.voter_history.kraft_version) == (1, 0)
    problem, _ = static_leader(2).upgrade_kraft_version(1, 1, 1000, validate_only=True)
    assert problem is not None


@pytest.mark.parametrize("epoch", [0, 2])
def test_only_the_leader_of_that_epoch(epoch: int) -> None:
    with pytest.raises(RaftLogError):
        static_leader().upgrade_kraft_version(1, epoch, 1000)
    node = follower(voters=STATIC)
    with pytest.raises(RaftLogError):
        node.upgrade_kraft_version(1, node.epoch, 1000)


# Changes behind it.


def test_voters_change_once_the_upgrade_is_committed() -> None:
    node = static_leader()
    assert error(ask(node, remove_request(3))) == Errors.UNSUPPORTED_VERSION
    _, effects = node.upgrade_kraft_version(1, 1, 1000)
    assert error(ask(node, remove_request(3))) == error(ask(node, add_request())) == Errors.REQUEST_TIMED_OUT
    flush(node, effects, 1000)
    fetch(node, fetch_request(3, max_wait_ms=0), 1000)
    assert change_answer(ask(node, remove_request(3))) is None
    assert node.voters.ids == {1, 2}


def test_an_update_is_written_behind_the_upgrade() -> None:
    """And refused of another directory: before, it was another disk of the same voter."""
    node, effects = upgraded()
    assert error(ask(node, update_request(2))) == Errors.REQUEST_TIMED_OUT
    flush(node, effects, 1000)
    fetch(node, fetch_request(3, max_wait_ms=0), 1000)
    assert error(ask(node, update_request(2, voter_directory_id=directory(99)))) == Errors.VOTER_NOT_FOUND
    assert error(ask(node, update_request(2))) == Errors.NONE
    assert node.log.end_offset == 3, "the log says so already"
    assert error(ask(node, update_request(2, listeners=listeners(33)))) == Errors.NONE
    assert node.voter_history.last_voters_offset == 3


# Upgrades at a follower.
LEADER_CHANGE = control_batch([leader_change(2, VoterSet.of(STATIC), [2, 3])], 0, 1, 1000)
UPGRADE = control_batch([kraft_version_record(1), NAMED.to_record()], 1, 1, 1000)


def upgraded_follower() -> RaftNode:
    """Node 1, which has fetched the upgrade; it is not committed."""
    node, _ = started(voters=STATIC)
    send = open_fetch(node.on_request(begin_request(1), 1, "begin", 0))
    node.on_response(send.correlation_id, fetch_response(LEADER_CHANGE + UPGRADE, high_watermark=1), 10)
    assert (node.voter_history.kraft_version, node.voters) == (1, NAMED)
    return node


def test_a_follower_counts_the_voters_of_the_log() -> None:
    """Its vote requests name their directories, and it refuses a vote that was meant for another one."""
    node = upgraded_follower()
    effects = node.on_timer(node.next_deadline_ms or 0)
    while not sent(effects, VoteRequest):
        effects = node.on_timer(node.next_deadline_ms or 0)
    asked = [partition(send.request).voter_directory_id for send in sent(effects, VoteRequest)]
    assert asked == [directory(2), directory(3)]
    effects = node.on_request(vote_request(5, voter_directory=directory(99)), 2, "vote", 5000)
    assert partition(answer(effects)).error_code == Errors.INVALID_VOTER_KEY


def test_an_upgrade_that_is_cut_is_undone() -> None:
    """The next leader lacks the upgrade: voters come from the configuration, the node sends UpdateRaftVoter again."""
    node = upgraded_follower()
    node.on_flushed(flush_of(node), 20)
    send = open_fetch(node.on_request(begin_request(2, leader_id=3), 1, "begin", 20))
    effects = node.on_response(send.correlation_id, fetch_response(epoch=2, leader_id=3, diverging=(1, 1)), 30)
    assert node.log.end_offset == 1
    assert (node.voter_history.kraft_version, node.voters) == (0, VoterSet.of(STATIC))
    effects = node.on_response(open_fetch(effects).correlation_id, fetch_response(epoch=2, leader_id=3), 2040)
    assert [send.destination for send in sent(effects, UpdateRaftVoterRequest)] == [3]


def flush_of(node: RaftNode) -> Any:
    """That all of the log is flushed."""
    node.flush()
    return node.effects.pop()


def test_a_voter_that_the_upgrade_named_as_it_is_says_nothing_more() -> None:
    node = upgraded_follower()
    send = open_fetch(node.on_flushed(flush_of(node), 20))
    effects = node.on_response(send.correlation_id, fetch_response(), 2020)
    assert (sent(effects, UpdateRaftVoterRequest), len(sent(effects, FetchRequest))) == ([], 1)


def test_an_unanswered_voter_sends_its_update_again() -> None:
    """A fetch time-out later: the leader had committed nothing of its epoch yet."""
    node, effects = follows()
    (send,) = sent(effects, UpdateRaftVoterRequest)
    named = CurrentLeader(leader_id=2, leader_epoch=1, host="host2", port=9002)
    response = UpdateRaftVoterResponse(error_code=Errors.REQUEST_TIMED_OUT, current_leader=named)
    fetch_send = open_fetch(node.on_response(send.correlation_id, response, 2010))
    effects = node.on_response(fetch_send.correlation_id, fetch_response(), 3900)
    assert sent(effects, UpdateRaftVoterRequest) == []
    effects = node.on_response(open_fetch(effects).correlation_id, fetch_response(), 4000)
    assert len(sent(effects, UpdateRaftVoterRequest)) == 1


def test_quorum_state_is_of_the_new_version_with_the_next_election() -> None:
    node = upgraded_follower()
    effects = node.on_request(begin_request(2, leader_id=3), 1, "begin", 20)
    assert [(effect.election.epoch, effect.kraft_version) for effect in of(StoreElection, effects)] == [(2, 1)]


def test_a_restart_finds_the_voters_in_the_log() -> None:
    """Whatever the configuration says by then."""
    log = upgraded_follower().log
    for voters in (STATIC, STATIC[:1], ()):
        node, _ = started(voters=voters, log=log, election=ElectionState(1, 2))
        assert (node.voter_history.kraft_version, node.voters) == (1, NAMED)


def test_a_snapshot_behind_the_upgrade_has_version_and_voters() -> None:
    node, effects = upgraded()
    flush(node, effects, 1000)
    fetch(node, fetch_request(3, max_wait_ms=0), 1000)
    for offset, expected in ((1, (0, VoterSet.of(STATIC))), (3, (1, NAMED))):
        assert write_snapshot(node, OffsetAndEpoch(offset, 1), [b"x"], 0, 0)
        history = VoterHistory(VoterSet.of(STATIC))
        log = node.log
        assert snapshots.delete_before(node, OffsetAndEpoch(offset, 1))
        replay_log(history, log)
        assert (
            history.kraft_version_at(offset - 1),
            history.voters_at(offset - 1) or history.static_voters,
        ) == expected


def test_a_quorum_goes_up_and_its_next_leader_is_up_too() -> None:
    """Only the leader gets the request; a node that was down learns the version from the log."""
    cluster = Cluster(voters=STATIC)
    first = cluster.elect()
    assert cluster.run(10_000, lambda: first.leading.known_voters.supports(1))
    [away, other] = sorted({1, 2, 3} - {first.local.id})
    cluster.isolate(away)
    problem, effects = first.upgrade_kraft_version(1, first.epoch, cluster.now_ms)
    assert problem is None
    cluster.perform(first.local.id, effects)
    assert cluster.run(5_000, lambda: cluster.committed[other] == first.log.end_offset)
    cluster.heal()
    cluster.add(first.local.id, cluster.kill(first.local.id))
    second = cluster.elect()
    assert second.voter_history.kraft_version == 1
    assert cluster.run(10_000, lambda: all(node.voters == NAMED for node in cluster.nodes.values()))
