"""The intervals at which a leader answers observers, and the fetches that may wait."""

from typing import Any

import pytest

from kcore.raft.fetching import is_of_observer
from kcore.raft.intervals import ANSWER_US, LONGEST_US, Intervals
from kcore.raft.raft_config import FETCH_MAX_WAIT_MS
from raft.replication import append, committed_leader, fetch, fetch_request, fetched


def test_observers_that_find_records_at_once_begin_an_interval_too() -> None:
    """Otherwise the fetches of thousands of brokers, each a record late, would each be answered alone."""
    node = committed_leader()
    asked = [object() for _ in range(1000 // ANSWER_US + 1)]
    *first, last = [fetched(behind(node, replica, 1000), replica) for replica in asked]
    assert all(first) and last is None
    assert node.next_deadline_ms == 1001 and fetched(node.on_timer(1001), asked[-1]) is not None
    assert fetched(behind(node, voter := object(), 1001, replica_id=3), voter) is not None


def behind(node: Any, reply_to: object, now_ms: int, replica_id: int = 99) -> list[Any]:
    """The effects of a fetch that lacks a committed record."""
    found: list[Any] = node.on_request(fetch_request(0, 0, replica=replica_id), 18, reply_to, now_ms)
    return found


def test_many_observers_are_answered_by_several_events(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each event answers a bounded number. The interval counts all of them, from the last event on."""
    monkeypatch.setattr("kcore.raft.fetching.OBSERVERS_AT_ONCE", 15)
    node, observers = committed_leader(), [object() for _ in range(40)]
    for at, reply_to in enumerate(observers):
        asked = fetch_request(node.log.end_offset, replica=100 + at, high_watermark=node.high_watermark)
        assert fetched(node.on_request(asked, 18, reply_to, 1000), reply_to) is None
    effects = append(node, b"a", now_ms=1001)
    effects += fetch(node, fetch_request(node.log.end_offset, max_wait_ms=0), 1001)[1]
    counts = [answered(effects, observers)]
    for now_ms in (1002, 1003):
        assert node.next_deadline_ms == now_ms
        counts.append(answered(node.on_timer(now_ms), observers))
    assert counts == [15, 15, 10]
    assert fetched(behind(node, late := object(), 1004), late) is None, "the interval is running"
    assert node.next_deadline_ms == 1003 + 40 * ANSWER_US // 1000


def test_observers_get_a_hundred_records_in_a_few_answers() -> None:
    """As brokers that are registered, while others register: each answer has all registrations of an interval."""
    node, observers, answers = committed_leader(), dict[object, int](), 0

    def wait(replica: int, now_ms: int) -> None:
        asked = fetch_request(node.log.end_offset, replica=replica, high_watermark=node.high_watermark)
        reply_to = object()
        assert fetched(node.on_request(asked, 18, reply_to, now_ms), reply_to) is None
        observers[reply_to] = replica

    for at in range(40):
        wait(100 + at, 1000)
    for now_ms in range(1001, 1101):
        effects = append(node, b"a", now_ms=now_ms)
        effects += fetch(node, fetch_request(node.log.end_offset, max_wait_ms=0), now_ms)[1]
        effects += node.on_timer(now_ms) if node.next_deadline_ms <= now_ms else []
        for reply_to in [each for each in observers if fetched(effects, each) is not None]:
            answers += 1
            wait(observers.pop(reply_to), now_ms)
    assert node.high_watermark == node.log.end_offset and 40 <= answers <= 40 * 100 // 9


def answered(effects: list[Any], observers: list[object]) -> int:
    return sum(fetched(effects, each) is not None for each in observers)


def test_only_observers_fetches_at_a_leader_may_wait() -> None:
    node = committed_leader()
    assert is_of_observer(node, fetch_request(1, replica=99))
    assert not is_of_observer(node, fetch_request(1, replica=3)), "the fetches of voters commit records"
    node.resign(1, 1000)
    assert not is_of_observer(node, fetch_request(1, replica=99))


def test_an_interval_ends_before_a_fetch_has_waited_for_its_time_out() -> None:
    intervals = Intervals()
    intervals.begin(1000, 1_000_000, doubles=True)
    assert intervals.end_ms == 1000 + LONGEST_US // 1000 < 1000 + FETCH_MAX_WAIT_MS
