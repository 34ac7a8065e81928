"""A server's figures over HTTP, as Prometheus reads them.

A thread writes the page, from figures that the event loop hands over. Strangers get little: a few connections, of which
the oldest gives way to a new one, some seconds each, and ten pages a second, which all that wait for one share. A
connection counts until its thread is free and its descriptor is closed.
"""

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from concurrent.futures import CancelledError
from contextlib import asynccontextmanager, suppress
from queue import SimpleQueue
from threading import Lock, Semaphore, Thread
from typing import Any, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer
from wsgiref.types import StartResponse, WSGIEnvironment

from kcore.extras import needs
from kcore.net.address import address_text, network_errors
from kcore.net.admission import kept_for_files
from kcore.server.metrics.families import READY, Collect, Family, gauge

with needs("metrics"):
    from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
    from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
    from prometheus_client.openmetrics import exposition as openmetrics
    from prometheus_client.registry import Collector

MOST_CONNECTIONS: Final = 16  # A thread and a descriptor each.
CONNECTION_S: Final = 10.0  # From the first byte asked for to the last one sent.
PLACE_S: Final = 1.0  # How long a new connection waits for the place of the oldest; then it is closed.
BACKLOG: Final = 128  # Connections that the kernel keeps meanwhile.
READY_PATH: Final = "/ready"
PAUSE_S: Final = 0.1  # Between two pages.
GIVES_WAY_S: Final = 0.0002
LOOP_ANSWERS_S: Final = 2.0
POLL_S: Final = 0.2


class MetricsPage:
    """A page at `port` of `host`. Within `serving` it is answered."""

    def __init__(self, host: str, port: int) -> None:
        """Port 0 takes a free one. NetworkError if the address cannot be had."""
        with network_errors(address_text(host, port), CONNECTION_S, failed="cannot listen at"):
            self._http = _Server(host, port)
        self.port = self._http.server_port

    @asynccontextmanager
    async def serving(self, collect: Collect) -> AsyncIterator[None]:
        """Answers with what `collect` returns, and with the process's own figures; at the end the port is free."""
        registry = CollectorRegistry(auto_describe=False)
        registry.register(_FromLoop(asyncio.get_running_loop(), collect))
        ProcessCollector(registry=registry)
        self._http.set_app(_Pages(registry).answer)
        Thread(target=self._http.serve_forever, args=(POLL_S,), name="metrics", daemon=True).start()
        try:
            yield
        finally:
            await asyncio.get_running_loop().run_in_executor(None, self._http.shutdown)
            self._http.server_close()


class _Pages:
    """Writes one page at a time."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry, self._lock = registry, Lock()
        self._begun_s = float("-inf")  # When the last page was begun.
        self._last: dict[str, bytes] = {}  # That page, by the content type that it has been asked for in.

    def answer(self, environ: WSGIEnvironment, start_response: StartResponse) -> list[bytes]:
        """The WSGI application: readiness at `/ready`, and the page at any other path."""
        if environ["REQUEST_METHOD"] != "GET":
            start_response("405 Method Not Allowed", [("Allow", "GET")])
            return [b"use GET\n"]
        if environ["PATH_INFO"] == READY_PATH:
            return self._ready(start_response)
        is_open = "application/openmetrics-text" in environ.get("HTTP_ACCEPT", "")
        kind = openmetrics.CONTENT_TYPE_LATEST if is_open else CONTENT_TYPE_PLAIN_0_0_4
        page = self._page(kind, openmetrics.generate_latest if is_open else generate_latest)
        start_response("200 OK", [("Content-Type", kind), ("Content-Length", str(len(page)))])
        return [page]

    def _ready(self, start_response: StartResponse) -> list[bytes]:
        """200 for a server that is ready, 503 for one that is not or does not say."""
        page = self._page(CONTENT_TYPE_PLAIN_0_0_4, generate_latest).decode()
        is_ready = f"\n{READY} 1.0\n" in page
        start_response("200 OK" if is_ready else "503 Service Unavailable", [("Content-Type", "text/plain")])
        return [b"ready\n" if is_ready else b"not ready\n"]

    def _page(self, kind: str, write: Callable[[Collector], bytes]) -> bytes:
        """A page that was begun after this call; clients that wait at the same time share one."""
        called_s = time.monotonic()
        with self._lock:
            if self._begun_s < called_s or kind not in self._last:
                time.sleep(max(0.0, self._begun_s + PAUSE_S - time.monotonic()))
                self._begun_s = time.monotonic()
                self._last = {kind: write(_GivesWay(self._registry))}
            return self._last[kind]


class _GivesWay(Collector):
    """Gives the same figures, and lets the event loop have the interpreter's lock between two families."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterable[Family]:
        for family in self._registry.collect():
            yield family
            time.sleep(GIVES_WAY_S)


