"""Limits a listener's connections per address and per second. Source: ConnectionQuotas of 4.3.1.

`admission` chooses the connections to close when there is no room for all.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from kcore.net.limits.connection_limits import Limits
from kcore.sampled_rate import WINDOW_MS, SampledRate

MOST_ADDRESSES: Final = 10_000  # Addresses with a connection rate; the oldest entry is dropped.


class Refused(NamedTuple):
    """Why a connection is refused; the listener closes it after `after_s`."""

    what: str  # The name of its counter.
    why: str
    after_s: float = 0.0


class ConnectionQuotas:
    """The connection quotas of one listener."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        # connection_creation_rate of an address, as AlterClientQuotas sets it (KIP-612); None: no limit.
        self.rate_of: Callable[[str], float | None] = lambda address: None
        self._all = SampledRate()
        self._of_address: dict[str, SampledRate] = {}

    def refused(self, address: str, has: int, now_s: float) -> Refused | None:
        """Whether a new connection of an address that has so many is closed again."""
        limit = self.rate_of(address)
        if limit is not None:
            rate = self._of_address.pop(address, None) or SampledRate()
            self._of_address[address] = rate  # As the newest.
            if len(self._of_address) > MOST_ADDRESSES:
                del self._of_address[next(iter(self._of_address))]
            if wait_s := _wait_s(rate, limit, now_s):
                rate.record(-1, _ms(now_s))  # A refused connection does not count.
                return Refused("connection rate of an address", f"more than {limit:g} connections a second", wait_s)
        most = self._limits.connections_of_address.get(address, self._limits.connections_per_address)
        if has >= most:
            return Refused("connections of an address", f"it has the most of {most:,} connections")
        return None

    def pause_s(self, now_s: float) -> float:
        """How long no other connection is to be accepted after one more."""
        limit = self._limits.connections_a_second
        return 0.0 if limit is None else _wait_s(self._all, limit, now_s)


def _wait_s(rate: SampledRate, limit: float, now_s: float) -> float:
    """Counts one more connection. How long the next should wait, at most a window; 0: not at all."""
    now_ms = _ms(now_s)
    rate.record(1, now_ms)
    return rate.throttle_time_ms(limit, now_ms, WINDOW_MS) / 1000


def _ms(now_s: float) -> int:
    return int(now_s * 1000)
