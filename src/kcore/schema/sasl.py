"""Sasl."""

from kcore.schema.kinds import int16, int64
from kcore.schema.structure import Message, field


class SaslHandshakeRequest(Message, api_key=17, versions="0-1", flexible="none"):
    """SaslHandshakeRequest, as Kafka has it."""

    mechanism: str


class SaslHandshakeResponse(Message, api_key=17, versions="0-1", flexible="none"):
    """SaslHandshakeResponse, as Kafka has it."""

    error_code: int16
    mechanisms: list[str]


class SaslAuthenticateRequest(Message, api_key=36, versions="0-2", flexible="2+"):
    """SaslAuthenticateRequest, as Kafka has it."""

    auth_bytes: bytes


class SaslAuthenticateResponse(Message, api_key=36, versions="0-2", flexible="2+"):
    """SaslAuthenticateResponse, as Kafka has it."""

    error_code: int16
    error_message: str | None = field(nullable="0+")
    auth_bytes: bytes
    session_lifetime_ms: int64 = field(versions="1+", ignorable=True)
