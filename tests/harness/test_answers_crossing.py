"""Old answers after the epoch has moved: a broker's fetchers, raft's followers, candidates and leaders, clients."""

from collections.abc import Callable
from typing import Any

import pytest

from broker.cluster import KEY, TOPIC_ID
from broker.memory_log import MemoryLog
from controller.kraft.active import Active
from controller.kraft.runtime import decides, setting
from harness.crossing import Crossing, check_old_answer_is_dropped
from kcore.broker.replicas.broker_config import BrokerConfig
from kcore.broker.replicas.fetcher import FetcherHooks, ReplicaFetcher, Stage
from kcore.broker.replicas.replication_quota import ReplicationQuota
from kcore.controller.kraft.handlers import HANDLERS
from kcore.protocol_errors import Errors
from kcore.raft import following
from kcore.raft.effects import Flush
from kcore.raft.node import RaftNode
from kcore.replication.raft_log import OffsetAndEpoch
from kcore.schema.broker_lifecycle import UnregisterBrokerRequest, UnregisterBrokerResponse
from kcore.schema.fetch import EpochEndOffset as DivergingEpoch
from kcore.schema.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from kcore.schema.fetch_snapshot import (
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    FetchSnapshotResponsePartitionSnapshot,
    FetchSnapshotResponseTopicSnapshot,
    LeaderIdAndEpoch,
    SnapshotId,
)
from kcore.schema.list_offsets import (
    EpochEndOffset,
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from kcore.schema.raft_votes import BeginQuorumEpochRequest, BeginQuorumEpochResponse, VoteRequest
from kcore.types import Uuid
from kcore.wire.record_batch import scan_batches
from raft.log.test_snapshots import END, snapshot_bytes
from raft.nodes import begin_request, epoch_response, follower, grant, leader, log_of, sent, started, vote_response
from raft.replication import fetch_response, flush, open_fetch, values, whole
from storage import building

# A broker's fetcher.


class Following:
    """A fetcher that follows one partition in epoch 3, and its log of five records."""

    def __init__(self) -> None:
        self.log = MemoryLog()
        for offset in range(5):
            data = building.batch(offset, epoch=2)
            self.log.append(data, scan_batches(data))
        self.log.high_watermark = 2
        self.failures: list[Any] = []
        quota = ReplicationQuota(lambda topic: ())
        hooks = FetcherHooks(lambda: 7, lambda *failure: self.failures.append(failure), lambda key: None, quota)
        self.fetcher = ReplicaFetcher(1, BrokerConfig(2), hooks)
        self.fetcher.add(KEY, TOPIC_ID, 3, self.log)

    @property
    def state(self) -> Any:
        of = self.fetcher.states.get(KEY)
        shown = None if of is None else (of.leader_epoch, of.offset, of.stage, of.delayed_until_ms, of.failed)
        log = self.log
        return shown, log.end_offset, log.start_offset, log.high_watermark, [*log.batches], [*self.failures]


def _asks(stage: Stage) -> Callable[[Following], Any]:
    def ask(world: Following) -> Any:
        world.fetcher.states[KEY].stage = stage
        found = world.fetcher.next_request(0)
        assert found is not None
        return found.request

    return ask


def _fetched(**values_: Any) -> Callable[[Following, Any], None]:
    def answer(world: Following, request: Any) -> None:
        fields = {"partition_index": 0, "high_watermark": 6, "log_start_offset": 0, "aborted_transactions": None}
        data = PartitionData(**(fields | {"records": building.batch(5, epoch=3)} | values_))
        topic = FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[data])
        world.fetcher.answered(FetchResponse(session_id=0, responses=[topic]), 100)

    return answer


def _listed(world: Following, request: Any) -> None:
    partition = ListOffsetsPartitionResponse(partition_index=0, offset=3, leader_epoch=3)
    world.fetcher.answered(
        ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name=KEY[0], partitions=[partition])]), 100
    )


def _epoch_end(world: Following, request: Any) -> None:
    partition = EpochEndOffset(partition=0, leader_epoch=2, end_offset=4)
    topic = OffsetForLeaderTopicResult(topic=KEY[0], partitions=[partition])
    world.fetcher.answered(OffsetForLeaderEpochResponse(topics=[topic]), 100)


