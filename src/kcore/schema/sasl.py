"""SASL: client and broker agree on a mechanism (KIP-43), and the client authenticates (KIP-152)."""

from kcore.schema.kinds import int16, int64
from kcore.schema.structure import Message, field


class SaslHandshakeRequest(Message, api_key=17, versions="0-1", flexible="none"):
    """A client names the SASL mechanism that it wants to use."""

    mechanism: str


class SaslHandshakeResponse(Message, api_key=17, versions="0-1", flexible="none"):
    """The broker accepts the mechanism, or refuses it and lists its own mechanisms."""

    error_code: int16
    mechanisms: list[str]  # All mechanisms of the broker.


class SaslAuthenticateRequest(Message, api_key=36, versions="0-2", flexible="2+"):
    """The client's next token of the mechanism. After SaslHandshake 0 the client sends only token and length."""

    auth_bytes: bytes = field(secret=True)


class SaslAuthenticateResponse(Message, api_key=36, versions="0-2", flexible="2+"):
    """The broker's next token of the mechanism, or an error."""

    error_code: int16
    error_message: str | None = field(nullable="0+")
    auth_bytes: bytes = field(secret=True)
    # The client must authenticate again after this time (KIP-368); 0 for never.
    session_lifetime_ms: int64 = field(versions="1+", ignorable=True)
