"""The follower's side of Fetch: KIP-595's response handling, sentence by sentence."""

from typing import Any

import pytest

from kcore.protocol_errors import Errors
from kcore.raft.effects import Flush, Notice
from kcore.raft.log.control_records import control_batch, kraft_version_record
from kcore.raft.membership.voters import VoterSet
from kcore.schema.fetch import FetchRequest, FetchResponse
from raft.batches import batch
from raft.nodes import begin_request, directory, follower, log_of, of, sent, started, stored, voter
from raft.replication import (
    TOPIC_ID,
    committed,
    dynamic_log,
    dynamic_voters,
    fetch_response,
    flush,
    open_fetch,
    values,
    whole,
)


def follows(**settings: Any) -> tuple[Any, Any]:
    """Node 1, which follows node 2 in epoch 1, and its open Fetch."""
    node, _ = started(**settings)
    return node, open_fetch(node.on_request(begin_request(max(1, node.epoch)), 1, "begin", 0))


def answered(node: Any, fetch: Any, response: FetchResponse | None, now_ms: int = 10) -> list[Any]:
    return list(node.on_response(fetch.correlation_id, response, now_ms))


def test_a_node_of_another_cluster_says_so_once() -> None:
    """It was formatted with another cluster id, and no leader ever answers it."""
    node, fetch = follows()
    refused = FetchResponse(error_code=Errors.INCONSISTENT_CLUSTER_ID)
    effects = answered(node, fetch, refused)
    (notice,) = of(Notice, effects)
    text = "the node at host2:9000 refuses this node: it belongs to another cluster than"
    assert notice.text.startswith(f"{text} {node.config.cluster_id}")
    assert of(Notice, answered(node, open_fetch(effects), refused, 20)) == [], "from the next voter that it asks"


# The requests of a follower.


def test_asks_its_leader_from_its_end_on() -> None:
    node, fetch = follows(log=log_of(0, 0, 1))
    request = fetch.request
    asked = request.topics[0].partitions[0]
    assert (fetch.destination, fetch.address) == (2, ("host2", 9000))
    assert (asked.fetch_offset, asked.last_fetched_epoch, asked.current_leader_epoch) == (3, 1, 1)
    assert (asked.replica_directory_id, asked.high_watermark) == (directory(1), -1)
    assert (request.replica_state.replica_id, request.replica_state.replica_epoch) == (1, -1)
    assert (request.cluster_id, request.max_wait_ms, request.max_bytes) == (node.config.cluster_id, 500, 8 << 20)
    assert (request.topics[0].topic_id, request.topics[0].topic) == (TOPIC_ID, "__cluster_metadata")
    assert (request.session_id, request.session_epoch, asked.partition_max_bytes) == (0, -1, 0)


@pytest.mark.covers("E11")
def test_tells_the_high_watermark_that_it_knows() -> None:
    """E11, KAFKA-13959: so that the leader answers at once where it has a newer one."""
    node, fetch = follows()
    effects = answered(node, fetch, fetch_response(values(b"a"), high_watermark=1))
    asked = open_fetch(flush(node, effects, 10)).request.topics[0].partitions[0]
    assert (asked.fetch_offset, asked.high_watermark) == (1, 1)


@pytest.mark.covers("E11")
def test_asks_again_with_the_high_watermark_that_it_has_learnt() -> None:
    """One object for the same request; another one as soon as it would say something else."""
    node, fetch = follows(log=log_of(0, 0, 1))
    same = open_fetch(answered(node, fetch, fetch_response()))
    assert same.request is fetch.request
    learnt = open_fetch(answered(node, same, fetch_response(high_watermark=2))).request
    assert learnt.topics[0].partitions[0].high_watermark == 2


def test_how_far_the_leader_has_committed_is_known_where_the_log_is_behind() -> None:
    node, fetch = follows(log=log_of(0, 0, 1))
    assert node.leaders_high_watermark is None
    answered(node, fetch, fetch_response(high_watermark=5))
    assert (node.high_watermark, node.leaders_high_watermark) == (3, 5)


