"""The leader's side of Fetch: KIP-595's request handling, sentence by sentence, and the fetches that wait."""

from typing import Any

import pytest

from kcore.protocol_errors import Errors
from kcore.raft.effects import SendResponse
from kcore.raft.intervals import ANSWER_US
from kcore.raft.log.batches import split_batches
from kcore.replication.raft_log import OffsetAndEpoch
from kcore.types import Uuid
from raft.batches import snapshot
from raft.nodes import begin_request, directory, follower, leader, log_of, of, raft_node
from raft.replication import (
    append,
    committed,
    committed_leader,
    dynamic_leader,
    fetch,
    fetch_request,
    fetched,
    flush,
    take,
    values,
    whole,
)

# "Check that the clusterId if not null matches the cached value in meta.properties."


@pytest.mark.covers("KIP-595 fetch 1")
def test_a_foreign_cluster_is_refused() -> None:
    node = committed_leader()
    response = only_answer(node, fetch_request(1, cluster_id="another"))
    assert (response.error_code, response.responses) == (Errors.INCONSISTENT_CLUSTER_ID, [])


@pytest.mark.covers("KIP-595 fetch 1")
def test_a_null_cluster_is_not_checked() -> None:
    data, _ = fetch(committed_leader(), fetch_request(0, 0, cluster_id=None), 1000)
    assert data.error_code == Errors.NONE


@pytest.mark.covers("KIP-595 fetch 1", "KIP-595 fetch 2")
def test_the_cluster_comes_before_the_epoch() -> None:
    response = only_answer(committed_leader(), fetch_request(1, epoch=9, cluster_id="another"))
    assert response.error_code == Errors.INCONSISTENT_CLUSTER_ID


def only_answer(node: Any, request: Any, version: int = 18) -> Any:
    (answer,) = of(SendResponse, node.on_request(request, version, "asked", 1000))
    return answer.response


# Requests that no replica sends.


@pytest.mark.parametrize(
    "changed", [{"topic_id": Uuid()}, {"topic_id": Uuid(bytes(15) + b"\x02")}, {"partition": 1}], ids=str
)
def test_another_partition_is_refused(changed: dict[str, Any]) -> None:
    """Version 12, which names the topic, has no id either."""
    response = only_answer(committed_leader(), fetch_request(1, **changed))
    assert (response.error_code, response.responses) == (Errors.INVALID_REQUEST, [])


@pytest.mark.parametrize(
    ("offset", "last_epoch", "epoch", "max_wait_ms"),
    [(-1, 1, 1, 0), (1, -1, 1, 0), (1, 2, 1, 0), (1, 1, -1, 0), (1, 1, 1, -1)],
)
def test_what_no_replica_has_is_refused(offset: int, last_epoch: int, epoch: int, max_wait_ms: int) -> None:
    """An epoch that it has read of is known to it, so LastFetchedEpoch is not above CurrentLeaderEpoch."""
    data, _ = fetch(committed_leader(), fetch_request(offset, last_epoch, epoch, max_wait_ms=max_wait_ms), 1000)
    assert (data.error_code, data.high_watermark) == (Errors.INVALID_REQUEST, -1)


def test_the_leaders_own_id_is_refused() -> None:
    node = committed_leader()
    data, _ = fetch(node, fetch_request(1, replica=1), 1000)
    assert data.error_code == Errors.UNKNOWN_SERVER_ERROR
    assert node.leading.voters[1].last_fetch_ms == -1


# "First ensure that the leader epoch from the request is the same as the locally cached value. If not, reject this
# request with either the FENCED_LEADER_EPOCH or UNKNOWN_LEADER_EPOCH error."


