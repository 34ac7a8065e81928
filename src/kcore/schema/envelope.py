"""Envelope: a broker forwards a client's request to the controller (KIP-590)."""

from kcore.schema.kinds import int16
from kcore.schema.structure import Message, field


class EnvelopeRequest(Message, api_key=58, versions="0", flexible="0+"):
    """A client's request with its header, its principal and its address."""

    request_data: bytes = field(secret=True)  # It may hold a password.
    # A DefaultPrincipalData, unless the broker is configured with another principal builder.
    request_principal: bytes | None = field(nullable="0+")
    client_host_address: bytes  # 4 or 16 bytes.


class EnvelopeResponse(Message, api_key=58, versions="0", flexible="0+"):
    """The controller's response with its header."""

    response_data: bytes | None = field(nullable="0+", default=None, secret=True)
    error_code: int16  # The error of the envelope; the response inside has its own.
