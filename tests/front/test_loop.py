"""The compiled front's loop and its slow twin: which bytes they answer, and what no client can do to them."""

import os
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from front.stand import (
    BEAT,
    LONG_NS,
    LOOPS,
    VERSIONS,
    Leader,
    Running,
    answer_frame,
    close_descriptor,
    fetch_frame,
    heartbeat_frame,
    places_of,
    received,
    rows,
    until,
)
from raft.replication import values

ABORTS = struct.pack("ii", 1, 0)  # SO_LINGER: a close is a RST.


@pytest.fixture(params=sorted(LOOPS))
def running(request: pytest.FixtureRequest) -> Iterator[Running]:
    with Running(request.param) as found:
        yield found


@pytest.fixture
def leader(running: Running, tmp_path: Path) -> Leader:
    """Its log has one record, which is committed."""
    return Leader(tmp_path, running)


def beating(running: Running, version: int = 1, offset: int = 3, *, tcp: bool = False) -> tuple[socket.socket, int]:
    ours, theirs = running.pair(tcp=tcp)
    return ours, running.adopt_heartbeats(
        theirs, heartbeat_frame(version, offset), answer_frame(BEAT, version, 0x01020304)
    )


def fetching(
    running: Running, version: int = 18, *, tcp: bool = False, max_wait_ns: int = LONG_NS, **fields: Any
) -> tuple[socket.socket, int]:
    ours, theirs = running.pair(tcp=tcp)
    return ours, running.adopt_fetches(theirs, asked(version, **fields), max_wait_ns=max_wait_ns)


def asked(version: int = 18, **fields: Any) -> bytes:
    """A fetch of observer 5 from the end of what `leader` has, whose high watermark it knows."""
    known = {"high_watermark": 1} if version >= 18 else {}
    return fetch_frame(version, **{"offset": 1, "replica": 5} | known | fields)


def waiting(running: Running, many: int = 1) -> None:
    until(lambda: running.loop.counters()["waiting"] == many)


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


def test_a_high_watermark_wakes_those_that_do_not_know_it(running: Running, leader: Leader) -> None:
    """Of a version that does not send it, nobody knows: they are answered at each commit."""
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


# What is Python's.


@pytest.mark.parametrize(
    "changed",
    [{"offset": 2}, {"offset": 0}, {"last_epoch": 0}, {"replica": 6}, {"client_id": "b client"}, {"max_bytes": 5}],
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


def test_nobody_is_answered_by_who_does_not_lead(running: Running, leader: Leader) -> None:
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


# Whatever a client does.


def test_frames_may_come_byte_by_byte_and_all_at_once(running: Running, leader: Leader) -> None:
    ours, _ = beating(running, tcp=True)
    ours.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    frames = [heartbeat_frame(1, 5 + k, correlation_id=k) for k in range(200)]
    wanted = b"".join(answer_frame(BEAT, 1, k) for k in range(200))
    for byte in frames[0] + frames[1]:
        ours.send(bytes([byte]))
    ours.sendall(b"".join(frames[2:]))
    assert received(ours, len(wanted)) == wanted


def test_what_comes_behind_a_frame_that_waits_is_not_lost(running: Running, leader: Leader) -> None:
    ours, key = fetching(running)
    ours.sendall(asked() + asked(correlation_id=8) + b"\0\0")
    waiting(running)
    running.loop.hand_back(key)
    [left] = running.loop.drain()
    with socket.socket(fileno=left[1]) as again:
        again.setblocking(False)
        rest = again.recv(1000)
    assert left[2] + rest == asked() + asked(correlation_id=8) + b"\0\0"
    assert len(left[2]) <= len(asked()) + 1


@pytest.mark.parametrize("is_waiting", [False, True])
@pytest.mark.parametrize(("resets", "why"), [(False, "eof"), (True, "reset")])
def test_a_client_that_goes(running: Running, leader: Leader, is_waiting: bool, resets: bool, why: str) -> None:
    ours, key = fetching(running, tcp=True)
    if is_waiting:
        ours.sendall(asked())
        waiting(running)
    if resets:
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, ABORTS)
    ours.close()
    [left] = running.left()
    assert (left[:5], left[5][0]) == ((key, -1, b"", b"", why), 1 if is_waiting else -1)
    assert running.loop.counters() | {"bytes_in": 0} == {
        **dict.fromkeys(("fetches", "heartbeats", "bytes_in", "bytes_out", "handed_back"), 0),
        **{"closed": 1, "connections": 0, "waiting": 0},
    }


def test_a_client_that_ends_with_an_answer_on_its_way_gets_it(running: Running, leader: Leader) -> None:
    ours, _ = fetching(running, max_wait_ns=0, tcp=True)
    leader.append(bytes(6 << 20))
    leader.flush()
    [wanted] = leader.ask(asked(max_wait_ms=0), "plain")
    frame = answer_frame(wanted.response, 18, 7)
    ours.sendall(asked())
    ours.shutdown(socket.SHUT_WR)
    assert received(ours, len(frame) + 1) == frame
    [left] = running.left()
    assert left[4] == "eof"


def test_a_client_that_takes_nothing_is_handed_back_with_the_rest(tmp_path: Path, kind: str) -> None:
    with Running(kind, unsent_bytes=10 << 20) as running:
        leader = Leader(tmp_path, running)
        slow, slow_key = fetching(running, max_wait_ns=0)
        quick, _ = fetching(running, max_wait_ns=0)
        leader.append(os.urandom(6 << 20))
        leader.flush()
        [wanted] = leader.ask(asked(max_wait_ms=0), "plain")
        slow.sendall(asked())
        until(lambda: running.loop.counters()["fetches"] == 1)
        assert running.loop.drain() == []
        leader.append(os.urandom(6 << 20))
        leader.flush()
        quick.sendall(asked(offset=2))
        [left] = running.left()
        assert (left[0], left[2], left[4]) == (slow_key, b"", "")
        close_descriptor(left)
        frame = answer_frame(wanted.response, 18, 7)
        sent = received(slow, len(frame))
        assert sent + left[3] == frame
        assert left[3]


