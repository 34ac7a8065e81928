"""Delegation tokens in ZooKeeper (KIP-48, KIP-373): created, renewed, expired, described.

A znode has no secret: a token's HMAC follows from its id and `delegation.token.secret.key`, which is the same at all
nodes. Source: DelegationTokenManagerZk, KafkaApis of 3.9.1.
"""

import hmac
from typing import Final

from kcore.controller.rules.tokens import USER_TYPE, is_over, later, new_lifetime, secret_of
from kcore.controller.zk.admin_events import ExpireTokens, TokenRequest
from kcore.controller.zk.context import ControllerContext
from kcore.controller.zk.effects import Steps, read_children, read_nodes, write_nodes
from kcore.controller.zk.znode_reading import pass_over
from kcore.errors import TableError
from kcore.metadata.principal import KafkaPrincipal
from kcore.metadata.znode_operations import Create, Delete, Operation, OperationResult, SetData
from kcore.metadata.znode_tokens import CHANGE_PATH, TOKENS, Token, decode_token, encode_token, token_path
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

NO_TIME: Final = -1  # DelegationTokenManager.ErrorTimestamp


def on_token_request(context: ControllerContext, event: TokenRequest) -> Steps[None]:
    """One of the four requests, from a principal that may make token requests."""
    key = context.config.delegation_token_secret_key
    if key is None:
        yield from context.answer(event.request_id, event.refused(Errors.DELEGATION_TOKEN_AUTH_DISABLED))
        return
    response: Message
    match event.request:
        case CreateDelegationTokenRequest():
            response = yield from _create(context, event, event.request, key.encode())
        case DescribeDelegationTokenRequest():
            response = yield from _describe(context, event, event.request, key.encode())
        case RenewDelegationTokenRequest() | ExpireDelegationTokenRequest():
            response = yield from _change(context, event, event.request, key.encode())
    yield from context.answer(event.request_id, response)


def _create(
    context: ControllerContext, event: TokenRequest, request: CreateDelegationTokenRequest, key: bytes
) -> Steps[Message]:
    config, asking = context.config, event.asking
    renewers = tuple(KafkaPrincipal(each.principal_name, each.principal_type) for each in request.renewers)
    owner = owner_of(request, asking.principal)
    if USER_TYPE not in {owner.principal_type} or any(each.principal_type != USER_TYPE for each in renewers):
        return event.refused(Errors.INVALID_PRINCIPAL_TYPE)
    limits = config.delegation_token_max_lifetime_ms, config.delegation_token_expiry_time_ms
    lifetime = new_lifetime(asking.wall_ms, request.max_lifetime_ms, *limits)
    token = Token(str(context.new_uuid()), owner, asking.principal, renewers, asking.wall_ms, *lifetime)
    created, _ = yield from write_nodes([Create(token_path(token.token_id), encode_token(token)), _note(token)])
    if created is not OperationResult.DONE:
        return event.refused(Errors.UNKNOWN_SERVER_ERROR)
    response = CreateDelegationTokenResponse(
        principal_type=owner.principal_type,
        principal_name=owner.name,
        issue_timestamp_ms=token.issue_timestamp,
        expiry_timestamp_ms=token.expiry_timestamp,
        max_timestamp_ms=token.max_timestamp,
        token_id=token.token_id,
        hmac=secret_of(key, token.token_id),
    )
    if event.version > 2:
        response.token_requester_principal_type = asking.principal.principal_type
        response.token_requester_principal_name = asking.principal.name
    return response


def owner_of(request: CreateDelegationTokenRequest, requester: KafkaPrincipal) -> KafkaPrincipal:
    """Whose the token is to be."""
    if not request.owner_principal_name:
        return requester
    return KafkaPrincipal(request.owner_principal_name, request.owner_principal_type or "")


def _note(token: Token) -> Operation:
    return Create(CHANGE_PATH, token.token_id.encode(), sequential=True)


def _change(
    context: ControllerContext,
    event: TokenRequest,
    request: RenewDelegationTokenRequest | ExpireDelegationTokenRequest,
    key: bytes,
) -> Steps[Message]:
    """The owner or a renewer lets a token end later or earlier, at most at its maximum."""
    tokens = yield from _tokens(context)
    found = next((each for each in tokens if hmac.compare_digest(secret_of(key, each.token_id), request.hmac)), None)
    now_ms = event.asking.wall_ms
    if found is None:
        return event.refused(Errors.DELEGATION_TOKEN_NOT_FOUND)
    if not found.may_renew(event.asking.principal):
        return event.refused(Errors.DELEGATION_TOKEN_OWNER_MISMATCH)
    if isinstance(request, ExpireDelegationTokenRequest) and request.expiry_time_period_ms < 0:
        yield from write_nodes([Delete(token_path(found.token_id)), _note(found)])
        return ExpireDelegationTokenResponse(expiry_timestamp_ms=now_ms)
    if is_over(found.max_timestamp, found.expiry_timestamp, now_ms):
        return event.refused(Errors.DELEGATION_TOKEN_EXPIRED)
    if isinstance(request, RenewDelegationTokenRequest):
        default_ms = context.config.delegation_token_expiry_time_ms
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


def _describe(
    context: ControllerContext, event: TokenRequest, request: DescribeDelegationTokenRequest, key: bytes
) -> Steps[Message]:
    """Tokens that are asked for, of those that the principal may see (DelegationTokenManager.filterToken)."""
    asking = event.asking
    owners = None
    if request.owners is not None:
        owners = [KafkaPrincipal(each.principal_name, each.principal_type) for each in request.owners]
    described = []
    for token in (yield from _tokens(context)) if owners is None or owners else ():
        if owners is not None and not any(map(token.is_of, owners)):
            continue
        if token.is_of(asking.principal) or asking.may_describe(token.token_id, str(token.owner)):
            described.append(_described(token, key, event.version))
    return DescribeDelegationTokenResponse(tokens=described)


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
    if version > 2:
        described.token_requester_principal_type = token.requester.principal_type
        described.token_requester_principal_name = token.requester.name
    return described


def _tokens(context: ControllerContext) -> Steps[list[Token]]:
    """All that can be read."""
    paths = [token_path(each) for each in (yield from read_children(TOKENS))]
    nodes = (yield from read_nodes(paths)) if paths else []
    found: list[Token] = []
    for path, node in zip(paths, nodes, strict=True):
        try:
            found += [] if node is None else [decode_token(path, node.data)]
        except TableError as error:
            yield from pass_over(context, [error])
    return found


def on_expire_tokens(context: ControllerContext, event: ExpireTokens) -> Steps[None]:
    """Removes tokens whose time is over (DelegationTokenManager.expireTokens)."""
    if context.config.delegation_token_secret_key is None:
        return
    operations: list[Operation] = []
    for token in (yield from _tokens(context)):
        if is_over(token.max_timestamp, token.expiry_timestamp, event.wall_ms):
            operations += [Delete(token_path(token.token_id)), _note(token)]
    if operations:
        yield from write_nodes(operations)
