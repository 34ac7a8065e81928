"""The answer loop's loop and its slow twin: which bytes they answer, and what no client can do to them."""

import os
import socket
from pathlib import Path
from typing import Any

import pytest

from answer_loop.stand import (
    BEAT,
    LONG_NS,
    VERSIONS,
    Leader,
    Running,
    answer_frame,
    asked,
    beating,
    close_descriptor,
    fetching,
    heartbeat_frame,
    received,
    rows,
    template_of,
    until,
    waiting,
)
from raft.replication import values
from reference.answer_loop_log import MOST_BATCHES

# The bytes.


@pytest.mark.parametrize("version", range(3))
def test_a_heartbeat_gets_the_answer_of_the_one_before(running: Running, leader: Leader, version: int) -> None:
    ours, key = beating(running, version)
    for correlation_id, offset in ((1, 3), (2**31 - 1, 4), (-1, 2**40)):
        ours.sendall(heartbeat_frame(version, offset, correlation_id))
        wanted = answer_frame(BEAT, version, correlation_id)
        assert received(ours, len(wanted)) == wanted
    [[noted, offset, _]] = rows(running.loop.drain_contacts(), 3)
    assert (noted, offset) == (key, 2**40)
    assert running.loop.drain_contacts() == b""
    assert running.loop.counters()["heartbeats"] == 3


@pytest.mark.parametrize("version", VERSIONS)
def test_a_fetch_gets_what_the_plain_front_answers(running: Running, leader: Leader, version: int) -> None:
    for length in (10, 150, 20_000):  # The records' length, a varint, has one to three bytes.
        leader.append(bytes(length))
    leader.flush()
    ours, _ = fetching(running, version, max_wait_ns=0)
    for offset in (1, 2, 3, 4):
        request = asked(version, offset=offset, correlation_id=offset, max_wait_ms=0)
        [wanted] = leader.ask(request, "plain")
        frame = answer_frame(wanted.response, version, offset)
        ours.sendall(asked(version, offset=offset, correlation_id=offset))
        assert received(ours, len(frame)) == frame


@pytest.mark.parametrize("max_bytes", [-1, 0, 1, 150, 300, 1 << 30])
def test_records_are_whole_batches_of_one_segment(running: Running, leader: Leader, max_bytes: int) -> None:
    for _ in range(30):
        leader.append(bytes(100))
    leader.flush()
    assert len(list(leader.log.folder.glob("*.log"))) > 2
    ours, _ = fetching(running, max_bytes=max_bytes, max_wait_ns=0)
    for offset in range(1, leader.log.end_offset + 1):
        [wanted] = leader.ask(asked(offset=offset, max_bytes=max_bytes, max_wait_ms=0), "plain")
        frame = answer_frame(wanted.response, 18, 7)
        ours.sendall(asked(offset=offset, max_bytes=max_bytes))
        assert received(ours, len(frame)) == frame


@pytest.mark.parametrize("version", [17, 18])
def test_who_waits_is_answered_at_the_commit(running: Running, leader: Leader, version: int) -> None:
    ours, _ = fetching(running, version)
    ours.sendall(asked(version))
    leader.ask(asked(version, max_wait_ms=2000), "plain")
    waiting(running)
    assert leader.append(b"one") == []
    [wanted] = leader.flush()
    frame = answer_frame(wanted.response, version, 7)
    assert received(ours, len(frame)) == frame
    waiting(running, 0)


def test_a_fetch_of_few_records_waits_for_the_next_pass(tmp_path: Path, kind: str) -> None:
    """Others were just answered together: records that came since wait for the next turn, but not very many of them."""
    with Running(kind, turn_ns_each=LONG_NS) as running:
        leader = Leader(tmp_path, running)
        first, late = fetching(running)[0], fetching(running)[0]
        first.sendall(asked())
        waiting(running)
        leader.append(b"one")
        leader.flush()
        assert first.recv(1000)
        leader.append(b"two")
        leader.flush()
        late.sendall(asked())
        waiting(running)
        leader.append(bytes(1 << 17))
        leader.flush()
        first.sendall(asked(offset=3, high_watermark=3))
        assert first.recv(1000)
        waiting(running)


def test_all_waiting_fetches_are_answered_before_the_next_requests(running: Running, leader: Leader) -> None:
    """Two connections share a socket, which shows the order of their answers."""
    ours, theirs = running.pair()
    for each in (theirs.dup(), theirs):
        running.adopt_fetches(each, asked())
    for correlation_id in (1, 2):
        ours.sendall(asked(correlation_id=correlation_id))
        waiting(running, correlation_id)
    ours.sendall(asked(correlation_id=3))
    leader.append(b"one")
    leader.flush()
    found = []
    for _ in range(3):
        answer = received(ours, int.from_bytes(received(ours, 4)))
        found.append(int.from_bytes(answer[:4]))
    assert sorted(found) == [1, 2, 3] and found[-1] == 3


