"""Tests a leader's limits for replicas that a stranger can invent: observers, waiting fetches, bytes."""

from functools import partial
from typing import Any

import pytest

from kcore.protocol_errors import Errors
from kcore.raft.effects import SendResponse
from kcore.raft.log.control_records import MOST_LISTENER_BYTES, MOST_LISTENERS
from kcore.raft.membership.replicas import ReplicaKey
from kcore.raft.raft_config import FETCH_SNAPSHOT_MAX_BYTES, MAX_BATCH_BYTES, RaftConfig
from kcore.raft.states import NEVER_MS
from kcore.replication.raft_log import OffsetAndEpoch
from kcore.schema.raft_voters import Listener, RemoveRaftVoterRequest
from raft.batches import snapshot
from raft.log.test_snapshots import served, snapshot_request
from raft.membership.test_voter_changes import added, dynamic, versions
from raft.nodes import directory, of, state
from raft.replication import append, committed_leader, dynamic_leader, fetch, fetch_request, fetched, flush, values
from raft.voter_requests import ask, error, listeners, update_request

FORGED = 100  # Ids from here on are of no replica.
MANY = 60  # Few enough for a quick test.


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("raft.nodes.RaftConfig", partial(RaftConfig, most_observers=MANY, most_waiting=MANY))


def stranger(number: int, **changed: Any) -> Any:
    """The fetch of an observer that nobody has seen before."""
    return fetch_request(1, replica=FORGED + number, **changed)


# Observers.


