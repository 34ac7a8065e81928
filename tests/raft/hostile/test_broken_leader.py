"""A leader that offers what no leader may: its follower keeps what is committed, and leaves it alone for a while."""

from typing import Any

import pytest

from kcore.protocol_errors import Errors
from kcore.raft.effects import Committed, Effect, Notice
from kcore.raft.log.memory_log import MemoryLog
from kcore.replication.raft_log import OffsetAndEpoch
from kcore.schema.fetch import FetchRequest, FetchResponse
from kcore.schema.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from raft.batches import batch
from raft.log.test_snapshots import NEW, loading, piece, snapshot_bytes
from raft.nodes import begin_request, end_request, follower, leaders, log_of, of, sent, started
from raft.replication import (
    dynamic_log,
    dynamic_voters,
    fetch_response,
    flush,
    open_fetch,
    values,
    whole,
    write_snapshot,
)

DAMAGED = values(b"a")[:-1] + b"\xff"


def committed_follower() -> tuple[Any, Any]:
    """A follower of node 2 in epoch 5, without other voters, and its Fetch; four of its five records are committed."""
    node, _ = started(log=log_of(1, 1, 2, 3, 3), voters=(1, 2))
    open_ = open_fetch(node.on_request(begin_request(5), 1, "begin", 0))
    effects = node.on_response(open_.correlation_id, fetch_response(epoch=5, high_watermark=4), 0)
    assert [effect.high_watermark for effect in of(Committed, effects)] == [4]
    return node, open_fetch(effects)


def begun(node: Any) -> int:
    """How many snapshots are on their way into its log."""
    assert isinstance(node.log, MemoryLog)
    return len(node.log._begun)


# Snapshots.


@pytest.mark.parametrize(
    ("end", "why"),
    [
        ((3, 2), "committed records up to offset 4"),
        ((0, 0), "committed records up to offset 4"),
        ((3, 5), "committed records up to offset 4"),
        ((9, 2), "of epoch 3"),
        ((9, 6), "this node is in epoch 5"),
        ((9, 2**31 - 1), "this node is in epoch 5"),
        ((5, 3), "the log of this node has all records of it"),
        ((4, 3), "committed records up to offset 4"),
        ((4, 5), "committed records up to offset 4"),
        ((9, -1), "no log can end there"),
        ((-1, 5), "no log can end there"),
        ((2**63 - 1, 5), "no log can end there"),
    ],
)
def test_a_snapshot_that_would_take_what_is_committed_is_refused(end: tuple[int, int], why: str) -> None:
    """Kafka's follower loads it, and its log begins anew below what it has acknowledged."""
    node, open_ = committed_follower()
    before = whole(node.log)
    effects = node.on_response(open_.correlation_id, fetch_response(epoch=5, snapshot_id=end), 10)
    assert sent(effects, FetchSnapshotRequest) == sent(effects, FetchRequest) == []
    assert node.connections.is_backing_off(2, 10)
    assert (whole(node.log), node.high_watermark, begun(node)) == (before, 4, 0)
    (notice,) = of(Notice, effects)
    assert "offered by the leader, node 2, is not loaded" in notice.text and why in notice.text


@pytest.mark.parametrize("end", [(5, 4), (9, 3), (9, 5)])
def test_a_snapshot_above_the_high_watermark_is_loaded(end: tuple[int, int]) -> None:
    node, open_ = committed_follower()
    effects = node.on_response(open_.correlation_id, fetch_response(epoch=5, snapshot_id=end), 10)
    assert len(sent(effects, FetchSnapshotRequest)) == 1


