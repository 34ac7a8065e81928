"""Serves a server's metrics over HTTP for Prometheus.

Threads write the page from figures that the event loop collects. Connections, threads, and the seconds and bytes of a
connection are bounded. All clients together get at most ten pages a second, and share them. If there are too many
connections, the address with the most connections loses its oldest one. So a client at another address cannot keep out
an orchestrator that requests `/ready`. A connection counts until its thread is free and its descriptor is closed.
"""

import asyncio
import socket
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from concurrent.futures import CancelledError
from contextlib import asynccontextmanager, suppress
from io import BytesIO
from threading import Condition, Lock, Thread
from typing import Any, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer
from wsgiref.types import StartResponse, WSGIEnvironment

from kcore.extras import needs
from kcore.net.address import address_text, network_errors
from kcore.net.limits.admission import kept_for_files
from kcore.net.listener import plain_address
from kcore.server.metrics.metric_families import READY, Collect, Family, gauge

with needs("metrics"):
    from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
    from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
    from prometheus_client.openmetrics import exposition as openmetrics
    from prometheus_client.registry import Collector

MOST_CONNECTIONS: Final = 16  # Each has a descriptor. A quarter of them may wait for a thread.
CONNECTION_S: Final = 10.0  # The longest wait for a thread, and then until the last byte is sent.
LEAST_S: Final = 0.3  # A connection keeps its thread at least this long if another connection waits.
MOST_BYTES: Final = 8192  # The limit of a request: Python's parser makes hundreds of bytes of objects from three bytes.
BACKLOG: Final = 128  # Connections that the kernel queues until they are accepted.
LEAST_PERIOD_S: Final = 0.1  # The least time between the beginnings of two collections of figures.
GIVES_WAY_S: Final = 0.0002
LOOP_ANSWERS_S: Final = 2.0
POLL_S: Final = 0.2


class MetricsPage:
    """The metrics page of a server, at `port` of `host`. Within `serving` it answers requests."""

    def __init__(self, host: str, port: int) -> None:
        """Port 0 stands for any free port. NetworkError if the address is not available."""
        with network_errors(address_text(host, port), CONNECTION_S, failed="cannot listen at"):
            self._http = _Server(host, port)
        self.port = self._http.server_port

    @asynccontextmanager
    async def serving(self, collect: Collect) -> AsyncIterator[None]:
        """Serves the families that `collect` returns, and those of the process; at the end closes the port."""
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
    """The WSGI application, which collects the figures for one thread at a time."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry, self._lock = registry, Lock()
        self._begun_s = float("-inf")  # When the last collection began.
        self._last = _Figures(())

    def answer(self, environ: WSGIEnvironment, start_response: StartResponse) -> list[bytes]:
        """Answers a request: readiness at `/ready`, the page at any other path."""
        if environ["REQUEST_METHOD"] != "GET":
            start_response("405 Method Not Allowed", [("Allow", "GET")])
            return [b"use GET\n"]
        figures = self._figures()
        if environ["PATH_INFO"] == "/ready":
            start_response(
                "200 OK" if figures.is_ready else "503 Service Unavailable", [("Content-Type", "text/plain")]
            )
            return [b"ready\n" if figures.is_ready else b"not ready\n"]
        is_open = "application/openmetrics-text" in environ.get("HTTP_ACCEPT", "")
        kind = openmetrics.CONTENT_TYPE_LATEST if is_open else CONTENT_TYPE_PLAIN_0_0_4
        page = figures.page(openmetrics.generate_latest if is_open else generate_latest)
        start_response("200 OK", [("Content-Type", kind), ("Content-Length", str(len(page)))])
        return [page]

    def _figures(self) -> "_Figures":
        """Figures whose collection began after this call; threads that wait share one collection."""
        called_s = time.monotonic()
        with self._lock:
            if self._begun_s < called_s:
                time.sleep(max(0.0, self._begun_s + LEAST_PERIOD_S - time.monotonic()))
                self._begun_s = time.monotonic()
                self._last = _Figures([*_GivesWay(self._registry).collect()])
            return self._last


class _Figures(Collector):
    """The families of one collection. The page of each format is written once; readiness needs no page."""

    def __init__(self, families: Sequence[Family]) -> None:
        self._families, self._lock = families, Lock()
        self._pages: dict[Callable[[Collector], bytes], bytes] = {}

    def collect(self) -> Sequence[Family]:
        return self._families

    @property
    def is_ready(self) -> bool:
        """False also if there is no family READY."""
        return any(each.name == READY and each.samples[0].value == 1 for each in self._families)

    def page(self, write: Callable[[Collector], bytes]) -> bytes:
        """The page in the format of `write`."""
        with self._lock:
            if write not in self._pages:
                self._pages[write] = write(_GivesWay(self))
            return self._pages[write]


class _GivesWay(Collector):
    """Passes families on; lets the event loop take the interpreter's lock after each."""

    def __init__(self, registry: Collector) -> None:
        self._registry = registry

    def collect(self) -> Iterable[Family]:
        for family in self._registry.collect():
            yield family
            time.sleep(GIVES_WAY_S)


class _FromLoop(Collector):
    """Collects the families of the event loop from another thread."""

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

        collecting = asyncio.run_coroutine_threadsafe(collected(), self._loop)
        try:
            return collecting.result(LOOP_ANSWERS_S)
        except (TimeoutError, CancelledError):
            collecting.cancel()
            return None