def test_strangers_do_not_stay_for_ever() -> None:
    """The ones that have been silent longest go."""
    node = committed_leader()
    for number in range(3 * MANY):
        fetch(node, stranger(number, max_wait_ms=0), 1000 + number // 100)
    assert [key.id for key in node.leading.observers] == [FORGED + number for number in range(2 * MANY, 3 * MANY)]


def test_an_observer_that_fetches_stays() -> None:
    """A broker's fetches come between those of the strangers."""
    node = committed_leader()
    fetch(node, fetch_request(1, replica=7, max_wait_ms=0), 1000)
    known = node.leading.observers[ReplicaKey(7, directory(7))]
    for number in range(3 * MANY):
        if number % (MANY // 2) == 0:
            fetch(node, fetch_request(1, replica=7, max_wait_ms=0), 1000)
        fetch(node, stranger(number, max_wait_ms=0), 1000)
    assert node.leading.observers[ReplicaKey(7, directory(7))] is known


def test_strangers_do_not_push_out_voters() -> None:
    """Not even with the id of a voter: with another directory it is an observer."""
    node, effects = dynamic_leader(1, 2, 3)
    flush(node, effects, 1000)
    fetch(node, fetch_request(3, max_wait_ms=0), 1000)
    for number in range(MANY + 1):
        fetch(node, fetch_request(3, directory_id=directory(FORGED + number), max_wait_ms=0), 1000)
    assert len(node.leading.observers) == MANY
    assert node.leading.voters.keys() == {1, 2, 3}
    assert node.leading.voters[2].end_offset == 3


def test_a_leader_that_votes_no_more_stays_its_own_observer() -> None:
    node, effects = dynamic_leader(1, 2, 3)
    flush(node, effects, 1000)
    fetch(node, fetch_request(3, max_wait_ms=0), 1000)
    removal = RemoveRaftVoterRequest(cluster_id=None, voter_id=1, voter_directory_id=directory(1))
    flush(node, node.on_request(removal, 0, "remove", 1000), 1000)
    for number in range(2 * MANY):
        fetch(node, stranger(number, max_wait_ms=0), 1000)
    assert node.local in node.leading.observers
    assert state(node) == ("Leader", 1, 1)


# Waiting fetches.


@pytest.mark.parametrize(("wanted_ms", "waits_ms"), [(500, 500), (2000, 2000), (2001, 2000), (2**31 - 1, 2000)])
def test_nobody_waits_longer_than_a_follower_does(wanted_ms: int, waits_ms: int) -> None:
    """Than the fetch time-out, behind which a follower looks for another leader."""
    node = committed_leader()
    reply_to = object()
    node.on_request(stranger(0, max_wait_ms=wanted_ms), 18, reply_to, 1000)
    assert fetched(node.on_timer(1000 + waits_ms - 1), reply_to) is None
    data = fetched(node.on_timer(1000 + waits_ms), reply_to)
    assert (data.error_code, data.records, data.high_watermark) == (Errors.NONE, b"", 1)
    assert node.leading.fetches == {}


def test_so_many_fetches_wait_at_most() -> None:
    """The oldest one is answered for each that is too many."""
    node = committed_leader()
    for number in range(MANY):
        assert of(SendResponse, node.on_request(stranger(number), 18, number, 1000)) == []
    for number in range(MANY, MANY + 10):
        (answer,) = of(SendResponse, node.on_request(stranger(number), 18, number, 1001))
        assert answer.reply_to == number - MANY
        assert answer.response.responses[0].partitions[0].error_code == Errors.NONE  # type: ignore[attr-defined]
    assert len(node.leading.fetches) == MANY
    append(node, b"a")
    _, effects = fetch(node, fetch_request(2, max_wait_ms=0), 1002)  # A voter's: the record is committed.
    assert len(of(SendResponse, effects)) == MANY + 1 and not node.leading.fetches


def test_waits_of_different_lengths_end_each_in_its_time() -> None:
    node = committed_leader()
    for wait_ms in (100, 300, 200):
        node.on_request(stranger(wait_ms, max_wait_ms=wait_ms), 18, wait_ms, 1000)
    ended = []
    for now_ms in range(1000, 1400, 50):
        ended += [(now_ms, answer.reply_to) for answer in of(SendResponse, node.on_timer(now_ms))]
        assert node.next_deadline_ms is not None and now_ms < node.next_deadline_ms < NEVER_MS
    assert ended == [(1100, 100), (1200, 200), (1300, 300)]


def test_a_wait_that_ended_early_leaves_the_others_theirs() -> None:
    node = committed_leader()
    node.on_request(stranger(1, max_wait_ms=100), 18, "short", 1000)
    append(node, b"a")
    fetch(node, fetch_request(2, max_wait_ms=0), 1000)  # A voter's: the record is committed.
    node.on_request(fetch_request(2, replica=FORGED, max_wait_ms=300), 18, "long", 1050)
    assert of(SendResponse, node.on_timer(1100)) == []
    assert [answer.reply_to for answer in of(SendResponse, node.on_timer(1350))] == ["long"]


# Voters.

LARGE = [Listener(name=f"L{number}", host="h" * 32_000, port=1) for number in range(40)]


@pytest.mark.parametrize("version", [0, 1])
def test_voters_that_nobody_could_load_are_not_written(version: int) -> None:
    """Their record would be larger than a follower takes, and the quorum would stand still."""
    node = dynamic() if version else committed_leader()
    before = node.log.end_offset, node.voters, node.leading.known_voters
    large = update_request(listeners=[*LARGE, *listeners(2)])
    assert error(ask(node, large)) == Errors.INVALID_REQUEST
    assert (node.log.end_offset, node.voters, node.leading.known_voters) == before


@pytest.mark.parametrize(
    ("asked", "can"),
    [({"listeners": [*LARGE, *listeners(4)]}, versions()), ({}, versions(lowest=-1)), ({}, versions(lowest=-5))],
)
def test_a_voter_that_nobody_could_load_is_not_added(asked: dict[str, Any], can: Any) -> None:
    node = dynamic()
    effects = added(node, can, **asked)
    assert error(effects) == Errors.INVALID_REQUEST
    assert (node.log.end_offset, node.voters.ids, node.leading.change) == (3, {1, 2, 3}, None)


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ([Listener(name=f"L{number}", host="h", port=1) for number in range(MOST_LISTENERS - 1)], Errors.NONE),
        ([Listener(name=f"L{number}", host="h", port=1) for number in range(MOST_LISTENERS)], Errors.INVALID_REQUEST),
        ([Listener(name="L", host="h" * (MOST_LISTENER_BYTES - 100), port=1)], Errors.NONE),
        ([Listener(name="L", host="h" * MOST_LISTENER_BYTES, port=1)], Errors.INVALID_REQUEST),
        ([Listener(name="L" * MOST_LISTENER_BYTES, host="h", port=1)], Errors.INVALID_REQUEST),
    ],
    ids=["most", "too many", "long", "long host", "long name"],
)
@pytest.mark.parametrize("version", [0, 1])
def test_the_listeners_of_a_voter_are_bounded(more: list[Listener], expected: Errors, version: int) -> None:
    """All of them are in each DescribeQuorum, in the log again at each change, and in memory as often."""
    node = dynamic() if version else committed_leader()
    assert error(ask(node, update_request(listeners=[*more, *listeners(2)]))) == expected


def test_an_update_that_says_nothing_new_writes_nothing() -> None:
    """However often it is asked for."""
    node = dynamic()
    for _ in range(100):
        assert error(ask(node, update_request())) == Errors.NONE
    assert node.log.end_offset == 3


# Bytes.


def test_an_answer_has_no_more_bytes_than_a_follower_asks_for() -> None:
    """Whatever a stranger asks for, a leader reads 8 MiB of its disk."""
    node = committed_leader()
    for _ in range(5):
        node.log.append_as_leader(values(b"x" * (2 << 20), base_offset=node.log.end_offset), 1)
    data, _ = fetch(node, fetch_request(1, max_bytes=2**31 - 1), 1000)
    assert 4 << 20 < len(data.records) <= MAX_BATCH_BYTES


def test_a_piece_of_a_snapshot_has_no_more_bytes_than_a_follower_asks_for() -> None:
    node = committed_leader()
    end = OffsetAndEpoch(1, 1)
    snapshot(node.log, end, bytes(10 << 20))
    piece = served(node, snapshot_request(end=end, max_bytes=2**31 - 1)).topics[0].partitions[0]
    assert (len(piece.unaligned_records), piece.size) == (FETCH_SNAPSHOT_MAX_BYTES, 10 << 20)
