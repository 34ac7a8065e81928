"""controller_mutation_rate: how many partitions a user or client may create and delete a second (KIP-599).

The controller itself enforces it, in both modes. A bucket of tokens refills at the quota's rate; a request may overdraw
it, and the next one is refused until the bucket is at zero again. Older versions of a request are never refused, only
told how long to wait. In KRaft mode what is only validated counts, too.

Source: ControllerMutationQuotaManager, Strict- and PermissiveControllerMutationQuota, TokenBucket, ClientQuotaManager.
"""

import math
from dataclasses import dataclass
from typing import Final

from kcore.controller.rules.quota_owners import ClientQuotas, Owner, limit_of, owner_of
from kcore.protocol_errors import Errors

RATE: Final = "controller_mutation_rate"
MOST_BUCKETS: Final = 10_000
CREATE_TOPICS_STRICT_FROM: Final = 6  # The versions from which on a request is refused (KIP-599).
CREATE_PARTITIONS_STRICT_FROM: Final = 3
DELETE_TOPICS_STRICT_FROM: Final = 5
_MOST_MS: Final = (1 << 31) - 1


@dataclass(slots=True)
class _Bucket:
    tokens: float = 0.0
    updated_ms: int | None = None

    def refill(self, rate: float, burst: float, now_ms: int) -> None:
        """A new bucket is full."""
        since_ms = math.inf if self.updated_ms is None else now_ms - self.updated_ms
        self.tokens = min(burst, self.tokens + rate * since_ms / 1000) if rate else min(burst, self.tokens)
        self.updated_ms = now_ms


class MutationQuota:
    """Of one request."""

    def __init__(self, bucket: _Bucket | None, rate: float, burst: float, now_ms: int, *, is_strict: bool) -> None:
        """Without a bucket there is no quota."""
        self._bucket, self._rate, self._burst, self._now_ms = bucket, rate, burst, now_ms
        self._is_strict = is_strict
        self._taken = 0  # Tokens.
        self.throttle_time_ms = 0  # What the response says.

    @property
    def is_limited(self) -> bool:
        """Whether there is a quota."""
        return self._bucket is not None

    def record(self, partitions: int) -> None:
        """So many are to be created or deleted. ThrottlingQuotaExceededException."""
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
        """What a response says that is given later: how much of the time to wait is left then."""
        return max(0, self.throttle_time_ms - (now_ms - self._now_ms))

    def give_back(self) -> None:
        """The request is decided anew, and records again what it creates and deletes."""
        if self._bucket is not None:
            self._bucket.tokens = min(self._burst, self._bucket.tokens + self._taken)
        self._taken = 0


def _until_zero(tokens: float, rate: float) -> int:
    """Milliseconds; 0 where the bucket never fills again, as Java's casts make it."""
    wait_ms = -tokens / rate * 1000 + 0.5 if rate else 0.0
    return math.floor(wait_ms) if wait_ms < _MOST_MS else _MOST_MS


class MutationQuotas:
    """The buckets of all users and clients that have a quota."""

    def __init__(self, burst_s: int) -> None:
        """`burst_s`: a full bucket has the tokens of so many seconds."""
        self._burst_s = burst_s
        self._buckets: dict[Owner, _Bucket] = {}

    def of(
        self, quotas: ClientQuotas, user: str, client_id: str | None, now_ms: int, *, is_strict: bool
    ) -> MutationQuota:
        """What counts for a request of this user and client."""
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
        """A bucket that nobody used for the time in which it fills from zero is like a new one."""
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