def test_an_idle_client_is_closed_but_no_waiting_one(tmp_path: Path, kind: str) -> None:
    with Running(kind, idle_ns=50_000_000) as running:
        Leader(tmp_path, running)
        waits, _ = fetching(running)
        waits.sendall(asked())
        _, key = fetching(running)
        [left] = running.left()
        assert left[:5] == (key, -1, b"", b"", "idle")
        half, key = fetching(running)
        half.sendall(asked()[:-1])
        [left] = running.left()
        assert left[:5] == (key, -1, b"", b"", "idle")
        assert running.loop.counters()["waiting"] == 1


def test_a_client_is_closed(running: Running, leader: Leader) -> None:
    ours, key = fetching(running)
    ours.sendall(asked())
    waiting(running)
    running.loop.close(key)
    running.loop.close(key + 1)
    [left] = running.loop.drain()
    assert left[:5] == (key, -1, b"", b"", "aborted")
    assert ours.recv(1) == b""


def test_a_thousand_observers_get_each_commit(running: Running, leader: Leader) -> None:
    clients = [fetching(running)[0] for _ in range(1000)]
    offset = 1
    for _ in range(3):
        for ours in clients:
            ours.sendall(asked(offset=offset, high_watermark=offset))
        waiting(running, 1000)
        leader.ask(asked(offset=offset, high_watermark=offset, max_wait_ms=2000), "plain")
        leader.append(b"one")
        [wanted] = leader.flush()
        frame = answer_frame(wanted.response, 18, 7)
        offset += 1
        assert all(received(ours, len(frame)) == frame for ours in clients)
    assert running.loop.counters()["fetches"] == 3000


def test_many_that_were_woken_give_the_next_ones_a_pause(tmp_path: Path, kind: str) -> None:
    """What is committed meanwhile costs one answer each: both records come together."""
    with Running(kind, turn_ns_each=100_000_000) as running:
        leader = Leader(tmp_path, running)
        clients = [fetching(running)[0] for _ in range(3)]
        for offset, records in ((1, [b"one"]), (2, [b"two", b"three"])):
            for ours in clients:
                ours.sendall(asked(offset=offset, high_watermark=offset))
            waiting(running, 3)
            for record in records:
                leader.append(record)
                leader.flush()
            [wanted] = leader.ask(asked(offset=offset, max_wait_ms=0), "plain")
            frame = answer_frame(wanted.response, 18, 7)
            assert all(received(ours, len(frame)) == frame for ours in clients)


# What Python does wrong.


def test_places_and_templates_are_checked(running: Running, leader: Leader) -> None:
    loop, frame = running.loop, asked()
    fetches = places_of(frame, ("correlation_id", "fetch_offset", "last_fetched_epoch", "high_watermark"))
    too_long = (5000).to_bytes(4) + bytes(5000)
    for changed in (
        {"places": (len(frame) - 3, *fetches[1:])},
        {"places": (0, *fetches[1:])},
        {"frame": frame[:-1]},
        {"frame": too_long},
        {"frame": b""},
        {"template": 12},
    ):
        given: dict[str, Any] = {"frame": frame, "places": fetches, "template": 18} | changed
        ours, theirs = running.pair()
        rest = given["template"], 1, 1, (-1, -1, -1, -1)
        with pytest.raises(ValueError, match=r"a place is not within its frame|there is no template 12|a whole frame"):
            loop.adopt_fetches(99, theirs.detach(), given["frame"], given["places"], *rest)
        assert ours.recv(1) == b""  # The descriptor was the loop's.
    for head, places in ((bytes(20), (17, 4)), (bytes(20), (4, 13)), (bytes(20), (0, 8)), (b"", (4, 8))):
        with pytest.raises(ValueError, match="a place is not within its frame"):
            loop.set_template(1, head, *places, b"")
    _, theirs = running.pair()
    with pytest.raises(ValueError, match="a place is not within its frame"):
        loop.adopt_heartbeats(99, theirs.detach(), heartbeat_frame(1, 3), (8, 20), b"\0\0\0\3one", 4, 3)
    _, key = beating(running)
    ours, theirs = running.pair()
    with pytest.raises(ValueError, match="there is a connection"):
        running.keys = iter([key])  # type: ignore[assignment]
        running.adopt_fetches(theirs, frame)
    assert ours.recv(1) == b""


def test_what_does_not_follow_is_not_appended(running: Running, leader: Leader, tmp_path: Path) -> None:
    leader.append(b"one")
    epoch = leader.node.epoch
    follows = values(b"two", base_offset=2, epoch=epoch)
    for written, why in (
        (values(b"two", base_offset=1, epoch=epoch), "a batch of offset 1, where 2 follows"),
        (values(b"two", base_offset=2, epoch=epoch + 1), "no batch of epoch 1"),
        (follows[:-1], "no whole batches"),
        (follows + b"more", "no batch"),
        (bytes(100), "no batch"),
        (b"", "batches"),
    ):
        other = tmp_path / "other"
        other.write_bytes(written)
        running.loop.begin_segment(os.open(other, os.O_RDONLY))
        with pytest.raises(ValueError, match=why):
            running.loop.appended(0, len(written))
    with pytest.raises(ValueError, match="3 as high watermark of a log that ends at 2"):
        running.loop.committed(3)
    running.loop.committed(0)


@pytest.fixture(params=sorted(LOOPS))
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)
