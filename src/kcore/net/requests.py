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
from kcore.net.versions import api_name, for_version, names_itself, refusal, response_of
from kcore.protocol_errors import Errors
from kcore.schema.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kcore.schema.fetch import FetchResponse
from kcore.schema.headers import RequestHeader, ResponseHeader
from kcore.schema.index import REQUESTS
from kcore.schema.structure import Message
from kcore.schema.versions import NONE, Versions
from kcore.wire.codec import decode_from, encode


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


FEW_VALUES: Final = 10_000  # Values that are read within a millisecond.
KEY_AND_VERSION: Final = Struct(">hh")  # The first fields of every request, in all header versions.
Answer: TypeAlias = Callable[[Message | None], None]


class DirectHandler(Protocol):
    """A handler without a task per request: for requests that come by thousands a second."""

    def takes(self, api_key: int) -> bool:
        """Whether the handler takes such requests."""

    def begin(self, context: RequestContext, request: Any, answer: Answer) -> None:
        """Calls `answer` once, now or later, with what a handler would return; None closes the connection.

        A NetworkError or a DecodeError closes it, too.
        """


class Relay(Protocol):
    """Another responder for some requests: takes and gives whole frames, with headers, without their sizes."""

    def takes(self, api_key: int, version: int) -> bool:
        """Whether a request is for the relay."""

    async def ask(self, connection_id: int, frame: bytes) -> bytes:
        """The answer; a NetworkError or a DecodeError costs the connection. One at a time of each connection."""

    def forget(self, connection_id: int) -> None:
        """Forgets a connection that has ended."""


class RelayAround:
    """A relay that changes only `ask` of another relay."""

    def __init__(self, relay: Relay) -> None:
        self._relay = relay

    def takes(self, api_key: int, version: int) -> bool:
        """Whether the other relay takes that API in that version."""
        return self._relay.takes(api_key, version)

    def forget(self, connection_id: int) -> None:
        """That connection has ended."""
        self._relay.forget(connection_id)


class Throttle(Protocol):
    """Counts the time that requests take, where there are quotas of it (`kcore.server.security.request_throttle`)."""

    clock_ns: Callable[[], int]  # That the time is measured by.

    @property
    def is_on(self) -> bool:
        """Whether any client has a quota."""

    def used(self, session: ClientSession) -> int:
        """Counts a request's time until now. Returns for how many ms its client is throttled, and muted."""

    def sent(self, session: ClientSession) -> None:
        """Counts the time after `used`, for requests that are not exempt; throttles no client."""


class Serving(Protocol):
    """The parts of a server that reading requests and framing answers need."""

    served: Mapping[int, tuple[type[Message], Versions]]  # By API key.
    limits: Limits
    metrics: Metrics
    versions_answer: ApiVersionsResponse
    fetched: SharedBody
    reading: asyncio.Lock  # One request with many values is decoded at a time.
    is_node: Callable[[ClientSession], bool]  # Whether the client has the rights of a cluster node.


def read_request(
    server: Serving, frame: bytes, api_key: int, version: int, most: int | None = None, *, gives_way: bool = False
) -> tuple[RequestHeader, Message | None]:
    """None stands for an ApiVersions request in an unknown version, which cannot be decoded (KIP-511).

    FrameError for what is not served; DecodeError, also for more than `most` values: if not said otherwise, for many.
    `gives_way`: in a thread, to others.
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
    """As `read_request`, of as many values as the session may send. Many are read in a thread, one frame at a time.

    `place`: waits until a large request of a client that is no node may be read.
    """
    limits, few = server.limits, _few(server.limits)
    try:
        return read_request(server, frame, api_key, version)
    except DecodeError:
        if len(frame) <= few:  # A value takes a byte at least.
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
    """The frame of an ApiVersions response; None: the request has an unsupported version."""
    version = header.request_api_version
    if request is None:
        _, versions = server.served[ApiVersionsRequest.api_key]
        return framed_response(refusal(versions), 0, header)
    if not names_itself(request, version):
        answer = ApiVersionsResponse(error_code=Errors.INVALID_REQUEST.value)
    else:
        answer = for_version(server.versions_answer, version)
    if throttle_time_ms:
        answer = copy(answer)
        answer.throttle_time_ms = throttle_time_ms
    return framed_response(answer, version, header)


def response_frame(
    server: Serving, header: RequestHeader, request: Message, answer: Message | Encoded, begin_s: float, end_s: float
) -> list[Piece]:
    """The frame of an answer, which is counted; TypeError for one of another kind."""
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
    """A running stopwatch, if request times are counted. The first request after SASL pays for SASL, as in Kafka."""
    if throttle is None or not throttle.is_on:
        return None
    watch = session.watch = session.watch or Stopwatch(throttle.clock_ns)
    watch.asker = None
    return watch