class _FromLoop(Collector):
    """Asks the event loop for its figures, from another thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, collect: Collect) -> None:
        self._loop, self._collect = loop, collect

    def collect(self) -> Iterable[Family]:
        what = f"Whether the event loop answered within {LOOP_ANSWERS_S:g} s; if not, the figures are missing."
        found = self._found()
        families = [each() if callable(each) else each for each in found or ()]
        return [gauge("kcore_loop_answers", what, found is not None), *families]

    def _found(self) -> Sequence[Family | Callable[[], Family]] | None:
        async def collected() -> Sequence[Family | Callable[[], Family]]:
            return await self._collect()

        asked = asyncio.run_coroutine_threadsafe(collected(), self._loop)
        try:
            return asked.result(LOOP_ANSWERS_S)
        except (TimeoutError, CancelledError):
            asked.cancel()
            return None


class _Handler(WSGIRequestHandler):
    """One request a connection."""

    def log_message(self, format: str, *args: Any) -> None:
        """Scrapes are not logged, nor what strangers send."""


class _Server(WSGIServer):
    """Threads that each answer one connection at a time."""

    request_queue_size = BACKLOG

    def __init__(self, host: str, port: int) -> None:
        [family, *_] = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        self.address_family = family
        # A quarter of the descriptors that are kept for files, at most.
        self._most = max(1, min(MOST_CONNECTIONS, kept_for_files() // 4))
        self._places = Semaphore(self._most)
        self._threads: list[Thread] = []
        self._queue: SimpleQueue[tuple[Any, Any] | None] = SimpleQueue()
        self._begun_s: dict[socket.socket, float] = {}  # Connections that may be ended, the oldest first.
        self._lock = Lock()
        super().__init__((host, port), _Handler)

    def server_bind(self) -> None:
        """Without HTTPServer's look-up of the host's name, which may ask a name server."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])
        self.setup_environ()

    def server_close(self) -> None:
        super().server_close()
        with self._lock:
            for each in list(self._begun_s):
                self._end(each)
        for _ in self._threads:
            self._queue.put(None)

    def get_request(self) -> tuple[Any, Any]:
        """Without a descriptor to spare the connection waits in the kernel."""
        try:
            return super().get_request()
        except OSError:
            time.sleep(POLL_S)
            raise

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._has_place():
            self.shutdown_request(request)
            return
        with self._lock:
            self._begun_s[request] = time.monotonic()
        self._queue.put((request, client_address))
        if len(self._threads) < self._most:
            self._threads.append(Thread(target=self._work, name="metrics", daemon=True))
            self._threads[-1].start()

    def _has_place(self) -> bool:
        """Takes a place. If none is free, ends the oldest connection and waits for its place."""
        if self._places.acquire(blocking=False):
            return True
        with self._lock:
            if self._begun_s:
                self._end(next(iter(self._begun_s)))
        return self._places.acquire(timeout=PLACE_S)

    def _work(self) -> None:
        """One thread: a connection after the other."""
        while (taken := self._queue.get()) is not None:
            request, client_address = taken
            try:
                self.finish_request(request, client_address)
            except Exception:
                self.handle_error(request, client_address)
            finally:
                self.shutdown_request(request)
                del request, taken
                self._places.release()

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._begun_s.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """Several times a second."""
        with self._lock:
            late = [each for each, begun_s in self._begun_s.items() if time.monotonic() - begun_s > CONNECTION_S]
            for each in late:
                self._end(each)

    def _end(self, connection: socket.socket) -> None:
        """Wakes its thread, which closes it."""
        self._begun_s.pop(connection)
        with suppress(OSError):  # The client has closed it.
            connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that has gone, or was sent away."""
