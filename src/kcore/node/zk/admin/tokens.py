"""Creates, renews, expires and describes delegation tokens in ZooKeeper (KIP-48, KIP-373).

No znode has a secret: a token's HMAC is derived from its id and `delegation.token.secret.key`, which all nodes share.
Source: DelegationTokenManagerZk, KafkaApis of 3.9.1.
"""

import hmac
from collections.abc import Callable
from typing import NamedTuple

from kcore.errors import TableError
from kcore.metadata.principal import KafkaPrincipal, Token
from kcore.metadata.zookeeper.znode_operations import Create, Delete, Operation, OperationResult, SetData
from kcore.metadata.zookeeper.znode_tokens import CHANGE_PATH, TOKENS, decode_token, encode_token, token_path
from kcore.node.tokens import (
    EXPIRY_TIME_MS,
    MAX_LIFETIME_MS,
    MOST_TOKENS,
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
)
from kcore.node.tokens import (
    refused as refusal,
)
from kcore.node.zk.requester import Requester
from kcore.node.zk.znode_steps import ZnodeSteps, pass_over, read_children, read_nodes, write_nodes
from kcore.protocol_errors import Errors
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


class TokenRules(NamedTuple):
    """The settings of delegation tokens, which all nodes share."""

    secret_key: str | None = None  # delegation.token.secret.key; None: tokens are disabled.
    max_lifetime_ms: int = MAX_LIFETIME_MS
    expiry_time_ms: int = EXPIRY_TIME_MS

    def __repr__(self) -> str:
        """Omits the key, which must not be logged."""
        return f"TokenRules(max_lifetime_ms={self.max_lifetime_ms}, expiry_time_ms={self.expiry_time_ms})"


class TokenRequest(NamedTuple):
    """One of the four token requests."""

    request: OfTokens
    version: int
    requester: Requester

    def refused(self, error: Errors) -> Message:
        """The response with this error."""
        return refusal(self.request, self.version, self.requester.principal, error)


class TokenNode(NamedTuple):
    """A node that serves token requests: the controller or a broker of ZooKeeper mode."""

    rules: TokenRules
    new_uuid: Callable[[], Uuid]
    passed_over: set[str]  # Errors of unreadable znodes that are already logged.
    # Counts a mutation; returns the response if it exceeds the client's quota. None: the node, a broker, has no quota.
    throttled: Callable[[], ZnodeSteps[Message | None]] | None = None


def token_response(node: TokenNode, asked: TokenRequest) -> ZnodeSteps[Message]:
    """The response to one of the four token requests; the server has checked that the principal may send it."""
    if node.rules.secret_key is None:
        return asked.refused(Errors.DELEGATION_TOKEN_AUTH_DISABLED)
    key = node.rules.secret_key.encode()
    match asked.request:
        case CreateDelegationTokenRequest():
            return (yield from _create(node, asked, asked.request, key))
        case DescribeDelegationTokenRequest():
            who, may_describe = asked.requester.principal, asked.requester.may_describe_token
            tokens = [] if asked.request.owners == [] else (yield from _tokens(node.passed_over))
            return describe_tokens(tokens, asked.request, asked.version, who, may_describe, key)
        case RenewDelegationTokenRequest() | ExpireDelegationTokenRequest():
            return (yield from _change(node, asked, asked.request, key))