@pytest.mark.covers("KIP-595 fetch 2")
@pytest.mark.parametrize(("epoch", "error"), [(0, Errors.FENCED_LEADER_EPOCH), (2, Errors.UNKNOWN_LEADER_EPOCH)])
def test_another_epoch_is_refused(epoch: int, error: Errors) -> None:
    node = committed_leader()
    response = only_answer(node, fetch_request(1, 0, epoch))
    data = response.responses[0].partitions[0]
    assert (data.error_code, data.records, data.high_watermark) == (error, b"", -1)
    assert (data.current_leader.leader_id, data.current_leader.leader_epoch) == (1, 1)
    assert [(named.node_id, named.host, named.port) for named in response.node_endpoints] == [(1, "host1", 9001)]


@pytest.mark.covers("KIP-595 fetch 2", "KIP-595 fetch 3")
def test_epochs_come_before_divergence() -> None:
    """The leader checks the request's epoch before it looks for a diverging epoch."""
    node, effects = leader(log=log_of(0, 0, 0))
    flush(node, effects, 1000)
    data, _ = fetch(node, fetch_request(9, 0, 0), 1000)
    assert (data.error_code, data.diverging_epoch.epoch) == (Errors.FENCED_LEADER_EPOCH, -1)


def test_who_does_not_lead_names_the_leader() -> None:
    node = follower(epoch=3)
    response = only_answer(node, fetch_request(0, 0, 3, replica=3))
    data = response.responses[0].partitions[0]
    assert data.error_code == Errors.NOT_LEADER_OR_FOLLOWER
    assert (data.current_leader.leader_id, data.current_leader.leader_epoch) == (2, 3)
    assert [named.node_id for named in response.node_endpoints] == [2]


def test_who_knows_no_leader_says_so() -> None:
    node = raft_node()
    node.start(None, 0)
    response = only_answer(node, fetch_request(0, 0, 0, replica=3))
    data = response.responses[0].partitions[0]
    assert (data.error_code, data.current_leader.leader_id) == (Errors.NOT_LEADER_OR_FOLLOWER, -1)
    assert response.node_endpoints == []


def test_endpoints_are_of_version_17() -> None:
    assert only_answer(committed_leader(), fetch_request(1, 0, 0), version=16).node_endpoints == []


def test_a_leader_that_shuts_down_serves_nobody() -> None:
    node = committed_leader()
    node.shutdown_deadline_ms = 9000
    assert only_answer(node, fetch_request(1)).responses[0].partitions[0].error_code == Errors.BROKER_NOT_AVAILABLE


# "Check that LastFetchedEpoch is consistent with the leader's log. ... If not, return a empty response (no records
# included in the response) and set the DivergingEpoch ..."


def leader_of_epochs(*epochs: int) -> Any:
    """Epoch max + 1, one record in the log for each of `epochs` and its own LeaderChange."""
    node, effects = leader(log=log_of(*epochs))
    flush(node, effects, 1000)
    assert node.epoch == max(epochs) + 1
    return node


@pytest.mark.covers("KIP-595 fetch 3", "KIP-595 fetch 3 start", "KIP-595 fetch 3 round trips")
@pytest.mark.parametrize(
    ("offset", "last_epoch", "diverging"),
    [
        (2, 1, None),  # "FetchOffset is expected to be in the range of offsets with an epoch of LastFetchedEpoch
        (3, 1, None),  # or it is the start offset of the next epoch in the log."
        (4, 1, (3, 1)),  # Epoch 1 ends before that here.
        (4, 2, (3, 1)),  # There is no epoch 2 here: all of it goes in one step.
        (3, 2, (3, 1)),  # The offset is here, the epoch is not.
        (2, 2, (3, 1)),
        (4, 3, None),
        (6, 3, (5, 3)),
        (6, 4, None),
        (7, 4, (6, 4)),  # Behind the leader's end.
    ],
)
def test_divergence(offset: int, last_epoch: int, diverging: tuple[int, int] | None) -> None:
    node = leader_of_epochs(1, 1, 1, 3, 3)
    data, _ = fetch(node, fetch_request(offset, last_epoch, 4, max_wait_ms=0), 1000)
    assert data.error_code == Errors.NONE
    if diverging is None:
        assert (data.diverging_epoch.epoch, data.diverging_epoch.end_offset) == (-1, -1)
        assert bytes(data.records) == node.log.read(offset, 1 << 20, 6)
    else:
        assert (data.diverging_epoch.end_offset, data.diverging_epoch.epoch) == diverging
        assert data.records == b""


