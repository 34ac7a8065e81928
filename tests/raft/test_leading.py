"""Tests the leader: its first record, appends, the high watermark, the leader progress time-out."""

from typing import Any

import pytest

from kcore.errors import RaftLogError
from kcore.raft.effects import Committed, Flush, LeaderChanged
from kcore.raft.log.control_records import control_batch, kraft_version_record
from kcore.raft.log.raft_log import Appended, Refused
from kcore.raft.membership.replicas import ReplicaKey
from kcore.raft.membership.voters import VoterSet
from kcore.raft.raft_config import LONGEST_LINGER_MS, MAX_BATCH_BYTES
from kcore.raft.states import NEVER_MS
from kcore.schema.raft_voters import RemoveRaftVoterRequest
from kcore.schema.raft_votes import EndQuorumEpochRequest
from kcore.wire.record_batch import scan_batches
from kcore.wire.records import control_message, decode_records
from raft.nodes import begin_request, directory, leader, log_of, of, partition, sent, started, voter
from raft.replication import (
    append,
    committed,
    committed_leader,
    dynamic_leader,
    dynamic_voters,
    fetch,
    fetch_request,
    flush,
    take,
    values,
    whole,
)


def control_records(node: Any) -> list[Any]:
    """All in the log."""
    return [control_message(record) for record in decode_records(whole(node.log)) if record.control]


# The first record.


def test_the_first_record_says_who_leads() -> None:
    """Version 0: version 1 kills brokers."""
    node, effects = leader()
    (message,) = control_records(node)
    assert type(message).__name__ == "LeaderChangeMessage"
    assert (message.version, message.leader_id) == (0, 1)
    assert [v.voter_id for v in message.voters] == [1, 2, 3]
    assert [v.voter_id for v in message.granting_voters] == [1, 2]
    assert of(Flush, effects) == [Flush(1)]
    assert (node.leading.epoch_start_offset, node.log.last_epoch) == (0, 1)


def test_the_voters_that_a_quorum_begins_with_are_written_to_the_log() -> None:
    """Nobody else has the snapshot that names them; in the batch of the LeaderChangeMessage, as Kafka has it."""
    node, _ = dynamic_leader(1, 2, 3)
    change, version, voters = control_records(node)
    assert len(scan_batches(whole(node.log))) == 1
    assert (type(change).__name__, version.kraft_version) == ("LeaderChangeMessage", 1)
    assert [(v.voter_id, v.voter_directory_id) for v in voters.voters] == [(i, directory(i)) for i in (1, 2, 3)]
    assert (node.voter_history.last_voters_offset, node.voter_history.kraft_version) == (2, 1)


def test_voters_in_the_log_are_not_written_again() -> None:
    node, effects = dynamic_leader(1)
    flush(node, effects, 1000)
    node.resign(1, 1000)
    now_ms = 1000
    while node.state.name != "Leader":
        now_ms = max(now_ms + 1, node.next_deadline_ms or 0)
        node.on_timer(now_ms)
    assert [type(message).__name__ for message in control_records(node)[3:]] == ["LeaderChangeMessage"]


def test_a_leader_on_another_address_says_so() -> None:
    """4.x: its voter record is written anew."""
    moved = [voter(1, directory(1), kraft_version=0), *dynamic_voters(2, 3)]
    node, _ = leader(voters=(), log=log_with_voters(moved), bootstrap_servers=(("host2", 9002),))
    assert [type(message).__name__ for message in control_records(node)[-2:]] == ["KRaftVersionRecord", "VotersRecord"]
    assert node.voters.voters[1].max_kraft_version == 1


def log_with_voters(voters: list[Any]) -> Any:
    """Where the log itself names them."""
    log = log_of()
    log.append_as_leader(control_batch([kraft_version_record(1), VoterSet.of(voters).to_record()], 0, 0, 0), 0)
    log.flush()
    return log


@pytest.mark.covers("E4")
def test_nothing_is_committed_before_the_first_record_is() -> None:
    """E4, KAFKA-12619: not even the offset where the epoch begins, though a majority has all that is before it."""
    node, effects = leader(log=log_of(0, 0), append_linger_ms=0)
    effects = flush(node, effects, 1000)
    assert (committed(effects), of(LeaderChanged, effects)) == ([], [])
    _, effects = fetch(node, fetch_request(2, 0, max_wait_ms=0), 1000)
    assert (committed(effects), node.high_watermark, of(LeaderChanged, effects)) == ([], None, [])
    _, effects = fetch(node, fetch_request(3, max_wait_ms=0), 1000)
    assert of(Committed, effects) == [Committed(3)]
    assert of(LeaderChanged, effects) == [LeaderChanged(1, 1, 2)]
    append(node, b"a")
    _, effects = fetch(node, fetch_request(4, max_wait_ms=0), 1000)
    assert (committed(effects), of(LeaderChanged, effects)) == ([4], [])  # Once.


