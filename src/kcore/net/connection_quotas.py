"""How many connections a listener takes: of one address, and in a second. Source: ConnectionQuotas of 4.3.1.

Which connections give way where there is no room for all is told by `admission`.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

from kcore.net.limits import Limits

WINDOW_S: Final = 1.0  # quota.window.size.seconds
WINDOWS: Final = 11  # quota.window.num
MOST_ADDRESSES: Final = 10_000  # Whose connections are counted by the second; the oldest is forgotten.


class Rate:
    """Connections a second over the last windows, as Kafka's Rate has it: the first ones may come at once."""

    def __init__(self) -> None:
        self._windows: deque[tuple[float, int]] = deque()  # When each began, and how many came in it.

    def wait_s(self, limit: float, now_s: float) -> float:
        """Counts one more. How long the next should wait so that there are `limit` a second; 0: not at all."""
        while self._windows and now_s - self._windows[0][0] >= WINDOWS * WINDOW_S:
            self._windows.popleft()
        if self._windows and now_s - self._windows[-1][0] < WINDOW_S:
            began_s, count = self._windows[-1]
            self._windows[-1] = began_s, count + 1
        else:
            self._windows.append((now_s, 1))
        elapsed_s = now_s - self._windows[0][0]
        elapsed_s += max(WINDOWS - 1 - int(elapsed_s / WINDOW_S), 0) * WINDOW_S
        seen = sum(count for _, count in self._windows) / elapsed_s
        if seen <= limit:
            return 0.0
        return WINDOW_S if limit <= 0 else min((seen - limit) / limit * elapsed_s, WINDOW_S)

    def take_back(self) -> None:
        """The last one does not count."""
        began_s, count = self._windows[-1]
        self._windows[-1] = began_s, count - 1


class Refused(NamedTuple):
    """A connection that is closed, after a while."""

    what: str  # As it is counted.
    why: str
    after_s: float = 0.0


class ConnectionQuotas:
    """One listener's."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        # connection_creation_rate of an address, as AlterClientQuotas sets it (KIP-612); None: no limit.
        self.rate_of: Callable[[str], float | None] = lambda address: None
        self._all = Rate()
        self._of_address: dict[str, Rate] = {}

    def refused(self, address: str, has: int, now_s: float) -> Refused | None:
        """Whether a new connection of an address that has so many is closed again."""
        limit = self.rate_of(address)
        if limit is not None:
            rate = self._of_address.pop(address, None) or Rate()
            self._of_address[address] = rate  # As the newest.
            if len(self._of_address) > MOST_ADDRESSES:
                del self._of_address[next(iter(self._of_address))]
            if wait_s := rate.wait_s(limit, now_s):
                rate.take_back()
                return Refused("connection rate of an address", f"more than {limit:g} connections a second", wait_s)
        most = self._limits.connections_of_address.get(address, self._limits.connections_per_address)
        if has >= most:
            return Refused("connections of an address", f"it has the most of {most:,} connections")
        return None

    def pause_s(self, now_s: float) -> float:
        """How long no other connection is to be accepted behind one more."""
        limit = self._limits.connections_a_second
        return 0.0 if limit is None else self._all.wait_s(limit, now_s)
