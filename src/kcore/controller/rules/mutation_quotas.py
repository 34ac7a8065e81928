"""controller_mutation_rate: how many partitions a user or client may create and delete a second (KIP-599).

The controller enforces the quota itself, in both modes. A token bucket refills at the quota's rate. A request may
overdraw the bucket; the next request is refused until the bucket is at zero again. Requests of older versions are not
refused: their responses only have a throttle time. In KRaft mode a request with `validate_only` is counted too.

Source: ControllerMutationQuotaManager, Strict- and PermissiveControllerMutationQuota, TokenBucket, ClientQuotaManager.
"""

import math
from dataclasses import dataclass
from typing import Final

from kcore.node.rate_quotas import ClientQuotas, Owner, limit_of, owner_of
from kcore.protocol_errors import Errors

RATE: Final = "controller_mutation_rate"
MOST_BUCKETS: Final = 10_000  # Most buckets; each owner of a quota has one.
# The first version of each request that the quota may refuse (KIP-599).
CREATE_TOPICS_STRICT_FROM: Final = 6
CREATE_PARTITIONS_STRICT_FROM: Final = 3
DELETE_TOPICS_STRICT_FROM: Final = 5
_MOST_MS: Final = (1 << 31) - 1


@dataclass(slots=True)
class _Bucket:
    tokens: float = 0.0
    updated_ms: int | None = None

    def refill(self, rate: float, burst: float, now_ms: int) -> None:
        """Add the tokens since the last refill. A new bucket becomes full."""
        since_ms = math.inf if self.updated_ms is None else now_ms - self.updated_ms
        self.tokens = min(burst, self.tokens + rate * since_ms / 1000) if rate else min(burst, self.tokens)
        self.updated_ms = now_ms


class MutationQuota:
    """The quota of one request: counts its partitions and computes the throttle time of its response."""

    def __init__(self, bucket: _Bucket | None, rate: float, burst: float, now_ms: int, *, is_strict: bool) -> None:
        """`bucket`: None if the user and client have no quota."""
        self._bucket, self._rate, self._burst, self._now_ms = bucket, rate, burst, now_ms
        self._is_strict = is_strict
        self._taken = 0  # Tokens.
        self.throttle_time_ms = 0  # Sent in the response.

    @property
    def is_limited(self) -> bool:
        """True if the user or client has a quota."""
        return self._bucket is not None

    def record(self, partitions: int) -> None:
        """Count partitions that the request creates or deletes; ThrottlingQuotaExceededException if the quota is
        exceeded.
        """
        bucket = self._bucket
        if bucket is None:
            return
        bucket.refill(self._rate, self._burst, self._now_ms)
        is_refused = self._is_strict and bucket.tokens < 0
        if not is_refused:
            bucket.tokens = min(self._burst, bucket.tokens - partitions)
            self._taken += partitions
        if bucket.tokens < 0 and (is_refused or not self._is_strict):
            self.throttle_time_ms = _until_zero(bucket.tokens, self._rate)
        if is_refused:
            Errors.THROTTLING_QUOTA_EXCEEDED.raise_for()

    def throttle_time_at(self, now_ms: int) -> int:
        """The rest of the throttle time, for a response that is sent at `now_ms`."""
        return max(0, self.throttle_time_ms - (now_ms - self._now_ms))

    def give_back(self) -> None:
        """Return the tokens, because the request will be decided again and will count its partitions again."""
        if self._bucket is not None:
            self._bucket.tokens = min(self._burst, self._bucket.tokens + self._taken)
        self._taken = 0


def _until_zero(tokens: float, rate: float) -> int:
    """Milliseconds until the bucket is at zero; 0 if the rate is 0, which is the result of Java's casts."""
    wait_ms = -tokens / rate * 1000 + 0.5 if rate else 0.0
    return math.floor(wait_ms) if wait_ms < _MOST_MS else _MOST_MS


class MutationQuotas:
    """The buckets of all users and clients that have a quota."""

    def __init__(self, burst_s: int) -> None:
        """`burst_s`: a full bucket has the tokens of this number of seconds."""
        self._burst_s = burst_s
        self._buckets: dict[Owner, _Bucket] = {}

    def of(
        self, quotas: ClientQuotas, user: str, client_id: str | None, now_ms: int, *, is_strict: bool
    ) -> MutationQuota:
        """The quota for a request of this user and client."""
        owner = owner_of(quotas, RATE, user, client_id or "")
        rate = limit_of(quotas, RATE, owner)
        if rate is None:
            return MutationQuota(None, 0, 0, now_ms, is_strict=is_strict)
        burst = rate * self._burst_s
        if owner not in self._buckets:
            self._make_room(now_ms)
        bucket = self._buckets.setdefault(owner, _Bucket())
        return MutationQuota(bucket, rate, burst, now_ms, is_strict=is_strict)

    def _make_room(self, now_ms: int) -> None:
        """Make room for a bucket: drop buckets that are full again, as new ones are, and then the oldest buckets."""
        if len(self._buckets) < MOST_BUCKETS:
            return
        fresh_ms = now_ms - self._burst_s * 1000
        self._buckets = {
            owner: bucket
            for owner, bucket in self._buckets.items()
            if bucket.tokens < 0 or (bucket.updated_ms is not None and bucket.updated_ms > fresh_ms)
        }
        while len(self._buckets) >= MOST_BUCKETS:
            del self._buckets[next(iter(self._buckets))]
