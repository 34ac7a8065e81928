"""Encodes and decodes the znodes of delegation tokens, which contain no secrets.

The decoder raises TableError with the path. Source: DelegationTokenInfoZNode and DelegationTokenManager of 3.9.1.
"""

from typing import Final

from kcore.metadata.principal import KafkaPrincipal, Token
from kcore.metadata.zookeeper.znode_json import Fields, as_integer, encode_json, fault, immutable_order
from kcore.metadata.zookeeper.znode_names import desanitized, sanitized

TOKENS: Final = "/delegation_token/tokens"
CHANGES: Final = "/delegation_token/token_changes"
CHANGE_PATH: Final = f"{CHANGES}/token_change_"
PERSISTENT_PATHS: Final = (CHANGES, TOKENS)
_VERSION: Final = 3


def token_path(token_id: str) -> str:
    """The path of a token's znode."""
    return f"{TOKENS}/{token_id}"


def encode_token(token: Token) -> bytes:
    """The znode's data (DelegationTokenManager.toJsonCompatibleMap)."""
    values = {
        "version": _VERSION,
        "owner": sanitized(str(token.owner)),
        "tokenRequester": sanitized(str(token.requester)),
        "renewers": [sanitized(str(each)) for each in token.renewers],
        "issueTimestamp": token.issue_timestamp,
        "maxTimestamp": token.max_timestamp,
        "expiryTimestamp": token.expiry_timestamp,
        "tokenId": token.token_id,
    }
    return encode_json({name: values[name] for name in immutable_order(values)})


def decode_token(path: str, data: bytes) -> Token:
    """The token in a znode (DelegationTokenManager.fromBytes)."""
    fields = Fields.of(path, data)
    version = fields.integer("version")
    if not 0 < version <= _VERSION:
        raise fault(path, f"version {version}")
    owner = _principal(path, fields.text("owner"))
    times = ("issueTimestamp", "maxTimestamp", "expiryTimestamp")
    return Token(
        fields.text("tokenId"),
        owner,
        _principal(path, fields.text("tokenRequester")) if version >= _VERSION else owner,
        tuple(_principal(path, each) for each in fields.texts("renewers")),
        *(as_integer(path, fields.integer(name, bits=64), name, 64) for name in times),
    )


def _principal(path: str, text: str) -> KafkaPrincipal:
    kind, colon, name = desanitized(text).partition(":")
    if not colon:
        raise fault(path, f"{text[:40]!r} is not a principal")
    return KafkaPrincipal(name, kind)
