"""Random stories of a leader and its observers: over both loops, every client gets the bytes of the plain server.

Bytes come in random pieces. The loop answers requests that are like the ones before. The plain server answers others,
and those of connections that were handed back; every byte must reach it once.
"""

import socket
import tempfile
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from answer_loop.stand import (
    BEAT,
    LONG_NS,
    LOOPS,
    VERSIONS,
    Leader,
    Running,
    answer_frame,
    fetch_frame,
    heartbeat_frame,
    parsed,
    pieces,
    rows,
    until,
)
from kcore.raft.effects import SendResponse
from kcore.schema.broker_lifecycle import BrokerHeartbeatRequest
from kcore.schema.fetch import FetchRequest

CLIENTS = 6
INT32 = st.integers(-(2**31), 2**31 - 1)


class Client:
    """One connection, here and there; `replica` is the observer's id."""

    def __init__(self, story: "Story", replica: int, version: int, max_wait_ms: int, max_bytes: int) -> None:
        self.story, self.replica, self.version = story, replica, version
        self.max_wait_ms, self.max_bytes = max_wait_ms, max_bytes
        self.ours, theirs = story.running.pair()
        self.ours.setblocking(False)
        self.plain: socket.socket | None = theirs  # The plain front has the connection.
        self.key = -1
        self.unanswered: deque[bytes] = deque()  # Frames that are not answered, to the client's knowledge.
        self.is_asked = False  # The node got the first of them.
        self.due = b""  # The answer to it.
        self.is_written = False  # By the plain front.
        self.got = b""
        self.came = b""  # Bytes that the plain server has received and not answered.
        theirs.setblocking(False)

    @property
    def waits(self) -> bool:
        return self.is_asked and not self.due

    @property
    def is_settled(self) -> bool:
        return not self.due and (not self.unanswered or self.waits)

    def send(self, frames: list[bytes], cuts: list[int]) -> None:
        self.unanswered += frames
        for piece in pieces(b"".join(frames), cuts):
            self.ours.sendall(piece)
            self.story.step()

    def step(self) -> None:
        """Whatever there is to do for it."""
        self._ask_node()
        with suppress(BlockingIOError):
            self.got += self.ours.recv(1 << 20)
        while self.due and len(self.got) >= len(self.due):
            self._take_answer()
        assert self.due.startswith(self.got)
        if self.plain is not None:
            self._serve_plainly(self.plain)

    def _ask_node(self) -> None:
        if self.unanswered and not self.is_asked:
            self.is_asked = True
            self.story.send_to_node(self, self.unanswered[0])

    def _take_answer(self) -> None:
        assert self.got.startswith(self.due)
        self.got = self.got[len(self.due) :]
        frame = self.unanswered.popleft()
        self.is_asked, self.is_written, self.due = False, False, b""
        self._ask_node()
        if self.plain is not None and not self.came:
            self.story.adopt(self, frame)

    def _serve_plainly(self, theirs: socket.socket) -> None:
        with suppress(BlockingIOError):
            self.came += theirs.recv(1 << 16)
        answered = self.unanswered[0] if self.is_written else b""
        assert b"".join(self.unanswered).startswith(answered + self.came)
        if self.due and not self.is_written and self.came.startswith(self.unanswered[0]):
            self.came = self.came[len(self.unanswered[0]) :]
            self.is_written = True
            theirs.sendall(self.due)

    def back(self, descriptor: int, received: bytes, unsent: bytes) -> None:
        """The plain front has it again."""
        assert not unsent
        self.plain, self.came, self.key = socket.socket(fileno=descriptor), received, -1
        self.plain.setblocking(False)


