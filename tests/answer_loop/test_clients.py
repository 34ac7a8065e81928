"""No client can harm the answer loop or its slow twin; and wrong calls from Python."""

import os
import socket
import struct
from pathlib import Path
from typing import Any

import pytest

from answer_loop.stand import (
    BEAT,
    Leader,
    Running,
    answer_frame,
    asked,
    beating,
    close_descriptor,
    fetching,
    heartbeat_frame,
    places_of,
    received,
    until,
    waiting,
)
from raft.replication import values

ABORTS = struct.pack("ii", 1, 0)  # SO_LINGER: a close is a RST.


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
    """A record committed meanwhile costs one answer each: both records come together."""
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


# Wrong calls from Python.


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
