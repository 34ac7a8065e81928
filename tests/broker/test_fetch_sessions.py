"""Fetch sessions (KIP-227): the cache beside its slow twin, and brokers that fetch from one another by them."""

from collections.abc import Iterable
from itertools import count
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.cluster import KEY, TOPIC_ID, Cluster, led
from kcore.broker.replicas import fetch_sessions
from kcore.broker.replicas.fetch_sessions import EVICTION_MS, FetchSessionCache, next_epoch
from kcore.broker.replicas.fetcher import FetchSessionHandler
from kcore.broker.replicas.fetching import on_fetch
from kcore.protocol_errors import Errors
from kcore.schema.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
from kcore.steps import finished
from kcore.types import Uuid
from reference.fetch_sessions import Sessions

VERSION = 13
IDS = {name: Uuid(name.encode() * 16) for name in "abcde"}
State = dict[tuple[str, int], tuple[bool, bool, int, int]]  # Error, has records, high watermark, log start offset.


def request_of(
    names: Iterable[tuple[str, int]],
    session: tuple[int, int] = (0, 0),
    forget: Iterable[tuple[str, int]] = (),
    *,
    replica: int = -1,
) -> FetchRequest:
    return FetchRequest(
        session_id=session[0],
        session_epoch=session[1],
        replica_id=replica,
        topics=[
            FetchTopic(topic=name, topic_id=IDS[name], partitions=[FetchPartition(partition=index)])
            for name, index in names
        ],
        forgotten_topics_data=[
            ForgottenTopic(topic=name, topic_id=IDS[name], partitions=[index]) for name, index in forget
        ],
    )


def answer_of(cache: FetchSessionCache, request: FetchRequest, version: int, state: State) -> Any:
    """The error's name, or the session's id and the partitions of the answer."""
    names = {topic_id: name for name, topic_id in IDS.items()}
    context = cache.new_context(request, version)
    if isinstance(context, Errors):
        return context.name
    rows = []
    for asked in context.partitions:
        error, has_records, high_watermark, start_offset = state[names[asked.topic_id] or asked.topic, asked.index]
        data = PartitionData(
            partition_index=asked.index,
            error_code=Errors.NOT_LEADER_OR_FOLLOWER if error else Errors.NONE,
            high_watermark=high_watermark,
            log_start_offset=start_offset,
            records=b"records" if has_records else b"",
        )
        rows.append((asked, data))
    response = finished(context.response(rows))
    if response.error_code:
        return Errors(response.error_code).name
    answered = [
        (names[topic.topic_id], each.partition_index) for topic in response.responses for each in topic.partitions
    ]
    return response.session_id or None, answered


@settings(deadline=None)
@given(st.integers(0, 2**32))
def test_like_the_slow_twin(seed: int) -> None:
    """Clients with and without sessions come and go, time passes in steps around the two minutes of an eviction."""
    dice, ids = Random(seed), count()
    slots = dice.randrange(4)
    cache, twin = FetchSessionCache(slots, lambda most: next(ids)), Sessions(slots)
    state: State = {(name, index): (False, False, 0, 0) for name in IDS for index in range(3)}
    epochs = {0: 1}  # The epoch of the next fetch, by session.
    now_ms = 0
    for _ in range(60):
        now_ms += dice.choice([1, 1_000, 61_000, EVICTION_MS, EVICTION_MS + 1])
        cache.set_time(now_ms)
        for name in dice.sample([*state], 3):
            state[name] = dice.random() < 0.1, dice.random() < 0.2, dice.randrange(3), dice.randrange(2)
        names = dice.sample([*state], dice.randrange(6))
        privileged, version = dice.random() < 0.4, dice.choice([VERSION, VERSION, 12])
        session_id = dice.choice([0, *cache.sessions, [*epochs][-1]])
        result: dict[str, Any] = {"now_ms": now_ms, "by_id": version == VERSION}
        if dice.random() < 0.3:
            request = request_of(names, (session_id, 0), replica=1 if privileged else -1)
            expected = twin.full(names, session_id, state.get, privileged=privileged, **result)
        elif dice.random() < 0.05:
            request = request_of(names, (session_id, -1))
            twin.close(session_id)
            expected = None, names
        else:
            epoch = epochs[session_id] + (dice.random() < 0.1)
            forget = dice.sample([*state], dice.randrange(6))
            request = request_of(names, (session_id, epoch), forget)
            expected = twin.incremental(session_id, epoch, names, forget, state.get, **result)
        answer = answer_of(cache, request, version, state)
        assert answer == expected
        if isinstance(answer, tuple) and answer[0] is not None:
            epochs[answer[0]] = epochs.get(answer[0], 0) + 1
        assert cache.num_partitions == sum(len(each.partitions) for each in cache.sessions.values())
        assert [*cache.sessions] == [each.number for each in sorted(twin.kept, key=lambda each: each.turn)]


