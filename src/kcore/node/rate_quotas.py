"""Client quotas on a rate, such as request_percentage (KIP-124).

The server counts the usage of every request. While the rate over the last windows exceeds the quota, it throttles the
client. The response contains a throttle time, and the server reads no request of the client until this time has passed.

Source: ClientQuotaManager, ClientRequestQuotaManager and QuotaUtils of 3.9.1 and 4.3.1.
"""

import math
from collections.abc import Mapping
from typing import Final, TypeAlias

from kcore.metadata.image.image_state import QuotaEntity
from kcore.node.quotas import CLIENT_ID, USER
from kcore.sampled_rate import MOST_MS, WINDOW_MS, WINDOWS, SampledRate

ClientQuotas: TypeAlias = Mapping[QuotaEntity, Mapping[str, float]]
Owner: TypeAlias = tuple[str, str]
"""A user and a client id whose requests share a quota. An empty user or client id stands for all."""


def owner_of(quotas: ClientQuotas, key: str, user: str, client_id: str) -> Owner:
    """The owner of the quota `key` for a client.

    Kafka searches the entities from user and client id to the defaults; the first one with this quota says whether all
    clients of the user share it.
    """
    levels: tuple[tuple[QuotaEntity, Owner], ...] = (
        (_entity(user, client_id), (user, client_id)),
        (_entity(user, None), (user, client_id)),
        (((USER, user),), (user, "")),
        (_entity(None, client_id), (user, client_id)),
        (_entity(None, None), (user, client_id)),
        (((USER, None),), (user, "")),
    )
    return next((owner for entity, owner in levels if key in quotas.get(entity, {})), ("", client_id))


def limit_of(quotas: ClientQuotas, key: str, owner: Owner) -> float | None:
    """The value of the quota `key`; None if the owner has no limit."""
    user, client_id = owner
    if user and client_id:
        levels = [_entity(one, other) for one in (user, None) for other in (client_id, None)]
    elif user:
        levels = [((USER, user),), ((USER, None),)]
    elif client_id:
        levels = [((CLIENT_ID, client_id),), ((CLIENT_ID, None),)]
    else:
        levels = []
    return next((quotas[each][key] for each in levels if key in quotas.get(each, {})), None)


def _entity(user: str | None, client_id: str | None) -> QuotaEntity:
    return (CLIENT_ID, client_id), (USER, user)


REQUEST_PERCENTAGE: Final = "request_percentage"
PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
MOST_RATES: Final = 10_000  # Most owners whose usage is kept; beyond it the least recently used rate is dropped.
_NS_A_PERCENT: Final = 10_000_000  # One percent of a second, in ns.


def percentage(ns: int) -> float:
    """A time in ns as a percentage of a second; request_percentage 100 is the full time of one thread."""
    return ns / _NS_A_PERCENT


class RateQuotas:
    """The recent usage of one quota by each user and client that has it."""

    def __init__(self, key: str, *, windows: int = WINDOWS, window_ms: int = WINDOW_MS, most_ms: int = MOST_MS) -> None:
        """`key`: the quota's name. `most_ms`: the longest throttle time."""
        self._key, self._windows, self._window_ms, self._most_ms = key, windows, window_ms, most_ms
        self._rates: dict[Owner, SampledRate] = {}
        self.counted = 0.0  # The usage of all clients with this quota since the start.
        self.throttled = 0  # The requests that were throttled, and their throttle times in ms.
        self.throttled_ms = 0

    def record(
        self, quotas: ClientQuotas, user: str, client_id: str | None, value: float, now_ms: int, *, checks: bool = True
    ) -> int:
        """Count usage, and return the throttle time in ms. Without `checks` the usage is only counted.

        A negative value takes back usage (unrecordQuotaSensor).
        """
        if not quotas:
            return 0
        owner = owner_of(quotas, self._key, user, client_id or "")
        limit = limit_of(quotas, self._key, owner)
        if limit is None:
            return 0
        rate = self._rates.pop(owner, None) or SampledRate(self._windows, self._window_ms)
        self._rates[owner] = rate  # Moved to the end, as the most recently used.
        if len(self._rates) > MOST_RATES:
            del self._rates[next(iter(self._rates))]
        rate.record(value, now_ms)
        self.counted += value
        throttled_ms = rate.throttle_time_ms(limit, now_ms, self._most_ms) if checks else 0
        if throttled_ms:
            self.throttled, self.throttled_ms = self.throttled + 1, self.throttled_ms + throttled_ms
        return throttled_ms

    def most_value(self, quotas: ClientQuotas, user: str, client_id: str | None) -> float:
        """The most usage of one request that is not always throttled; infinite for a client without this quota.

        Source: ClientQuotaManager.maxValueInQuotaWindow.
        """
        limit = limit_of(quotas, self._key, owner_of(quotas, self._key, user, client_id or "")) if quotas else None
        return math.inf if limit is None else limit * (self._windows - 1) * self._window_ms / 1000

    def rates(self, now_ms: int, most: int) -> dict[Owner, float]:
        """The rates per second of at most `most` owners, the most recently used ones."""
        return {owner: self._rates[owner].measure(now_ms) for owner in [*self._rates][-most:]}


def request_quotas(windows: int = WINDOWS, window_ms: int = WINDOW_MS) -> RateQuotas:
    """The quota request_percentage; the longest throttle time is one window (maxThrottleTimeMs)."""
    return RateQuotas(REQUEST_PERCENTAGE, windows=windows, window_ms=window_ms, most_ms=window_ms)
