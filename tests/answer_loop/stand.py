"""Observers of a leader over both servers: the loop under test has their connections, a raft node is the reference.

The node gets every request, also those that the plain server answers. A connection that the loop hands back is answered
here as the node says; then the loop adopts it again, as in production.
"""

import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import count, pairwise
from pathlib import Path
from typing import Any

from kcore._ext import answer_loop as kernel
from kcore.protocol_errors import Errors
from kcore.raft.effects import Flush, SendResponse
from kcore.raft.fetching import fetch_response
from kcore.schema.broker_lifecycle import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from kcore.schema.fetch import FetchRequest, ReplicaState
from kcore.schema.headers import RequestHeader, ResponseHeader
from kcore.schema.structure import Message
from kcore.storage.log.segmented_log import Settings
from kcore.storage.raft.file_raft_log import DiskRaftLog
from kcore.wire.codec import decode_from
from kcore.wire.frame_places import frame, with_places
from raft.nodes import of, raft_node
from raft.replication import fetch_request, values
from reference import answer_loop as twin

FETCH_FIELDS = ("correlation_id", "fetch_offset", "last_fetched_epoch", "high_watermark")
BEAT = BrokerHeartbeatResponse(is_caught_up=True, is_fenced=False)
LOOPS: dict[str, Callable[..., Any]] = {"rust": kernel.Loop, "twin": twin.Loop}
VERSIONS = range(13, 19)
DEADLINE_S = 60  # Time limit of a test that hangs.
LONG_NS = 10**12
NANOS = 1_000_000


def header_of(request: type[Message], version: int, correlation_id: int, client_id: str = "a client") -> RequestHeader:
    return RequestHeader(
        request_api_key=request.api_key,
        request_api_version=version,
        correlation_id=correlation_id,
        client_id=client_id,
    )


def fetch_frame(version: int, correlation_id: int = 7, client_id: str = "a client", **fields: Any) -> bytes:
    """As `raft.replication.fetch_request` has it."""
    request = fetch_request(**fields)
    if version < 15:
        request.replica_id, request.replica_state = request.replica_state.replica_id, ReplicaState()
    return frame(header_of(FetchRequest, version, correlation_id, client_id), request, version)


def heartbeat_frame(version: int, offset: int, correlation_id: int = 7, broker_id: int = 5) -> bytes:
    request = BrokerHeartbeatRequest(broker_id=broker_id, broker_epoch=2, current_metadata_offset=offset)
    return frame(header_of(BrokerHeartbeatRequest, version, correlation_id), request, version)


def places_of(asked: bytes, names: Sequence[str]) -> tuple[int, ...]:
    """Where in a request's frame these fields are, as the codec writes them; -1 for what its version lacks."""
    kind = FetchRequest if int.from_bytes(asked[4:6]) == FetchRequest.api_key else BrokerHeartbeatRequest
    header, message, version = parsed(asked, kind)

    def build(**fields: int) -> bytes:
        for name, value in fields.items():
            in_message = message.topics[0].partitions[0] if kind is FetchRequest else message
            setattr(header if name == "correlation_id" else in_message, name, value)
        return frame(header, message, version)

    _, places = with_places(build, names)
    return tuple(-1 if at is None else at for at in places)


def parsed(asked: bytes, kind: Any) -> tuple[Any, Any, int]:
    version = int.from_bytes(asked[6:8])
    header, at = decode_from(RequestHeader, kind.header_version(version), asked, 4)
    return header, decode_from(kind, version, asked, at)[0], version


def answer_frame(response: Message, version: int, correlation_id: int) -> bytes:
    return frame(ResponseHeader(correlation_id=correlation_id), response, version)


def template_of(node: Any, version: int) -> tuple[bytes, int, int, bytes]:
    """The plain server's answer without new records, in pieces: the arguments of `set_template`."""

    def build(correlation_id: int, high_watermark: int, records: bytes = b"") -> bytes:
        node.last_fetched = None
        response = fetch_response(node, version, Errors.NONE, b"", None)
        node.last_fetched = None
        [data] = response.responses[0].partitions
        data.high_watermark, data.records = high_watermark, records
        return answer_frame(response, version, correlation_id)

    empty, [correlation_place, high_watermark_place] = with_places(build, ("correlation_id", "high_watermark"))
    one_byte = build(0, 0, b"\0")
    length = next(at for at in range(4, len(empty)) if empty[at] != one_byte[at])
    assert correlation_place is not None and high_watermark_place is not None
    return empty[:length], correlation_place, high_watermark_place, empty[length + 1 :]