def test_the_same_answer_is_made_once() -> None:
    """Equal Fetch responses share one object; other records or a later high watermark get another object."""
    node = leader_of_epochs(1, 1)
    first, _ = fetch(node, fetch_request(1, 1, 2, max_wait_ms=0), 1000)
    again, _ = fetch(node, fetch_request(1, 1, 2, max_wait_ms=0), 1001)
    assert again is first and (first.high_watermark, bytes(first.records)) == (-1, node.log.read(1, 1 << 20, 3))
    observer, _ = fetch(node, fetch_request(3, 2, 2, replica=9, max_wait_ms=0), 1002)
    assert (observer.high_watermark, observer.records) == (-1, b"")
    voter, _ = fetch(node, fetch_request(3, 2, 2, max_wait_ms=0), 1003)
    assert (voter.high_watermark, voter.records) == (3, b"")


@pytest.mark.covers("E10", "KIP-595 fetch 3")
def test_a_diverging_answer_does_not_wait() -> None:
    """E10: it is answered at once, whatever the wait."""
    data, _ = fetch(leader_of_epochs(1, 1), fetch_request(9, 2, 2), 1000)
    assert (data.diverging_epoch.end_offset, data.diverging_epoch.epoch) == (3, 2)


@pytest.mark.covers("KIP-595 fetch 3")
def test_a_diverging_follower_counts_for_nothing() -> None:
    """Its offsets are not the leader's."""
    node = leader_of_epochs(1, 1)
    deadline_ms = node.leading.check_quorum_deadline_ms
    _, effects = fetch(node, fetch_request(9, 2, 2), 1500)
    assert (committed(effects), node.high_watermark) == ([], None)
    assert node.leading.voters[2].end_offset == -1
    assert node.leading.check_quorum_deadline_ms == deadline_ms


# "If the request is from a voter not an observer, the leader can possibly advance the high-watermark. As stated above,
# we only advance the high-watermark if the current leader has replicated at least one entry to majority of quorum to
# its current epoch. Otherwise, the high watermark is set to the maximum offset which has been replicated to a majority
# of the voters."


@pytest.mark.covers("KIP-595 fetch 4")
def test_a_voters_fetch_advances_the_high_watermark() -> None:
    node = committed_leader()
    append(node, b"a", b"b")
    data, effects = fetch(node, fetch_request(3, max_wait_ms=0), 1000)
    assert (committed(effects), data.high_watermark, node.log.high_watermark) == ([3], 3, 3)


@pytest.mark.covers("KIP-595 fetch 4 observer")
def test_an_observers_fetch_does_not() -> None:
    node = committed_leader()
    append(node, b"a")
    data, effects = fetch(node, fetch_request(2, replica=7, max_wait_ms=0), 1000)
    assert (committed(effects), data.high_watermark) == ([], 1)
    assert [key.id for key in node.leading.observers] == [7]
    _, effects = fetch(node, fetch_request(1, replica=3, max_wait_ms=0), 1000)
    assert committed(effects) == []  # Nor does it count when a voter comes, nor when the leader has flushed more.
    assert committed(append(node, b"b")) == []


@pytest.mark.covers("KIP-595 fetch 4 observer")
def test_a_voters_id_with_another_directory_is_an_observer() -> None:
    """KIP-853: the voter's disk was replaced, and with it all that it had acknowledged."""
    node, effects = dynamic_leader(1, 2, 3)
    flush(node, effects, 1000)
    end = node.log.end_offset
    _, effects = fetch(node, fetch_request(end, directory_id=directory(99), max_wait_ms=0), 1000)
    assert (committed(effects), node.high_watermark) == ([], None)
    _, effects = fetch(node, fetch_request(end, max_wait_ms=0), 1000)
    assert committed(effects) == [end]