def test_fetches_only_what_is_behind_the_flushed() -> None:
    """The leader counts its fetch offset as written for good."""
    node, fetch = follows()
    effects = answered(node, fetch, fetch_response(values(b"a", b"b")))
    assert (sent(effects, FetchRequest), of(Flush, effects)) == ([], [Flush(2)])
    assert sent(node.on_timer(500), FetchRequest) == []
    effects = node.on_flushed(Flush(2), 600)
    assert open_fetch(effects).request.topics[0].partitions[0].fetch_offset == 2


def test_a_leader_that_follows_flushes_first() -> None:
    """The old leader's own records are not flushed when it becomes a follower."""
    node, _ = follows()
    node.log.append_as_leader(batch(0, 1), 1)
    effects = node.on_request(begin_request(2, leader_id=3), 1, "begin", 20)
    assert sent(effects, FetchRequest) == []
    assert open_fetch(node.on_flushed(Flush(1), 30)).destination == 3


# The follower and its records.


def test_writes_what_comes() -> None:
    node, fetch = follows()
    effects = answered(node, fetch, fetch_response(values(b"a") + values(b"b", base_offset=1)))
    assert whole(node.log) == values(b"a") + values(b"b", base_offset=1)
    assert of(Flush, effects) == [Flush(2)]


def test_an_empty_answer_is_followed_by_the_next_fetch() -> None:
    node, fetch = follows()
    effects = answered(node, fetch, fetch_response())
    assert of(Flush, effects) == []
    assert open_fetch(effects).destination == 2


def test_a_success_puts_the_election_off() -> None:
    node, fetch = follows()
    answered(node, fetch, fetch_response(), 900)
    assert node.state.fetch_deadline_ms == 900 + node.config.fetch_timeout_ms
    assert node.state.has_fetched_from_leader


@pytest.mark.parametrize(
    "response", [fetch_response(values(b"other")), fetch_response(diverging=(0, 0))], ids=["records", "end"]
)
def test_an_answer_to_an_older_question_changes_nothing(response: FetchResponse) -> None:
    node, fetch = follows()
    node.log.append_as_leader(batch(0, 1), 1)
    effects = answered(node, fetch, response)
    assert (whole(node.log), of(Flush, effects)) == (batch(0, 1), [])


@pytest.mark.parametrize("offset", [1, 5])
def test_records_that_do_not_go_on_from_the_end_are_refused(offset: int) -> None:
    node, fetch = follows(log=log_of(1, 1))
    answered(node, fetch, fetch_response(values(b"a", base_offset=offset)))
    assert node.log.end_offset == 2
    assert not node.state.has_fetched_from_leader
    assert node.connections.is_backing_off(2, 10)


def test_a_damaged_batch_is_fetched_again() -> None:
    """Spikes 12: Kafka's broker says so, fetches again and lives; what comes before is kept."""
    node, fetch = follows()
    damaged = bytearray(values(b"b", base_offset=1))
    damaged[-1] ^= 1
    effects = answered(node, fetch, fetch_response(values(b"a") + bytes(damaged)))
    assert node.log.end_offset == 1
    assert open_fetch(flush(node, effects, 10)).request.topics[0].partitions[0].fetch_offset == 1


# The high watermark.


def test_the_high_watermark_is_at_most_the_own_end() -> None:
    node, fetch = follows()
    effects = answered(node, fetch, fetch_response(values(b"a"), high_watermark=9))
    assert committed(effects) == []  # Not on its disk yet.
    assert committed(flush(node, effects, 10)) == [1]
    assert (node.high_watermark, node.log.high_watermark) == (1, 1)


def test_the_high_watermark_is_at_most_the_leaders() -> None:
    node, fetch = follows()
    effects = answered(node, fetch, fetch_response(values(b"a", b"b"), high_watermark=1))
    effects = flush(node, effects, 10)
    assert committed(effects) == [1]
    effects = answered(node, open_fetch(effects), fetch_response(high_watermark=2))
    assert committed(effects) == [2]


def test_the_high_watermark_never_goes_back() -> None:
    """A new leader knows none at first, and then one that may be behind."""
    node, fetch = follows()
    effects = flush(node, answered(node, fetch, fetch_response(values(b"a", b"b"), high_watermark=2)), 10)
    for lower in (-1, 1, 2):
        effects = answered(node, open_fetch(effects), fetch_response(high_watermark=lower))
        assert (committed(effects), node.high_watermark) == ([], 2)


