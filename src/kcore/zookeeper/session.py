"""One ZooKeeper session in an event loop: kazoo keeps it in a thread of its own, everything comes to the loop in order.

What kazoo 2.11 lacks is done here: watches outlive a connection (SetWatches), and nothing of one session goes out in
the next. Its private names that this leans on are all in this file.
"""

import asyncio
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from kcore.errors import AuthenticationError, DisconnectedError, RequestTimeoutError, SessionExpiredError
from kcore.extras import needs
from kcore.zookeeper.connect_string import check_connect_string
from kcore.zookeeper.operations import END

with needs("zookeeper"):
    from kazoo.client import KazooClient, KazooState
    from kazoo.exceptions import AuthFailedError, ConnectionClosedError, ConnectionLoss
    from kazoo.exceptions import SessionExpiredError as KazooSessionExpiredError
    from kazoo.handlers.threading import SequentialThreadingHandler
    from kazoo.protocol.serialization import write_string
    from kazoo.protocol.states import Callback, EventType, KeeperState, WatchedEvent
    from kazoo.retry import KazooRetry

Kind: TypeAlias = Literal["created", "changed", "deleted", "children"]
OnWatch: TypeAlias = Callable[[str, Kind], None]

_KINDS: Final[dict[str, Kind]] = {
    EventType.CREATED: "created",
    EventType.CHANGED: "changed",
    EventType.DELETED: "deleted",
    EventType.CHILD: "children",
}
_RECONNECT: Final = {"max_tries": -1, "delay": 0.05, "backoff": 2, "max_delay": 1.0}
_WATCHES: Final = 1_000  # At a time; their paths are 300 KB at most.


class SessionEvent(Enum):
    """What became of the session."""

    CONNECTED = "connected"  # The same session, or a new one if EXPIRED came before.
    SUSPENDED = "suspended"  # No connection; the session may not have expired.
    EXPIRED = "expired"


class Handler(SequentialThreadingHandler):  # type: ignore[misc]
    """Watches are called where answers are read, so that both reach the loop in ZooKeeper's order."""

    def dispatch_callback(self, callback: Callback) -> None:
        callback.func(*callback.args)


class Watch:
    """A one-shot watch. Those of a path and a reader are equal: kazoo keeps a set of them, and one event is enough."""

    __slots__ = ("fire", "is_there", "key", "path", "reader")

    def __init__(
        self,
        path: str,
        reader: OnWatch,
        fire: "Callable[[Watch, WatchedEvent], None]",
        *,
        children: bool,
        is_there: bool,
    ) -> None:
        self.path, self.key, self.reader = path, (path, children), reader
        self.fire, self.is_there = fire, is_there

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Watch) and self.key == other.key and self.reader == other.reader

    def __hash__(self) -> int:
        return hash(self.key)

    def __call__(self, event: WatchedEvent) -> None:
        self.fire(self, event)


class Reply:
    """What kazoo sets when the answer is there: a future of the loop."""

    __slots__ = ("_future", "_loop")

    def __init__(self, loop: asyncio.AbstractEventLoop, future: asyncio.Future[Any]) -> None:
        self._loop, self._future = loop, future

    def set(self, value: Any = None) -> None:
        self._loop.call_soon_threadsafe(_settle, self._future, value, None)

    def set_exception(self, error: Exception) -> None:
        self._loop.call_soon_threadsafe(_settle, self._future, None, error)


