"""Delegation tokens (KIP-48): their secrets and lifetimes, and the responses to requests about them.

Neither a token's secret nor the secret key is ever logged. Source: DelegationTokenManager,
DelegationTokenControlManager, KafkaApis.
"""

import hmac
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple, TypeAlias, cast

from kcore.metadata.principal import KafkaPrincipal, Token
from kcore.protocol_errors import Errors
from kcore.schema.delegation_tokens import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from kcore.schema.structure import Message

MOST_MS: Final = (1 << 63) - 1  # The largest time stamp.
USER_TYPE: Final = "User"
NO_TIME: Final = -1  # DelegationTokenManager.ERROR_TIMESTAMP
REQUESTER_SINCE: Final = 3  # From this version on responses name the requester of a token (KIP-373).
MAX_LIFETIME_MS: Final = 7 * 24 * 3600 * 1000  # delegation.token.max.lifetime.ms
EXPIRY_TIME_MS: Final = 24 * 3600 * 1000  # delegation.token.expiry.time.ms
# Limits for users without any permission. Kafka has no such limits.
MOST_RENEWERS: Final = 100  # Renewers of one token.
MOST_RENEWER_BYTES: Final = 4096  # All renewers' names of a token together: each renewal writes the names again.
MOST_TOKENS: Final = 1_000  # Tokens of one owner. Expired tokens are removed within the hour.
MUTATIONS_STRICT_FROM: Final = 0  # The quota on mutations may refuse requests of every version.
OfTokens: TypeAlias = (
    CreateDelegationTokenRequest
    | RenewDelegationTokenRequest
    | ExpireDelegationTokenRequest
    | DescribeDelegationTokenRequest
)
MayDescribe: TypeAlias = Callable[[str, str], bool]  # By token id and owner.


class Lifetime(NamedTuple):
    """The lifetime of a token, in ms since 1970: the token expires at the earlier of the two times."""

    max_timestamp: int
    expiration_timestamp: int


def secret_of(key: bytes, token_id: str) -> bytes:
    """The secret of a token: the HMAC of its id under `key`, which is `delegation.token.secret.key`."""
    return hmac.digest(key, token_id.encode(), "sha512")


def later(now_ms: int, duration_ms: int) -> int:
    """The time `duration_ms` after `now_ms`, limited to the largest time stamp."""
    return min(now_ms + duration_ms, MOST_MS)


def new_lifetime(now_ms: int, requested_ms: int, most_ms: int, expiry_time_ms: int) -> Lifetime:
    """The lifetime of a new token. `requested_ms`: the requested lifetime; 0 or negative means the longest one."""
    max_timestamp = later(now_ms, min(requested_ms, most_ms) if requested_ms > 0 else most_ms)
    return Lifetime(max_timestamp, min(max_timestamp, later(now_ms, expiry_time_ms)))


def is_over(max_timestamp: int, expiration_timestamp: int, now_ms: int) -> bool:
    """True if the token has expired."""
    return min(max_timestamp, expiration_timestamp) < now_ms


def owner_of(request: CreateDelegationTokenRequest, requester: KafkaPrincipal) -> KafkaPrincipal:
    """The owner of the new token (KIP-373): the requester, unless the request names an owner with a type."""
    if request.owner_principal_name and request.owner_principal_type is not None:
        return KafkaPrincipal(request.owner_principal_name, request.owner_principal_type)
    return requester


def is_too_large(request: CreateDelegationTokenRequest) -> bool:
    """True if the request names more renewers than a token may have."""
    names = [each.principal_name for each in request.renewers[: MOST_RENEWERS + 1]]
    return len(names) > MOST_RENEWERS or sum(len(each.encode()) for each in names) > MOST_RENEWER_BYTES


def refused(request: OfTokens, version: int, requester: KafkaPrincipal, error: Errors) -> Message:
    """The response to a request that fails with this error."""
    match request:
        case CreateDelegationTokenRequest():
            return creation_response(version, owner_of(request, requester), requester, error)
        case RenewDelegationTokenRequest():
            return RenewDelegationTokenResponse(error_code=error, expiry_timestamp_ms=NO_TIME)
        case ExpireDelegationTokenRequest():
            return ExpireDelegationTokenResponse(error_code=error, expiry_timestamp_ms=NO_TIME)
        case DescribeDelegationTokenRequest():
            return DescribeDelegationTokenResponse(error_code=error)


def throttled(request: OfTokens, version: int, requester: KafkaPrincipal, throttle_time_ms: int) -> Message:
    """The response to a request that exceeds the quota on mutations."""
    response: Any = refused(request, version, requester, Errors.THROTTLING_QUOTA_EXCEEDED)
    response.throttle_time_ms = max(1, throttle_time_ms)
    return cast(Message, response)


def creation_response(
    version: int,
    owner: KafkaPrincipal,
    requester: KafkaPrincipal,
    error: Errors = Errors.NONE,
    time_ms: int = NO_TIME,
) -> CreateDelegationTokenResponse:
    """The response without a token; all its times are `time_ms` (CreateDelegationTokenResponse.prepareResponse)."""
    response = CreateDelegationTokenResponse(
        error_code=error,
        principal_type=owner.principal_type,
        principal_name=owner.name,
        issue_timestamp_ms=time_ms,
        expiry_timestamp_ms=time_ms,
        max_timestamp_ms=time_ms,
    )
    if version >= REQUESTER_SINCE:
        response.token_requester_principal_type = requester.principal_type
        response.token_requester_principal_name = requester.name
    return response


def describe_tokens(
    tokens: Iterable[Token],
    request: DescribeDelegationTokenRequest,
    version: int,
    principal: KafkaPrincipal,
    may_describe: MayDescribe,
    key: bytes,
) -> DescribeDelegationTokenResponse:
    """The requested tokens that the principal may describe (DelegationTokenManager.filterToken)."""
    owners = None
    if request.owners is not None:
        owners = {KafkaPrincipal(each.principal_name, each.principal_type) for each in request.owners}
    found = [
        token
        for token in tokens
        if (owners is None or token.is_of_any(owners))
        and (token.is_of(principal) or may_describe(token.token_id, str(token.owner)))
    ]
    return DescribeDelegationTokenResponse(tokens=[_described(each, key, version) for each in found])


def _described(token: Token, key: bytes, version: int) -> DescribedDelegationToken:
    described = DescribedDelegationToken(
        principal_type=token.owner.principal_type,
        principal_name=token.owner.name,
        issue_timestamp=token.issue_timestamp,
        expiry_timestamp=token.expiry_timestamp,
        max_timestamp=token.max_timestamp,
        token_id=token.token_id,
        hmac=secret_of(key, token.token_id),
        renewers=[
            DescribedDelegationTokenRenewer(principal_type=each.principal_type, principal_name=each.name)
            for each in token.renewers
        ],
    )
    if version >= REQUESTER_SINCE:
        described.token_requester_principal_type = token.requester.principal_type
        described.token_requester_principal_name = token.requester.name
    return described