FETCHES = {
    "records": Crossing(_asks(Stage.FETCHING), _fetched()),
    "a diverging epoch": Crossing(
        _asks(Stage.FETCHING), _fetched(diverging_epoch=DivergingEpoch(epoch=2, end_offset=3), records=b"")
    ),
    "out of range": Crossing(_asks(Stage.FETCHING), _fetched(error_code=int(Errors.OFFSET_OUT_OF_RANGE))),
    "fenced": Crossing(_asks(Stage.FETCHING), _fetched(error_code=int(Errors.FENCED_LEADER_EPOCH))),
    "not the leader": Crossing(_asks(Stage.FETCHING), _fetched(error_code=int(Errors.NOT_LEADER_OR_FOLLOWER))),
    "the end": Crossing(_asks(Stage.FINDING_END), _listed),
    "an epoch's end": Crossing(_asks(Stage.TRUNCATING), _epoch_end),
}


def _next_epoch(world: Following) -> None:
    """The same leader, elected again: the log is as it was."""
    world.fetcher.add(KEY, TOPIC_ID, 4, world.log)


def _cut(world: Following) -> None:
    """In the same epoch, with another end."""
    world.log.truncate_to(4)
    world.fetcher.add(KEY, TOPIC_ID, 3, world.log)


def _gone(world: Following) -> None:
    world.fetcher.remove(KEY)


def _of_a_new_topic(world: Following) -> None:
    """Deleted and made again under its name, with an empty log."""
    world.fetcher.remove(KEY)
    world.log = MemoryLog()
    world.fetcher.add(KEY, Uuid(b"u" * 16), 0, world.log)


FETCH_MOVES = {"a new epoch": _next_epoch, "a cut": _cut, "stopped": _gone, "a new topic": _of_a_new_topic}


@pytest.mark.parametrize("move", FETCH_MOVES.values(), ids=FETCH_MOVES)
@pytest.mark.parametrize("crossing", FETCHES.values(), ids=FETCHES)
def test_a_fetcher_drops_what_the_leader_answered_before(crossing: Crossing, move: Callable[[Following], None]) -> None:
    world = check_old_answer_is_dropped(Following, crossing, move, lambda world: world.state)
    if KEY in world.fetcher.states:
        assert world.fetcher.next_request(100) is not None, "and asks anew"


def test_a_request_that_fails_after_its_partitions_went_fails_nothing_else() -> None:
    world = Following()
    world.fetcher.next_request(0)
    world.fetcher.remove(KEY)
    other = ("u", 1)
    world.fetcher.add(other, Uuid(b"u" * 16), 1, MemoryLog())
    world.fetcher.failed(0)
    assert world.fetcher.states[other].delayed_until_ms == 0 and world.fetcher.next_request(0) is not None


# Nodes of a quorum.


def _node_state(node: RaftNode) -> Any:
    state = node.quorum.state
    shown = [state.name, state.epoch, state.leader_id, getattr(state, "has_fetched_from_leader", None)]
    if hasattr(state, "election"):
        shown.append(sorted(each.id for each in state.election.unrecorded))
    loading = getattr(state, "fetching_snapshot", None)
    shown.append(None if loading is None else (loading.id, loading.size))
    return *shown, whole(node.log), node.log.end_offset, node.log.latest_snapshot, node.high_watermark


class Follower:
    """Node 1, which follows node 2 in epoch 1, and has one request open."""

    def __init__(self) -> None:
        self.node, _ = started(log=log_of(0, 0, 1))
        self.effects = self.node.on_request(begin_request(1), 1, "begin", 0)

    def take(self, effects: list[Any]) -> None:
        self.effects = effects

    @property
    def state(self) -> Any:
        return _node_state(self.node)


def _raft_fetched(**response: Any) -> Callable[[Follower, Any], None]:
    def answer(world: Follower, request: Any) -> None:
        world.take(world.node.on_response(request.correlation_id, fetch_response(**response), 10))

    return answer


def _ask_fetch(world: Follower) -> Any:
    return open_fetch(world.effects)


def _ask_snapshot(world: Follower) -> Any:
    fetch = open_fetch(world.effects)
    offered = fetch_response(snapshot_id=(10, 1))
    world.take(world.node.on_response(fetch.correlation_id, offered, 10))
    [asked] = sent(world.effects, FetchSnapshotRequest)
    return asked