def test_a_new_high_watermark_answers_waiting_fetches(running: Running, leader: Leader) -> None:
    """The high watermark of versions that do not send it is unknown: they are answered at each commit."""
    leader.append(b"one")
    clients = [(version, known, fetching(running, version)[0]) for version, known in ((17, None), (18, 1), (18, 2))]
    for version, known, ours in clients:
        fields = {} if known is None else {"high_watermark": known}
        ours.sendall(asked(version, offset=2, **fields))
    waiting(running, 3)
    leader.flush()
    waiting(running, 1)
    (_, _, first), (_, _, second), (_, _, third) = clients
    assert first.recv(1000) and second.recv(1000)
    third.setblocking(False)
    with pytest.raises(BlockingIOError):
        third.recv(1)


def test_a_commit_answers_a_waiting_fetch_once(running: Running, leader: Leader) -> None:
    """Another observer asks twice for the records: its second answer causes no second pass."""
    behind, caught_up = fetching(running, 17)[0], fetching(running, 17)[0]
    behind.sendall(asked(17) * 2)
    waiting(running)
    leader.append(b"one")
    caught_up.sendall(asked(17, offset=2) * 2)
    waiting(running, 2)
    leader.flush()
    [wanted] = leader.ask(asked(17, max_wait_ms=0), "plain")
    frame = answer_frame(wanted.response, 17, 7)
    assert received(behind, 2 * len(frame)) == 2 * frame
    [wanted] = leader.ask(asked(17, offset=2, max_wait_ms=0), "plain")
    frame = answer_frame(wanted.response, 17, 7)
    assert received(caught_up, len(frame)) == frame
    until(lambda: running.loop.counters()["waiting"] == 1 or running.loop.counters()["fetches"] > 3)
    assert running.loop.counters()["fetches"] == 3


def test_a_wait_ends_with_nothing(running: Running, leader: Leader) -> None:
    ours, key = fetching(running, max_wait_ns=1_000_000)
    ours.sendall(asked())
    [wanted] = leader.ask(asked(max_wait_ms=0), "plain")
    frame = answer_frame(wanted.response, 18, 7)
    assert received(ours, len(frame)) == frame
    ours.sendall(asked())
    assert received(ours, len(frame)) == frame
    [(noted, end_offset, last_fetch, leader_end, caught_up)] = rows(running.loop.progress(), 5)
    assert (noted, end_offset, leader_end) == (key, 1, 1)
    assert last_fetch == caught_up > 0


def test_a_wait_ends_in_its_own_time_though_the_one_before_was_cut_short(running: Running, leader: Leader) -> None:
    ours, _ = fetching(running, max_wait_ns=30_000_000)
    ours.sendall(asked())
    waiting(running)
    leader.append(b"one")
    leader.flush()
    assert ours.recv(1000)
    ours.sendall(asked(offset=2, high_watermark=2))
    [wanted] = leader.ask(asked(offset=2, high_watermark=2, max_wait_ms=0), "plain")
    frame = answer_frame(wanted.response, 18, 7)
    assert received(ours, len(frame)) == frame


def test_who_reads_on_is_caught_up_since_the_fetch_before(running: Running, leader: Leader) -> None:
    ours, _ = fetching(running)
    leader.append(b"one")
    ours.sendall(asked())
    assert ours.recv(1000)
    leader.append(b"two")
    ours.sendall(asked(offset=2))
    assert ours.recv(1000)
    [(_, end_offset, last_fetch, leader_end, caught_up)] = rows(running.loop.progress(), 5)
    assert (end_offset, leader_end) == (2, 3)
    assert 0 < caught_up < last_fetch


def test_the_last_heartbeat_is_known_though_its_connection_has_left(running: Running, leader: Leader) -> None:
    ours, key = beating(running)
    ours.sendall(heartbeat_frame(1, 9))
    assert ours.recv(100)
    running.loop.close(key)
    assert [row[:2] for row in rows(running.loop.drain_contacts(), 3)] == [(key, 9)]


# Requests that Python answers.


@pytest.mark.parametrize(
    "changed",
    [
        {"offset": 2},
        {"offset": 0},
        {"offset": -1},
        {"offset": 2**63 - 1},
        {"last_epoch": 0},
        {"replica": 6},
        {"client_id": "b client"},
        {"max_bytes": 5},
    ],
    ids=str,
)
def test_a_fetch_that_is_not_for_the_loop_is_handed_back(
    running: Running, leader: Leader, changed: dict[str, Any]
) -> None:
    ours, key = fetching(running)
    frame = asked(**changed)
    ours.sendall(frame)
    [left] = running.left()
    assert (left[0], left[2:5]) == (key, (frame, b"", ""))
    with socket.socket(fileno=left[1]) as again:
        again.sendall(b"answered by Python")
        assert ours.recv(100) == b"answered by Python"


