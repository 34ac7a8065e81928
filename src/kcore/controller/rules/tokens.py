"""Delegation tokens (KIP-48): their secrets, and how long they live.

Neither a secret nor the key is ever logged. Source: DelegationTokenManager, DelegationTokenControlManager.
"""

import hmac
from typing import Final, NamedTuple

from kcore.metadata.principal import KafkaPrincipal
from kcore.schema.delegation_tokens import CreateDelegationTokenRequest

MOST_MS: Final = (1 << 63) - 1
USER_TYPE: Final = "User"
REQUESTER_SINCE: Final = 3  # The version of requests since which a token has a requester beside its owner (KIP-373).
MAX_LIFETIME_MS: Final = 7 * 24 * 3600 * 1000  # delegation.token.max.lifetime.ms
EXPIRY_TIME_MS: Final = 24 * 3600 * 1000  # delegation.token.expiry.time.ms


class Lifetime(NamedTuple):
    """Of a token, in ms since 1970: it ends at the earlier of the two."""

    max_timestamp: int
    expiration_timestamp: int


def owner_of(request: CreateDelegationTokenRequest, requester: KafkaPrincipal) -> KafkaPrincipal:
    """Whose the token is to be (KIP-373)."""
    if not request.owner_principal_name:
        return requester
    return KafkaPrincipal(request.owner_principal_name, request.owner_principal_type or "")


def secret_of(key: bytes, token_id: str) -> bytes:
    """A token's HMAC, by `delegation.token.secret.key`."""
    return hmac.digest(key, token_id.encode(), "sha512")


def later(now_ms: int, duration_ms: int) -> int:
    """The time after that duration, or the last that there is."""
    return min(now_ms + duration_ms, MOST_MS)


def new_lifetime(now_ms: int, asked_ms: int, most_ms: int, expiry_time_ms: int) -> Lifetime:
    """Of a new token; not positive: nobody asked for less than the most."""
    max_timestamp = later(now_ms, min(asked_ms, most_ms) if asked_ms > 0 else most_ms)
    return Lifetime(max_timestamp, min(max_timestamp, later(now_ms, expiry_time_ms)))


def is_over(max_timestamp: int, expiration_timestamp: int, now_ms: int) -> bool:
    """Whether the token has expired."""
    return min(max_timestamp, expiration_timestamp) < now_ms
