"""Creates, renews, expires and describes delegation tokens in ZooKeeper (KIP-48, KIP-373).

No znode has a secret: a token's HMAC is derived from its id and `delegation.token.secret.key`, which all nodes share.
Source: DelegationTokenManagerZk, KafkaApis of 3.9.1.
"""

import hmac
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, TypeAlias

from kcore.controller.rules.mutation_quotas import MutationQuota
from kcore.controller.rules.tokens import (
    EXPIRY_TIME_MS,
    MAX_LIFETIME_MS,
    MOST_TOKENS,
    MUTATIONS_STRICT_FROM,
    USER_TYPE,
    OfTokens,
    creation_response,
    describe_tokens,
    is_over,
    is_too_large,
    later,
    new_lifetime,
    owner_of,
    secret_of,
    throttled,
)
from kcore.controller.zk.admin.quotas import quota_of
from kcore.controller.zk.effects import Steps, read_children, read_nodes, write_nodes
from kcore.controller.zk.events import ExpireTokens, RequestEvent
from kcore.controller.zk.zk_context import ControllerContext
from kcore.controller.zk.znode_reading import pass_over
from kcore.errors import TableError
from kcore.metadata.principal import KafkaPrincipal, Token
from kcore.metadata.zookeeper.znode_operations import Create, Delete, Operation, OperationResult, SetData
from kcore.metadata.zookeeper.znode_tokens import CHANGE_PATH, TOKENS, decode_token, encode_token, token_path
from kcore.protocol_errors import ApiException, Errors
from kcore.schema.delegation_tokens import (
    CreateDelegationTokenRequest,
    DescribeDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from kcore.schema.structure import Message
from kcore.types import Uuid

TokenRequest: TypeAlias = RequestEvent[OfTokens]


class TokenRules(NamedTuple):
    """The settings of delegation tokens, which all nodes share."""

    secret_key: str | None = None  # delegation.token.secret.key; None: tokens are disabled.
    max_lifetime_ms: int = MAX_LIFETIME_MS
    expiry_time_ms: int = EXPIRY_TIME_MS

    def __repr__(self) -> str:
        """Omits the key, which must not be logged."""
        return f"TokenRules(max_lifetime_ms={self.max_lifetime_ms}, expiry_time_ms={self.expiry_time_ms})"


class TokenNode(NamedTuple):
    """A node that serves token requests: the controller or a broker of ZooKeeper mode."""

    rules: TokenRules
    new_uuid: Callable[[], Uuid]
    passed_over: set[str]  # Errors of unreadable znodes that are already logged.
    quota_of: "Callable[[TokenRequest], Steps[MutationQuota]] | None" = (
        None  # The quota on mutations; a broker has none.
    )


def on_token_request(context: ControllerContext, event: TokenRequest) -> Steps[Message]:
    """Answers a token request with the controller's settings and mutation quotas."""
    config = context.config
    rules = TokenRules(
        config.delegation_token_secret_key,
        config.delegation_token_max_lifetime_ms,
        config.delegation_token_expiry_time_ms,
    )

    quota = partial(quota_of, context, strict_from=MUTATIONS_STRICT_FROM)
    node = TokenNode(rules, context.new_uuid, context.passed_over, quota)
    return (yield from token_response(node, event))


def token_response(node: TokenNode, event: TokenRequest) -> Steps[Message]:
    """The response to one of the four token requests; the server has checked that the principal may send it."""
    if node.rules.secret_key is None:
        return event.refused(Errors.DELEGATION_TOKEN_AUTH_DISABLED)
    key = node.rules.secret_key.encode()
    match event.request:
        case CreateDelegationTokenRequest():
            return (yield from _create(node, event, event.request, key))
        case DescribeDelegationTokenRequest():
            who, may_describe = event.requester.principal, event.requester.may_describe_token
            tokens = [] if event.request.owners == [] else (yield from _tokens(node.passed_over))
            return describe_tokens(tokens, event.request, event.version, who, may_describe, key)
        case RenewDelegationTokenRequest() | ExpireDelegationTokenRequest():
            return (yield from _change(node, event, event.request, key))


def _create(node: TokenNode, event: TokenRequest, request: CreateDelegationTokenRequest, key: bytes) -> Steps[Message]:
    requester = event.requester
    renewers = tuple(KafkaPrincipal(each.principal_name, each.principal_type) for each in request.renewers)
    owner = owner_of(request, requester.principal)
    has_type = not request.owner_principal_name or request.owner_principal_type is not None
    if not has_type or any(each.principal_type != USER_TYPE for each in (owner, *renewers)):
        return event.refused(Errors.INVALID_PRINCIPAL_TYPE)
    if is_too_large(request):
        return event.refused(Errors.POLICY_VIOLATION)
    if sum(each.owner == owner for each in (yield from _tokens(node.passed_over))) >= MOST_TOKENS:
        return event.refused(Errors.POLICY_VIOLATION)
    if (too_soon := (yield from _throttled(node, event))) is not None:
        return too_soon
    limits = node.rules.max_lifetime_ms, node.rules.expiry_time_ms
    lifetime = new_lifetime(requester.wall_ms, request.max_lifetime_ms, *limits)
    token = Token(str(node.new_uuid()), owner, requester.principal, renewers, requester.wall_ms, *lifetime)
    created, _ = yield from write_nodes([Create(token_path(token.token_id), encode_token(token)), _note(token)])
    if created is not OperationResult.DONE:
        return event.refused(Errors.UNKNOWN_SERVER_ERROR)
    response = creation_response(event.version, owner, requester.principal)
    response.issue_timestamp_ms, response.max_timestamp_ms = token.issue_timestamp, token.max_timestamp
    response.expiry_timestamp_ms, response.token_id = token.expiry_timestamp, token.token_id
    response.hmac = secret_of(key, token.token_id)
    return response


def _throttled(node: TokenNode, event: TokenRequest) -> Steps[Message | None]:
    """Counts a mutation; returns the error response if it exceeds the mutation quota, otherwise None."""
    if node.quota_of is None:
        return None
    quota = yield from node.quota_of(event)
    try:
        quota.record(1)
    except ApiException:
        return throttled(event.request, event.version, event.requester.principal, quota.throttle_time_ms)
    return None


def _note(token: Token) -> Operation:
    return Create(CHANGE_PATH, token.token_id.encode(), sequential=True)


def _change(
    node: TokenNode,
    event: TokenRequest,
    request: RenewDelegationTokenRequest | ExpireDelegationTokenRequest,
    key: bytes,
) -> Steps[Message]:
    """Renews or expires a token for its owner or a renewer; it expires at its maximum lifetime at the latest."""
    tokens = yield from _tokens(node.passed_over)
    found = next((each for each in tokens if hmac.compare_digest(secret_of(key, each.token_id), request.hmac)), None)
    now_ms = event.requester.wall_ms
    if found is None:
        return event.refused(Errors.DELEGATION_TOKEN_NOT_FOUND)
    if not found.may_renew(event.requester.principal):
        return event.refused(Errors.DELEGATION_TOKEN_OWNER_MISMATCH)
    if (too_soon := (yield from _throttled(node, event))) is not None:
        return too_soon
    if isinstance(request, ExpireDelegationTokenRequest) and request.expiry_time_period_ms < 0:
        yield from write_nodes([Delete(token_path(found.token_id)), _note(found)])
        return ExpireDelegationTokenResponse(expiry_timestamp_ms=now_ms)
    if is_over(found.max_timestamp, found.expiry_timestamp, now_ms):
        return event.refused(Errors.DELEGATION_TOKEN_EXPIRED)
    if isinstance(request, RenewDelegationTokenRequest):
        default_ms = node.rules.expiry_time_ms
        period_ms = default_ms if request.renew_period_ms < 0 else request.renew_period_ms
    else:
        period_ms = request.expiry_time_period_ms
    changed = found._replace(expiry_timestamp=min(found.max_timestamp, later(now_ms, period_ms)))
    written, _ = yield from write_nodes([SetData(token_path(found.token_id), encode_token(changed)), _note(found)])
    if written is not OperationResult.DONE:
        return event.refused(Errors.DELEGATION_TOKEN_NOT_FOUND)
    if isinstance(request, RenewDelegationTokenRequest):
        return RenewDelegationTokenResponse(expiry_timestamp_ms=changed.expiry_timestamp)
    return ExpireDelegationTokenResponse(expiry_timestamp_ms=changed.expiry_timestamp)


def _tokens(passed_over: set[str]) -> Steps[list[Token]]:
    """All readable tokens in ZooKeeper; logs the unreadable ones."""
    paths = [token_path(each) for each in (yield from read_children(TOKENS))]
    nodes = (yield from read_nodes(paths)) if paths else []
    found: list[Token] = []
    for path, node in zip(paths, nodes, strict=True):
        try:
            found += [] if node is None else [decode_token(path, node.data)]
        except TableError as error:
            yield from pass_over(passed_over, [error])
    return found


def on_expire_tokens(context: ControllerContext, event: ExpireTokens) -> Steps[None]:
    """Deletes expired tokens (DelegationTokenManager.expireTokens)."""
    if context.config.delegation_token_secret_key is None:
        return
    operations: list[Operation] = []
    for token in (yield from _tokens(context.passed_over)):
        if is_over(token.max_timestamp, token.expiry_timestamp, event.wall_ms):
            operations += [Delete(token_path(token.token_id)), _note(token)]
    if operations:
        yield from write_nodes(operations)