class _Handler(WSGIRequestHandler):
    """Answers one request, then closes the connection."""

    def handle(self) -> None:
        """Reads and answers the request. A request longer than MOST_BYTES ends the connection."""
        head = bytearray()
        with self.rfile:
            while len(head) <= MOST_BYTES and (line := self.rfile.readline(MOST_BYTES)):
                head += line
                if not line.strip(b"\r\n"):
                    break
        if len(head) <= MOST_BYTES:
            self.rfile = BytesIO(head)
            super().handle()

    def log_message(self, format: str, *args: Any) -> None:
        """Logs nothing: pages are requested all the time, and clients may send anything."""


class _Client:
    """A connection, counted until its descriptor is closed."""

    __slots__ = ("address", "begun_s", "connection", "has_thread", "host", "is_ended")

    def __init__(self, connection: socket.socket, address: Any) -> None:
        self.connection, self.address, self.host = connection, address, plain_address(address[0])
        self.begun_s = time.monotonic()
        self.has_thread = self.is_ended = False

    def end(self) -> None:
        """Shuts the connection down: its thread wakes up and closes it."""
        self.is_ended = True
        with suppress(OSError):  # The client has closed it.
            self.connection.shutdown(socket.SHUT_RDWR)


class _Server(WSGIServer):
    """Accepts connections, and never waits for its threads, which each answer one connection at a time."""

    request_queue_size = BACKLOG

    def __init__(self, host: str, port: int) -> None:
        [family, *_] = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        self.address_family = family
        # At most a quarter of the descriptors kept for files; at least two: one with a thread, and one that waits.
        self._most = max(2, min(MOST_CONNECTIONS, kept_for_files() // 4))
        self._most_threads = self._most - max(1, self._most // 4)
        self._threads: list[Thread] = []
        self._changed = Condition()  # Guards the attributes below.
        self._clients: list[_Client] = []  # Clients that wait or are served, the oldest first.
        self._is_closed = False
        super().__init__((host, port), _Handler)

    def server_bind(self) -> None:
        """Binds without HTTPServer's look-up of the host's name, which may ask a name server."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])
        self.setup_environ()

    def server_close(self) -> None:
        super().server_close()
        with self._changed:
            self._is_closed = True
            for each in [*self._clients]:
                self._drop(each)
            self._changed.notify_all()

    def get_request(self) -> tuple[Any, Any]:
        """Accepts a connection. If no descriptor is free, the connection waits in the kernel."""
        try:
            return super().get_request()
        except OSError:
            time.sleep(POLL_S)
            raise

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._changed:
            self._clients.append(_Client(request, client_address))
            if len(self._threads) < self._most_threads:
                self._threads.append(Thread(target=self._work, name="metrics", daemon=True))
                self._threads[-1].start()
            self._make_room()
            self._changed.notify()

    def _make_room(self) -> None:
        """If there are too many clients, ends the one that has waited longest at the address with the most connections.

        Then ends clients with threads for those that wait: each has had LEAST_S, and its address has at least as many
        connections as the address of a waiting client.
        """
        counts = Counter(each.host for each in self._clients)
        waiting = [each for each in self._clients if not each.has_thread]
        if len(self._clients) > self._most:
            self._drop(max(waiting, key=lambda each: counts[each.host]))
        if len(self._clients) <= len(self._threads) or not waiting:
            return
        since_s, least = time.monotonic() - LEAST_S, min(counts[each.host] for each in waiting)
        served = [each for each in self._clients if each.has_thread and counts[each.host] >= least]
        may_end = [each for each in served if not each.is_ended and each.begun_s < since_s]
        most = max(0, len(waiting) - sum(each.is_ended for each in served))
        for victim in sorted(may_end, key=lambda each: -counts[each.host])[:most]:
            self._drop(victim)

    def _drop(self, client: _Client) -> None:
        """Ends a client. A thread of the client closes the connection; without a thread this call closes it."""
        if client.is_ended:
            return
        client.end()
        if not client.has_thread:
            self._clients.remove(client)
            client.connection.close()

    def _work(self) -> None:
        """Runs in each thread: answers one connection after the other."""
        while (client := self._next()) is not None:
            try:
                self.finish_request(client.connection, client.address)
            except Exception:
                self.handle_error(client.connection, client.address)
            finally:
                self.shutdown_request(client.connection)
                with self._changed:
                    self._clients.remove(client)
                del client

    def _next(self) -> _Client | None:
        """Waits for the oldest client without a thread at the address with the fewest connections; None at the end."""
        with self._changed:
            while not self._is_closed:
                counts = Counter(each.host for each in self._clients)
                waiting = [each for each in self._clients if not each.has_thread]
                if waiting:
                    client = min(waiting, key=lambda each: counts[each.host])
                    client.has_thread, client.begun_s = True, time.monotonic()
                    return client
                self._changed.wait()
            return None

    def service_actions(self) -> None:
        """Ends clients after CONNECTION_S; called several times a second."""
        with self._changed:
            for each in [*self._clients]:
                if time.monotonic() - each.begun_s > CONNECTION_S:
                    self._drop(each)
            self._make_room()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignores the error: the client has disconnected, or the server has ended it."""