# The high watermark.


def test_the_leader_counts_what_it_has_flushed() -> None:
    node = committed_leader()
    _, effects = take(node, [b"a"], 1000)
    fetch(node, fetch_request(2, max_wait_ms=0), 1000)
    assert node.high_watermark == 1
    assert committed(flush(node, effects, 1000)) == [2]


def test_an_only_voter_commits_with_its_flush() -> None:
    node, effects = started(voters=(1,))
    assert (node.state.name, committed(effects)) == ("Leader", [])
    assert committed(flush(node, effects, 1000)) == [1]


def test_the_high_watermark_never_goes_back() -> None:
    """A voter that joins with less, or has lost its disk, takes nothing away."""
    node = committed_leader()
    append(node, b"a")
    append(node, b"b")
    fetch(node, fetch_request(3, max_wait_ms=0), 1000)
    _, effects = fetch(node, fetch_request(2, max_wait_ms=0), 1000)
    assert (committed(effects), node.high_watermark, node.leading.replicated_to_majority) == ([], 3, 2)


@pytest.mark.covers("E21")
def test_a_leader_that_does_not_vote_counts_for_nothing() -> None:
    """E21, KAFKA-16530: with itself among two, the one of the others would be a majority."""
    node, effects = dynamic_leader(1, 2, 3)
    flush(node, effects, 1000)
    fetch(node, fetch_request(3, max_wait_ms=0), 1000)
    remove(node, 1)
    assert not node.is_voter
    end = node.log.end_offset
    node.on_flushed(Flush(end), 1000)
    fetch(node, fetch_request(end, replica=3, max_wait_ms=0), 1000)
    assert node.high_watermark == 3
    fetch(node, fetch_request(end, max_wait_ms=0), 1000)
    assert node.log.high_watermark == end


def remove(node: Any, voter_id: int) -> list[Any]:
    request = RemoveRaftVoterRequest(cluster_id=None, voter_id=voter_id, voter_directory_id=directory(voter_id))
    return list(node.on_request(request, 0, "remove", 1000))


# The leader progress time-out: "if the leader did not receive Fetch requests from a majority of the quorum for that
# amount of time, it would begin a new election".


@pytest.mark.covers("E1")
def test_a_leader_without_followers_resigns() -> None:
    """E1, KAFKA-15489: after one and a half fetch time-outs, so that two leaders in a split network soon are one."""
    node = committed_leader()
    assert node.leading.check_quorum_deadline_ms == 1000 + 3000
    node.on_timer(3999)
    assert node.state.name == "Leader"
    node.on_timer(4000)
    assert node.state.name == "Resigned"


@pytest.mark.covers("E1", "KIP-595 progress 4")
def test_a_majority_that_fetches_keeps_it() -> None:
    """E1: of five, two others."""
    node, effects = leader(voters=(1, 2, 3, 4, 5))
    flush(node, effects, 1000)
    fetch(node, fetch_request(1, replica=2), 2000)
    assert node.leading.check_quorum_deadline_ms == 4000  # One is not enough,
    fetch(node, fetch_request(1, replica=2), 2500)
    assert node.leading.check_quorum_deadline_ms == 4000  # nor is the same one twice.
    fetch(node, fetch_request(1, replica=3), 3000)
    assert node.leading.check_quorum_deadline_ms == 6000
    fetch(node, fetch_request(1, replica=2), 3500)
    assert node.leading.check_quorum_deadline_ms == 6000  # Each time anew.


@pytest.mark.covers("KIP-595 progress 4")
def test_observers_do_not_keep_it() -> None:
    node = committed_leader()
    for replica in (7, 8, 9):
        fetch(node, fetch_request(1, replica=replica), 2000)
    assert node.leading.check_quorum_deadline_ms == 4000


@pytest.mark.covers("E1", "E21")
def test_a_leader_that_does_not_vote_needs_a_majority_of_the_others() -> None:
    """E1, E21: of two voters both."""
    node, effects = dynamic_leader(1, 2, 3)
    flush(node, effects, 1000)
    fetch(node, fetch_request(3, max_wait_ms=0), 1000)
    remove(node, 1)
    fetch(node, fetch_request(3, max_wait_ms=0), 2000)
    assert node.leading.check_quorum_deadline_ms == 4000
    fetch(node, fetch_request(3, replica=3, max_wait_ms=0), 2000)
    assert node.leading.check_quorum_deadline_ms == 5000


def test_an_only_voter_leads_for_ever() -> None:
    node, _ = leader(voters=(1,))
    node.on_timer(1_000_000)
    assert node.state.name == "Leader"


