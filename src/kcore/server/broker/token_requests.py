"""Requests about delegation tokens at a broker: checks of the connection, and DescribeDelegationToken (KIP-48).

In KRaft mode the broker checks the connection, then forwards changes of tokens to the controller. Source:
KafkaApis.allowTokenRequests, handleDescribeTokensRequest of 4.3.1; DelegationTokenManager.
"""

from typing import Final

from kcore.metadata.image.image import ClusterImage
from kcore.metadata.principal import ANONYMOUS, KafkaPrincipal, Token
from kcore.net.request_context import PLAINTEXT, ClientSession
from kcore.node import tokens
from kcore.protocol_errors import Errors
from kcore.schema.delegation_tokens import DescribeDelegationTokenRequest, DescribeDelegationTokenResponse
from kcore.schema.structure import Message

API: Final = {"DescribeDelegationToken": (1, 3)}


def may_ask(session: ClientSession) -> bool:
    """True if the session may send token requests.

    Kafka allows none over PLAINTEXT, over TLS without a client certificate, or after authentication with a token.
    """
    if session.is_token_authenticated or session.security_protocol == PLAINTEXT:
        return False
    return session.security_protocol != "SSL" or session.principal != ANONYMOUS


def refusal_of(request: Message, version: int, session: ClientSession) -> Message | None:
    """The refusal of a token request that the session may not send; None otherwise."""
    if may_ask(session) or not isinstance(request, tokens.OfTokens):
        return None
    return tokens.refused(request, version, session.principal, Errors.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)


def describe_tokens(
    request: DescribeDelegationTokenRequest,
    version: int,
    principal: KafkaPrincipal,
    image: ClusterImage,
    secret_key: str | None,
    may_describe: tokens.MayDescribe,
) -> DescribeDelegationTokenResponse:
    """The requested tokens that the principal may describe."""
    if secret_key is None:
        return DescribeDelegationTokenResponse(error_code=Errors.DELEGATION_TOKEN_AUTH_DISABLED)
    known = map(Token.of_record, image.tokens.values())
    return tokens.describe_tokens(known, request, version, principal, may_describe, secret_key.encode())