def test_epochs_begin_anew_behind_the_last() -> None:
    assert [next_epoch(each) for each in (0, 1, 2**31 - 2, 2**31 - 1, -1)] == [1, 2, 2**31 - 1, 1, -1]


@pytest.mark.parametrize("refused", [0, 1, 2, 3])
def test_a_client_that_may_read_nothing_has_no_session(refused: int) -> None:
    """A client without rights: 48 bytes would cost a hundred thousand refusals each time."""
    cache = FetchSessionCache(10, Random(1).randrange)
    names = [("a", index) for index in range(3)]
    state: State = {name: (place < refused, False, 0, 0) for place, name in enumerate(names)}
    session, answered = answer_of(cache, request_of(names), VERSION, state)
    assert ((session is None), len(cache.sessions), answered) == (refused == 3, refused < 3, names)


def test_sessions_are_bounded_by_their_partitions_and_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_sessions, "MOST_PARTITIONS", 5)
    cache = FetchSessionCache(10, Random(1).randrange)
    state: State = {(name, index): (False, False, 0, 0) for name in IDS for index in range(3)}
    names = [*state]
    kept, _ = answer_of(cache, request_of(names[:3]), VERSION, state)
    assert answer_of(cache, request_of(names[3:6]), VERSION, state) == (None, names[3:6])
    assert answer_of(cache, request_of(names[3:5], (kept, 1)), VERSION, state) == (kept, names[3:5])
    assert answer_of(cache, request_of(names[5:6], (kept, 2)), VERSION, state) == "FETCH_SESSION_ID_NOT_FOUND"
    assert not cache.sessions and not cache.num_partitions
    long = FetchTopic(topic="x" * 250, partitions=[FetchPartition(partition=0)])
    context = cache.new_context(FetchRequest(session_epoch=0, topics=[long], forgotten_topics_data=[]), 12)
    assert not isinstance(context, Errors) and finished(context.response([])).session_id == 0


def test_ids_are_not_given_twice() -> None:
    numbers = iter([6, 6, 7])
    cache = FetchSessionCache(10, lambda most: next(numbers))
    state: State = {("a", 0): (False, False, 0, 0)}
    assert [answer_of(cache, request_of(state), VERSION, state)[0] for _ in range(2)] == [7, 8]


# A broker's answers.


def fetch(
    cluster: Cluster, session: tuple[int, int], offset: int | None = None, wait_ms: int = 0, **rights: Any
) -> int:
    """A consumer's fetch from broker 1, as it was asked for before where no offset is given; its number."""
    partition = FetchPartition(partition=0, fetch_offset=offset or 0, partition_max_bytes=100_000)
    request = FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=1,
        session_id=session[0],
        session_epoch=session[1],
        topics=[] if offset is None else [FetchTopic(topic_id=TOPIC_ID, partitions=[partition])],
        forgotten_topics_data=[],
    )
    cluster.requests += 1
    finished(on_fetch(cluster.brokers[1], cluster.requests, request, VERSION, cluster.now_ms, **rights))
    cluster.perform(1)
    return cluster.requests


def answered(cluster: Cluster, number: int) -> tuple[Errors, int]:
    """The error of the whole response, and how many partitions it has."""
    response = cluster.answers[number]
    return Errors(response.error_code), sum(len(topic.partitions) for topic in response.responses)