def _piece(world: Follower, request: Any) -> None:
    asked = request.request.topics[0].partitions[0]
    piece = FetchSnapshotResponsePartitionSnapshot(
        index=0,
        snapshot_id=SnapshotId(end_offset=asked.snapshot_id.end_offset, epoch=asked.snapshot_id.epoch),
        current_leader=LeaderIdAndEpoch(leader_id=2, leader_epoch=1),
        size=1_000,
        position=asked.position,
        unaligned_records=snapshot_bytes()[:20],
    )
    topic = FetchSnapshotResponseTopicSnapshot(name="__cluster_metadata", partitions=[piece])
    world.take(world.node.on_response(request.correlation_id, FetchSnapshotResponse(topics=[topic]), 20))


RAFT_FETCHES = {
    "records": Crossing(_ask_fetch, _raft_fetched(records=values(b"x", base_offset=3))),
    "a cut": Crossing(_ask_fetch, _raft_fetched(diverging=(2, 0))),
    "a snapshot": Crossing(_ask_fetch, _raft_fetched(snapshot_id=(10, 1))),
    "a high watermark": Crossing(_ask_fetch, _raft_fetched(high_watermark=2)),
    "a piece of a snapshot": Crossing(_ask_snapshot, _piece),
}


def _next_leader(world: Follower) -> None:
    world.node.on_request(begin_request(2, leader_id=3), 1, "begin again", 11)


def _same_leader_again(world: Follower) -> None:
    world.node.on_request(begin_request(2, leader_id=2), 1, "begin again", 11)


RAFT_MOVES = {"another leader": _next_leader, "the same leader": _same_leader_again}


@pytest.mark.parametrize("move", RAFT_MOVES.values(), ids=RAFT_MOVES)
@pytest.mark.parametrize("crossing", RAFT_FETCHES.values(), ids=RAFT_FETCHES)
def test_a_node_drops_what_the_leader_of_an_earlier_epoch_answered(
    crossing: Crossing, move: Callable[[Follower], None]
) -> None:
    world = check_old_answer_is_dropped(Follower, crossing, move, lambda world: world.state)
    assert world.node.epoch == 2


def _answer_at_offset_4(world: Follower, request: Any) -> None:
    """To a request of before the log grew, by another connection."""
    response = fetch_response(values(b"x", base_offset=3), high_watermark=2)
    world.take(world.node.on_response(request.correlation_id, response, 10))


@pytest.mark.parametrize("grown", [values(b"y", base_offset=3), values(b"x", b"y", base_offset=3)])
def test_a_node_takes_records_once_though_two_answers_bring_them(grown: bytes) -> None:
    world = Follower()
    fetch = open_fetch(world.effects)
    world.node.log.append_as_follower(grown, 1)
    before = whole(world.node.log)
    _answer_at_offset_4(world, fetch)
    assert whole(world.node.log) == before


@pytest.mark.parametrize("response", [{"diverging": (1, 0)}, {"snapshot_id": (10, 1)}])
def test_a_node_whose_log_has_another_last_epoch_by_now_drops_the_answer(response: dict[str, Any]) -> None:
    """It ends where it did, but with a record of another epoch."""
    world = Follower()
    fetch = open_fetch(world.effects)
    log = world.node.log
    log.truncate_to_end_offset(OffsetAndEpoch(2, 0))
    world.node.was_cut(2)
    log.append_as_leader(values(b"y", base_offset=2, epoch=0), 0)
    assert log.end_offset == 3 and log.last_epoch == 0
    before = world.state
    assert following.on_fetch_response(world.node, 2, fetch.request, fetch_response(**response), 20)
    assert world.state == before


def test_a_fetch_that_is_answered_while_a_snapshot_is_loaded_changes_nothing() -> None:
    world = Follower()
    fetch = open_fetch(world.effects)
    world.take(world.node.on_response(fetch.correlation_id, fetch_response(snapshot_id=(10, 1)), 10))
    state, before = world.node.state, world.state
    response = fetch_response(values(b"x", base_offset=3))
    assert following.on_fetch_response(world.node, 2, fetch.request, response, 20)
    assert world.node.state is state and world.state == before