# "If the response contains FENCED_LEADER_EPOCH error code, check the leaderId from the response. If it is defined, then
# update the quorum-state file and become a "follower" (may or may not have voting power) of that leader."


@pytest.mark.covers("KIP-595 fetch response 1")
@pytest.mark.parametrize("error", [Errors.FENCED_LEADER_EPOCH, Errors.NOT_LEADER_OR_FOLLOWER])
def test_follows_the_leader_that_a_refusal_names(error: Errors) -> None:
    node, fetch = follows()
    effects = answered(node, fetch, fetch_response(epoch=4, leader_id=3, error=error))
    assert (node.state.name, node.epoch, node.leader_id) == ("Follower", 4, 3)
    assert [(election.epoch, election.leader_id) for election in stored(effects)] == [(4, 3)]
    assert (open_fetch(effects).destination, open_fetch(effects).address) == (3, ("host3", 9003))


# "Otherwise, retry to the Fetch request again against one of the remaining voters at random"


@pytest.mark.covers("KIP-595 fetch response 1 retry")
def test_asks_any_voter_where_a_refusal_names_no_leader() -> None:
    node, fetch = follows(jitter=1)
    effects = answered(node, fetch, fetch_response(epoch=4, leader_id=-1, error=Errors.FENCED_LEADER_EPOCH))
    assert (node.state.name, node.epoch, node.leader_id) == ("Unattached", 4, -1)
    assert open_fetch(effects).destination == 3
    assert open_fetch(effects).request.topics[0].partitions[0].current_leader_epoch == 4


# "in the mean time it may receive BeginQuorumEpoch request which would also update the new epoch / leader as well."


@pytest.mark.covers("KIP-595 fetch response 1 begin")
def test_hears_of_the_leader_in_the_mean_time() -> None:
    node, fetch = follows()
    effects = answered(node, fetch, fetch_response(epoch=4, leader_id=-1, error=Errors.FENCED_LEADER_EPOCH))
    late = open_fetch(effects)
    effects = node.on_request(begin_request(4, leader_id=3), 1, "begin", 20)
    assert open_fetch(effects).destination == 3
    assert answered(node, late, fetch_response(values(b"a"), epoch=4, leader_id=3)) == []  # Not waited for any more.


@pytest.mark.covers("KIP-595 fetch 2.2")
def test_an_unknown_epoch_is_the_others_to_learn() -> None:
    """UNKNOWN_LEADER_EPOCH: who answers is behind."""
    node, fetch = follows()
    effects = answered(node, fetch, fetch_response(epoch=0, leader_id=-1, error=Errors.UNKNOWN_LEADER_EPOCH))
    assert (node.epoch, node.leader_id, stored(effects)) == (1, 2, [])


@pytest.mark.parametrize(
    "response",
    [
        FetchResponse(error_code=Errors.INCONSISTENT_CLUSTER_ID),
        FetchResponse(),
        fetch_response(error=Errors.INVALID_REQUEST),
        fetch_response(error=Errors.UNKNOWN_SERVER_ERROR),
        None,
    ],
    ids=["cluster", "empty", "invalid", "fault", "lost"],
)
def test_any_other_failure_makes_it_look_elsewhere(response: FetchResponse | None) -> None:
    """The leader is left alone for a while: another voter may know of a newer one."""
    node, fetch = follows()
    effects = answered(node, fetch, response)
    assert node.connections.is_backing_off(2, 10)
    assert open_fetch(effects).destination != 2 or len(node.voters) == 1
    assert not node.state.has_fetched_from_leader


def test_finds_leader_and_records_in_one_fetch() -> None:
    """An observer that asks anybody happens to ask the leader."""
    node, effects = started(7)
    effects = answered(node, open_fetch(effects), fetch_response(values(b"a", epoch=0), epoch=0, leader_id=2))
    assert (node.state.name, node.leader_id, node.log.end_offset) == ("Follower", 2, 1)


