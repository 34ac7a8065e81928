"""Which connections a server keeps when there is no room for all: by their number, and by the process's descriptors."""

import resource
import sys
from collections import Counter
from collections.abc import Iterable
from enum import IntEnum
from typing import Final, Generic, Protocol, TypeVar

KEPT_FOR_FILES: Final = 4  # A quarter of the descriptors that the process may have.


class Rank(IntEnum):
    """How much a waiting connection has proved about its client; the server closes the lowest rank first."""

    SILENT = 0  # No whole request has come yet.
    ANSWERED = 1
    AUTHENTICATED = 2  # The client has authenticated.


class KeptConnection(Protocol):
    """A connection."""

    @property
    def address(self) -> str:
        """The address of the client's host."""

    @property
    def rank(self) -> Rank:
        """As it waits for its client now."""


G = TypeVar("G", bound=KeptConnection)


def kept_for_files() -> int:
    """How many descriptors are kept from the connections of listeners."""
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if most == resource.RLIM_INFINITY else most // KEPT_FOR_FILES


def may_be_connections(descriptor: int) -> bool:
    """Whether a new descriptor is not among those that are kept for files.

    The kernel gives the lowest that is free: all below it are in use, by connections, files or whatever.
    """
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return most == resource.RLIM_INFINITY or descriptor < most - kept_for_files()


class Admission(Generic[G]):
    """The connections of a server by address: those that wait for their clients, by rank, and those that do not.

    Each kind is kept in the order in which it began to be so.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._all: set[G] = set()
        self._of_address: Counter[str] = Counter()
        self._waiting: tuple[dict[str, dict[G, None]], ...] = tuple({} for _ in Rank)
        self._running: dict[str, dict[G, None]] = {}
        self._place: dict[G, dict[str, dict[G, None]]] = {}  # Which of these a connection is in.

    def __len__(self) -> int:
        return len(self._all)

    def of_address(self, address: str) -> int:
        """How many an address has."""
        return self._of_address[address]

    def has_room(self) -> bool:
        """For one more connection, by their number."""
        return len(self._all) < self._most

    def join(self, connection: G) -> None:
        """A connection was made; it waits for its client."""
        self._all.add(connection)
        self._of_address[connection.address] += 1
        self._put(connection, self._waiting[connection.rank])

    def wait(self, connection: G) -> None:
        """A connection waits for its client from now on."""
        self._move(connection, self._waiting[connection.rank])

    def run(self, connection: G) -> None:
        """A request of the connection runs from now on."""
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
        """A connection begins to end: it cannot give way any more, and counts until `leave`."""
        self._take_out(connection)

    def leave(self, connection: G) -> None:
        """Removes a connection, whose descriptor and request are over."""
        if connection not in self._all:
            return
        self._take_out(connection)
        self._all.remove(connection)
        self._of_address[connection.address] -= 1
        if not self._of_address[connection.address]:
            del self._of_address[connection.address]

    def victim(self, address: str = "") -> G | None:
        """The connection to close for a new one from that address; None if there is none.

        The victim has the lowest rank, the address with the most connections, and the longest wait, in this order.
        If every connection runs a request, the victim's address must have more connections than the new
        connection's address would have: requests may wait as long as their clients like.
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
