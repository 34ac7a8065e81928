"""Tracks requests in flight: one per destination, with a back-off after errors. Source: RequestManager."""

from collections.abc import Callable, Sequence

from kcore.raft.effects import Effect, Send
from kcore.raft.membership.replicas import Address
from kcore.raft.states import NEVER_MS
from kcore.schema.structure import Message

MOST_RESTED = 1_000  # From so many destinations on, rested ones are forgotten: AddRaftVoter may name any id.
FIRST_BOOTSTRAP_ID = -2  # Kafka's clients number servers of unknown id -2, -3, ...


class Connection:
    """A destination that has a request in flight, or backs off until `ready_ms`."""

    __slots__ = ("correlation_id", "is_backing_off", "ready_ms")

    def __init__(self) -> None:
        self.correlation_id = -1
        self.is_backing_off = False
        self.ready_ms = 0  # When the request times out, or the back-off ends.


class Connections:
    """The nodes that may be sent a request now, and the requests that are in flight.

    A late response counts until the next request to its destination, or until `reset_all`.
    """

    __slots__ = ("_by_destination", "_jitter_ms", "_next_id", "_open", "_request_timeout_ms", "_retry_ms", "bootstrap")

    def __init__(
        self,
        retry_backoff_ms: int,
        request_timeout_ms: int,
        jitter_ms: Callable[[int], int],
    ) -> None:
        self.bootstrap: Sequence[tuple[int, Address]] = ()  # Servers to ask for the leader, each with a stand-in id.
        self._retry_ms = retry_backoff_ms
        self._request_timeout_ms = request_timeout_ms
        self._jitter_ms = jitter_ms
        self._by_destination: dict[int, Connection] = {}
        self._open: dict[int, Send] = {}  # Requests in flight, by correlation id.
        self._next_id = 0

    def is_ready(self, destination: int, now_ms: int) -> bool:
        """True if the destination has no request in flight and does not back off."""
        connection = self._by_destination.get(destination)
        return connection is None or connection.ready_ms <= now_ms

    def ready_ms(self, destination: int) -> int:
        """The time from which the destination is ready, even without a response; in the past if it is ready now."""
        connection = self._by_destination.get(destination)
        return 0 if connection is None else connection.ready_ms

    def is_overdue(self, destination: int, now_ms: int) -> bool:
        """Whether a request to the destination has timed out."""
        connection = self._by_destination.get(destination)
        return connection is not None and not connection.is_backing_off and connection.ready_ms <= now_ms

    def is_backing_off(self, destination: int, now_ms: int) -> bool:
        """Whether the last request to the destination failed, by an error or a lost response, within the back-off."""
        connection = self._by_destination.get(destination)
        return connection is not None and connection.is_backing_off and connection.ready_ms > now_ms

    @property
    def are_all_ready(self) -> bool:
        """Whether no request is in flight and no destination's last request failed."""
        return not self._by_destination

    def busy_until_ms(self, now_ms: int) -> int:
        """When the first of the requests in flight times out; 0 if there is none."""
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
        """When the first bootstrap server is ready again; NEVER_MS if there are none."""
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
        """Sends a request, even if the destination is not ready, and returns when the request times out.

        With `beside`, an earlier request to the destination stays in flight, and only that request decides when the
        destination is ready.
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
        """Forgets destinations whose back-off is over: an unknown destination is ready, too."""
        rested = [k for k, each in self._by_destination.items() if each.is_backing_off and each.ready_ms <= now_ms]
        for destination in rested:
            del self._by_destination[destination]

    def expected(self, correlation_id: int) -> Send | None:
        """The request that a response belongs to; None if the node no longer waits for that response."""
        return self._open.get(correlation_id)

    def answered(self, correlation_id: int, ok: bool, now_ms: int) -> None:
        """Records that a response was handled: the destination is ready, or backs off if the response was not `ok`."""
        request = self._open.pop(correlation_id, None)
        if request is None:
            return  # `reset_all` was called in between.
        connection = self._by_destination.get(request.destination)
        if connection is None or connection.correlation_id != correlation_id:
            return  # The request was sent with `beside`.
        if ok:
            del self._by_destination[request.destination]
        else:
            connection.correlation_id = -1
            connection.is_backing_off = True
            connection.ready_ms = now_ms + self._retry_ms

    def reset(self, destination: int) -> None:
        """Drops the request in flight to a destination."""
        connection = self._by_destination.pop(destination, None)
        if connection is not None:
            self._open.pop(connection.correlation_id, None)

    def reset_all(self) -> None:
        """Drops all requests in flight: responses to an earlier epoch or election are then ignored."""
        self._by_destination.clear()
        self._open.clear()
