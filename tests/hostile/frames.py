"""Frames of requests."""

from typing import Any, NamedTuple

from kcore.net.limits.connection_limits import CLIENT_VALUES
from kcore.schema.headers import RequestHeader
from kcore.schema.structure import Message
from kcore.wire.codec import encode

MOST_ENTRIES = CLIENT_VALUES - 1_000  # The server refuses larger messages undecoded.


class Frame(NamedTuple):
    """A request without its size; None for a kind whose answer is not looked at."""

    kind: type[Message] | None
    version: int
    data: bytes


def framed(message: Message, version: int, **header: Any) -> Frame:
    kind = type(message)
    made = RequestHeader(request_api_key=kind.api_key, request_api_version=version, client_id="stranger", **header)
    return Frame(kind, version, bytes(encode(made, kind.header_version(version))) + bytes(encode(message, version)))