def test_a_fetch_that_waits_is_answered_with_what_comes() -> None:
    cluster = led()
    session_id = cluster.answers[fetch(cluster, (0, 0), 0)].session_id
    assert session_id > 0
    waiting = fetch(cluster, (session_id, 1), wait_ms=500)
    assert waiting not in cluster.answers
    cluster.produce(1, b"a")
    cluster.run()
    assert cluster.fetched(waiting).high_watermark == 1 and cluster.fetched(waiting).records
    assert answered(cluster, fetch(cluster, (session_id, 2), 1)) == (Errors.NONE, 0)
    again = fetch(cluster, (session_id, 3), wait_ms=500)
    cluster.pass_time(600)
    assert answered(cluster, again) == (Errors.NONE, 0)


def test_changes_that_were_read_and_not_sent_come_later() -> None:
    """Records that a waiting fetch has read do not count as sent."""
    cluster = led()
    session_id = cluster.answers[fetch(cluster, (0, 0), 0)].session_id
    cluster.produce(1, b"a")
    waiting = fetch(cluster, (session_id, 1), 1, wait_ms=500)
    cluster.run(3)
    assert waiting not in cluster.answers
    cluster.pass_time(600)
    assert cluster.fetched(waiting).high_watermark == 1 and not cluster.fetched(waiting).records


def test_an_epoch_that_comes_twice_is_refused() -> None:
    cluster = led()
    session_id = cluster.answers[fetch(cluster, (0, 0), 0)].session_id
    waiting = fetch(cluster, (session_id, 1), wait_ms=500)
    assert answered(cluster, fetch(cluster, (session_id, 1))) == (Errors.INVALID_FETCH_SESSION_EPOCH, 0)
    assert answered(cluster, fetch(cluster, (session_id, 2))) == (Errors.NONE, 0)
    cluster.pass_time(600)
    assert answered(cluster, waiting) == (Errors.INVALID_FETCH_SESSION_EPOCH, 0)


def test_a_disk_that_breaks_under_a_waiting_fetch() -> None:
    cluster = led()
    session_id = cluster.answers[fetch(cluster, (0, 0), 0)].session_id
    waiting = fetch(cluster, (session_id, 1), wait_ms=500)
    cluster.log(1).fails = True
    cluster.produce(1, b"a")
    assert cluster.fetched(waiting).error_code == Errors.KAFKA_STORAGE_ERROR


def test_an_error_is_repeated_and_its_end_is_seen() -> None:
    cluster = led()
    session_id = cluster.answers[fetch(cluster, (0, 0), 0)].session_id
    cluster.elect(2)
    for epoch in (1, 2):
        number = fetch(cluster, (session_id, epoch), 99)
        assert cluster.fetched(number).error_code == Errors.OFFSET_OUT_OF_RANGE
    assert cluster.fetched(fetch(cluster, (session_id, 3), 0)).error_code == Errors.NONE
    assert answered(cluster, fetch(cluster, (session_id, 4))) == (Errors.NONE, 0)


def test_the_right_to_read_counts_with_each_fetch_of_a_session() -> None:
    """Rights are checked for each fetch of a session."""
    cluster = led()
    session_id = cluster.answers[fetch(cluster, (0, 0), 0)].session_id
    refused = fetch(cluster, (session_id, 1), wait_ms=500, may_read=lambda name: name != "t")
    assert cluster.fetched(refused).error_code == Errors.TOPIC_AUTHORIZATION_FAILED
    allowed = fetch(cluster, (session_id, 2), may_read=lambda name: name == "t")
    assert cluster.fetched(allowed).error_code == Errors.NONE


# A follower.


class Wire(Cluster):
    """Records the followers' requests and their responses."""

    def __init__(self, **settings: Any) -> None:
        self.fetches: list[tuple[FetchRequest, Any]] = []
        super().__init__(2, **settings)

    def ask(self, leader_id: int, request: Any, version: int) -> Any:
        answer = super().ask(leader_id, request, version)
        if isinstance(request, FetchRequest):
            self.fetches.append((request, answer))
        return answer

    def taken(self) -> list[tuple[int, int, int]]:
        """The fetches since the last call: error, requested partitions, answered partitions."""
        found, self.fetches = self.fetches, []
        return [
            (
                answer.error_code,
                sum(len(topic.partitions) for topic in request.topics),
                sum(len(topic.partitions) for topic in answer.responses),
            )
            for request, answer in found
        ]