def test_what_is_committed_while_a_snapshot_comes_stays_too() -> None:
    """The leader sent the high watermark earlier; the disk has since flushed up to that offset."""
    node, _ = started(voters=(1, 2), pipelined_fetch=True)
    open_ = open_fetch(node.on_request(begin_request(5), 1, "begin", 0))
    records = fetch_response(b"".join(batch(offset, 1) for offset in range(4)), epoch=5, high_watermark=4)
    records.responses[0].partitions[0].last_stable_offset = 0
    flushing = node.on_response(open_.correlation_id, records, 0)
    effects = node.on_response(open_fetch(flushing).correlation_id, fetch_response(epoch=5, snapshot_id=(3, 5)), 0)
    (send,) = sent(effects, FetchSnapshotRequest)
    flush(node, flushing, 0)
    assert node.high_watermark == 4
    data = snapshot_bytes()
    node.on_response(send.correlation_id, piece(data, 0, len(data), OffsetAndEpoch(3, 5), epoch=5), 1)
    assert (node.log.end_offset, node.log.latest_snapshot, begun(node)) == (4, None, 0)


def test_a_snapshot_of_nothing_is_no_snapshot_of_a_later_epoch() -> None:
    """In the place of the one that a quorum begins with."""
    node, _ = started(log=dynamic_log(*dynamic_voters(1, 2)), voters=())
    open_ = open_fetch(node.on_request(begin_request(5), 1, "begin", 0))
    effects = node.on_response(open_.correlation_id, fetch_response(epoch=5, snapshot_id=(0, 1)), 10)
    assert sent(effects, FetchSnapshotRequest) == []


def test_one_partial_snapshot_at_a_time() -> None:
    """A leader that names another one each time leaves nothing of those before."""
    node, _ = started(voters=(1, 2))
    open_ = open_fetch(node.on_request(begin_request(5), 1, "begin", 0))
    for now_ms in range(30, 1_900, 30):
        effects = node.on_response(open_.correlation_id, fetch_response(epoch=5, snapshot_id=(now_ms, 5)), now_ms)
        (send,) = sent(effects, FetchSnapshotRequest)
        end = OffsetAndEpoch(now_ms, 5)
        effects = node.on_response(send.correlation_id, piece(b"abc", 0, 100, end, epoch=5), now_ms)
        (send,) = sent(effects, FetchSnapshotRequest)
        assert begun(node) == 1
        node.on_response(send.correlation_id, piece(error=Errors.SNAPSHOT_NOT_FOUND, epoch=5), now_ms)
        assert begun(node) == 0
        open_ = open_fetch(node.on_timer(now_ms + node.config.retry_backoff_ms))


def test_a_snapshot_whose_size_changes_is_given_up() -> None:
    """Otherwise a leader could make the snapshot grow without bound."""
    node, send = loading()
    data = snapshot_bytes()
    effects = node.on_response(send.correlation_id, piece(data[:50], 0, len(data)), 0)
    (send,) = sent(effects, FetchSnapshotRequest)
    node.on_response(send.correlation_id, piece(data[50:60], 50, len(data) + 1), 0)
    assert (begun(node), node.state.fetching_snapshot) == (0, None)
    assert node.connections.is_backing_off(2, 0)


@pytest.mark.parametrize("what", ["another leader", "no leader", "an election", "a shutdown"])
def test_a_partial_snapshot_goes_with_its_leader(what: str) -> None:
    node, _ = loading()
    assert begun(node) == 1
    if what == "another leader":
        node.on_request(begin_request(4, leader_id=3), 1, "begin", 10)
    elif what == "no leader":
        node.on_request(end_request(4, leader_id=2), 1, "end", 10)
    else:
        node.on_timer(5_000)
        assert leaders(node.on_timer(5_000)) == []
    assert begun(node) == 0


def test_a_snapshot_whose_records_fail_leaves_nothing() -> None:
    node = follower(log=log_of(1, 1))
    node.log.update_high_watermark(2)

    def broken() -> Any:
        yield b"a"
        raise ValueError("the state machine's own")

    with pytest.raises(ValueError, match="own"):
        write_snapshot(node, OffsetAndEpoch(2, 1), broken(), 0, 0)
    assert begun(node) == 0


# Damage.


