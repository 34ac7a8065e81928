"""The connections of one server: how many there are, who holds each, and the memory that they may use."""

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import Final, Protocol

from kcore.net.adoption import AdoptedConnection, Adoption, Returned
from kcore.net.connection_metrics import Metrics
from kcore.net.connection_states import NO_HOLDER, ClientConnection, ConnectionState, Event, Holder
from kcore.net.limits.admission import Admission
from kcore.net.limits.bounded_log import BoundedLog
from kcore.net.limits.connection_limits import Limits
from kcore.net.limits.held_bytes import HeldBytes, ReceiveBudget

logger = logging.getLogger("kcore.net.server")
IDLE: Final = "idle"  # The reason of a connection's end that the metrics count.


class Served(Holder, Protocol):
    """A connection with a transport and a task, `ServedConnection`."""

    client: ClientConnection

    async def run(self) -> None:
        """Answers requests until the connection ends."""

    def finish(self) -> None:
        """Begins no further request."""

    async def wait_gone(self) -> None:
        """Waits until the socket is closed."""


class ServerConnections:
    """All connections of one server."""

    def __init__(
        self, limits: Limits, metrics: Metrics, resume: Callable[[ClientConnection, socket.socket, Returned], None]
    ) -> None:
        """`resume` continues a connection with a transport and a task, after another holder has returned it."""
        self.limits, self.metrics, self._resume = limits, metrics, resume
        self.log = BoundedLog(logger)
        self.closing = False
        self.served: set[Served] = set()
        self.adopted: set[AdoptedConnection] = set()
        self.tasks: set[asyncio.Task[None]] = set()  # A task remains after its connection while its request runs.
        self.admission: Admission[ClientConnection] = Admission(limits.connections)
        self.received: HeldBytes[ClientConnection] = HeldBytes(limits.received_bytes, self._holds_too_much)
        self.unsent: HeldBytes[ClientConnection] = HeldBytes(limits.unsent_bytes, self._takes_too_little)
        self.receive_budget = ReceiveBudget()

    def finish(self) -> None:
        """Begins no further request, and ends the connections that adopters hold."""
        for connection in self.served:
            connection.finish()
        for adopted in list(self.adopted):
            adopted.abort()

    async def wait_gone(self) -> None:
        """Waits for running requests and for their responses, at most `limits.close_s` each."""
        if self.tasks:
            await asyncio.wait(self.tasks, timeout=self.limits.close_s)
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        await asyncio.gather(*(connection.wait_gone() for connection in self.served))

    def make_room(self, address: str = "") -> bool:
        """Closes the connection of lowest rank for a new connection of an address; False if none may be closed."""
        victim = self.admission.victim(address)
        if victim is None:
            return False
        self.admission.end(victim)
        self.metrics.errors["evicted"] += 1
        self.log.warning("%s: closed for one more connection beside %s", victim, len(self.admission) - 1)
        victim.holder.abort()
        return True

    def ended(self, client: ClientConnection, why: str) -> None:
        """Called when the holder of a connection has closed its socket."""
        self._count_end(client, why)
        self._forget(client)

    def _count_end(self, client: ClientConnection, why: str) -> None:
        logger.debug("%s: %s", client.peer, why)
        self.metrics.connections_closed += 1
        if why == IDLE:
            self.metrics.errors[IDLE] += 1
        client.enter(Event.END)

    def _forget(self, client: ClientConnection) -> None:
        self.admission.leave(client)
        client.holder = NO_HOLDER

    # Connections with a transport and a task.

    def begun(self, connection: Served) -> None:
        """Starts the task of a connection whose transport exists."""
        self.served.add(connection)
        task = asyncio.get_running_loop().create_task(connection.run())
        self.tasks.add(task)
        task.add_done_callback(lambda task: self._finished(connection, task))

    def lost(self, connection: Served, why: str) -> None:
        """Called when a connection has ended; the admission counts the connection until its last request has ended."""
        self.served.discard(connection)
        self._count_end(connection.client, why)
        if connection.may_end:
            self._forget(connection.client)
        else:
            self.admission.end(connection.client)

    def _finished(self, connection: Served, task: asyncio.Task[None]) -> None:
        """Called when a connection's task, and so its last request, has ended."""
        self.tasks.discard(task)
        if connection not in self.served and connection.client.holder is connection:
            self._forget(connection.client)

    # Connections that are handed over.

    def give_away(self, client: ClientConnection, adoption: Adoption, descriptor: int) -> None:
        """Hands a connection to the adopter, which owns the descriptor from now on."""
        client.enter(Event.ADOPT)
        self.admission.run(client)
        client.holder = adopted = AdoptedConnection(client, self, adoption, descriptor)
        self.adopted.add(adopted)

    def hand_back(self, adopted: AdoptedConnection, descriptor: int, received: bytes, unwritten: bytes) -> None:
        """Called when the adopter returns a connection; the server owns the descriptor from now on."""
        self.adopted.discard(adopted)
        adopted.client.enter(Event.HAND_BACK)
        returned = Returned(received, unwritten, adopted.is_recalled)
        self.resume(adopted.client, socket.socket(fileno=descriptor), returned)

    def adopted_ended(self, adopted: AdoptedConnection, why: str) -> None:
        """Called when the adopter has closed a connection."""
        self.adopted.discard(adopted)
        self.ended(adopted.client, why)

    def resume(self, client: ClientConnection, connection: socket.socket, returned: Returned) -> None:
        """Continues a connection with a transport and a task."""
        if self.closing:
            connection.close()
            self.ended(client, "the server closes")
        else:
            self.admission.wait(client)
            self._resume(client, connection, returned)

    # Bytes.

    def _holds_too_much(self, client: ClientConnection, held: int) -> None:
        if client.state is ConnectionState.HANDSHAKING:
            client.holder.abort()
        else:
            why = f"{held:,} bytes of an incomplete request, and all connections hold too many"
            self._end_for("received bytes", why, client)

    def _takes_too_little(self, client: ClientConnection, held: int) -> None:
        self._end_for(
            "unsent bytes", f"{held:,} bytes that it does not receive, and all connections hold too many", client
        )

    def _end_for(self, what: str, why: str, client: ClientConnection) -> None:
        """Closes a connection because all connections exceed a limit; the metrics count it as `what`."""
        self.metrics.errors[what] += 1
        self.log.warning("%s: %s: closed", client.peer, why)
        client.holder.abort()