def test_a_client_without_an_id_leaves_no_trace() -> None:
    node = committed_leader()
    data, _ = fetch(node, fetch_request(0, 0, replica=-1), 1000)
    assert bytes(data.records) == whole(node.log)
    assert node.leading.observers == {}


@pytest.mark.covers("E4", "KIP-595 fetch 4 own epoch")
def test_records_of_earlier_epochs_wait_for_one_of_the_leaders_own() -> None:
    node = leader_of_epochs(1, 1, 1)
    _, effects = fetch(node, fetch_request(3, 1, 2, max_wait_ms=0), 1000)
    assert (committed(effects), node.high_watermark) == ([], None)  # A majority has 3, all of epoch 1.
    _, effects = fetch(node, fetch_request(4, 2, 2, max_wait_ms=0), 1000)
    assert committed(effects) == [4]


@pytest.mark.covers("KIP-595 fetch 4 majority")
def test_the_high_watermark_is_what_a_majority_has() -> None:
    node, effects = leader(voters=(1, 2, 3, 4, 5), append_linger_ms=0)
    flush(node, effects, 1000)
    append(node, b"a", b"b", b"c")
    for replica, offset, expected in [(2, 4, None), (3, 2, 2), (4, 3, 3), (5, 4, 4)]:
        fetch(node, fetch_request(offset, replica=replica, max_wait_ms=0), 1000)
        assert node.high_watermark == expected


@pytest.mark.covers("KIP-595 fetch 4 majority")
def test_half_of_the_voters_is_no_majority() -> None:
    node, effects = leader(voters=(1, 2, 3, 4), append_linger_ms=0)
    flush(node, effects, 1000)
    for replica, expected in [(2, None), (3, 1)]:
        fetch(node, fetch_request(1, replica=replica, max_wait_ms=0), 1000)
        assert node.high_watermark == expected


# Records.


def test_records_up_to_max_bytes() -> None:
    node = committed_leader()
    append(node, b"a" * 100)
    append(node, b"b" * 100)
    first = node.log.read(1, 0, 3)
    data, _ = fetch(node, fetch_request(1, max_bytes=len(first)), 1000)
    assert bytes(data.records) == first
    assert (data.log_start_offset, data.high_watermark, data.partition_index) == (0, 1, 0)


def test_what_is_not_flushed_is_sent() -> None:
    """The leader's disk and the followers' work at the same time: a majority of flushed ends counts, nothing else."""
    node = committed_leader()
    _, effects = take(node, [b"a"], 1000)
    data, _ = fetch(node, fetch_request(1), 1000)
    assert bytes(data.records) == values(b"a", base_offset=1)
    _, later = fetch(node, fetch_request(2, max_wait_ms=0), 1000)
    assert (committed(later), node.high_watermark) == ([], 1)  # One of three has it on its disk.
    _, later = fetch(node, fetch_request(2, replica=3, max_wait_ms=0), 1000)
    assert committed(later) == [2]  # Two have, the leader not among them.
    assert committed(flush(node, effects, 1000)) == []


def test_an_empty_replica_is_sent_a_snapshot() -> None:
    """KIP-630: sooner there than by the log, even while the log has everything."""
    node = committed_leader()
    append(node, b"a")
    fetch(node, fetch_request(2, max_wait_ms=0), 1000)
    snapshot(node.log, OffsetAndEpoch(2, 1))
    data, _ = fetch(node, fetch_request(0, 0, replica=7), 1000)
    assert (data.snapshot_id.end_offset, data.snapshot_id.epoch, data.records) == (2, 1, b"")
    data, _ = fetch(node, fetch_request(1, replica=7), 1000)
    assert (data.snapshot_id.end_offset, bytes(data.records)) == (-1, values(b"a", base_offset=1))