# "If the response has the field DivergingEpoch set, then truncate from the log all of the offsets greater than or equal
# to DivergingEpoch.EndOffset and truncate any offset with an epoch greater than DivergingEpoch.EndOffset."


@pytest.mark.covers("KIP-595 fetch response 2", "KIP-595 fetch response 2 epoch")
@pytest.mark.parametrize(
    ("diverging", "end_offset", "last_epoch"),
    [((2, 1), 2, 1), ((4, 2), 3, 1), ((9, 3), 5, 3), ((4, 3), 4, 3), ((0, 0), 0, 0)],
)
def test_truncates_where_the_leader_says(diverging: tuple[int, int], end_offset: int, last_epoch: int) -> None:
    """And fetches from there at once: as few round trips as can be."""
    node, fetch = follows(log=log_of(1, 1, 1, 3, 3))
    effects = answered(node, fetch, fetch_response(epoch=3, diverging=diverging))
    asked = open_fetch(effects).request.topics[0].partitions[0]
    assert (asked.fetch_offset, asked.last_fetched_epoch) == (end_offset, last_epoch)
    assert node.flushed_end_offset == node.log.end_offset == end_offset


@pytest.mark.covers("KIP-595 fetch response 2")
def test_never_truncates_what_is_committed() -> None:
    """Kafka's process ends there: whoever asks for it has lost what it acknowledged."""
    node, fetch = follows()
    effects = flush(node, answered(node, fetch, fetch_response(values(b"a", b"b"), high_watermark=2)), 10)
    effects = answered(node, open_fetch(effects), fetch_response(diverging=(1, 1)))
    assert (node.log.end_offset, node.high_watermark) == (2, 2)
    assert node.connections.is_backing_off(2, 10)


# "Note that followers will have to check any records received for the presence of control records. Specifically a
# follower/observer must check for voter assignment messages which could change its role."


def voters_batch(base_offset: int, epoch: int, *ids: int) -> bytes:
    return control_batch([VoterSet.of(dynamic_voters(*ids)).to_record()], base_offset, epoch, 0)


@pytest.mark.covers("KIP-595 fetch response voters")
def test_a_record_of_voters_changes_its_role() -> None:
    node, fetch = follows(voters=(), log=dynamic_log(*dynamic_voters(1, 2, 3)))
    assert node.is_voter
    effects = answered(node, fetch, fetch_response(voters_batch(0, 1, 2, 3)))
    assert (node.is_voter, node.voters.ids) == (False, {2, 3})
    answered(node, open_fetch(flush(node, effects, 10)), fetch_response(voters_batch(1, 1, 1, 2, 3)))
    assert node.is_voter


@pytest.mark.covers("KIP-595 fetch response voters")
def test_a_truncation_takes_voters_back() -> None:
    node, fetch = follows(voters=(), log=dynamic_log(*dynamic_voters(1, 2, 3)))
    effects = flush(node, answered(node, fetch, fetch_response(voters_batch(0, 1, 2, 3))), 10)
    answered(node, open_fetch(effects), fetch_response(diverging=(0, 0)))
    assert node.voters.ids == {1, 2, 3}


def test_a_record_of_a_version_counts_from_where_it_stands() -> None:
    node, fetch = follows(voters=dynamic_voters(1, 2, 3))
    answered(node, fetch, fetch_response(values(b"a") + control_batch([kraft_version_record(1)], 1, 1, 0)))
    assert node.voter_history.kraft_version == 1
    assert (node.voter_history.kraft_version_at(0), node.voter_history.kraft_version_at(1)) == (0, 1)


@pytest.mark.covers("KIP-595 fetch response voters")
def test_voters_of_a_batch_that_was_left_out_do_not_count() -> None:
    """KAFKA-18723: a batch of a later epoch is not written, so neither are its voters."""
    node, fetch = follows(voters=(), log=dynamic_log(*dynamic_voters(1, 2, 3)))
    answered(node, fetch, fetch_response(values(b"a") + voters_batch(1, 2, 2, 3)))
    assert (node.log.end_offset, node.voters.ids) == (1, {1, 2, 3})


def test_a_replica_whose_id_votes_with_another_directory_observes() -> None:
    assert not follower(voters=[voter(1, directory(99)), voter(2, directory(2))]).is_voter
