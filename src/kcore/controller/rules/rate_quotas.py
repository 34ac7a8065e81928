"""Quotas of clients on a rate, such as request_percentage: counted after the fact, and paid for by waiting (KIP-124).

What a request uses is counted in any case. Where the rate over the last windows is above the quota, the client is
throttled for the time after which it would not be any more: told so in the response, and not listened to meanwhile.

Source: ClientQuotaManager, ClientRequestQuotaManager and QuotaUtils of 3.9.1 and 4.3.1.
"""

from typing import Final

from kcore.controller.rules.quota_owners import ClientQuotas, Owner, limit_of, owner_of
from kcore.sampled_rate import MOST_MS, WINDOW_MS, WINDOWS, SampledRate

REQUEST_PERCENTAGE: Final = "request_percentage"
MOST_RATES: Final = 10_000  # The one that was used longest ago is forgotten.
_NS_A_PERCENT: Final = 10_000_000  # Of a second.


def percentage(ns: int) -> float:
    """What request_percentage is about: a hundred is all the time of one thread."""
    return ns / _NS_A_PERCENT


class RateQuotas:
    """What users and clients with a quota of one name have used of it."""

    def __init__(self, key: str, *, windows: int = WINDOWS, window_ms: int = WINDOW_MS, most_ms: int = MOST_MS) -> None:
        """`most_ms`: nobody is throttled for longer."""
        self._key, self._windows, self._window_ms, self._most_ms = key, windows, window_ms, most_ms
        self._rates: dict[Owner, SampledRate] = {}

    def record(
        self, quotas: ClientQuotas, user: str, client_id: str | None, value: float, now_ms: int, *, checks: bool = True
    ) -> int:
        """Counts what was used; for how many ms the client is throttled. Without `checks` it is only counted."""
        owner = owner_of(quotas, self._key, user, client_id or "")
        limit = limit_of(quotas, self._key, owner)
        if limit is None:
            return 0
        rate = self._rates.pop(owner, None) or SampledRate(self._windows, self._window_ms)
        self._rates[owner] = rate  # As the newest.
        if len(self._rates) > MOST_RATES:
            del self._rates[next(iter(self._rates))]
        rate.record(value, now_ms)
        return rate.throttle_time_ms(limit, now_ms, self._most_ms) if checks else 0


def request_quotas(windows: int = WINDOWS, window_ms: int = WINDOW_MS) -> RateQuotas:
    """request_percentage: nobody is throttled for longer than a window (maxThrottleTimeMs)."""
    return RateQuotas(REQUEST_PERCENTAGE, windows=windows, window_ms=window_ms, most_ms=window_ms)
