"""Responses on their way to a client: of the right kind, with their headers, and as bytes."""

from collections.abc import Sequence

from kcore.net.framed_connection import Piece, frame_of
from kcore.net.versions import response_of
from kcore.schema.headers import RequestHeader, ResponseHeader
from kcore.schema.structure import Message
from kcore.wire.codec import encode


class SharedBody:
    """The bytes of the last response: one object that answers many clients is encoded once, and never changed."""

    __slots__ = ("_body", "_response", "_version")

    def __init__(self) -> None:
        self._response: Message | None = None
        self._version, self._body = -1, b""

    def body(self, response: Message, version: int) -> bytes:
        """The encoded response, without its header."""
        if response is not self._response or version != self._version:
            self._body = encode(response, version)
            self._response, self._version = response, version
        return self._body


def check_kind(request: Message, response: Message) -> None:
    """TypeError for a response that is none to the request."""
    if type(response) is not response_of(type(request)):
        raise TypeError(f"{type(response).__name__} is no answer to {type(request).__name__}")


def framed_response(
    response: Message, version: int, header: RequestHeader, body: Sequence[Piece] | None = None
) -> list[Piece]:
    """The response's frame. `body`: its bytes, where they are there already."""
    head = ResponseHeader(correlation_id=header.correlation_id)
    return frame_of(head, response.header_version(version), *((encode(response, version),) if body is None else body))
