"""Parses requests and frames responses for every kind of server connection."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from copy import copy
from struct import Struct
from typing import Any, Final, Protocol, TypeAlias

from kcore.errors import DecodeError, FrameError
from kcore.net.connection_metrics import Metrics
from kcore.net.framed_connection import Encoded, Piece, frame_of
from kcore.net.limits.connection_limits import Limits
from kcore.net.limits.stopwatch import Stopwatch
from kcore.net.request_context import ClientSession, RequestContext
from kcore.net.versions import api_name, for_version, is_valid, means_another, refusal, response_of
from kcore.protocol_errors import Errors
from kcore.schema.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kcore.schema.fetch import FetchResponse
from kcore.schema.headers import RequestHeader, ResponseHeader
from kcore.schema.index import REQUESTS
from kcore.schema.structure import Message
from kcore.schema.versions import NONE, Versions
from kcore.wire.codec import decode_from, encode


class SharedBody:
    """Caches the encoded body of the last response: a response object that answers many clients is encoded once."""

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
    """Raises TypeError if `response` is not of the class that answers `request`."""
    if type(response) is not response_of(type(request)):
        raise TypeError(f"{type(response).__name__} is no answer to {type(request).__name__}")


def framed_response(
    response: Message, version: int, header: RequestHeader, body: Sequence[Piece] | None = None
) -> list[Piece]:
    """The response's frame. `body`: the encoded response, if already known."""
    head = ResponseHeader(correlation_id=header.correlation_id)
    return frame_of(head, response.header_version(version), *((encode(response, version),) if body is None else body))


FEW_VALUES: Final = 10_000  # A request with at most so many values is decoded in the event loop, in about a ms.
KEY_AND_VERSION: Final = Struct(">hh")  # The first fields of every request, in all header versions.
Answer: TypeAlias = Callable[[Message | None], None]


class DirectHandler(Protocol):
    """A handler that needs no task per request, for thousands of requests per second."""

    def takes(self, api_key: int) -> bool:
        """Whether the handler takes requests with this API key."""

    def begin(self, context: RequestContext, request: Any, answer: Answer) -> None:
        """Begins a request; calls `answer` once, now or later, with the response; None closes the connection.

        If it raises NetworkError or DecodeError, the connection is closed, too.
        """


class Relay(Protocol):
    """Answers some requests in place of the handler. Its frames have headers, but not their sizes."""

    def takes(self, api_key: int, version: int) -> bool:
        """Whether the relay answers requests with this API key and version."""

    async def ask(self, connection_id: int, frame: bytes) -> bytes:
        """The answer's frame; NetworkError or DecodeError closes the connection. Called for one request per connection
        at a time."""

    def forget(self, connection_id: int) -> None:
        """Forgets a connection that has ended."""


class RelayAround:
    """The base of relays that change only the method `ask` of another relay."""

    def __init__(self, relay: Relay) -> None:
        self._relay = relay

    def takes(self, api_key: int, version: int) -> bool:
        """Whether the other relay answers requests with this API key and version."""
        return self._relay.takes(api_key, version)

    def forget(self, connection_id: int) -> None:
        """Forgets a connection that has ended, in the other relay."""
        self._relay.forget(connection_id)


class Throttle(Protocol):
    """Counts the time of requests for request quotas (`kcore.server.security.request_throttle`)."""

    clock_ns: Callable[[], int]  # The clock that measures the time.

    @property
    def is_on(self) -> bool:
        """Whether any client has a quota."""

    def used(self, session: ClientSession) -> int:
        """Counts a request's time until now. Returns for how many ms its client is throttled, and so muted."""

    def sent(self, session: ClientSession) -> None:
        """Counts the time after `used`, which writing the answer took; throttles no client."""


class Serving(Protocol):
    """The parts of a server that the functions of this module use."""

    served: Mapping[int, tuple[type[Message], Versions]]  # The requests that the server answers, by API key.
    limits: Limits
    metrics: Metrics
    versions_answer: ApiVersionsResponse
    fetched: SharedBody
    reading: asyncio.Lock  # Held while a request with many values is decoded, one at a time.
    is_node: Callable[[ClientSession], bool]  # Whether the client has the rights of a cluster node.
    identity: tuple[str, int] | None  # The cluster's id and the node's, which clients must mean; None: any.


