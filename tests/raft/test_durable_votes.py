"""A vote is asked for with what is on the disk: a crash of the candidate leaves at least the log it was given for."""

from typing import Any

import pytest

from kcore.raft.effects import Effect, Flush
from kcore.raft.log.memory_log import MemoryLog
from kcore.raft.membership.replicas import ElectionState
from kcore.replication.raft_log import OffsetAndEpoch
from kcore.schema.raft_votes import VoteRequest
from raft.batches import batch, snapshot
from raft.nodes import answer, begin_request, grant, log_of, partition, sent, started, state, vote_request
from raft.replication import (
    append,
    committed_leader,
    fetch,
    fetch_request,
    fetch_response,
    flush,
    open_fetch,
    take,
    values,
)

TIMEOUT_MS = 2000  # Without fetching.


def follows(epoch: int, **settings: Any) -> tuple[Any, Any]:
    """Node 1, which follows node 2, and its open Fetch."""
    node, _ = started(**settings)
    return node, open_fetch(node.on_request(begin_request(epoch), 1, "begin", 0))


def claimed(effects: list[Effect]) -> tuple[int, int, bool]:
    """Epoch and offset of the log that the first of these requests names, and whether it is for a pre-vote."""
    asked = partition(sent(effects, VoteRequest)[0].request)
    return asked.last_offset_epoch, asked.last_offset, asked.pre_vote


@pytest.mark.parametrize("level", ["4.3", "3.9"])
def test_votes_and_pre_votes_name_what_is_flushed(level: str) -> None:
    """The unflushed end may be gone after a crash, and with it a record that the vote was given for."""
    node, open_ = follows(2, log=log_of(1, 1), level=level)
    records = values(b"c", base_offset=2, epoch=2)
    effects = node.on_response(open_.correlation_id, fetch_response(records, 2), 10)
    asking = node.on_timer(10 + TIMEOUT_MS)
    if level == "4.3":
        assert claimed(asking) == (1, 2, True)
        asking = grant(node, asking, 10 + TIMEOUT_MS, 1)
    assert claimed(asking) == (1, 2, False)
    flush(node, effects, 10 + TIMEOUT_MS)
    asking = node.on_timer(10 + 2 * TIMEOUT_MS)
    assert claimed(asking)[:2] == (2, 3), "as soon as it is on the disk"


def test_a_candidate_whose_log_is_flushed_in_part() -> None:
    """The epoch is that of the record before the flushed end, in the middle of the log."""
    node, open_ = follows(4, log=log_of(1))
    first, rest = values(b"b", base_offset=1, epoch=2), batch(2, 3) + batch(3, 4)
    effects = node.on_response(open_.correlation_id, fetch_response(first, 4), 10)
    open_ = open_fetch(flush(node, effects, 10))
    node.on_response(open_.correlation_id, fetch_response(rest, 4), 20)
    assert claimed(node.on_timer(20 + TIMEOUT_MS)) == (2, 2, True)


def test_nothing_flushed_at_all() -> None:
    node, open_ = follows(1)
    node.on_response(open_.correlation_id, fetch_response(values(b"a")), 10)
    assert claimed(node.on_timer(10 + TIMEOUT_MS)) == (0, 0, True)


def test_behind_a_snapshot_that_was_loaded() -> None:
    """Its end is durable, and the log begins there: no record tells the epoch."""
    log = MemoryLog()
    snapshot(log, OffsetAndEpoch(7, 3))
    log.truncate_to_latest_snapshot()
    node, open_ = follows(5, log=log)
    node.on_response(open_.correlation_id, fetch_response(values(b"a", base_offset=7, epoch=5), 5), 10)
    assert claimed(node.on_timer(10 + TIMEOUT_MS)) == (3, 7, True)


def test_a_snapshot_ahead_of_the_own_disk() -> None:
    """A leader's high watermark is a majority's: its own disk may be behind that, and so behind a snapshot there."""
    node = committed_leader()
    _, effects = take(node, [b"a"], 1000)
    for replica in (2, 3):
        fetch(node, fetch_request(2, replica=replica, max_wait_ms=0), 1000)
    assert (node.high_watermark, node.flushed_end_offset) == (2, 1)
    snapshot(node.log, OffsetAndEpoch(2, 1))
    node.log.delete_before(OffsetAndEpoch(2, 1))
    assert node.durable_end == OffsetAndEpoch(2, 1)
    flush(node, effects, 1000)
    append(node, b"b")
    assert node.durable_end == OffsetAndEpoch(3, 1)


def test_a_vote_for_a_tail_that_was_lost_elects_nobody() -> None:
    """A and X have committed a record that C has not flushed; A dies, C gets no vote of X, before its crash or after.

    With the unflushed end named, with X comparing the first time only or with the same election after the restart, C
    would lead without that record.
    """
    c, open_ = follows(1, log=log_of(1), voters=(1, 2, 3))
    x, _ = started(3, log=log_of(1, 1), election=ElectionState(1, 2))
    c.on_response(open_.correlation_id, fetch_response(batch(1, 1)), 10)
    asking = c.on_timer(10 + TIMEOUT_MS)
    asking = grant(c, asking, 10 + TIMEOUT_MS, 1)
    (to_x,) = [send.request for send in sent(asking, VoteRequest) if send.destination == 3]
    assert not partition(answer(x.on_request(to_x, 2, "before", 3000))).vote_granted

    honest = vote_request(2, 1, (1, 2), voter_id=3)  # X grants a candidate that counts unflushed records.
    assert partition(answer(x.on_request(honest, 2, "unflushed", 3000))).vote_granted
    again, effects = started(log=log_of(1), election=ElectionState(2, -1, c.local), voters=(1, 2, 3))
    assert sent(effects, VoteRequest) == []
    honest.topics[0].partitions[0].last_offset = 1
    assert not partition(answer(x.on_request(honest, 2, "after", 4000))).vote_granted
    assert state(again) == ("Unattached", 2, -1)


def test_one_of_two_voters_flushes_late() -> None:
    """The one whose log is flushed is elected at once; the other one as soon as its disk has worked."""
    late, open_ = follows(1, log=log_of(1), voters=(1, 2))
    flushing = late.on_response(open_.correlation_id, fetch_response(batch(1, 1)), 10)
    other, _ = started(2, log=log_of(1, 1), voters=(1, 2))
    asked = partition(sent(late.on_timer(10 + TIMEOUT_MS), VoteRequest)[0].request)
    request = vote_request(1, 1, (asked.last_offset_epoch, asked.last_offset), pre_vote=True, voter_id=2)
    assert not partition(answer(other.on_request(request, 2, "early", 3000))).vote_granted
    assert flushing.count(Flush(2)) == 1
    late.on_flushed(Flush(2), 3000)
    request = vote_request(1, 1, late.durable_end[::-1], pre_vote=True, voter_id=2)
    assert partition(answer(other.on_request(request, 2, "flushed", 3000))).vote_granted
