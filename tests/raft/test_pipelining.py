"""The option `pipelined_fetch`: new records come while the disk works, and only what is flushed counts (KIP-595)."""

from typing import Any

import pytest

from kcore.raft.effects import Committed, Flush
from kcore.raft.node import RaftNode
from kcore.schema.fetch import FetchRequest, FetchResponse
from raft.cluster import Cluster
from raft.nodes import begin_request, of, sent, started
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


def counting(response: FetchResponse, counted: int = 0) -> FetchResponse:
    """By a leader that counts what is flushed."""
    response.responses[0].partitions[0].last_stable_offset = counted
    return response


def asking(offset: int, flushed: int, **settings: Any) -> FetchRequest:
    request = fetch_request(offset, **settings)
    request.topics[0].partitions[0].log_start_offset = flushed
    return request


def offsets(send: Any) -> tuple[int, int, int]:
    """Received, flushed, and how long the leader may wait."""
    partition = send.request.topics[0].partitions[0]
    return partition.fetch_offset, partition.log_start_offset, send.request.max_wait_ms


def follows(**settings: Any) -> tuple[RaftNode, Any]:
    """Node 1, which follows node 2 in epoch 1, and its open Fetch."""
    node, _ = started(**{"pipelined_fetch": True, **settings})
    return node, open_fetch(node.on_request(begin_request(1), 1, "begin", 0))


def received(node: RaftNode, send: Any, response: FetchResponse) -> tuple[Any, list[Any]]:
    """The next Fetch, and what else comes of an answer."""
    effects = node.on_response(send.correlation_id, response, 10)
    return open_fetch(effects), effects


# The follower.


@pytest.mark.covers("KIP-595 on performance")
def test_fetches_while_its_disk_works_and_tells_of_the_flush() -> None:
    node, first = follows()
    assert offsets(first) == (0, 0, 500)
    second, effects = received(node, first, counting(fetch_response(values(b"a", b"b"))))
    assert offsets(second) == (2, 0, 500)
    next_fetch = open_fetch(flush(node, effects, 20))
    assert (next_fetch.destination, offsets(next_fetch)) == (2, (2, 2, 0))
    assert (
        sent(
            node.on_response(next_fetch.correlation_id, counting(fetch_response(high_watermark=2), 2), 30), FetchRequest
        )
        == []
    )
    third, _ = received(node, second, counting(fetch_response(values(b"c", base_offset=2))))
    assert offsets(third) == (3, 2, 500)


def test_sends_the_high_watermark_that_it_has_received() -> None:
    """Its disk has nothing yet: if it said so, the leader would answer each fetch at once until the flush."""
    node, first = follows()
    second, effects = received(node, first, counting(fetch_response(values(b"a", b"b"), high_watermark=2)))
    assert second.request.topics[0].partitions[0].high_watermark == 2 and node.high_watermark is None
    next_fetch = open_fetch(flush(node, effects, 20))
    assert next_fetch.request.topics[0].partitions[0].high_watermark == node.high_watermark == 2


@pytest.mark.parametrize("counts", [True, False], ids=["option off", "a leader of Kafka's"])
def test_fetches_behind_what_is_flushed_unless_it_is_counted(counts: bool) -> None:
    node, first = follows(pipelined_fetch=not counts)
    response = fetch_response(values(b"a"))
    effects = node.on_response(first.correlation_id, counting(response) if counts else response, 10)
    assert sent(effects, FetchRequest) == []
    assert offsets(open_fetch(flush(node, effects, 20))) == (1, -1 if counts else 1, 500)


def test_another_leader_must_say_it_anew() -> None:
    node, first = follows()
    _, effects = received(node, first, counting(fetch_response(values(b"a"))))
    assert sent(node.on_request(begin_request(2, leader_id=3), 1, "begin", 15), FetchRequest) == []
    assert offsets(open_fetch(flush(node, effects, 20))) == (1, 1, 500)