# Last fetches, and the preferred successors of EndQuorumEpoch.


def test_the_last_fetch_is_known() -> None:
    node = committed_leader()
    assert node.leading.last_fetch_ms(ReplicaKey(2, directory(2))) == 1000
    assert node.leading.last_fetch_ms(ReplicaKey(3, directory(3))) == -NEVER_MS


def test_successors_are_those_with_the_longest_logs() -> None:
    node = committed_leader()
    append(node, b"a")
    fetch(node, fetch_request(2, replica=3, max_wait_ms=0), 1000)
    assert [key.id for key in node.leading.successors()] == [3, 2]
    (first, *_) = sent(node.resign(1, 1000), EndQuorumEpochRequest)
    assert partition(first.request).preferred_successors == [3, 2]


# Appends.


def test_an_append_is_one_batch() -> None:
    node = committed_leader()
    appended, effects = take(node, [b"a", b"b"], 1000)
    assert appended == Appended(1, 2)
    assert of(Flush, effects) == [Flush(3)]
    assert node.log.read(1, 1 << 20, 3) == values(b"a", b"b", base_offset=1)


def test_appends_that_linger_are_one_batch() -> None:
    """Kafka's way, counted from the first."""
    node = committed_leader(append_linger_ms=25)
    first, effects = take(node, [b"a"], 1000)
    second, later = take(node, [b"b", b"c"], 1020)
    assert (first, second, node.log.end_offset, of(Flush, effects + later)) == (Appended(1, 1), Appended(2, 3), 1, [])
    assert node.next_deadline_ms == 1025
    assert of(Flush, node.on_timer(1024)) == []
    assert of(Flush, node.on_timer(1025)) == [Flush(4)]
    assert len(scan_batches(node.log.read(1, 1 << 20, 4))) == 1


def test_what_does_not_fit_begins_the_next_batch() -> None:
    node = committed_leader(append_linger_ms=25)
    large = bytes(MAX_BATCH_BYTES * 2 // 3)
    take(node, [large], 1000)
    take(node, [large, b"b"], 1000)
    assert node.log.end_offset == 2  # The first has gone.
    node.on_timer(1025)
    assert len(scan_batches(node.log.read(1, 1 << 30, 4))) == 2


def test_what_fits_into_no_batch_is_refused() -> None:
    node = committed_leader()
    with pytest.raises(RaftLogError, match="exceed a batch"):
        take(node, [bytes(MAX_BATCH_BYTES)], 1000)
    assert take(node, [b"a"], 1000)[0] == Appended(1, 1)


def test_a_control_record_does_not_overtake_what_lingers() -> None:
    node, effects = dynamic_leader(1, 2, 3, append_linger_ms=25)
    flush(node, effects, 1000)
    fetch(node, fetch_request(3, max_wait_ms=0), 1000)
    take(node, [b"a"], 1000)
    remove(node, 3)
    assert [type(record).__name__ for record in control_records(node)][-1] == "VotersRecord"
    assert node.log.read(3, 0, 5) == values(b"a", base_offset=3)


def test_another_epoch_takes_nothing() -> None:
    node = committed_leader()
    assert node.append([b"a"], 2, 1, 1000) == (Refused(1, 1), [])
    node.on_request(begin_request(5, leader_id=3), 1, "begin", 1000)
    assert node.append([b"a"], 1, 1, 1000) == (Refused(-1, -1), [])
    assert node.log.end_offset == 1


def test_what_lingers_goes_with_the_leader() -> None:
    """It is in no log; a later leader's records have those offsets."""
    node = committed_leader(append_linger_ms=25)
    take(node, [b"a"], 1000)
    node.on_request(begin_request(5, leader_id=3), 1, "begin", 1000)
    node.on_timer(1100)
    assert node.log.end_offset == 1


def test_adaptive_linger_waits_only_behind_a_flush() -> None:
    """The default: at low load nothing waits, under load batches are as large as a flush is long."""
    node = committed_leader(append_linger_ms=None)
    _, effects = take(node, [b"a"], 1000)
    assert of(Flush, effects) == [Flush(2)]
    for value in (b"b", b"c"):
        assert of(Flush, take(node, [value], 1000)[1]) == []
    assert of(Flush, node.on_flushed(Flush(2), 1005)) == [Flush(4)]
    assert node.log.read(2, 1 << 20, 4) == values(b"b", b"c", base_offset=2)
    take(node, [b"d"], 1006)
    assert of(Flush, node.on_timer(1006 + LONGEST_LINGER_MS - 1)) == []
    assert of(Flush, node.on_timer(1006 + LONGEST_LINGER_MS)) == [Flush(5)]  # No longer than Kafka's linger.
