"""One request a destination, back-off, time-outs, bootstrap servers (RequestManager)."""

import pytest

from kcore.raft.connections import MOST_RESTED, Connections
from kcore.raft.effects import Effect, Send
from kcore.raft.membership.replicas import Address
from kcore.raft.states import NEVER_MS
from kcore.schema.fetch import FetchRequest

WHERE = Address("h", 1)


def connections(jitter: int = 0) -> Connections:
    """Back-off 20 ms, request time-out 2,000 ms."""
    return Connections(20, 2000, lambda bound: min(jitter, bound - 1))


def send(to: Connections, destination: int, now_ms: int, *, beside: bool = False) -> int:
    """The correlation id."""
    effects: list[Effect] = []
    to.send(effects, destination, WHERE, FetchRequest(), now_ms, beside=beside)
    (effect,) = effects
    assert isinstance(effect, Send)
    assert (effect.destination, effect.address, effect.timeout_ms) == (destination, WHERE, 2000)
    return effect.correlation_id


def test_one_request_at_a_time() -> None:
    """Two open fetches could bring the same records twice."""
    c = connections()
    assert c.is_ready(2, 0)
    number = send(c, 2, 0)
    assert not c.is_ready(2, 1999)
    assert (c.ready_ms(2), c.busy_until_ms(1999)) == (2000, 2000)
    assert c.is_ready(3, 0)
    c.answered(number, True, 5)
    assert c.is_ready(2, 5)
    assert c.busy_until_ms(5) == 0


def test_behind_an_error_it_backs_off() -> None:
    c = connections()
    c.answered(send(c, 2, 0), False, 100)
    assert c.is_backing_off(2, 119)
    assert not c.is_ready(2, 119)
    assert c.busy_until_ms(119) == 0
    assert c.is_ready(2, 120)
    assert not c.is_backing_off(2, 120)
    assert not c.is_overdue(2, 130)


def test_an_answer_that_does_not_come_is_overdue() -> None:
    c = connections()
    number = send(c, 2, 0)
    assert not c.is_overdue(2, 1999)
    assert c.is_overdue(2, 2000)
    assert c.busy_until_ms(2000) == 0
    assert c.expected(number), "and counts still, if it comes"
    again = send(c, 2, 2000)
    assert c.expected(number) is None, "but not once it was asked again"
    assert c.expected(again)


def test_an_answer_counts_once() -> None:
    c = connections()
    number = send(c, 2, 0)
    c.answered(number, True, 1)
    assert c.expected(number) is None
    send(c, 2, 1)
    c.answered(number, False, 2)
    assert not c.is_backing_off(2, 2)


@pytest.mark.parametrize("ok", [True, False])
def test_what_is_asked_beside_another_changes_nothing_for_it(ok: bool) -> None:
    c = connections()
    first, second, third = send(c, 2, 0), send(c, 2, 1, beside=True), send(c, 2, 1, beside=True)
    assert c.expected(first)
    assert c.expected(second)
    c.answered(second, ok, 2)
    assert not c.is_ready(2, 2)
    assert not c.is_backing_off(2, 2)
    c.answered(first, True, 3)
    assert c.is_ready(2, 3)
    c.answered(third, ok, 4)
    assert c.is_ready(2, 4)


def test_a_reset_forgets_what_was_asked() -> None:
    """Answers of another round say nothing about this one."""
    c = connections()
    two, three = send(c, 2, 0), send(c, 3, 0)
    c.reset(2)
    assert (c.expected(two), c.is_ready(2, 0)) == (None, True)
    assert c.expected(three)
    c.reset_all()
    assert (c.expected(three), c.is_ready(3, 0)) == (None, True)
    c.answered(three, False, 1)
    assert c.is_ready(3, 1)


def test_bootstrap_servers_in_a_circle_from_a_random_one() -> None:
    c = connections(jitter=1)
    assert c.ready_bootstrap_server(0) is None
    assert c.bootstrap_ready_ms() == NEVER_MS
    c.bootstrap = [(-2, WHERE), (-3, WHERE), (-4, WHERE)]
    asked = []
    for _ in range(3):
        server = c.ready_bootstrap_server(0)
        assert server is not None
        asked.append(server[0])
        c.answered(send(c, server[0], 0), False, len(asked))
    assert asked == [-3, -4, -2]
    assert c.ready_bootstrap_server(20) is None
    assert c.bootstrap_ready_ms() == 21
    server = c.ready_bootstrap_server(21)
    assert server is not None
    assert server[0] == -3


def test_correlation_ids_differ_and_stay_positive() -> None:
    c = connections()
    assert len({send(c, i, 0) for i in range(100)}) == 100
    c._next_id = 0x7FFFFFFF
    assert send(c, 1, 0) == 0x7FFFFFFF
    assert send(c, 2, 0) == 0


def test_destinations_that_anybody_can_make_up_do_not_stay_for_ever() -> None:
    """AddRaftVoter names them, and nobody answers there. One that owes an answer, or backs off, stays."""
    c = connections()
    owing = send(c, 2, 0)
    for number in range(3 * MOST_RESTED):
        c.answered(send(c, 100 + number, 30 * number), False, 30 * number)
    last = 100 + 3 * MOST_RESTED - 1
    assert len(c._by_destination) <= MOST_RESTED + 1
    assert c.expected(owing) and not c.is_ready(2, 1999)
    assert c.is_backing_off(last, 30 * (3 * MOST_RESTED - 1)) and c.is_ready(last - 1, 30 * (3 * MOST_RESTED - 1))
