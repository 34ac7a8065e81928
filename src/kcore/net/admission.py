"""Which connections a server keeps when there is no room for all: by their number, and by the process's descriptors."""

import resource
from collections import Counter
from enum import IntEnum
from typing import Final, Generic, Protocol, TypeVar

KEPT_FOR_FILES: Final = 4  # A quarter of the descriptors that the process may have.


class Rank(IntEnum):
    """What a connection that waits for its client has shown of that client; the lowest rank is closed first."""

    SILENT = 0  # No whole request has come yet.
    ANSWERED = 1
    AUTHENTICATED = 2  # Its client has shown a certificate.


class Guest(Protocol):
    """A connection."""

    @property
    def address(self) -> str:
        """Of the host at its other end."""

    @property
    def rank(self) -> Rank:
        """As it waits for its client now."""


G = TypeVar("G", bound=Guest)


def may_be_connections(descriptor: int) -> bool:
    """Whether a new descriptor is not among those that are kept for files.

    The kernel gives the lowest that is free: all below it are in use, by connections, files or whatever.
    """
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return most == resource.RLIM_INFINITY or descriptor < most - most // KEPT_FOR_FILES


class Admission(Generic[G]):
    """The connections of a server; those that wait for their clients by rank and address, the longest waiting first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._all: set[G] = set()
        self._of_address: Counter[str] = Counter()
        self._waiting: tuple[dict[str, dict[G, None]], ...] = tuple({} for _ in Rank)

    def __len__(self) -> int:
        return len(self._all)

    def has_room(self) -> bool:
        """For one more connection, by their number."""
        return len(self._all) < self._most

    def join(self, guest: G) -> None:
        """A connection was made; it waits for its client."""
        self._all.add(guest)
        self._of_address[guest.address] += 1
        self.wait(guest)

    def wait(self, guest: G) -> None:
        """A connection waits for its client from now on."""
        if guest in self._all:
            self._waiting[guest.rank].setdefault(guest.address, {})[guest] = None

    def run(self, guest: G) -> None:
        """A request of the connection runs: it is not closed for another."""
        for addresses in self._waiting:
            waiting = addresses.get(guest.address, {})
            if guest in waiting:
                del waiting[guest]
                if not waiting:
                    del addresses[guest.address]

    def leave(self, guest: G) -> None:
        """A connection is gone."""
        if guest not in self._all:
            return
        self.run(guest)
        self._all.remove(guest)
        self._of_address[guest.address] -= 1
        if not self._of_address[guest.address]:
            del self._of_address[guest.address]

    def victim(self) -> G | None:
        """The connection to close for a newcomer; None if none waits for its client.

        It has the lowest rank that there is. Of those it is of the address that has the most connections, and of those
        it has waited longest.
        """
        for addresses in self._waiting:
            if addresses:
                greediest = max(addresses, key=self._of_address.__getitem__)
                return next(iter(addresses[greediest]))
        return None
