"""Requests about delegation tokens at a broker: who may ask, and in KRaft mode which tokens there are (KIP-48).

In KRaft mode those that change a token go on to the controller, once the connection is one on which they may come;
only the broker knows that. Source: KafkaApis.allowTokenRequests, handleDescribeTokensRequest of 4.3.1;
DelegationTokenManager.
"""

from collections.abc import Callable
from typing import Final

from kcore.controller.rules.tokens import REQUESTER_SINCE, secret_of
from kcore.controller.zk.admin_events import Asking, OfTokens, TokenRequest
from kcore.metadata.image import ClusterImage
from kcore.metadata.principal import ANONYMOUS, KafkaPrincipal
from kcore.net.request_context import PLAINTEXT, ClientSession
from kcore.protocol_errors import Errors
from kcore.schema.delegation_tokens import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from kcore.schema.metadata_records_security import DelegationTokenRecord
from kcore.schema.structure import Message

API: Final = {"DescribeDelegationToken": (1, 3)}
NOT_ALLOWED: Final = Errors.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
MayDescribe = Callable[[str, str], bool]  # A token of another, by its id and its owner.


def may_ask(session: ClientSession) -> bool:
    """Not over PLAINTEXT, nor over TLS from who showed no certificate, nor from who showed a token itself."""
    if session.is_token_authenticated or session.security_protocol == PLAINTEXT:
        return False
    return session.security_protocol != "SSL" or session.principal != ANONYMOUS


def refusal_of(request: Message, version: int, session: ClientSession) -> Message | None:
    """The response to a request about tokens that may not come in that session; None otherwise."""
    if may_ask(session) or not isinstance(request, OfTokens):
        return None
    return TokenRequest(0, request, version, Asking(session.principal, 0, lambda *_: False)).refused(NOT_ALLOWED)


def describe_tokens(
    request: DescribeDelegationTokenRequest,
    version: int,
    principal: KafkaPrincipal,
    image: ClusterImage,
    secret_key: str | None,
    may_describe: MayDescribe,
) -> DescribeDelegationTokenResponse:
    """The tokens that are asked for, of those that the principal may see."""
    if secret_key is None:
        return DescribeDelegationTokenResponse(error_code=Errors.DELEGATION_TOKEN_AUTH_DISABLED)
    owners = None
    if request.owners is not None:
        owners = {f"{each.principal_type}:{each.principal_name}" for each in request.owners}
    found = [
        token
        for token in image.tokens.values()
        if (owners is None or owners & _users_of(token))
        and (str(principal) in _users_of(token) or may_describe(token.token_id, token.owner))
    ]
    return DescribeDelegationTokenResponse(tokens=[_described(each, secret_key.encode(), version) for each in found])


def _users_of(token: DelegationTokenRecord) -> set[str]:
    """TokenInformation.ownerOrRenewer"""
    return {token.owner, token.requester, *token.renewers}


def _described(token: DelegationTokenRecord, key: bytes, version: int) -> DescribedDelegationToken:
    owner_type, _, owner_name = token.owner.partition(":")
    described = DescribedDelegationToken(
        principal_type=owner_type,
        principal_name=owner_name,
        issue_timestamp=token.issue_timestamp,
        expiry_timestamp=token.expiration_timestamp,
        max_timestamp=token.max_timestamp,
        token_id=token.token_id,
        hmac=secret_of(key, token.token_id),
        renewers=[
            DescribedDelegationTokenRenewer(principal_type=kind, principal_name=name)
            for kind, _, name in (each.partition(":") for each in token.renewers)
        ],
    )
    if version >= REQUESTER_SINCE:
        kind, _, name = token.requester.partition(":")
        described.token_requester_principal_type, described.token_requester_principal_name = kind, name
    return described