class Story:
    """All clients of one leader."""

    def __init__(self, running: Running, folder: Path) -> None:
        self.running, self.leader = running, Leader(folder, running, segment_bytes=1000)
        self.clients: list[Client] = []
        self.by_key: dict[int, Client] = {}

    def send_to_node(self, client: Client, frame: bytes) -> None:
        if int.from_bytes(frame[4:6]) == BrokerHeartbeatRequest.api_key:
            header, _, version = parsed(frame, BrokerHeartbeatRequest)
            client.due = answer_frame(BEAT, version, header.correlation_id)
        else:
            self.answered(self.leader.ask(frame, client))

    def answered(self, answers: list[SendResponse]) -> None:
        """By the node."""
        for answer in answers:
            client: Any = answer.reply_to
            header, _, version = parsed(client.unanswered[0], FetchRequest)
            client.due = answer_frame(answer.response, version, header.correlation_id)

    def adopt(self, client: Client, frame: bytes) -> None:
        assert client.plain is not None
        if int.from_bytes(frame[4:6]) == BrokerHeartbeatRequest.api_key:
            answer = answer_frame(BEAT, int.from_bytes(frame[6:8]), 0)
            client.key = self.running.adopt_heartbeats(client.plain, frame, answer)
        else:
            wait_ns, progress = client.max_wait_ms and LONG_NS, self.leader.progress_of(client.replica)
            client.key = self.running.adopt_fetches(client.plain, frame, max_wait_ns=wait_ns, progress=progress)
        client.plain, self.by_key[client.key] = None, client

    def step(self) -> None:
        for key, descriptor, received, unsent, why, _ in self.running.loop.drain():
            assert why == ""
            self.by_key.pop(key).back(descriptor, received, unsent)
        for client in self.clients:
            client.step()

    def settle(self) -> None:
        """Until every request is answered that can be, and those that wait do so where they should."""

        def is_settled() -> bool:
            self.step()
            waiting = sum(client.waits for client in self.by_key.values())
            return all(each.is_settled for each in self.clients) and self.running.loop.counters()["waiting"] == waiting

        until(is_settled)

    def compare_progress(self) -> None:
        """The loop's progress of each fetcher is the node's; times are compared by whether they are known."""
        for key, end_offset, last_fetch, leader_end, caught_up in rows(self.running.loop.progress(), 5):
            known = self.leader.progress_of(self.by_key[key].replica)
            assert (end_offset, leader_end) == (known[0], known[2])
            assert (caught_up < 0, caught_up == last_fetch) == (known[3] < 0, known[3] == known[1])


@st.composite
def requests(draw: st.DrawFn, story: Story, client: Client) -> bytes:
    """The next request of that client, usually like the ones before."""
    correlation_id = draw(INT32)
    if client.replica < 0:
        return heartbeat_frame(client.version % 3, draw(st.integers(0, 3)), correlation_id)
    end_offset, epoch = story.leader.log.end_offset, story.leader.node.epoch
    offset = draw(st.sampled_from([end_offset] * 4 + [*range(1, end_offset)]))
    fields: dict[str, Any] = {"offset": offset, "replica": client.replica, "max_bytes": client.max_bytes}
    if client.version >= 18:
        fields["high_watermark"] = draw(
            st.sampled_from([story.leader.node.high_watermark] * 4 + [-1, offset, 2**63 - 1])
        )
    fields |= draw(st.sampled_from([{}] * 15 + [{"last_epoch": epoch - 1}, {"offset": 0}, {"offset": end_offset + 1}]))
    client_id = draw(st.sampled_from(["a client"] * 9 + ["b client", "longer client"]))
    return fetch_frame(client.version, correlation_id, client_id, epoch=epoch, max_wait_ms=client.max_wait_ms, **fields)


@pytest.mark.parametrize("kind", sorted(LOOPS))
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_every_client_gets_the_bytes_of_the_plain_front(kind: str, data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder, Running(kind) as running:
        story = Story(running, Path(folder))
        for place in range(CLIENTS):
            version = data.draw(st.sampled_from(VERSIONS))
            max_wait_ms = data.draw(st.sampled_from([0, 1_000_000, 1_000_000]))
            max_bytes = data.draw(st.sampled_from([1, 200, 1 << 23]))
            replica = -1 if place == 0 else 100 + place
            story.clients.append(Client(story, replica, version, max_wait_ms, max_bytes))
        for _ in range(data.draw(st.integers(1, 40))):
            tell(story, data)
            story.settle()
            story.compare_progress()
        running.loop.resign()
        story.settle()
        assert not story.by_key
        story.answered(story.leader.append(b"the last") + story.leader.flush())
        story.settle()
        for client in story.clients:
            assert client.waits or not client.unanswered
            client.ours.close()


def tell(story: Story, data: st.DataObject) -> None:
    """One more thing that happens."""
    what = data.draw(st.sampled_from(["ask"] * 6 + ["append"] * 2 + ["commit", "commit", "hand back"]))
    client = data.draw(st.sampled_from(story.clients))
    if what == "append":
        sizes = data.draw(st.lists(st.integers(1, 300), min_size=1, max_size=3))
        story.answered(story.leader.append(*map(bytes, sizes)))
    elif what == "commit":
        story.answered(story.leader.flush())
    elif what == "hand back" and client.key >= 0:
        story.running.loop.hand_back(client.key)
    elif what == "ask" and not client.waits:
        frames = [data.draw(requests(story, client)) for _ in range(data.draw(st.sampled_from([1, 1, 1, 2, 3])))]
        whole = sum(map(len, frames))
        client.send(frames, data.draw(st.lists(st.integers(1, whole), max_size=4)))