def test_a_replica_from_before_the_log_is_sent_a_snapshot() -> None:
    node = committed_leader()
    append(node, b"a")
    fetch(node, fetch_request(2, max_wait_ms=0), 1000)
    snapshot(node.log, OffsetAndEpoch(2, 1))
    node.log.delete_before(OffsetAndEpoch(2, 1))
    data, _ = fetch(node, fetch_request(1), 1000)
    assert (data.snapshot_id.end_offset, data.snapshot_id.epoch, data.log_start_offset) == (2, 1, 2)


def test_the_snapshot_that_a_quorum_begins_with_is_not_sent() -> None:
    node, effects = dynamic_leader(1, 2, 3)
    flush(node, effects, 1000)
    data, _ = fetch(node, fetch_request(0, 0, replica=7), 1000)
    assert (data.snapshot_id.end_offset, bytes(data.records)) == (-1, whole(node.log))


# Fetches that wait.


def waiting(node: Any, now_ms: int = 1000, **changed: Any) -> object:
    """A fetch at the end of the log, which waits."""
    reply_to = object()
    request = fetch_request(node.log.end_offset, **changed)
    assert of(SendResponse, node.on_request(request, 18, reply_to, now_ms)) == []
    return reply_to


def test_waits_for_records() -> None:
    node = committed_leader()
    reply_to = waiting(node)
    _, effects = take(node, [b"a"], 1100)
    data = fetched(effects, reply_to)
    assert bytes(data.records) == values(b"a", base_offset=1, now_ms=1100)
    assert of(SendResponse, node.on_timer(5000)) == []  # Once.


def test_waits_as_long_as_it_wants_to() -> None:
    node = committed_leader()
    reply_to = waiting(node, max_wait_ms=300)
    assert node.next_deadline_ms is not None and node.next_deadline_ms <= 1300
    assert fetched(node.on_timer(1299), reply_to) is None
    data = fetched(node.on_timer(1300), reply_to)
    assert (data.error_code, data.records, data.high_watermark) == (Errors.NONE, b"", 1)


def test_does_not_wait_if_it_does_not_want_to() -> None:
    data, _ = fetch(committed_leader(), fetch_request(1, max_wait_ms=0), 1000)
    assert (data.error_code, data.records) == (Errors.NONE, b"")


@pytest.mark.covers("E11")
def test_a_high_watermark_that_the_follower_does_not_know_does_not_wait() -> None:
    """E11, KAFKA-13959: it hears of it by Fetch 18, though no record comes (KIP-1166)."""
    node = committed_leader()
    data, _ = fetch(node, fetch_request(1, replica=3, high_watermark=0), 1000)
    assert (data.high_watermark, data.records) == (1, b"")
    waiting(node, replica=3, high_watermark=1)


@pytest.mark.covers("E11")
@pytest.mark.parametrize("early", [False, True])
def test_an_early_high_watermark_helps_older_versions(early: bool) -> None:
    """E11: an option; Kafka's 3.9 hears of it half a second later, or with the next record."""
    node = committed_leader(early_high_watermark=early)
    data, _ = fetch(node, fetch_request(1, replica=3), 1000, version=17)
    assert (data is not None and data.high_watermark == 1) == early
    data, _ = fetch(node, fetch_request(1, replica=3), 1000, version=17)
    assert data is None  # The replica has the high watermark.


@pytest.mark.covers("E11")
def test_a_new_high_watermark_wakes_those_that_wait() -> None:
    """E11: the leader answers all waiting fetches, each with the new high watermark."""
    node = committed_leader()
    append(node, b"a")
    first, second = waiting(node, replica=7, high_watermark=1), waiting(node, replica=8, high_watermark=1)
    _, effects = fetch(node, fetch_request(2, max_wait_ms=0), 1000)
    assert [fetched(effects, reply_to).high_watermark for reply_to in (first, second)] == [2, 2]


