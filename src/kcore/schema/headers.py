"""The headers before every request and response."""

from kcore.schema.kinds import int16, int32
from kcore.schema.structure import Message, field


class RequestHeader(Message, versions="0-2", flexible="2+"):
    """The API and version of the request, the client's id, and the correlation id, which the response repeats."""

    request_api_key: int16
    request_api_version: int16
    correlation_id: int32
    # Not a compact string, even in the flexible version, so that every broker can read it.
    client_id: str | None = field(versions="1+", nullable="1+", default="", ignorable=True, flexible="none")


class ResponseHeader(Message, versions="0-1", flexible="1+"):
    """The correlation id of the answered request."""

    correlation_id: int32
