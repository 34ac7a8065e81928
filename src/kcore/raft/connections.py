"""Requests on their way: one a destination, back-off behind errors, bootstrap servers. Source: RequestManager."""

from collections.abc import Callable, Sequence

from kcore.raft.effects import Effect, Send
from kcore.raft.membership.replicas import Address
from kcore.raft.states import NEVER_MS
from kcore.schema.structure import Message

MOST_RESTED = 1_000  # Destinations; any id may be one: AddRaftVoter names it.
FIRST_BOOTSTRAP_ID = -2  # As Kafka's clients number servers whose id they do not know: -2, -3, ...


class Connection:
    """A destination that is not simply ready: one that owes an answer, or that backs off until `ready_ms`."""

    __slots__ = ("correlation_id", "is_backing_off", "ready_ms")

    def __init__(self) -> None:
        self.correlation_id = -1
        self.is_backing_off = False
        self.ready_ms = 0  # When the answer is overdue, or the back-off over.


class Connections:
    """Which nodes may be sent a request, and which requests are in flight.

    A late answer counts until the same destination is asked again, or `reset_all`.
    """

    __slots__ = ("_by_destination", "_jitter_ms", "_next_id", "_open", "_request_timeout_ms", "_retry_ms", "bootstrap")

    def __init__(
        self,
        retry_backoff_ms: int,
        request_timeout_ms: int,
        jitter_ms: Callable[[int], int],
    ) -> None:
        self.bootstrap: Sequence[tuple[int, Address]] = ()  # Whom to ask for the leader, with the ids to call them by.
        self._retry_ms = retry_backoff_ms
        self._request_timeout_ms = request_timeout_ms
        self._jitter_ms = jitter_ms
        self._by_destination: dict[int, Connection] = {}
        self._open: dict[int, Send] = {}  # Requests that are not answered, by correlation id.
        self._next_id = 0

    def is_ready(self, destination: int, now_ms: int) -> bool:
        """No answer is owed and no error is fresh."""
        connection = self._by_destination.get(destination)
        return connection is None or connection.ready_ms <= now_ms

    def ready_ms(self, destination: int) -> int:
        """When it can be asked again at the latest; in the past if at once."""
        connection = self._by_destination.get(destination)
        return 0 if connection is None else connection.ready_ms

    def is_overdue(self, destination: int, now_ms: int) -> bool:
        """Whether its response is overdue."""
        connection = self._by_destination.get(destination)
        return connection is not None and not connection.is_backing_off and connection.ready_ms <= now_ms

    def is_backing_off(self, destination: int, now_ms: int) -> bool:
        """Whether it returned an error, or no response, within the back-off."""
        connection = self._by_destination.get(destination)
        return connection is not None and connection.is_backing_off and connection.ready_ms > now_ms

    @property
    def are_all_ready(self) -> bool:
        """Whether no answer is owed, and no error was returned since the destination was asked last."""
        return not self._by_destination

    def busy_until_ms(self, now_ms: int) -> int:
        """When the first answer of all that are owed is overdue; 0 if none is owed."""
        if not self._open:
            return 0
        first_ms = NEVER_MS
        for connection in self._by_destination.values():
            if now_ms < connection.ready_ms < first_ms and not connection.is_backing_off:
                first_ms = connection.ready_ms
        return first_ms if first_ms < NEVER_MS else 0

    def ready_bootstrap_server(self, now_ms: int) -> tuple[int, Address] | None:
        """One of the ready bootstrap servers, searched from a random start."""
        count = len(self.bootstrap)
        if count == 0:
            return None
        first = self._jitter_ms(count)
        if not self._by_destination:
            return self.bootstrap[first % count]
        for i in range(count):
            server = self.bootstrap[(first + i) % count]
            connection = self._by_destination.get(server[0])
            if connection is None or connection.ready_ms <= now_ms:
                return server
        return None

    def bootstrap_ready_ms(self) -> int:
        """When the first of them can be asked again; NEVER_MS if there are none."""
        return min([self.ready_ms(server[0]) for server in self.bootstrap], default=NEVER_MS)

    def send(
        self,
        effects: list[Effect],
        destination: int,
        address: Address,
        request: Message,
        now_ms: int,
        *,
        beside: bool = False,
    ) -> int:
        """Asks, whether it is ready or not; `beside` what it was asked before, which stays open and alone counts.

        Returns when the answer is overdue.
        """
        correlation_id = self._next_id
        self._next_id = (correlation_id + 1) & 0x7FFFFFFF
        overdue_ms = now_ms + self._request_timeout_ms
        if not beside:
            connection = self._by_destination.get(destination)
            if connection is None:
                if len(self._by_destination) >= MOST_RESTED:
                    self._forget_rested(now_ms)
                connection = self._by_destination[destination] = Connection()
            else:
                self._open.pop(connection.correlation_id, None)
            connection.correlation_id = correlation_id
            connection.is_backing_off = False
            connection.ready_ms = overdue_ms
        send = Send(destination, address, correlation_id, request, self._request_timeout_ms)
        self._open[correlation_id] = send
        effects.append(send)
        return overdue_ms

    def _forget_rested(self, now_ms: int) -> None:
        """Forgets destinations whose back-off is over: they are as ready as unknown ones."""
        rested = [k for k, each in self._by_destination.items() if each.is_backing_off and each.ready_ms <= now_ms]
        for destination in rested:
            del self._by_destination[destination]

    def expected(self, correlation_id: int) -> Send | None:
        """The request of this response; None if it is not waited for any more."""
        return self._open.get(correlation_id)

    def answered(self, correlation_id: int, ok: bool, now_ms: int) -> None:
        """The answer was handled: the destination is ready, or backs off if it was not `ok`."""
        request = self._open.pop(correlation_id, None)
        if request is None:
            return  # `reset_all` came in between.
        connection = self._by_destination.get(request.destination)
        if connection is None or connection.correlation_id != correlation_id:
            return  # It was asked beside another.
        if ok:
            del self._by_destination[request.destination]
        else:
            connection.correlation_id = -1
            connection.is_backing_off = True
            connection.ready_ms = now_ms + self._retry_ms

    def reset(self, destination: int) -> None:
        """Forgets the request to this node."""
        connection = self._by_destination.pop(destination, None)
        if connection is not None:
            self._open.pop(connection.correlation_id, None)

    def reset_all(self) -> None:
        """Forgets all requests: responses to an earlier epoch or round are dropped."""
        self._by_destination.clear()
        self._open.clear()