def _create(
    node: TokenNode, asked: TokenRequest, request: CreateDelegationTokenRequest, key: bytes
) -> ZnodeSteps[Message]:
    requester = asked.requester
    renewers = tuple(KafkaPrincipal(each.principal_name, each.principal_type) for each in request.renewers)
    owner = owner_of(request, requester.principal)
    has_type = not request.owner_principal_name or request.owner_principal_type is not None
    if not has_type or any(each.principal_type != USER_TYPE for each in (owner, *renewers)):
        return asked.refused(Errors.INVALID_PRINCIPAL_TYPE)
    if is_too_large(request):
        return asked.refused(Errors.POLICY_VIOLATION)
    if sum(each.owner == owner for each in (yield from _tokens(node.passed_over))) >= MOST_TOKENS:
        return asked.refused(Errors.POLICY_VIOLATION)
    if (too_soon := (yield from _throttled(node))) is not None:
        return too_soon
    limits = node.rules.max_lifetime_ms, node.rules.expiry_time_ms
    lifetime = new_lifetime(requester.wall_ms, request.max_lifetime_ms, *limits)
    token = Token(str(node.new_uuid()), owner, requester.principal, renewers, requester.wall_ms, *lifetime)
    created, _ = yield from write_nodes([Create(token_path(token.token_id), encode_token(token)), _note(token)])
    if created is not OperationResult.DONE:
        return asked.refused(Errors.UNKNOWN_SERVER_ERROR)
    response = creation_response(asked.version, owner, requester.principal)
    response.issue_timestamp_ms, response.max_timestamp_ms = token.issue_timestamp, token.max_timestamp
    response.expiry_timestamp_ms, response.token_id = token.expiry_timestamp, token.token_id
    response.hmac = secret_of(key, token.token_id)
    return response


def _throttled(node: TokenNode) -> ZnodeSteps[Message | None]:
    return None if node.throttled is None else (yield from node.throttled())


def _note(token: Token) -> Operation:
    return Create(CHANGE_PATH, token.token_id.encode(), sequential=True)


def _change(
    node: TokenNode,
    asked: TokenRequest,
    request: RenewDelegationTokenRequest | ExpireDelegationTokenRequest,
    key: bytes,
) -> ZnodeSteps[Message]:
    """Renews or expires a token for its owner or a renewer; it expires at its maximum lifetime at the latest."""
    tokens = yield from _tokens(node.passed_over)
    found = next((each for each in tokens if hmac.compare_digest(secret_of(key, each.token_id), request.hmac)), None)
    now_ms = asked.requester.wall_ms
    if found is None:
        return asked.refused(Errors.DELEGATION_TOKEN_NOT_FOUND)
    if not found.may_renew(asked.requester.principal):
        return asked.refused(Errors.DELEGATION_TOKEN_OWNER_MISMATCH)
    if (too_soon := (yield from _throttled(node))) is not None:
        return too_soon
    if isinstance(request, ExpireDelegationTokenRequest) and request.expiry_time_period_ms < 0:
        yield from write_nodes([Delete(token_path(found.token_id)), _note(found)])
        return ExpireDelegationTokenResponse(expiry_timestamp_ms=now_ms)
    if is_over(found.max_timestamp, found.expiry_timestamp, now_ms):
        return asked.refused(Errors.DELEGATION_TOKEN_EXPIRED)
    if isinstance(request, RenewDelegationTokenRequest):
        default_ms = node.rules.expiry_time_ms
        period_ms = default_ms if request.renew_period_ms < 0 else request.renew_period_ms
    else:
        period_ms = request.expiry_time_period_ms
    changed = found._replace(expiry_timestamp=min(found.max_timestamp, later(now_ms, period_ms)))
    written, _ = yield from write_nodes([SetData(token_path(found.token_id), encode_token(changed)), _note(found)])
    if written is not OperationResult.DONE:
        return asked.refused(Errors.DELEGATION_TOKEN_NOT_FOUND)
    if isinstance(request, RenewDelegationTokenRequest):
        return RenewDelegationTokenResponse(expiry_timestamp_ms=changed.expiry_timestamp)
    return ExpireDelegationTokenResponse(expiry_timestamp_ms=changed.expiry_timestamp)


def _tokens(passed_over: set[str]) -> ZnodeSteps[list[Token]]:
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


def expire_tokens(passed_over: set[str], now_ms: int) -> ZnodeSteps[None]:
    """Deletes expired tokens; `now_ms`: since 1970 (DelegationTokenManager.expireTokens)."""
    operations: list[Operation] = []
    for token in (yield from _tokens(passed_over)):
        if is_over(token.max_timestamp, token.expiry_timestamp, now_ms):
            operations += [Delete(token_path(token.token_id)), _note(token)]
    if operations:
        yield from write_nodes(operations)
