"""Whether a connection with a transport runs a request, since when it is idle, and which bytes it holds."""

import asyncio

from kcore.net.connection_states import ClientConnection, ConnectionState
from kcore.net.framed_connection import FrameTransport
from kcore.net.limits.admission import Rank
from kcore.net.security.handshakes import tls_bytes
from kcore.net.server_connections import IDLE, ServerConnections

QUIET_BYTES = 4096  # The size of the receive buffer of a connection that waits for its client.


class Activity:
    """The activity of one connection. A client is idle since its last whole request, or since its answer was sent."""

    def __init__(
        self,
        connections: ServerConnections,
        client: ClientConnection,
        frames: FrameTransport,
        *,
        is_tls: bool,
        has_sasl: bool,
    ) -> None:
        self._connections, self._client, self._frames = connections, client, frames
        self._is_tls, self._has_sasl = is_tls, has_sasl
        self._loop = asyncio.get_running_loop()
        self.is_running = False  # Whether a request is running.
        self.since_s = self._loop.time()  # When the request began; without a request, since when the client is idle.
        self.running_bytes = 0  # The bytes of the running request's frame, if it is large.
        self._timer: asyncio.TimerHandle | None = None

    @property
    def idle_s(self) -> float:
        """0 while a request is running."""
        return 0.0 if self.is_running else self._loop.time() - self.since_s

    @property
    def _is_unknown(self) -> bool:
        """True for a connection over TLS whose client has sent no request, or is not authenticated."""
        client = self._client
        return self._is_tls and (client.rank is Rank.SILENT or client.state is ConnectionState.AUTHENTICATING)

    def begin(self, frame: bytes) -> None:
        """Called when a request begins."""
        self.since_s = self._loop.time()
        self.is_running = True
        self._connections.admission.run(self._client)
        self.running_bytes = len(frame) if len(frame) > QUIET_BYTES else 0
        self.weigh()

    def end(self) -> None:
        """Called when a request is answered, before the answer is written."""
        self.since_s = self._loop.time()
        self.is_running = False
        self.running_bytes = 0
        self.weigh()
        client = self._client
        if client.rank is Rank.SILENT or (self._has_sasl and client.rank is Rank.ANSWERED):
            has_shown = client.state is ConnectionState.SERVING if self._has_sasl else self._frames.extra("peercert")
            client.rank = Rank.AUTHENTICATED if has_shown else Rank.ANSWERED

    def stop(self) -> None:
        """Called when no further request will begin."""
        self.is_running = False

    def touch(self) -> None:
        """Restarts the idle time: the client has received a part of an answer."""
        self.since_s = self._loop.time()

    def weigh(self) -> None:
        """Reports the bytes that this connection holds for its client."""
        held = self._frames.splitter.held_bytes - QUIET_BYTES + self.running_bytes
        self._connections.received.hold(
            self._client, held + (tls_bytes(self._frames.transport) if self._is_unknown else 0)
        )

    def check_idle(self) -> None:
        """Ends an idle connection. Incomplete frames and answers that the client does not receive are no activity."""
        limits, idle_s = self._connections.limits, self.idle_s
        most_s = min(limits.idle_s, limits.connect_s) if self._is_unknown else limits.idle_s
        if idle_s >= most_s:
            self._connections.metrics.errors[IDLE] += 1
            self._frames.abort()
        else:
            self._timer = self._loop.call_later(most_s - idle_s, self.check_idle)

    def close(self) -> None:
        """Stops the checks of the idle time."""
        if self._timer is not None:
            self._timer.cancel()