def read_request(
    server: Serving, frame: bytes, api_key: int, version: int, most: int | None = None, *, gives_way: bool = False
) -> tuple[RequestHeader, Message | None]:
    """Decodes a request: its header, and the request, or None for ApiVersions in an unknown version (KIP-511).

    Raises FrameError for an API or version that is not served, DecodeError for invalid bytes or more than `most` values
    (default: FEW_VALUES). `gives_way`: called in a thread, lets other threads run in between.
    """
    most = _few(server.limits) if most is None else most
    request, versions = server.served.get(api_key, (None, NONE))
    if request is None or (version not in versions and request is not ApiVersionsRequest):
        raise FrameError(f"{_name(api_key)} {version} is not served")
    header, at = decode_from(RequestHeader, request.header_version(version), frame, most_values=most)
    if version not in versions:
        return header, None
    message, _ = decode_from(request, version, frame, at, most_values=most, gives_way=gives_way)
    return header, message


async def read_any_request(
    server: Serving,
    session: ClientSession,
    frame: bytes,
    api_key: int,
    version: int,
    place: Callable[[], Awaitable[None]],
) -> tuple[RequestHeader, Message | None]:
    """Decodes a request as `read_request` does, with as many values as the client may send.

    A request with many values is decoded in a thread, one request at a time. `place` waits until a large request of a
    client that is no cluster node may run.
    """
    limits, few = server.limits, _few(server.limits)
    try:
        return read_request(server, frame, api_key, version)
    except DecodeError:
        if len(frame) <= few:  # Each value has at least one byte, so another cause than the limit has failed.
            raise
    most = limits.request_values
    if not server.is_node(session):
        most = min(most, limits.client_values)
        await place()
    async with server.reading:
        return await asyncio.to_thread(read_request, server, frame, api_key, version, most, gives_way=True)


def _few(limits: Limits) -> int:
    return min(FEW_VALUES, limits.request_values, limits.client_values)


def versions_frame(
    server: Serving, header: RequestHeader, request: ApiVersionsRequest | None, throttle_time_ms: int = 0
) -> list[Piece]:
    """The frame of an ApiVersions response; `request` is None if its version is unsupported."""
    version = header.request_api_version
    if request is None:
        _, versions = server.served[ApiVersionsRequest.api_key]
        return framed_response(refusal(versions), 0, header)
    if not is_valid(request, version):
        answer = ApiVersionsResponse(error_code=Errors.INVALID_REQUEST.value)
    elif means_another(request, server.identity):
        answer = ApiVersionsResponse(error_code=Errors.REBOOTSTRAP_REQUIRED.value)
    else:
        answer = for_version(server.versions_answer, version)
    if throttle_time_ms:
        answer = copy(answer)
        answer.throttle_time_ms = throttle_time_ms
    return framed_response(answer, version, header)


def response_frame(
    server: Serving, header: RequestHeader, request: Message, answer: Message | Encoded, begin_s: float, end_s: float
) -> list[Piece]:
    """The frame of an answer, which is counted in the metrics; TypeError for a response to another kind of request."""
    version = header.request_api_version
    response, body = answer if isinstance(answer, Encoded) else (answer, None)
    check_kind(request, response)
    if isinstance(response, FetchResponse):
        body = [server.fetched.body(response, version)]
    frame = framed_response(response, version, header, body)
    error_code = getattr(response, "error_code", Errors.NONE.value)
    server.metrics.answered(header.request_api_key, error_code, begin_s, end_s)
    return frame


def fault_line(api_key: int, version: int) -> str:
    """The log line of a request that an internal error leaves without an answer."""
    return f"{_name(api_key)} {version} was not answered"


def _name(api_key: int) -> str:
    return api_name(REQUESTS[api_key]) if api_key in REQUESTS else f"API {api_key}"


def started_watch(throttle: Throttle | None, session: ClientSession) -> Stopwatch | None:
    """The session's stopwatch, if request times are counted. The next request is charged for SASL, as in Kafka."""
    if throttle is None or not throttle.is_on:
        return None
    watch = session.watch = session.watch or Stopwatch(throttle.clock_ns)
    watch.asker = None
    return watch