def test_an_observer_that_waits_is_answered_once_at_the_commit() -> None:
    """Records and high watermark together. Voters get records at once, for it is they who commit them."""
    node = committed_leader()
    observer, voter = waiting(node, replica=7), waiting(node, replica=2)
    _, effects = take(node, [b"a"], 1100)
    assert fetched(effects, observer) is None
    assert bytes(fetched(effects, voter).records) == values(b"a", base_offset=1, now_ms=1100)
    flush(node, effects, 1101)
    _, effects = fetch(node, fetch_request(2, max_wait_ms=0), 1102)
    data = fetched(effects, observer)
    assert (bytes(data.records), data.high_watermark) == (values(b"a", base_offset=1, now_ms=1100), 2)


def test_many_observers_are_answered_at_intervals() -> None:
    """Commits within an interval cost observers one response; the next interval doubles. Voters do not wait."""
    node = committed_leader()

    def commit(now_ms: int) -> list[Any]:
        effects = append(node, b"a", now_ms=now_ms)
        return effects + fetch(node, fetch_request(node.log.end_offset, max_wait_ms=0), now_ms)[1]

    def many(now_ms: int) -> list[object]:
        known = node.high_watermark
        return [waiting(node, now_ms, replica=100 + at, high_watermark=known) for at in range(10_000 // ANSWER_US)]

    def answered(effects: list[Any], observers: list[object]) -> list[Any]:
        return [each for each in (fetched(effects, reply_to) for reply_to in observers) if each is not None]

    observers = many(1000)
    assert len(answered(commit(1001), observers)) == len(observers)
    observers = many(1002)
    follower = waiting(node, 1002, replica=3, high_watermark=node.high_watermark)
    effects = commit(1003)
    assert fetched(effects, follower) is not None and not answered(effects, observers)
    assert not answered(commit(1004), observers) and node.next_deadline_ms == 1011
    found = answered(node.on_timer(1011), observers)
    assert len(found) == len(observers)
    assert {(len(split_batches(bytes(each.records))[0]), each.high_watermark) for each in found} == {(2, 4)}
    commit(1012)
    late = object()
    assert fetched(node.on_request(fetch_request(4, replica=99), 18, late, 1013), late) is None, "its turn is at 1031"
    behind = object()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kcore.raft.fetching.FEW_BYTES", 100)
        assert fetched(node.on_request(fetch_request(1, replica=98), 18, behind, 1013), behind) is not None
    assert node.next_deadline_ms == 1031 and fetched(node.on_timer(1031), late).high_watermark == 5
    assert not answered(node.on_timer(1100), many(1022)), "nothing was committed since"


def test_what_an_observer_reads_of_earlier_epochs_ends_with_the_leaders_first_batch() -> None:
    """From there on, what knows the leader's epoch alone may answer it. A voter gets all that there is."""
    node = committed_leader()
    append(node, b"one")
    of_observer, _ = fetch(node, fetch_request(0, 0, replica=99), 1001)
    assert [each.last_offset for each in split_batches(bytes(of_observer.records))[0]] == [0]
    of_voter, _ = fetch(node, fetch_request(0, 0), 1001)
    assert [each.last_offset for each in split_batches(bytes(of_voter.records))[0]] == [0, 1]


def test_a_leader_no_more_wakes_those_that_wait() -> None:
    node = committed_leader()
    reply_to = waiting(node)
    effects = node.on_request(begin_request(5, leader_id=3), 1, "begin", 1000)
    data = fetched(effects, reply_to)
    assert (data.error_code, data.records) == (Errors.NOT_LEADER_OR_FOLLOWER, b"")


def test_a_leader_that_resigns_wakes_those_that_wait() -> None:
    node = committed_leader()
    reply_to = waiting(node)
    assert fetched(node.resign(1, 1000), reply_to).error_code == Errors.NOT_LEADER_OR_FOLLOWER
    assert not node.leads