@pytest.mark.parametrize("offset", [-1, 2, -(2**63)])
def test_a_heartbeat_that_goes_back_is_handed_back(running: Running, leader: Leader, offset: int) -> None:
    ours, _ = beating(running)
    ours.sendall(heartbeat_frame(1, offset))
    [left] = running.left()
    assert left[2] == heartbeat_frame(1, offset)
    close_descriptor(left)


@pytest.mark.parametrize("size", [b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\0\0\0\0", b"HTTP"])
def test_another_size_is_handed_back_at_once(running: Running, leader: Leader, size: bytes) -> None:
    ours, _ = beating(running)
    ours.sendall(size[:1])
    ours.sendall(size[1:])
    [left] = running.left()
    assert left[2] == size
    close_descriptor(left)


def test_a_node_that_does_not_lead_answers_no_fetch(running: Running, leader: Leader) -> None:
    running.loop.resign()
    for ours, frame in ((beating(running)[0], heartbeat_frame(1, 4)), (fetching(running)[0], asked())):
        ours.sendall(frame)
        [left] = running.left()
        assert left[2] == frame
        close_descriptor(left)


def test_resigning_hands_all_back(running: Running, leader: Leader) -> None:
    fetches, beats = fetching(running), beating(running)
    fetches[0].sendall(asked())
    waiting(running)
    running.loop.resign()
    found = {left[0]: left for left in running.loop.drain()}
    assert {key: left[2] for key, left in found.items()} == {fetches[1]: asked(), beats[1]: b""}
    for left in found.values():
        close_descriptor(left)
    assert running.loop.counters()["connections"] == 0


def test_another_epoch_hands_those_that_wait_back(running: Running, leader: Leader) -> None:
    ours, _ = fetching(running)
    ours.sendall(asked())
    waiting(running)
    running.loop.lead(2, 1)
    [left] = running.loop.drain()
    assert left[2] == asked()
    close_descriptor(left)


def test_a_log_that_begins_later_is_pythons(running: Running, leader: Leader) -> None:
    running.loop.set_log_start(1)
    ours, _ = fetching(running)
    ours.sendall(asked())
    [left] = running.left()
    assert left[2] == asked()
    close_descriptor(left)


def test_so_many_batches_are_remembered(running: Running, leader: Leader, tmp_path: Path) -> None:
    """Python handles fetches behind them; the remaining ones are read from the right segment."""
    batch, offset = values(b"one", epoch=leader.node.epoch), leader.log.end_offset
    for many in (10, MOST_BATCHES - 5):
        path = tmp_path / str(many)
        path.write_bytes(b"".join((offset + k).to_bytes(8) + batch[8:] for k in range(many)))
        running.loop.begin_segment(os.open(path, os.O_RDONLY))
        running.loop.appended(0, many * len(batch))
        offset += many
    ours, _ = fetching(running, max_wait_ns=0, max_bytes=1)
    head, _, _, _ = template_of(leader.node, 18)
    for known in (6, 10, 11, offset - 1):
        ours.sendall(asked(offset=known, max_bytes=1))
        answer = received(ours, int.from_bytes(received(ours, 4)))
        assert (known.to_bytes(8) + batch[8:]) in answer[len(head) - 4 :]
    ours.sendall(asked(offset=5, max_bytes=1))
    [left] = running.left()
    assert left[2] == asked(offset=5, max_bytes=1)
    close_descriptor(left)


def test_damaged_records_are_handed_back(running: Running, leader: Leader) -> None:
    leader.append(bytes(100))
    leader.flush()
    path = max(leader.log.folder.glob("*.log"))
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size - 10)
    ours, _ = fetching(running)
    ours.sendall(asked())
    [left] = running.left()
    assert left[2] == asked()
    close_descriptor(left)


@pytest.mark.parametrize("is_waiting", [False, True])
def test_a_connection_is_handed_back_and_adopted_again(running: Running, leader: Leader, is_waiting: bool) -> None:
    ours, key = fetching(running)
    if is_waiting:
        ours.sendall(asked())
        waiting(running)
    running.loop.hand_back(key)
    running.loop.hand_back(key)  # It is here no more: nothing.
    [left] = running.loop.drain()
    assert left[2:5] == (asked() if is_waiting else b"", b"", "")
    running.adopt_fetches(socket.socket(fileno=left[1]), asked(), progress=left[5])
    leader.append(b"one")
    ours.sendall(asked())
    assert ours.recv(1000)
    assert running.loop.counters()["connections"] == 1
