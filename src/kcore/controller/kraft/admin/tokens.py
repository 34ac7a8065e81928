"""Delegation tokens (KIP-48, KIP-900): short-lived secrets that replace the credentials of a principal.

The metadata log has no secrets: a token's HMAC is computed from its id and `delegation.token.secret.key`. Log lines
never have an HMAC or the key. Only the creator of a token receives its HMAC. Source: DelegationTokenControlManager,
ControllerApis.
"""

from kcore.controller.kraft.decision import Decision, Versioned
from kcore.controller.kraft.departures import UNBOUNDED_TOKENS
from kcore.controller.kraft.kraft_context import ControllerContext, RequestInfo
from kcore.controller.kraft.periodic import MOST_EXPIRED_TOKENS
from kcore.metadata.acl_codes import CREATE_TOKENS, USER
from kcore.metadata.principal import ANONYMOUS, KafkaPrincipal
from kcore.node.tokens import (
    MOST_TOKENS,
    MUTATIONS_STRICT_FROM,
    NO_TIME,
    USER_TYPE,
    OfTokens,
    creation_response,
    is_over,
    is_too_large,
    later,
    new_lifetime,
    owner_of,
    throttled,
)
from kcore.protocol_errors import ApiException, Errors
from kcore.schema.delegation_tokens import (
    CreateDelegationTokenRequest,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from kcore.schema.metadata_records_security import DelegationTokenRecord, RemoveDelegationTokenRecord
from kcore.types import Uuid


def on_create_delegation_token(
    context: ControllerContext, request: CreateDelegationTokenRequest, info: RequestInfo
) -> Decision:
    """Create a token for the requester, or for another owner if ACLs allow CREATE_TOKENS of that user (KIP-373)."""
    requester, owner = info.principal, owner_of(request, info.principal)
    if not _are_requests_allowed(info):
        return _not_created(Errors.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, owner, requester, info, NO_TIME)
    if owner != requester and not context.is_authorized(info, CREATE_TOKENS, USER, str(owner)):
        return _not_created(Errors.DELEGATION_TOKEN_AUTHORIZATION_FAILED, owner, requester, info, NO_TIME)
    context.call_controller()
    if (error := _error_of_cluster(context)) is not None:
        return _not_created(error, owner, requester, info, 0)
    if request.owner_principal_name and request.owner_principal_type is None:  # Kafka answers UNKNOWN_SERVER_ERROR.
        return _not_created(Errors.INVALID_PRINCIPAL_TYPE, owner, requester, info, 0)
    if any(each.principal_type != USER_TYPE for each in request.renewers):
        return _not_created(Errors.INVALID_PRINCIPAL_TYPE, owner, requester, info, 0)
    if _is_bounded(context) and (
        is_too_large(request) or context.tokens.count_of(context.image, str(owner)) >= MOST_TOKENS
    ):
        return _not_created(Errors.POLICY_VIOLATION, owner, requester, info, 0)
    if (too_soon := _throttled(context, request, info)) is not None:
        return too_soon
    config, now_ms = context.config, info.wall_ms
    limits = config.delegation_token_max_lifetime_ms, config.delegation_token_expiry_time_ms
    max_timestamp, expiration = new_lifetime(now_ms, request.max_lifetime_ms, *limits)
    token_id = str(_new_id(context))
    record = DelegationTokenRecord(
        owner=str(owner),
        requester=str(requester),
        renewers=[f"{each.principal_type}:{each.principal_name}" for each in request.renewers],
        issue_timestamp=now_ms,
        max_timestamp=max_timestamp,
        expiration_timestamp=expiration,
        token_id=token_id,
    )
    response = creation_response(info.version, owner, requester)
    response.issue_timestamp_ms, response.max_timestamp_ms = now_ms, max_timestamp
    response.expiry_timestamp_ms, response.token_id = expiration, token_id
    response.hmac = context.tokens.hmac_of(token_id)
    return Decision(response, (Versioned(record),))


def _is_bounded(context: ControllerContext) -> bool:
    return UNBOUNDED_TOKENS not in context.config.kafka_way


def _throttled(context: ControllerContext, request: OfTokens, info: RequestInfo) -> Decision | None:
    """Count a record for the quota on mutations; returns the response if the quota is exceeded, otherwise None."""
    if not _is_bounded(context):
        return None
    quota = context.mutation_quota(info, strict_from=MUTATIONS_STRICT_FROM)
    try:
        quota.record(1)
    except ApiException:
        return Decision(throttled(request, info.version, info.principal, quota.throttle_time_ms))
    return None


def _are_requests_allowed(info: RequestInfo) -> bool:
    """True if token requests are allowed on the connection (ControllerApis.allowTokenRequests).

    The controller refuses direct requests over PLAINTEXT, TLS clients without a certificate, and clients that
    authenticated with a token.
    """
    if info.is_token_authenticated or (info.security_protocol == "SSL" and info.principal == ANONYMOUS):
        return False
    return info.is_forwarded or info.security_protocol != "PLAINTEXT"


def _error_of_cluster(context: ControllerContext) -> Errors | None:
    """The error if delegation tokens are disabled or the metadata.version does not support them; otherwise None."""
    if context.config.node.delegation_token_secret_key is None:
        return Errors.DELEGATION_TOKEN_AUTH_DISABLED
    return None if context.version.delegation_tokens_supported else Errors.UNSUPPORTED_VERSION


def _not_created(
    error: Errors, owner: KafkaPrincipal, requester: KafkaPrincipal, info: RequestInfo, time_ms: int
) -> Decision:
    return Decision(creation_response(info.version, owner, requester, error, time_ms))


def _new_id(context: ControllerContext) -> Uuid:
    while str(found := context.new_uuid()) in context.image.tokens:
        pass
    return found


def on_renew_delegation_token(
    context: ControllerContext, request: RenewDelegationTokenRequest, info: RequestInfo
) -> Decision:
    """Extend the life of a token, at most to its maximum lifetime. Only the owner and renewers may do so."""
    found = _token_of(context, request.hmac, info)
    if isinstance(found, Errors):
        time_ms = NO_TIME if found == Errors.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED else 0
        return Decision(RenewDelegationTokenResponse(error_code=found, expiry_timestamp_ms=time_ms))
    if _is_expired(found, info.wall_ms):
        return Decision(RenewDelegationTokenResponse(error_code=Errors.DELEGATION_TOKEN_EXPIRED))
    if not _may_renew(found, info):
        return Decision(RenewDelegationTokenResponse(error_code=Errors.DELEGATION_TOKEN_OWNER_MISMATCH))
    if (too_soon := _throttled(context, request, info)) is not None:
        return too_soon
    period_ms = context.config.delegation_token_expiry_time_ms
    if request.renew_period_ms > 0:
        period_ms = min(period_ms, request.renew_period_ms)
    expiration = min(found.max_timestamp, later(info.wall_ms, period_ms))
    return Decision(RenewDelegationTokenResponse(expiry_timestamp_ms=expiration), (_expiring(found, expiration),))


def on_expire_delegation_token(
    context: ControllerContext, request: ExpireDelegationTokenRequest, info: RequestInfo
) -> Decision:
    """Let a token expire after a period, or now if the period is negative. Only the owner and renewers may do so."""
    found = _token_of(context, request.hmac, info)
    if isinstance(found, Errors):
        time_ms = NO_TIME if found == Errors.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED else 0
        return Decision(ExpireDelegationTokenResponse(error_code=found, expiry_timestamp_ms=time_ms))
    if not _may_renew(found, info):
        return Decision(ExpireDelegationTokenResponse(error_code=Errors.DELEGATION_TOKEN_OWNER_MISMATCH))
    if (too_soon := _throttled(context, request, info)) is not None:
        return too_soon
    if request.expiry_time_period_ms < 0:
        removal = Versioned(RemoveDelegationTokenRecord(token_id=found.token_id))
        return Decision(ExpireDelegationTokenResponse(expiry_timestamp_ms=info.wall_ms), (removal,))
    if _is_expired(found, info.wall_ms):
        return Decision(ExpireDelegationTokenResponse(error_code=Errors.DELEGATION_TOKEN_EXPIRED))
    expiration = min(found.max_timestamp, later(info.wall_ms, request.expiry_time_period_ms))
    return Decision(ExpireDelegationTokenResponse(expiry_timestamp_ms=expiration), (_expiring(found, expiration),))


def _token_of(context: ControllerContext, secret: bytes, info: RequestInfo) -> DelegationTokenRecord | Errors:
    """The token with this HMAC, or an error."""
    if not _are_requests_allowed(info):
        return Errors.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    context.call_controller()
    if (error := _error_of_cluster(context)) is not None:
        return error
    found = context.tokens.token_of(context.image, secret)
    return Errors.DELEGATION_TOKEN_NOT_FOUND if found is None else found


def _is_expired(token: DelegationTokenRecord, now_ms: int) -> bool:
    return is_over(token.max_timestamp, token.expiration_timestamp, now_ms)


def _may_renew(token: DelegationTokenRecord, info: RequestInfo) -> bool:
    return str(info.principal) in (token.owner, *token.renewers)


def _expiring(token: DelegationTokenRecord, expiration: int) -> Versioned:
    record = DelegationTokenRecord(
        owner=token.owner,
        requester=token.requester,
        renewers=list(token.renewers),
        issue_timestamp=token.issue_timestamp,
        max_timestamp=token.max_timestamp,
        expiration_timestamp=expiration,
        token_id=token.token_id,
    )
    return Versioned(record)


def on_describe_delegation_token(
    context: ControllerContext, request: DescribeDelegationTokenRequest, info: RequestInfo
) -> Decision:
    """Answer with an error: only brokers serve this request, although Kafka's controllers advertise it too."""
    if info.is_forwarded:  # Brokers never forward this request: the envelope gets the error.
        return Decision()
    return Decision(DescribeDelegationTokenResponse(error_code=Errors.UNKNOWN_SERVER_ERROR))


def expire_tokens(context: ControllerContext, now_ms: int) -> Decision | None:
    """Remove expired tokens, at most MOST_EXPIRED_TOKENS; None if no token has expired.

    Source: DelegationTokenControlManager.sweepExpiredDelegationTokens.
    """
    wall_ms = now_ms + context.wall_ahead_ms
    expired = [each for each in context.image.tokens.values() if _is_expired(each, wall_ms)]
    records = [Versioned(RemoveDelegationTokenRecord(token_id=each.token_id)) for each in expired[:MOST_EXPIRED_TOKENS]]
    return Decision(None, records, is_atomic=False) if records else None
