"""A ZooKeeper session for an event loop: kazoo runs it in a thread, and results reach the loop in ZooKeeper's order.

This module adds two things to kazoo 2.11: watches are set again on a new connection (SetWatches), and requests of an
expired session are not sent in the next one. All uses of kazoo's private names are in this module.
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
_WATCHES: Final = 1_000  # The most watches in a request; their paths take at most 300 KB.


class SessionEvent(Enum):
    """A change of the session's state."""

    CONNECTED = "connected"  # After EXPIRED with a new session, otherwise with the same one.
    SUSPENDED = "suspended"  # The connection is lost; the session may still live.
    EXPIRED = "expired"


class Handler(SequentialThreadingHandler):  # type: ignore[misc]
    """Calls watches in the thread that reads responses, so that both reach the loop in ZooKeeper's order."""

    def dispatch_callback(self, callback: Callback) -> None:
        callback.func(*callback.args)


class Watch:
    """A one-shot watch. Watches with the same path and reader are equal, so that kazoo's set keeps only one."""

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
    """Passes a result from kazoo's thread to a future of the loop."""

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
    """An undecoded response."""

    text: bytes
    begin: int  # The place of the body in `text`.
    zxid: int  # The last transaction that ZooKeeper had applied.


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """A request whose body is encoded already. Kazoo's thread calls `serialize` and `deserialize`."""

    type: int  # ZooDefs.OpCode
    body: bytes
    is_current: Callable[[], bool]
    last_zxid: Callable[[], int]

    def serialize(self) -> bytes:
        """The body; an empty multi if the session has expired meanwhile."""
        return self.body if self.is_current() else END

    def deserialize(self, text: bytes, begin: int) -> ReplyFrame:
        return ReplyFrame(text, begin, self.last_zxid())


@dataclass(frozen=True, slots=True, eq=False)
class SetWatches:
    """Sets many watches; watches of znodes that changed after `zxid` fire at once."""

    zxid: int
    watches: Sequence[Watch]
    add: Callable[[Watch], None]
    type: int = 101

    def serialize(self) -> bytes:
        """The zxid, then three lists of paths: data watches, creation watches, children watches."""
        self._add_all()  # Watches may fire before the response.
        lists: tuple[list[bytes], ...] = ([], [], [])
        for watch in self.watches:
            path, children = watch.key
            lists[2 if children else 0 if watch.is_there else 1].append(bytes(write_string(path)))
        return struct.pack(">q", self.zxid) + b"".join(struct.pack(">i", len(each)) + b"".join(each) for each in lists)

    def deserialize(self, text: bytes, begin: int) -> None:
        """Adds the watches again, because an event of an older watch may have removed them meanwhile."""
        self._add_all()

    def _add_all(self) -> None:
        for watch in self.watches:
            self.add(watch)


class _IgnoredReply:
    """Ignores the response to a request."""

    def set(self, value: Any = None) -> None: ...

    def set_exception(self, error: Exception) -> None: ...


MULTI: Final = 14
MULTI_READ: Final = 22


class Session:
    """A client's session with ZooKeeper; when the session expires, kazoo opens a new one."""

    def __init__(
        self, hosts: str, timeout_s: float, on_event: Callable[[SessionEvent], None] | None, options: dict[str, Any]
    ) -> None:
        check_connect_string(hosts)
        self.hosts, self._on_event = hosts, on_event
        self._refused = f"ZooKeeper at {hosts} refused this client's credentials"
        retry = KazooRetry(**_RECONNECT)
        self._kazoo = KazooClient(hosts, timeout=timeout_s, handler=Handler(), connection_retry=retry, **options)
        self._kazoo.add_listener(self._state_changed)
        self.chroot: str = self._kazoo.chroot
        self.past_ids: set[int] = set()  # The ids of this client's expired sessions.
        self._number = 0  # The number of expired sessions, as the loop knows it.
        self._number_sent = 0  # The same number in kazoo's thread, which counts earlier.
        self._lost_watches: set[Watch] = set()
        self._waiting: set[asyncio.Future[Any]] = set()
        self._ready = asyncio.Event()
        self._failure: Exception | None = None
        self._is_closed = False

    @property
    def id(self) -> int:
        """ZooKeeper's id of the session, which owns its ephemeral znodes."""
        return self._kazoo._session_id or 0

    def full(self, path: str) -> str:
        """The path with the chroot."""
        return f"{self.chroot}{path}".rstrip("/") or "/"

    async def open(self, within_s: float) -> None:
        """Connects. RequestTimeoutError if no server responds; AuthenticationError if a server refuses it."""
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
        """Ends the session and so deletes its ephemeral znodes; pending calls get a DisconnectedError."""
        self._is_closed = True
        await asyncio.to_thread(self._kazoo.stop)
        await asyncio.to_thread(self._kazoo.close)
        self._ready.set()
        self._fail_all(DisconnectedError("the ZooKeeper client was closed"))

    async def ask(self, request: Any) -> Any:
        """The response to a request, which is sent again after a lost connection while the session may live.

        A write may thus be made twice; the second write then gets BAD_VERSION or NODE_EXISTS. Raises
        SessionExpiredError, and kazoo's errors.
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
                raise AuthenticationError(self._refused) from error
            except ConnectionLoss as error:
                if self._number != number:
                    raise SessionExpiredError("the ZooKeeper session expired") from error
            finally:
                self._waiting.discard(future)

    async def multi(self, body: bytes) -> ReplyFrame:
        """Sends a transaction in this session, but never in a later one."""
        await self._ready.wait()
        number = self._number
        answer = await self.ask(Request(MULTI, body, lambda: number == self._number_sent, self.last_zxid))
        return ReplyFrame(*answer)  # kazoo returns a list.

    async def multi_read(self, body: bytes) -> ReplyFrame:
        """Reads many paths (getData); kazoo's UnimplementedError before ZooKeeper 3.6."""
        answer: ReplyFrame = await self.ask(Request(MULTI_READ, body, lambda: True, self.last_zxid))
        return answer

    async def set_watches(self, zxid: int, watches: Sequence[Watch]) -> None:
        """Sets watches of znodes that were read at `zxid`; watches of znodes that changed since then fire at once."""
        for begin in range(0, len(watches), _WATCHES):
            await self.ask(SetWatches(zxid, watches[begin : begin + _WATCHES], self._add))

    def watch(self, path: str, on_watch: OnWatch, *, children: bool = False, is_there: bool = True) -> Watch:
        """A watch of a path (with its chroot), for a read request."""

        def fire(watch: Watch, event: WatchedEvent) -> None:
            if event.type in _KINDS:
                self._loop.call_soon_threadsafe(on_watch, event.path, _KINDS[event.type])
            elif event.state == KeeperState.CONNECTING:  # In other states the session has expired.
                self._lost_watches.add(watch)

        return Watch(path, on_watch, fire, children=children, is_there=is_there)

    # Kazoo's thread calls the methods from here on.

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
        """Sets the lost watches again, before other requests; watches of znodes that changed meanwhile fire at once."""
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
        """The last transaction in a response to this session."""
        zxid: int = self._kazoo.last_zxid
        return zxid

    # The event loop calls the methods from here on.

    def _connected(self) -> None:
        self._ready.set()
        self._publish(SessionEvent.CONNECTED)

    def _auth_failed(self) -> None:
        self._failure = AuthenticationError(self._refused)
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
