"""A server's figures over HTTP, as Prometheus reads them.

The library's WSGI application writes the page in a thread, from figures that the event loop hands over. Strangers get
little: so many connections, of which the oldest gives way to a new one, so many seconds each, and so many pages a
second.
"""

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from concurrent.futures import CancelledError
from contextlib import asynccontextmanager, suppress
from socketserver import ThreadingMixIn
from threading import Lock, Thread
from typing import Any, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from kcore.extras import needs
from kcore.net.address import address_text, network_errors
from kcore.server.metrics.families import Family, gauge

with needs("metrics"):
    from prometheus_client import CollectorRegistry, ProcessCollector, make_wsgi_app
    from prometheus_client.registry import Collector

MOST_CONNECTIONS: Final = 16
CONNECTION_S: Final = 10.0  # From the first byte asked for to the last one sent.
PAUSE_S: Final = 0.1  # Between two pages.
LOOP_ANSWERS_S: Final = 2.0
POLL_S: Final = 0.2

Collect = Callable[[], Awaitable[Sequence[Family | Callable[[], Family]]]]
"""Called on the event loop. What of it is callable is called in the page's thread: long families belong there."""


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
        self._http.set_app(make_wsgi_app(registry))
        Thread(target=self._http.serve_forever, args=(POLL_S,), name="metrics", daemon=True).start()
        try:
            yield
        finally:
            await asyncio.get_running_loop().run_in_executor(None, self._http.shutdown)
            self._http.server_close()


class _FromLoop(Collector):
    """Asks the event loop for its figures, from another thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, collect: Collect) -> None:
        self._loop, self._collect = loop, collect
        self._lock, self._last_s = Lock(), float("-inf")

    def collect(self) -> Iterable[Family]:
        what = f"Whether the event loop answered within {LOOP_ANSWERS_S:g} s; if not, the figures are missing."
        with self._lock:
            time.sleep(max(0.0, self._last_s + PAUSE_S - time.monotonic()))
            found = self._found()
            self._last_s = time.monotonic()
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


class _Server(ThreadingMixIn, WSGIServer):
    """A thread a connection."""

    daemon_threads = True
    request_queue_size = MOST_CONNECTIONS

    def __init__(self, host: str, port: int) -> None:
        [family, *_] = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        self.address_family = family
        self._begun_s: dict[socket.socket, float] = {}  # Open connections, the oldest first.
        self._lock = Lock()
        super().__init__((host, port), _Handler)

    def server_bind(self) -> None:
        """Without HTTPServer's look-up of the host's name, which may ask a name server."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])
        self.setup_environ()

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            if len(self._begun_s) >= MOST_CONNECTIONS:
                self._end(next(iter(self._begun_s)))
            self._begun_s[request] = time.monotonic()
        super().process_request(request, client_address)

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