class Running:
    """A loop with its thread, and pairs of sockets."""

    def __init__(self, kind: str, **settings: int) -> None:
        self.loop = LOOPS[kind](**{"unsent_bytes": 1 << 30, "idle_ns": LONG_NS, "turn_ns_each": 0} | settings)
        self.failures: list[BaseException] = []
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.keys = count()
        self._sockets: list[socket.socket] = []

    def _run(self) -> None:
        try:
            self.loop.run()
        except BaseException as error:
            self.failures.append(error)

    def __enter__(self) -> Any:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.loop.stop()
        self.thread.join(DEADLINE_S)
        assert not self.thread.is_alive() and not self.failures
        for each in self._sockets:
            each.close()

    def pair(self, *, tcp: bool = False) -> tuple[socket.socket, socket.socket]:
        """A client's end, and the server's."""
        if not tcp:
            ours, theirs = socket.socketpair()
        else:
            with socket.create_server(("127.0.0.1", 0)) as listener:
                ours = socket.create_connection(listener.getsockname())
                theirs, _ = listener.accept()
        ours.settimeout(DEADLINE_S)
        self._sockets.append(ours)
        return ours, theirs

    def adopt_heartbeats(self, theirs: socket.socket, asked: bytes, answer: bytes, answer_place: int = 4) -> int:
        key = next(self.keys)
        correlation_id, offset = places_of(asked, ("correlation_id", "current_metadata_offset"))
        known = int.from_bytes(asked[offset : offset + 8], signed=True)
        self.loop.adopt_heartbeats(key, theirs.detach(), asked, (correlation_id, offset), answer, answer_place, known)
        return key

    def adopt_fetches(
        self,
        theirs: socket.socket,
        asked: bytes,
        *,
        max_wait_ns: int = LONG_NS,
        progress: tuple[int, int, int, int] = twin.NO_PROGRESS,
    ) -> int:
        """Its template is that of the version."""
        key = next(self.keys)
        _, request, version = parsed(asked, FetchRequest)
        correlation_id, offset, last_epoch, high_watermark = places_of(asked, FETCH_FIELDS)
        places = correlation_id, offset, last_epoch, None if high_watermark < 0 else high_watermark
        loop, max_bytes = self.loop, request.max_bytes
        loop.adopt_fetches(key, theirs.detach(), asked, places, version, max_bytes, max_wait_ns, progress)
        return key

    def left(self, many: int = 1) -> list[Any]:
        """So many connections that have left, once they have."""
        found: list[Any] = []
        until(lambda: found.extend(self.loop.drain()) or len(found) >= many)
        return found


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, "the loop hangs"
        time.sleep(0.0002)


def received(ours: socket.socket, many: int) -> bytes:
    """So many bytes, once they are here."""
    found = b""
    while len(found) < many and (piece := ours.recv(many - len(found))):
        found += piece
    return found


class Leader:
    """The only voter of a quorum, its log on a disk in small segments, and a loop that gets each new end of it."""

    def __init__(self, folder: Path, running: Running, segment_bytes: int = 2000) -> None:
        self._clock = count(1000)  # The node's, in ms: no two events have the same time, and no wait ends.
        self.log = DiskRaftLog(folder / "__cluster_metadata-0", Settings(segment_bytes))
        self.node = raft_node(1, voters=(1,), log=self.log)
        self.loop = running.loop
        self._effects = self.node.start(None, next(self._clock))
        self._segment = -1
        self.loop.lead(self.node.epoch, self.node.leading.epoch_start_offset)
        for version in VERSIONS:
            self.loop.set_template(version, *template_of(self.node, version))
        self._place = self.log.place_of(self.node.leading.epoch_start_offset)
        self.flush()

    def append(self, *records: bytes) -> list[SendResponse]:
        """A batch that is written, but not flushed, so not committed."""
        _, effects = self.node.append_batches(
            values(*records), self.node.epoch, self.node.next_offset, next(self._clock)
        )
        self._effects += effects
        self.follow()
        return of(SendResponse, effects)

    def flush(self) -> list[SendResponse]:
        """All of it is committed; the answers to those that waited."""
        done: list[Any] = []
        while flushes := of(Flush, self._effects):
            self._effects = self.node.on_flushed(flushes[-1], next(self._clock))
            done += self._effects
        self.follow()
        return of(SendResponse, done)

    def ask(self, asked: bytes, reply_to: Any) -> list[SendResponse]:
        _, request, version = parsed(asked, FetchRequest)
        return of(SendResponse, self.node.on_request(request, version, reply_to, next(self._clock)))

    def follow(self) -> None:
        """Tells the loop what is in the log."""
        for (base_offset, position), length in self.log.written_since(self._place):
            if base_offset != self._segment:
                self._segment = base_offset
                self.loop.begin_segment(self.log.open_segment(base_offset))
            self.loop.appended(position, length)
        self._place = self.log.place_of(self.log.end_offset)
        if self.node.high_watermark is not None:
            self.loop.committed(self.node.high_watermark)

    def progress_of(self, replica: int) -> tuple[int, int, int, int]:
        """As the loop has it."""
        observers = self.node.leading.observers
        known = next((progress for key, progress in observers.items() if key.id == replica), None)
        if known is None:
            return twin.NO_PROGRESS
        times = (-1 if each < 0 else each * NANOS for each in (known.last_fetch_ms, known.last_caught_up_ms))
        last_fetch, caught_up = times
        return known.end_offset, last_fetch, known.last_fetch_leader_end, caught_up


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


def rows(words: bytes, each: int) -> list[tuple[int, ...]]:
    """For `adopt_fetches` and `adopt_heartbeats`."""
    return sorted(struct.iter_unpack(f"={each}q", words))


def pieces(data: bytes, cuts: Iterable[int]) -> list[bytes]:
    """The bytes, cut there."""
    at = [0, *sorted({cut for cut in cuts if 0 < cut < len(data)}), len(data)]
    return [data[begin:end] for begin, end in pairwise(at)]


def close_descriptor(left: Any) -> None:
    if left[1] >= 0:
        os.close(left[1])