def _settle(future: asyncio.Future[Any], value: Any, error: Exception | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(value)
    else:
        future.set_exception(error)


class ReplyFrame(NamedTuple):
    """An answer as it came."""

    text: bytes
    begin: int  # of the body in it
    zxid: int  # The last transaction that it may show.


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """A body made elsewhere. kazoo's thread calls these two, when it sends and when it has received."""

    type: int  # ZooDefs.OpCode
    body: bytes
    is_current: Callable[[], bool]
    last_zxid: Callable[[], int]

    def serialize(self) -> bytes:
        """A request of an expired session does nothing in the next one."""
        return self.body if self.is_current() else END

    def deserialize(self, text: bytes, begin: int) -> ReplyFrame:
        return ReplyFrame(text, begin, self.last_zxid())


@dataclass(frozen=True, slots=True, eq=False)
class SetWatches:
    """Many watches at once: what changed after `zxid` fires at once."""

    zxid: int
    watches: Sequence[Watch]
    add: Callable[[Watch], None]
    type: int = 101

    def serialize(self) -> bytes:
        """The zxid, then paths with data, paths to come, paths with children."""
        self._add_all()  # What fires at once comes before the answer.
        lists: tuple[list[bytes], ...] = ([], [], [])
        for watch in self.watches:
            path, children = watch.key
            lists[2 if children else 0 if watch.is_there else 1].append(bytes(write_string(path)))
        return struct.pack(">q", self.zxid) + b"".join(struct.pack(">i", len(each)) + b"".join(each) for each in lists)

    def deserialize(self, text: bytes, begin: int) -> None:
        """An event that was on its way when this was sent may have taken the new watch for the one it was of."""
        self._add_all()

    def _add_all(self) -> None:
        for watch in self.watches:
            self.add(watch)


class _IgnoredReply:
    """For a request whose reply is not needed."""

    def set(self, value: Any = None) -> None: ...

    def set_exception(self, error: Exception) -> None: ...


MULTI: Final = 14
MULTI_READ: Final = 22


class Session:
    """The session behind a client; a new one takes its place when it expires."""

    def __init__(
        self, hosts: str, timeout_s: float, on_event: Callable[[SessionEvent], None] | None, options: dict[str, Any]
    ) -> None:
        check_connect_string(hosts)
        self.hosts, self._on_event = hosts, on_event
        retry = KazooRetry(**_RECONNECT)
        self._kazoo = KazooClient(hosts, timeout=timeout_s, handler=Handler(), connection_retry=retry, **options)
        self._kazoo.add_listener(self._state_changed)
        self.chroot: str = self._kazoo.chroot
        self.past_ids: set[int] = set()  # Sessions that were ours and expired.
        self._number = 0  # Of the session, as the loop knows it,
        self._number_sent = 0  # and as kazoo's thread does.
        self._lost_watches: set[Watch] = set()
        self._waiting: set[asyncio.Future[Any]] = set()
        self._ready = asyncio.Event()
        self._failure: Exception | None = None
        self._is_closed = False

    @property
    def id(self) -> int:
        """ZooKeeper's number of the session: the owner of its ephemeral znodes."""
        return self._kazoo._session_id or 0

    def full(self, path: str) -> str:
        """The path with the chroot."""
        return f"{self.chroot}{path}".rstrip("/") or "/"

    async def open(self, within_s: float) -> None:
        """RequestTimeoutError if no server takes the session in time, AuthenticationError if none ever will."""
        self._loop = asyncio.get_running_loop()
        self._kazoo.start_async()
        try:
            async with asyncio.timeout(within_s):
                await self._ready.wait()
        except TimeoutError as error:
            await self.close()
            raise RequestTimeoutError(f"no ZooKeeper session at {self.hosts} within {within_s} s") from error
        if self._failure is not None:
            await self.close()
            raise self._failure

    async def close(self) -> None:
        """Ends the session; its ephemeral znodes go, and what waits fails with DisconnectedError."""
        self._is_closed = True
        await asyncio.to_thread(self._kazoo.stop)
        await asyncio.to_thread(self._kazoo.close)
        self._ready.set()
        self._fail_all(DisconnectedError("the ZooKeeper client was closed"))

    async def ask(self, request: Any) -> Any:
        """The answer to one request. A lost connection is waited for, and the request made again, while we can hope.

        What was asked may then have been done twice: a write that was done finds BAD_VERSION or NODE_EXISTS.
        SessionExpiredError; kazoo's errors for what ZooKeeper refuses.
        """
        await self._ready.wait()
        number = self._number
        while True:
            future: asyncio.Future[Any] = self._loop.create_future()
            self._waiting.add(future)
            self._kazoo._call(request, Reply(self._loop, future))
            try:
                return await future
            except ConnectionClosedError as error:
                raise DisconnectedError("the ZooKeeper client is closed") from error
            except KazooSessionExpiredError as error:
                raise SessionExpiredError("the ZooKeeper session expired") from error
            except AuthFailedError as error:
                raise AuthenticationError(f"ZooKeeper at {self.hosts} did not accept who we are") from error
            except ConnectionLoss as error:
                if self._number != number:
                    raise SessionExpiredError("the ZooKeeper session expired") from error
            finally:
                self._waiting.discard(future)

    async def multi(self, body: bytes) -> ReplyFrame:
        """A transaction of this session, and of no later one."""
        await self._ready.wait()
        number = self._number
        answer = await self.ask(Request(MULTI, body, lambda: number == self._number_sent, self.last_zxid))
        return ReplyFrame(*answer)  # kazoo makes a list of it.

    async def multi_read(self, body: bytes) -> ReplyFrame:
        """getData of many paths. kazoo's UnimplementedError before ZooKeeper 3.6."""
        answer: ReplyFrame = await self.ask(Request(MULTI_READ, body, lambda: True, self.last_zxid))
        return answer

    async def set_watches(self, zxid: int, watches: Sequence[Watch]) -> None:
        """Watches of what was read when `zxid` was the last transaction; what changed since fires at once."""
        for begin in range(0, len(watches), _WATCHES):
            await self.ask(SetWatches(zxid, watches[begin : begin + _WATCHES], self._add))

    def watch(self, path: str, on_watch: OnWatch, *, children: bool = False, is_there: bool = True) -> Watch:
        """A watch of a path (with its chroot), to go with a read."""

        def fire(watch: Watch, event: WatchedEvent) -> None:
            if event.type in _KINDS:
                self._loop.call_soon_threadsafe(on_watch, event.path, _KINDS[event.type])
            elif event.state == KeeperState.CONNECTING:  # Else the session has expired, and its watches with it.
                self._lost_watches.add(watch)

        return Watch(path, on_watch, fire, children=children, is_there=is_there)

    # Below: called in kazoo's thread.

    def _state_changed(self, state: str) -> None:
        if self._is_closed:
            return
        if state == KazooState.CONNECTED:
            self._set_watches()
            self._loop.call_soon_threadsafe(self._connected)
        elif state == KazooState.SUSPENDED:
            self._loop.call_soon_threadsafe(self._publish, SessionEvent.SUSPENDED)
        elif self._kazoo.client_state == KeeperState.AUTH_FAILED:
            self._loop.call_soon_threadsafe(self._auth_failed)
        else:
            self._number_sent += 1
            self.past_ids.add(self.id)
            self._lost_watches.clear()
            self._loop.call_soon_threadsafe(self._expired)

    def _set_watches(self) -> None:
        """Before anything else on a new connection: what changed since the last answer fires at once."""
        watches, zxid = list(self._lost_watches), self.last_zxid()
        self._lost_watches.clear()
        for begin in range(0, len(watches), _WATCHES):
            request = SetWatches(zxid, watches[begin : begin + _WATCHES], self._add)
            self._kazoo._queue.appendleft((request, _IgnoredReply()))
            self._kazoo._connection._write_sock.send(b"\0")

    def _add(self, watch: Watch) -> None:
        path, children = watch.key
        (self._kazoo._child_watchers if children else self._kazoo._data_watchers)[path].add(watch)

    def last_zxid(self) -> int:
        """The last transaction that this session has seen."""
        zxid: int = self._kazoo.last_zxid
        return zxid

    # Below: called in the loop.

    def _connected(self) -> None:
        self._ready.set()
        self._publish(SessionEvent.CONNECTED)

    def _auth_failed(self) -> None:
        self._failure = AuthenticationError(f"ZooKeeper at {self.hosts} did not accept who we are")
        self._ready.set()
        self._fail_all(self._failure)

    def _expired(self) -> None:
        self._number += 1
        self._ready.clear()
        self._fail_all(SessionExpiredError("the ZooKeeper session expired"))
        self._publish(SessionEvent.EXPIRED)

    def _fail_all(self, error: Exception) -> None:
        for future in list(self._waiting):
            _settle(future, None, error)

    def _publish(self, event: SessionEvent) -> None:
        if self._on_event is not None:
            self._on_event(event)