def asked_within(
    node: Any, open_: Any, fetched: FetchResponse, end_ms: int, loaded: FetchSnapshotResponse | None = None
) -> int:
    """How often the leader is asked in that time, if it always answers so, at once."""

    def answered(send: Any, now_ms: int) -> list[Effect]:
        response = fetched if isinstance(send.request, FetchRequest) else loaded
        return list(node.on_response(send.correlation_id, response, now_ms))

    count, effects = 1, answered(open_, 0)
    now_ms = 0
    while now_ms < end_ms:
        sends = [send for send in sent(effects, object) if send.destination == 2]
        others = [send for send in sent(effects, object) if send.destination != 2]
        effects = []
        for send in sends:
            count += 1
            effects += answered(send, now_ms)
            assert count < 10_000
        for send in others:
            effects += node.on_response(send.correlation_id, None, now_ms)
        if not sends and not others:
            now_ms += 1
            effects += node.on_timer(now_ms)
    return count


@pytest.mark.parametrize(
    "response",
    [
        fetch_response(DAMAGED),
        fetch_response(values(b"a")[:40]),
        fetch_response(values(b"a", epoch=9)),
        fetch_response(values(b"a", base_offset=7)),
        fetch_response(bytes(100)),
        fetch_response(snapshot_id=(0, 0)),
    ],
    ids=["damaged", "cut off", "of a later epoch", "behind a gap", "no batch", "a snapshot of nothing"],
)
@pytest.mark.parametrize("voters", [(1, 2), (1, 2, 3)])
def test_what_cannot_be_written_is_not_fetched_again_at_once(response: FetchResponse, voters: tuple[int, ...]) -> None:
    """The node backs off 20 ms, as after a lost connection, and notifies the operator once."""
    node, _ = started(voters=voters)
    open_ = open_fetch(node.on_request(begin_request(1), 1, "begin", 0))
    assert asked_within(node, open_, response, 1000) <= 1000 // node.config.retry_backoff_ms + 1


def test_a_cut_that_changes_nothing_is_not_asked_for_at_once() -> None:
    node, open_ = committed_follower()
    for end in ((5, 3), (9, 3), (9, 9)):
        assert asked_within(node, open_, fetch_response(epoch=5, diverging=end), 1000) <= 51
        node, open_ = committed_follower()


def test_damage_is_logged_once() -> None:
    node, _ = started(voters=(1, 2))
    open_ = open_fetch(node.on_request(begin_request(1), 1, "begin", 0))
    notices: list[Effect] = []
    for now_ms in range(0, 1000, 50):
        notices += of(Notice, node.on_response(open_.correlation_id, fetch_response(DAMAGED), now_ms))
        open_ = open_fetch(node.on_timer(now_ms + 49))
    (notice,) = of(Notice, notices)
    assert "node 2, sends from offset 0 on are not appended: a record batch that is damaged" in notice.text
    assert node.state.has_fetched_from_leader is False, "and an election is not put off for it"


def test_what_comes_before_the_damage_is_kept() -> None:
    node, _ = started(voters=(1, 2))
    open_ = open_fetch(node.on_request(begin_request(1), 1, "begin", 0))
    damaged = values(b"b", base_offset=1)[:-1] + b"!"
    effects = node.on_response(open_.correlation_id, fetch_response(values(b"a") + damaged), 0)
    assert node.log.end_offset == 1
    assert sent(flush(node, effects, 1), FetchRequest) == []
    asked = open_fetch(node.on_timer(20)).request.topics[0].partitions[0]
    assert asked.fetch_offset == 1


def test_a_snapshot_that_is_damaged_is_not_asked_for_at_once() -> None:
    node, send = loading(voters=(1, 2))
    response = fetch_response(epoch=3, snapshot_id=NEW)
    for loaded in (piece(b"\xff" * 100, 0, 1000), piece(error=Errors.SNAPSHOT_NOT_FOUND)):
        assert asked_within(node, send, response, 1000, loaded) <= 101, "each time by a Fetch and a FetchSnapshot"
        node, send = loading(voters=(1, 2))
    assert NEW not in node.log.snapshots