def test_votes_of_an_earlier_round_elect_nobody() -> None:
    """Granted for the epoch before, they come when the next election has begun."""
    node, effects = started(voters=(1, 2, 3, 4, 5))
    effects = node.on_timer(1_000)
    effects = grant(node, effects, 1_000, 2)
    old = sent(effects, VoteRequest)
    assert node.state.name == "Candidate" and len(old) == 4
    now_ms, epoch = 1_000, node.epoch
    while node.epoch == epoch:
        now_ms += 500
        effects = node.on_timer(now_ms)
        if node.state.name == "Prospective":
            effects = grant(node, effects, now_ms, 2)
    before = _node_state(node)
    for send in old:
        node.on_response(send.correlation_id, vote_response(epoch, True), now_ms)
    assert _node_state(node) == before and node.state.name == "Candidate"


def test_a_pre_vote_of_an_earlier_round_is_no_vote() -> None:
    """The voter is in the candidate's epoch by now, and the answer does not say which kind of vote it is."""
    node, effects = started(voters=(1, 2, 3, 4, 5))
    effects = node.on_timer(1_000)
    asked = sent(effects, VoteRequest)
    grant(node, effects, 1_000, 2)
    assert node.state.name == "Candidate"
    before = _node_state(node)
    for send in asked[2:]:
        node.on_response(send.correlation_id, vote_response(node.epoch, True), 1_000)
    assert _node_state(node) == before


def test_answers_to_an_earlier_epoch_do_not_reach_the_leader_of_a_later_one() -> None:
    """The voter acknowledged epoch 1, and not yet the next one."""
    node, effects = leader()
    begun = sent(effects, BeginQuorumEpochRequest)
    assert len(begun) == 2
    node.on_request(begin_request(5, leader_id=3), 1, "begin", 1_100)
    now_ms = 1_100
    while node.state.name != "Leader":
        now_ms += 500
        effects = grant(node, node.on_timer(now_ms), now_ms)
        if node.state.name == "Candidate":
            effects = grant(node, effects, now_ms)
    again = {each.destination for each in sent(effects, BeginQuorumEpochRequest)}
    before = _node_state(node)
    for send in begun:
        node.on_response(send.correlation_id, epoch_response(BeginQuorumEpochResponse, 1, leader_id=1), now_ms)
    assert _node_state(node) == before and again == {2, 3}


def test_a_flush_that_ends_after_the_log_was_cut_counts_no_further_than_the_log() -> None:
    node = follower(log=log_of(0, 0, 1))
    fetch = open_fetch(node.on_timer(10) or node.on_request(begin_request(2), 1, "begin", 10))
    effects = node.on_response(fetch.correlation_id, fetch_response(values(b"x", base_offset=3, epoch=2), epoch=2), 20)
    assert [each for each in effects if isinstance(each, Flush)] == [Flush(4)]
    node.on_request(begin_request(3, leader_id=3), 1, "begin", 30)
    node.log.truncate_to_end_offset(OffsetAndEpoch(2, 0))
    node.was_cut(2)
    flush(node, effects, 40)
    assert node.flushed_end_offset <= node.log.end_offset == 2


def test_snapshots_are_taken_in_the_order_of_their_pieces() -> None:
    """A piece that comes twice, by two connections, is not appended twice."""
    world = Follower()
    asked = _ask_snapshot(world)
    _piece(world, asked)
    size = world.node.state.fetching_snapshot.size
    assert size == 20
    [again] = sent(world.effects, FetchSnapshotRequest)
    again.request.topics[0].partitions[0].position = 0
    _piece(world, again)
    loading = world.node.state.fetching_snapshot
    assert (loading is None or loading.size == size) and END.offset == 2


# Clients of a controller.


@pytest.mark.parametrize("count", [1, 3])
def test_a_commit_of_the_next_leader_answers_nobody_a_second_time(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setitem(HANDLERS, UnregisterBrokerRequest, decides(UnregisterBrokerResponse(), setting("a")))
    active = Active()
    active.commit()
    for place in range(count):
        active.ask(UnregisterBrokerRequest(), place)
    end = active.controller.image.end_offset
    assert active.answers == {}
    active.resign()
    assert {Errors(each.error_code) for each in active.answers.values()} == {Errors.NOT_CONTROLLER}  # type: ignore[union-attr]
    active.take(active.controller.on_leader(2, active.controller.image.end_offset))
    active.take(active.controller.on_committed(b"", end + 10))
    assert len(active.answers) == count
