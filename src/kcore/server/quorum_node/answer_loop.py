"""The answer loop: it answers requests that change nothing, in a thread beside the server's event loop.

All connections begin at the server (`kcore.net.server`), which offers a connection to the loop after a direct answer. A
feed handles one kind of request (`observer_feed`: Fetch of observers; `kcore.server.kraft_controller.heartbeat_feed`:
BrokerHeartbeat). The feed decides whether the loop can answer the same request when only a few integers in it differ.
When anything changes that an answer depends on, the feed updates the loop. If the loop cannot answer a request, it
hands the connection back with the request's bytes, and the server answers.
"""

import asyncio
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import count
from typing import Final, Literal, Protocol, TypeAlias

from kcore._ext import answer_loop as kernel
from kcore.net.adoption import AdoptedConnection, Adoption, Direct
from kcore.net.connection_metrics import Metrics
from kcore.net.limits.connection_limits import Limits
from kcore.schema.structure import Message

AnswerLoopKind: TypeAlias = Literal["compiled", "plain"]
ANSWER_LOOPS: Final[tuple[AnswerLoopKind, ...]] = ("compiled", "plain")
TAKEN_BACK_AT_ONCE: Final = 64  # Connections that the server takes back in one turn of the event loop.
LARGEST_PATTERN: Final = 4096  # The limit of a request's bytes, its size field included.
_NANOS: Final = 1_000_000_000
_ANSWER_NS: Final = 25_000  # As `kcore.raft.intervals.ANSWER_US`, of answers that the loop writes.

Progress: TypeAlias = tuple[int, int, int, int]
"""A follower's end offset, the time of its last fetch (ns), the leader's end offset then, and the time when the
follower was last caught up (ns); -1 if unknown."""
Left: TypeAlias = tuple[AdoptedConnection, int, bytes, bytes, str]
"""A connection that has left the loop: its descriptor (-1 if closed), its unanswered and unsent bytes, and why it is
closed."""
Take: TypeAlias = Callable[[int, int], None]
"""Gives a connection to the loop; takes the loop's key of the connection, and its descriptor."""


class Feed(Protocol):
    """The interface between the answer loop and one kind of request."""

    def plan(self, direct: Direct, response: Message) -> Take | None:
        """The function that gives the connection to the loop after this response; None if the server keeps it."""

    def follow(self) -> None:
        """Updates the loop after an event of the server."""

    def before_left(self) -> None:
        """Called before the calls of `left` for one or more connections."""

    def left(self, key: int, connection: AdoptedConnection, received: bytes, progress: Progress) -> None:
        """Called when a connection has left the loop; `received`: the bytes of unanswered requests."""


class AnswerLoop:
    """The answer loop of one server, with its thread and its connections."""

    def __init__(self, limits: Limits, metrics: Metrics, fail: Callable[[Exception], None]) -> None:
        """`fail` is called if the loop ends by itself, which is a fault of the process."""
        self.loop = kernel.Loop(
            unsent_bytes=limits.unsent_bytes,
            idle_ns=int(limits.idle_s * _NANOS),
            turn_ns_each=_ANSWER_NS,
        )
        self._metrics, self._fail = metrics, fail
        self._feeds: list[Feed] = []
        self.connections: dict[int, AdoptedConnection] = {}
        self._left: deque[Left] = deque()  # Connections that have left the loop, until the server takes them back.
        self._keys = count()
        self._counted = {"requests": 0, "bytes_in": 0, "bytes_out": 0}
        self._is_closing = False
        self._events = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name="answer loop", daemon=True)

    def begin(self, feeds: Sequence[Feed]) -> None:
        """Starts the loop, which takes no connection before."""
        self._feeds = [*feeds]
        self._thread.start()
        self._events.add_reader(self.loop.fileno(), self._on_left)

    async def close(self) -> None:
        """Closes all connections that the loop has."""
        self._is_closing = True
        if self._thread.ident is None:
            return
        self._events.remove_reader(self.loop.fileno())
        self.loop.stop()
        await asyncio.to_thread(self._thread.join)
        self.drain()
        while self._left:
            self._take_back_some()
        for connection in self.connections.values():
            connection.ended("the server closes")
        self.connections.clear()

    # The thread.

    def _run(self) -> None:
        try:
            self.loop.run()
            problem = RuntimeError("the answer loop has ended")
        except Exception as error:
            problem = error if isinstance(error, RuntimeError) else RuntimeError(f"the answer loop: {error}")
        if not self._is_closing:
            with suppress(RuntimeError):  # The event loop is closed.
                self._events.call_soon_threadsafe(self._ended, problem)

    def _ended(self, problem: Exception) -> None:
        if not self._is_closing:
            self._fail(problem)

    # Connections.

    def plan(self, direct: Direct, response: Message) -> Adoption | None:
        """See `Adopter.plan`."""
        if self._is_closing or len(direct.frame) + 4 > LARGEST_PATTERN:
            return None
        for feed in self._feeds:
            if (take := feed.plan(direct, response)) is not None:
                return lambda connection, descriptor: self._adopt(connection, descriptor, take)
        return None

    def _adopt(self, connection: AdoptedConnection, descriptor: int, take: Take) -> Callable[[], None]:
        key = next(self._keys)
        self.connections[key] = connection
        take(key, descriptor)
        return lambda: self.loop.close(key)

    def recall(self, key: int) -> None:
        """Makes the loop hand a connection back, so that the server answers the next request."""
        if (connection := self.connections.get(key)) is not None:
            connection.recall()
            self.loop.hand_back(key)

    def recall_all(self) -> None:
        """Makes the loop hand all connections back."""
        for key in list(self.connections):
            self.recall(key)

    def drain(self) -> None:
        """Takes back the connections that the loop has handed back, and forgets those that it has closed.

        The server takes them back a few at a time, with other events in between: a resigning leader recalls thousands.
        """
        left = self.loop.drain()
        if left:
            for feed in self._feeds:
                feed.before_left()
        for key, descriptor, received, unwritten, why, progress in left:
            connection = self.connections.pop(key)
            for feed in self._feeds:
                feed.left(key, connection, received, progress)
            self._left.append((connection, descriptor, received, unwritten, why))
        if left and len(left) == len(self._left):
            self._events.call_soon(self._take_back_some)
        self.count()

    def _take_back_some(self) -> None:
        for _ in range(min(TAKEN_BACK_AT_ONCE, len(self._left))):
            connection, descriptor, received, unwritten, why = self._left.popleft()
            if descriptor >= 0 and not connection.is_ended:
                connection.hand_back(descriptor, received, unwritten)
                continue
            if descriptor >= 0:
                os.close(descriptor)
            connection.ended(why)
        if self._left:
            self._events.call_soon(self._take_back_some)

    def _on_left(self) -> None:
        try:
            self.drain()
        except Exception as error:
            self._fail(error)

    def count(self) -> None:
        """Adds the loop's requests and bytes since the last call to the server's metrics."""
        counters, metrics, counted = self.loop.counters(), self._metrics, self._counted
        requests = counters["fetches"] + counters["heartbeats"]
        metrics.requests += requests - counted["requests"]
        metrics.responses += requests - counted["requests"]
        metrics.bytes_in += counters["bytes_in"] - counted["bytes_in"]
        metrics.bytes_out += counters["bytes_out"] - counted["bytes_out"]
        self._counted = {"requests": requests, "bytes_in": counters["bytes_in"], "bytes_out": counters["bytes_out"]}
