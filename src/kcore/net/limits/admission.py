"""Decides which connections a server accepts, by rate and address, and which it closes to make room for new ones.

The room is limited by `Limits.connections`, and by the process's descriptors. Source: ConnectionQuotas of 4.3.1.
"""

import resource
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from enum import IntEnum
from typing import Final, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from kcore.net.limits.connection_limits import Limits
from kcore.sampled_rate import WINDOW_MS, SampledRate

MOST_ADDRESSES: Final = 10_000  # Addresses whose connection rate is measured; beyond that, the oldest is forgotten.


RateOf: TypeAlias = Callable[[str], float | None]
"""connection_creation_rate of an address, as AlterClientQuotas sets it (KIP-612); None: no limit."""


def _no_rate(address: str) -> None:
    """No address has a limit."""


class Refused(NamedTuple):
    """The reason why a connection is refused; the server closes it after `after_s`."""

    what: str  # The name of the reason's counter.
    why: str  # A clause for the log.
    after_s: float = 0.0


class ConnectionQuotas:
    """The connection quotas of one listener."""

    def __init__(self, limits: Limits, rate_of: RateOf | None = None) -> None:
        self._limits, self._rate_of = limits, rate_of or _no_rate
        self._all = SampledRate()
        self._of_address: dict[str, SampledRate] = {}

    def refused(self, address: str, has: int, now_s: float) -> Refused | None:
        """Counts a new connection of an address that has `has` connections; returns why it is refused, or None."""
        limit = self._rate_of(address)
        if limit is not None:
            rate = self._of_address.pop(address, None) or SampledRate()
            self._of_address[address] = rate  # Put back as the newest entry.
            if len(self._of_address) > MOST_ADDRESSES:
                del self._of_address[next(iter(self._of_address))]
            if wait_s := _wait_s(rate, limit, now_s):
                rate.record(-1, _ms(now_s))  # A refusal is not counted.
                return Refused("connection rate of an address", f"more than {limit:g} connections a second", wait_s)
        most = self._limits.connections_of_address.get(address, self._limits.connections_per_address)
        if has >= most:
            return Refused("connections of an address", f"it already has {most:,} connections, the limit")
        return None

    def pause_s(self, now_s: float) -> float:
        """Counts an accepted connection; returns for how long the listener must accept no other."""
        limit = self._limits.connections_a_second
        return 0.0 if limit is None else _wait_s(self._all, limit, now_s)


def _wait_s(rate: SampledRate, limit: float, now_s: float) -> float:
    """Counts a connection; returns for how long the next should wait, in seconds, at most a window of the rate."""
    now_ms = _ms(now_s)
    rate.record(1, now_ms)
    return rate.throttle_time_ms(limit, now_ms, WINDOW_MS) / 1000


def _ms(now_s: float) -> int:
    return int(now_s * 1000)


KEPT_FOR_FILES: Final = 4  # One quarter of the process's descriptors is kept for files.


class Rank(IntEnum):
    """How much a waiting connection has proved about its client; the server closes the lowest rank first."""

    SILENT = 0  # The client has sent no whole request yet.
    ANSWERED = 1  # The server has answered a request.
    AUTHENTICATED = 2  # The client has authenticated.


class KeptConnection(Protocol):
    """The properties of a connection by which the admission chooses."""

    @property
    def address(self) -> str:
        """The address of the client's host."""

    @property
    def rank(self) -> Rank:
        """How much the client has proved."""


G = TypeVar("G", bound=KeptConnection)


def kept_for_files() -> int:
    """How many descriptors of the process the connections of listeners must leave free."""
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if most == resource.RLIM_INFINITY else most // KEPT_FOR_FILES


def may_be_connections(descriptor: int) -> bool:
    """Whether a connection may use a new descriptor, so that enough descriptors remain for files.

    The kernel returns the lowest free descriptor, so all lower descriptors are in use.
    """
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return most == resource.RLIM_INFINITY or descriptor < most - kept_for_files()


class Admission(Generic[G]):
    """The connections of a server by address: those that wait for their clients, by rank, and those with a request.

    In each group, the connection that has been in it longest is first.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._all: set[G] = set()
        self._of_address: Counter[str] = Counter()
        self._waiting: tuple[dict[str, dict[G, None]], ...] = tuple({} for _ in Rank)
        self._running: dict[str, dict[G, None]] = {}
        self._place: dict[G, dict[str, dict[G, None]]] = {}  # The group (one of the above) of a connection.

    def __len__(self) -> int:
        return len(self._all)

    def of_address(self, address: str) -> int:
        """The number of connections of an address."""
        return self._of_address[address]

    def has_room(self) -> bool:
        """Whether the number of connections allows one more."""
        return len(self._all) < self._most

    def join(self, connection: G) -> None:
        """Adds a new connection, which waits for its client."""
        self._all.add(connection)
        self._of_address[connection.address] += 1
        self._put(connection, self._waiting[connection.rank])

    def wait(self, connection: G) -> None:
        """Records that a connection waits for its client from now on."""
        self._move(connection, self._waiting[connection.rank])

    def run(self, connection: G) -> None:
        """Records that a request of the connection runs from now on."""
        self._move(connection, self._running)

    def _move(self, connection: G, to: dict[str, dict[G, None]]) -> None:
        if connection in self._place:
            self._take_out(connection)
            self._put(connection, to)

    def _put(self, connection: G, to: dict[str, dict[G, None]]) -> None:
        to.setdefault(connection.address, {})[connection] = None
        self._place[connection] = to

    def _take_out(self, connection: G) -> None:
        addresses = self._place.pop(connection, None)
        if addresses is not None:
            connections = addresses[connection.address]
            del connections[connection]
            if not connections:
                del addresses[connection.address]

    def end(self, connection: G) -> None:
        """Records that a connection is being closed: it is no victim any more, but counts until `leave`."""
        self._take_out(connection)

    def leave(self, connection: G) -> None:
        """Removes a connection whose descriptor is closed and whose request has ended."""
        if connection not in self._all:
            return
        self._take_out(connection)
        self._all.remove(connection)
        self._of_address[connection.address] -= 1
        if not self._of_address[connection.address]:
            del self._of_address[connection.address]

    def victim(self, address: str = "") -> G | None:
        """The connection to close for a new connection of `address`; None if none may be closed.

        It is chosen by the lowest rank, then the address with the most connections, then the longest wait. If all
        connections have a running request, the victim's address must have more connections than `address` would have:
        clients decide how long their requests run.
        """
        for addresses in self._waiting:
            if addresses:
                return next(iter(addresses[self._greediest(addresses)]))
        if self._running:
            greediest = self._greediest(self._running)
            if self._of_address[greediest] > self._of_address[address] + 1:
                return next(iter(self._running[greediest]))
        return None

    def _greediest(self, addresses: Iterable[str]) -> str:
        return max(addresses, key=self._of_address.__getitem__)
