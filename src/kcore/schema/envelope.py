"""Envelope."""

from kcore.schema.kinds import int16
from kcore.schema.structure import Message, field


class EnvelopeRequest(Message, api_key=58, versions="0", flexible="0+"):
    """EnvelopeRequest, as Kafka has it."""

    request_data: bytes
    request_principal: bytes | None = field(nullable="0+")
    client_host_address: bytes


class EnvelopeResponse(Message, api_key=58, versions="0", flexible="0+"):
    """EnvelopeResponse, as Kafka has it."""

    response_data: bytes | None = field(nullable="0+", default=None)
    error_code: int16