@pytest.mark.parametrize("protocol", ["3.9", "2.7"])
def test_a_follower_asks_for_what_changed(protocol: str) -> None:
    cluster = Wire(inter_broker_protocol=protocol)
    cluster.elect(1)
    cluster.run(3)
    first, *others = cluster.taken()
    assert first == (0, 1, 1) and others and set(others) == {(0, 0, 0)}
    cluster.produce(1, b"a")
    cluster.run(4)
    assert cluster.taken() == [(0, 0, 1), (0, 1, 0), (0, 0, 1), (0, 0, 0)]  # The record, then that it is committed.
    assert cluster.log(2).high_watermark == cluster.log(2).end_offset == 1


def test_a_follower_whose_session_is_gone_asks_for_all_at_once() -> None:
    cluster = Wire()
    cluster.elect(1)
    cluster.run(2)
    sessions = cluster.brokers[1].sessions
    sessions.remove(*sessions.sessions.values())
    cluster.taken()
    cluster.follow(2, rounds=2)
    assert cluster.taken() == [(Errors.FETCH_SESSION_ID_NOT_FOUND, 0, 0), (0, 1, 1)]
    [session] = sessions.sessions.values()
    session.epoch += 1
    cluster.follow(2, rounds=2)
    assert cluster.taken() == [(Errors.INVALID_FETCH_SESSION_EPOCH, 0, 0), (0, 1, 1)]
    assert len(sessions.sessions) == 1


def test_without_slots_a_follower_asks_for_all_each_time() -> None:
    cluster = Wire()
    cluster.brokers[1].sessions.slots = 0
    cluster.elect(1)
    cluster.run(3)
    assert set(cluster.taken()) == {(0, 1, 1)}


def result(handler: FetchSessionHandler, wanted: dict[Any, Any], *answer: int, session_id: int = 7) -> tuple[Any, ...]:
    """The handler's request: epoch, topics, forgotten topics; and whether the answer, of partitions, counts."""
    request = FetchRequest()
    handler.fill(request, wanted)
    rows = [PartitionData(partition_index=each) for each in answer]
    response = FetchResponse(
        session_id=session_id, responses=[FetchableTopicResponse(topic_id=TOPIC_ID, partitions=rows)]
    )
    asked = [(topic.topic_id, [each.partition for each in topic.partitions]) for topic in request.topics]
    forgotten = [(topic.topic_id, topic.partitions) for topic in request.forgotten_topics_data]
    return request.session_epoch, asked, forgotten, handler.answered(response)


def test_the_handler_of_a_session() -> None:
    handler, key = FetchSessionHandler(), KEY
    one, two = (TOPIC_ID, FetchPartition(partition=0)), (TOPIC_ID, FetchPartition(partition=1))
    other = IDS["a"], FetchPartition(partition=0)
    assert result(handler, {key: one}, 0) == (0, [(TOPIC_ID, [0])], [], True)
    assert result(handler, {key: one, ("t", 1): two}, 1) == (1, [(TOPIC_ID, [1])], [], True)
    assert result(handler, {("t", 1): two}) == (2, [], [(TOPIC_ID, [0])], True)
    assert result(handler, {key: one}) == (3, [(TOPIC_ID, [0])], [(TOPIC_ID, [1])], True)
    assert result(handler, {key: other}) == (4, [(IDS["a"], [0])], [(TOPIC_ID, [0])], True)
    assert result(handler, {key: other}, 0) == (5, [], [], False), "an answer of another topic"
    assert result(handler, {key: one, ("t", 1): two}, 0) == (0, [(TOPIC_ID, [0, 1])], [], False), "not of all"
    assert result(handler, {key: one}, 0, session_id=0) == (0, [(TOPIC_ID, [0])], [], True), "no session is kept"
    assert result(handler, {key: one}, 0) == (0, [(TOPIC_ID, [0])], [], True)
    handler.failed()
    request = FetchRequest()
    handler.fill(request, {key: one})
    assert (request.session_id, request.session_epoch, len(request.topics)) == (7, 0, 1)
