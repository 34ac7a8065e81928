"""The slow twin of `kcore._ext.answer_loop`: the same loop in plain Python, each iteration under one lock."""

import os
import socket
import struct
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from select import EPOLLERR, EPOLLHUP, EPOLLIN, EPOLLOUT, epoll
from threading import RLock
from typing import Any

from reference.answer_loop_log import Log

MOST_PATTERN = 4096
MOST_RECORDS = 8 << 20  # kcore.raft.raft_config.MAX_BATCH_BYTES
FEW_BYTES = 1 << 16  # kcore.raft.fetching.FEW_BYTES
MILLISECOND = 1_000_000
NO_PROGRESS = (-1, -1, -1, -1)


@dataclass
class Connection:
    """One client; `pattern` is its last request, into which the next request's fields are written."""

    key: int
    socket: socket.socket
    pattern: bytearray
    places: list[tuple[int, int]]  # Where a field is, and how many bytes it has.
    active_ns: int
    received: bytearray = field(default_factory=bytearray)
    unsent: bytearray = field(default_factory=bytearray)
    waits_until: int | None = None  # Its fetch waits.

    def field(self, place: int) -> bytes:
        at, width = self.places[place]
        return bytes(self.pattern[at : at + width])

    def value(self, place: int) -> int:
        return int.from_bytes(self.field(place), signed=True)

    @property
    def left_progress(self) -> tuple[int, int, int, int]:
        return NO_PROGRESS


@dataclass
class Beating(Connection):
    answer: bytes = b""
    answer_place: int = 0
    offset: int = -1


@dataclass
class Fetching(Connection):
    template: int = 0
    max_bytes: int = 0
    max_wait_ns: int = 0
    progress: tuple[int, int, int, int] = NO_PROGRESS

    @property
    def left_progress(self) -> tuple[int, int, int, int]:
        return self.progress

    def fetched(self, offset: int, leader_end: int, now: int) -> None:
        """ReplicaProgress.fetched."""
        _, last_fetch, last_leader_end, caught_up = self.progress
        if offset >= leader_end:
            caught_up = max(caught_up, now)
        elif 0 < last_leader_end <= offset:
            caught_up = max(caught_up, last_fetch)
        self.progress = offset, max(last_fetch, now), leader_end, caught_up