def test_counts_no_more_than_is_flushed() -> None:
    node, first = follows()
    _, effects = received(node, first, counting(fetch_response(values(b"a", b"b"), high_watermark=2)))
    assert (of(Committed, effects), node.high_watermark) == ([], None)
    flush(node, effects, 20)
    assert node.high_watermark == 2


def test_the_same_records_by_both_fetches_are_written_once() -> None:
    node, first = follows()
    second, effects = received(node, first, counting(fetch_response(values(b"a"))))
    next_fetch = open_fetch(flush(node, effects, 20))
    answer = counting(fetch_response(values(b"b", base_offset=1)))
    node.on_response(next_fetch.correlation_id, answer, 30)
    received(node, second, answer)
    assert node.log.end_offset == 2


def test_a_high_watermark_counts_with_an_answer_that_was_overtaken() -> None:
    node, first = follows()
    second, effects = received(node, first, counting(fetch_response(values(b"a"))))
    next_fetch = open_fetch(flush(node, effects, 20))
    received(node, second, counting(fetch_response(values(b"b", base_offset=1))))
    effects = node.on_response(next_fetch.correlation_id, counting(fetch_response(high_watermark=1)), 30)
    assert (of(Committed, effects), node.log.end_offset) == ([Committed(1)], 2)


def test_a_flush_from_before_a_cut_counts_nothing() -> None:
    """The log has been cut and rewritten below the old flush's end offset."""
    node, first = follows()
    second, effects = received(node, first, counting(fetch_response(values(b"a") + values(b"b", b"c", base_offset=1))))
    (before,) = of(Flush, effects)
    third, effects = received(node, second, counting(fetch_response(diverging=(1, 1))))
    (again,) = of(Flush, effects)
    assert (again.end_offset, offsets(third)) == (1, (1, 0, 500))
    _, effects = received(node, third, counting(fetch_response(values(b"d", b"e", base_offset=1))))
    node.on_flushed(before, 20)
    assert node.flushed_end_offset == 0
    node.on_flushed(again, 30)
    assert node.flushed_end_offset == 1
    flush(node, effects, 40)
    assert node.flushed_end_offset == 3


# The leader.


def test_the_leader_counts_what_is_flushed_and_says_so() -> None:
    leader = committed_leader()
    append(leader, b"a")
    data, _ = fetch(leader, asking(2, 1, max_wait_ms=0), 1010)
    assert (leader.high_watermark, data.last_stable_offset) == (1, 1)
    data, effects = fetch(leader, asking(2, 2, max_wait_ms=0), 1020)
    assert (leader.high_watermark, data.last_stable_offset, of(Committed, effects)) == (2, 2, [Committed(2)])


def test_nobody_has_flushed_more_than_it_has_received() -> None:
    leader = committed_leader()
    append(leader, b"a")
    data, _ = fetch(leader, asking(1, 9, max_wait_ms=0), 1010)
    assert (leader.high_watermark, data.last_stable_offset) == (1, 1)


def test_a_fetch_without_a_flushed_end_gets_none() -> None:
    leader = committed_leader()
    data, _ = fetch(leader, fetch_request(1, max_wait_ms=0), 1010)
    assert data.last_stable_offset == -1


def test_a_fetch_that_has_waited_takes_nothing_back() -> None:
    """A waiting Fetch reports an older flushed end than a later Fetch; the later one counts."""
    leader = committed_leader()
    take(leader, [b"a"], 1000)
    assert fetch(leader, asking(2, 1), 1010)[0] is None
    fetch(leader, asking(2, 2, max_wait_ms=0), 1020)
    append(leader, b"b", now_ms=1030)
    assert leader.high_watermark == 2
    assert leader.leading.voters[2].end_offset == 2


# A quorum.


def test_commits_while_disks_work() -> None:
    cluster = Cluster(pipelined_fetch=True, append_linger_ms=0)
    cluster.elect()
    for k in range(50):
        end_offset = cluster.append(b"%d" % k)
        cluster.run(1)
    assert cluster.run(1000, lambda: set(cluster.committed.values()) == {end_offset})
    assert cluster.values(1) == cluster.values(2) == cluster.values(3) == [b"%d" % k for k in range(50)]