class Loop:
    """As answer_loop.pyi has it."""

    def __init__(self, *, unsent_bytes: int, idle_ns: int, turn_ns_each: int) -> None:
        self._unsent_bytes, self._idle_ns, self._turn_ns_each = unsent_bytes, idle_ns, turn_ns_each
        self._lock = RLock()
        self._epoll = epoll()
        self._of_descriptor: dict[int, Connection] = {}
        self._wakes, self._woken = os.pipe()
        self._tells, self._told = os.pipe()
        self._epoll.register(self._wakes, EPOLLIN)
        self._stopped = self._has_woken = False
        self._connections: dict[int, Connection] = {}
        self._left: list[tuple[int, int, bytes, bytes, str, tuple[int, int, int, int]]] = []
        self._contacts: dict[int, tuple[int, int]] = {}
        self._templates: dict[int, tuple[bytes, int, int, bytes]] = {}
        self._log: Log | None = None  # While this node leads.
        self._log_start = 0
        self._high_watermark = -1
        self._wake_ns, self._has_changes = 0, False
        names = ("fetches", "heartbeats", "bytes_in", "bytes_out", "handed_back", "closed")
        self._counters = dict.fromkeys(names, 0)

    # The thread.

    def run(self) -> None:
        while not self._stopped:
            ready = self._epoll.poll(self._timeout_s())
            with self._lock:
                for descriptor, events in ready:
                    self._on_ready(descriptor, events)
                self._on_time(time.monotonic_ns())
        with self._lock:
            for connection in self._connections.values():
                connection.socket.close()
            self._connections.clear()

    def _on_ready(self, descriptor: int, events: int) -> None:
        if descriptor == self._wakes:
            os.read(descriptor, 4096)
        if events & EPOLLOUT and (connection := self._of_descriptor.get(descriptor)) is not None:
            self._send(connection)
        if events & (EPOLLIN | EPOLLHUP | EPOLLERR) and (connection := self._of_descriptor.get(descriptor)) is not None:
            self._read(connection)

    def _timeout_s(self) -> float:
        with self._lock:
            waiting = [each.waits_until for each in self._connections.values() if each.waits_until is not None]
            due = min([*waiting, time.monotonic_ns() + min(self._idle_ns // 4, 500 * MILLISECOND)])
            if self._has_changes:
                due = min(due, self._wake_ns)
            return max(due - time.monotonic_ns(), 0) / 1e9

    def _on_time(self, now: int) -> None:
        if self._has_changes and self._wake_ns <= now:
            self._complete(now)
        for each in list(self._connections.values()):
            if each.waits_until is not None and each.waits_until <= now:
                assert isinstance(each, Fetching)
                each.waits_until = None
                self._answer_fetch(each, b"")
            elif each.waits_until is None and now - each.active_ns > self._idle_ns:
                self._leave(each, "idle", closes=True)

    def stop(self) -> None:
        self._stopped = True
        os.write(self._woken, b"!")

    def fileno(self) -> int:
        return self._tells

    # Connections.

    def adopt_heartbeats(
        self,
        key: int,
        descriptor: int,
        pattern: bytes,
        places: tuple[int, int],
        answer: bytes,
        answer_place: int,
        offset: int,
    ) -> None:
        with self._lock:
            taken = socket.socket(fileno=descriptor)
            try:
                widths = _checked(pattern, zip(places, (4, 8), strict=True))
                _checked(answer, [(answer_place, 4)])
                new = Beating(key, taken, bytearray(pattern), widths, time.monotonic_ns())
                new.answer, new.answer_place, new.offset = answer, answer_place, offset
                self._adopt(new)
            except ValueError:
                taken.close()
                raise

    def adopt_fetches(
        self,
        key: int,
        descriptor: int,
        pattern: bytes,
        places: tuple[int, int, int, int | None],
        template: int,
        max_bytes: int,
        max_wait_ns: int,
        progress: tuple[int, int, int, int],
    ) -> None:
        with self._lock:
            taken = socket.socket(fileno=descriptor)
            try:
                widths = _checked(pattern, _fields_of_fetch(places))
                if template not in self._templates:
                    raise ValueError(f"there is no template {template}")
                new = Fetching(key, taken, bytearray(pattern), widths, time.monotonic_ns())
                new.template, new.max_wait_ns, new.progress = template, max_wait_ns, progress
                new.max_bytes = min(max_bytes, MOST_RECORDS)
                self._adopt(new)
            except ValueError:
                taken.close()
                raise

    def _adopt(self, new: Connection) -> None:
        if new.key in self._connections or new.key < 0:
            raise ValueError(f"there is a connection {new.key} already")
        if int.from_bytes(new.pattern[:4]) != len(new.pattern) - 4:
            raise ValueError("a pattern is a whole frame")
        self._connections[new.key] = new
        new.socket.setblocking(False)
        self._of_descriptor[new.socket.fileno()] = new
        self._epoll.register(new.socket, EPOLLIN)
        os.write(self._woken, b"!")

    def hand_back(self, key: int) -> None:
        with self._lock:
            if (connection := self._connections.get(key)) is not None:
                self._leave(connection, "", closes=False)

    def close(self, key: int) -> None:
        with self._lock:
            if (connection := self._connections.get(key)) is not None:
                self._leave(connection, "aborted", closes=True)

    def _leave(self, connection: Connection, why: str, *, closes: bool) -> None:
        del self._connections[connection.key]
        self._epoll.unregister(connection.socket)
        del self._of_descriptor[connection.socket.fileno()]
        frame = connection.pattern if connection.waits_until is not None else b""
        descriptor = connection.socket.detach()
        if closes:
            os.close(descriptor)
        self._counters["closed" if closes else "handed_back"] += 1
        received, unsent = bytes(frame + connection.received), bytes(connection.unsent)
        given = (-1, b"", b"") if closes else (descriptor, received, unsent)
        self._left.append((connection.key, *given, why, connection.left_progress))
        if not self._has_woken:
            self._has_woken = True
            os.write(self._told, b"!")

    # Requests.

    def _read(self, connection: Connection) -> None:
        try:
            if connection.waits_until is not None or connection.unsent:
                is_here = connection.socket.recv(1, socket.MSG_PEEK)
                if is_here:
                    self._epoll.modify(connection.socket, EPOLLOUT if connection.unsent else 0)
                elif not connection.unsent:
                    self._leave(connection, "eof", closes=True)
                return
            came = connection.socket.recv(len(connection.pattern) - len(connection.received))
        except BlockingIOError:
            return
        except OSError:
            self._leave(connection, "reset", closes=True)
            return
        if not came:
            self._leave(connection, "eof", closes=True)
            return
        self._counters["bytes_in"] += len(came)
        connection.received += came
        self._on_received(connection)

    def _on_received(self, connection: Connection) -> None:
        received, pattern = connection.received, connection.pattern
        if len(received) >= 4 and received[:4] != pattern[:4]:
            self._leave(connection, "", closes=False)
        elif len(received) == len(pattern):
            connection.active_ns = time.monotonic_ns()
            if not _is_like(received, pattern, connection.places) or not self._answer(connection, received):
                self._leave(connection, "", closes=False)

    def _answer(self, connection: Connection, frame: bytearray) -> bool:
        """True if the frame is answered or waits; otherwise it stays in `received`."""
        connection.pattern = bytearray(frame)
        if self._log is None:
            return False
        if isinstance(connection, Beating):
            offset = connection.value(1)
            if offset < max(connection.offset, 0):
                return False
            connection.received.clear()
            connection.offset = offset
            self._contacts[connection.key] = offset, time.monotonic_ns()
            self._counters["heartbeats"] += 1
            self._write(connection, _patched(connection.answer, (connection.answer_place, connection.field(0))))
            return True
        assert isinstance(connection, Fetching)
        return self._begin_fetch(connection, connection.active_ns)

    def _begin_fetch(self, fetching: Fetching, now: int) -> bool:
        """fetching.on_fetch_request."""
        records = self._records(fetching)
        if records is None:
            return False
        fetching.received.clear()
        fetching.fetched(fetching.value(1), self._end_offset, now)
        knows = fetching.value(3) if len(fetching.places) > 3 else None
        has_changes = bool(records) or (knows is not None and knows < self._high_watermark)
        if has_changes and fetching.max_wait_ns > 0 and len(records) <= FEW_BYTES and self._wake_ns > now:
            self._has_changes, has_changes = True, False
        if has_changes or fetching.max_wait_ns <= 0:
            self._answer_fetch(fetching, records)
        else:
            fetching.waits_until = now + fetching.max_wait_ns
        return True

    def _complete(self, now: int) -> None:
        """fetching.complete, of observers."""
        was_awaited, self._has_changes = self._has_changes, self._wake_ns > now
        if self._has_changes:
            return
        woken = 0
        for each in list(self._connections.values()):
            if each.waits_until is None or not isinstance(each, Fetching):
                continue
            knows = each.value(3) if len(each.places) > 3 else None
            if knows is not None and each.value(1) >= self._end_offset and knows >= self._high_watermark:
                continue
            woken += 1
            records = self._records(each)
            if records is None:
                self._leave(each, "", closes=False)
                continue
            each.waits_until = None
            each.fetched(each.value(1), self._end_offset, now)
            self._answer_fetch(each, records)
        if woken:
            each_ns = self._turn_ns_each * (2 if was_awaited else 1)
            self._wake_ns = now + woken * each_ns // MILLISECOND * MILLISECOND

    def _records(self, fetching: Fetching) -> bytes | None:
        """None if the fetch is not for this loop."""
        offset = fetching.value(1)
        if self._log is None or self._log.epoch != fetching.value(2) or offset <= self._log_start:
            return None
        return self._log.read(offset, fetching.max_bytes)

    @property
    def _end_offset(self) -> int:
        return -1 if self._log is None else self._log.end_offset

    def _answer_fetch(self, fetching: Fetching, records: bytes) -> None:
        head, correlation_place, high_watermark_place, tail = self._templates[fetching.template]
        high_watermark = self._high_watermark.to_bytes(8, signed=True)
        head = _patched(head, (correlation_place, fetching.field(0)), (high_watermark_place, high_watermark))
        frame = head + _varint(len(records) + 1) + records + tail
        self._counters["fetches"] += 1
        self._write(fetching, _patched(frame, (0, (len(frame) - 4).to_bytes(4))))

    # Answers.

    def _write(self, connection: Connection, frame: bytes) -> None:
        connection.unsent += frame
        self._send(connection)

    def _send(self, connection: Connection) -> None:
        try:
            while connection.unsent:
                count = connection.socket.send(connection.unsent)
                self._counters["bytes_out"] += count
                del connection.unsent[:count]
                connection.active_ns = time.monotonic_ns()
        except BlockingIOError:
            pass
        except OSError:
            self._leave(connection, "reset", closes=True)
            return
        self._epoll.modify(connection.socket, EPOLLIN | EPOLLOUT if connection.unsent else EPOLLIN)
        self._bound_unsent()

    def _bound_unsent(self) -> None:
        slow = sorted((each for each in self._connections.values() if each.unsent), key=lambda each: each.active_ns)
        total = sum(len(each.unsent) for each in slow)
        while total > self._unsent_bytes:
            total -= len(slow[0].unsent)
            self._leave(slow.pop(0), "", closes=False)

    # The leader.

    def lead(self, epoch: int, epoch_start_offset: int) -> None:
        with self._lock:
            for each in list(self._connections.values()):
                if each.waits_until is not None:
                    self._leave(each, "", closes=False)  # It asked a leader of another epoch.
            self._forget_log()
            self._log = Log(epoch, epoch_start_offset)
            self._high_watermark = -1
            self._wake_ns, self._has_changes = 0, False

    def resign(self) -> None:
        with self._lock:
            for each in list(self._connections.values()):
                self._leave(each, "", closes=False)
            self._forget_log()

    def _forget_log(self) -> None:
        if self._log is not None:
            self._log.close()
        self._log, self._has_changes = None, False

    def set_template(
        self, template: int, head: bytes, correlation_place: int, high_watermark_place: int, tail: bytes
    ) -> None:
        with self._lock:
            _checked(head, [(correlation_place, 4), (high_watermark_place, 8)])
            self._templates[template] = head, correlation_place, high_watermark_place, tail

    def begin_segment(self, descriptor: int) -> None:
        with self._lock:
            if self._log is None:
                os.close(descriptor)
            else:
                self._log.begin_segment(descriptor)

    def appended(self, position: int, length: int) -> None:
        with self._lock:
            if self._log is not None:
                self._log.appended(position, length)

    def committed(self, high_watermark: int) -> None:
        with self._lock:
            if self._log is None or high_watermark <= self._high_watermark:
                return
            if high_watermark > self._end_offset:
                raise ValueError(f"{high_watermark} as high watermark of a log that ends at {self._end_offset}")
            self._high_watermark = high_watermark
            self._complete(time.monotonic_ns())
            os.write(self._woken, b"!")

    def set_log_start(self, offset: int) -> None:
        with self._lock:
            self._log_start = offset

    # Counts of events.

    def drain(self) -> list[Any]:
        with self._lock:
            if self._has_woken:
                os.read(self._tells, 1)
            self._has_woken = False
            left, self._left = self._left, []
            return left

    def drain_contacts(self) -> bytes:
        with self._lock:
            contacts, self._contacts = self._contacts, {}
            return b"".join(struct.pack("=3q", key, *contact) for key, contact in contacts.items())

    def progress(self) -> bytes:
        with self._lock:
            fetching = [each for each in self._connections.values() if isinstance(each, Fetching)]
            return b"".join(struct.pack("=5q", each.key, *each.progress) for each in fetching)

    def counters(self) -> dict[str, int]:
        with self._lock:
            waiting = sum(each.waits_until is not None for each in self._connections.values())
            return self._counters | {"connections": len(self._connections), "waiting": waiting}


def _fields_of_fetch(places: tuple[int, int, int, int | None]) -> list[tuple[int, int]]:
    return [(at, width) for at, width in zip(places, (4, 8, 4, 8), strict=True) if at is not None]


def _checked(frame: bytes, places: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Places and widths of fields that lie behind the frame's size, and within it."""
    found = [*places]
    if len(frame) > MOST_PATTERN or not all(4 <= at <= len(frame) - width for at, width in found):
        raise ValueError("a place is not within its frame")
    return found


def _is_like(frame: bytes | bytearray, pattern: bytes | bytearray, places: list[tuple[int, int]]) -> bool:
    """Equal but for these fields."""
    zeros = [(at, bytes(width)) for at, width in places]
    return len(frame) == len(pattern) and _patched(frame, *zeros) == _patched(pattern, *zeros)


def _patched(frame: bytes | bytearray, *fields: tuple[int, bytes]) -> bytes:
    patched = bytearray(frame)
    for at, value in fields:
        patched[at : at + len(value)] = value
    return bytes(patched)


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value])
