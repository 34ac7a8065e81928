"""Parses requests and frames responses for every kind of server connection."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from struct import Struct
from typing import Any, Final, Protocol, TypeAlias

from kcore.errors import DecodeError, FrameError, KcoreError, NetworkError
from kcore.net.adoption import Adopter, Direct
from kcore.net.connection_metrics import Metrics
from kcore.net.connection_states import ClientConnection
from kcore.net.framed_connection import Encoded, Piece, frame_of
from kcore.net.limits.bounded_log import BoundedLog
from kcore.net.limits.connection_limits import HEADER_VALUES, Limits
from kcore.net.limits.large_requests import LargeRequests
from kcore.net.request_context import ClientSession, RequestContext
from kcore.net.versions import answer_of, for_version, is_valid, means_another, name_of_key, refusal, response_of
from kcore.protocol_errors import Errors
from kcore.schema.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kcore.schema.fetch import FetchResponse
from kcore.schema.headers import RequestHeader, ResponseHeader
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


def context_of(
    client: ClientConnection,
    kind: type[Message],
    version: int,
    frame: bytes,
    began_s: float,
    gone: "asyncio.Future[None] | None" = None,
) -> RequestContext:
    """Decodes the header of a request of this class. DecodeError."""
    layout = kind.header_version(min(version, kind.versions.highest))
    header, at = decode_from(RequestHeader, layout, frame, most_values=HEADER_VALUES)
    return RequestContext(client.peer, client.connection_id, header, client.session, gone, frame, at, began_s)


def framed_response(
    response: Message, version: int, header: RequestHeader, body: Sequence[Piece] | None = None
) -> list[Piece]:
    """The response's frame. `body`: the encoded response, if already known."""
    head = ResponseHeader(correlation_id=header.correlation_id)
    return frame_of(head, response.header_version(version), *((encode(response, version),) if body is None else body))


FEW_VALUES: Final = 10_000  # A request with at most so many values is decoded in the event loop, in about a ms.
KEY_AND_VERSION: Final = Struct(">hh")  # The first fields of every request, in all header versions.
Answer: TypeAlias = Callable[[Message | None], None]
Handler: TypeAlias = Callable[[RequestContext, Any], Awaitable[Message | Encoded | None]]
"""Returns a response that must not change later: a Fetch response that is returned again is not encoded again, and a
large response is encoded part by part."""


class DirectHandler(Protocol):
    """A handler that needs no task per request, for thousands of requests per second."""

    def takes(self, api_key: int) -> bool:
        """Whether the handler takes requests with this API key."""

    def begin(self, context: RequestContext, request: Any, answer: Answer) -> None:
        """Begins a request; calls `answer` once, now or later, with the response; None closes the connection.

        If it raises NetworkError or DecodeError, the connection is closed, too.
        """


Ask: TypeAlias = Callable[[RequestContext], Awaitable[bytes]]
"""Returns the answer with its header, without its size; NetworkError or DecodeError closes the connection."""


class Router(Protocol):
    """Chooses the requests that the server does not decode, because another node or another decoder answers them."""

    def route(self, api_key: int, version: int) -> Ask | None:
        """The function that answers requests with this API key and version; None: the server's handler."""

    def forget(self, connection_id: int) -> None:
        """Forgets a connection that has ended."""


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


def _everybody(session: ClientSession) -> bool:
    return True


def _as_it_is(answer: ApiVersionsResponse) -> ApiVersionsResponse:
    return answer


@dataclass(frozen=True, slots=True)
class ServerParts:
    """The optional parts of a server that answer requests. Without them the handler answers every client."""

    router: Router | None = None  # Answers some requests in place of the handler.
    direct: DirectHandler | None = None  # The server tries it before the handler.
    adopter: Adopter | None = None  # The server offers it connections after a request of `direct`.
    urgent: Collection[int] = ()  # API keys of requests that begin before others, if there is an adopter.
    throttle: Throttle | None = None  # Throttles clients that exceed their request quota.
    is_node: Callable[[ClientSession], bool] = _everybody  # Whether the client has the rights of a cluster node.
    identity: tuple[str, int] | None = None  # Clients that name another cluster or node are refused.
    advertised: Callable[[ApiVersionsResponse], ApiVersionsResponse] = (
        _as_it_is  # Changes the first ApiVersions answer.
    )


class ServedApis:
    """The APIs of one server: decodes requests, encodes and counts responses."""

    def __init__(
        self,
        handler: Handler,
        served: Mapping[int, tuple[type[Message], Versions]],
        parts: ServerParts,
        limits: Limits,
        metrics: Metrics,
        log: BoundedLog,
    ) -> None:
        """`served`: the requests that the server answers, and their versions, by API key."""
        self.handler, self.parts, self.large_requests = handler, parts, LargeRequests()
        self.versions_answer = parts.advertised(answer_of(dict(served.values())))
        self.reading = asyncio.Lock()  # Held while a request with many values is decoded, one at a time.
        self._served, self._limits, self._metrics, self._log = served, limits, metrics, log
        self._fetched = SharedBody()
        self._few = min(FEW_VALUES, limits.request_values, limits.client_values)

    @property
    def api_versions(self) -> Versions:
        """The served versions of ApiVersions."""
        return self._served[ApiVersionsRequest.api_key][1]

    def advertise(self, answer: ApiVersionsResponse) -> None:
        """Replaces the ApiVersions answer, for example when a relay answers other APIs than before."""
        self.versions_answer = answer

    # Requests.

    def kind_of(self, api_key: int, version: int) -> type[Message]:
        """The class of a served request. FrameError for an API or version that is not served."""
        request, versions = self._served.get(api_key, (None, NONE))
        if request is None or (version not in versions and request is not ApiVersionsRequest):
            raise FrameError(f"{name_of_key(api_key)} {version} is not served")
        return request

    def read(self, context: RequestContext, most: int | None = None, *, gives_way: bool = False) -> Message | None:
        """Decodes a served request; None for ApiVersions in an unknown version (KIP-511).

        Raises DecodeError for invalid bytes or more than `most` values (default: FEW_VALUES). `gives_way`: called in a
        thread, lets other threads run in between.
        """
        most, version = self._few if most is None else most, context.version
        request, versions = self._served[context.api_key]
        if version not in versions:
            return None
        return decode_from(request, version, context.frame, context.body_at, most_values=most, gives_way=gives_way)[0]

    async def read_any(self, context: RequestContext, place: Callable[[], Awaitable[None]]) -> Message | None:
        """Decodes a request as `read` does, with as many values as the client may send.

        A request with many values is decoded in a thread, one request at a time. `place` waits until a large request of
        a client that is no cluster node may run.
        """
        try:
            return self.read(context)
        except DecodeError:  # Each value has at least one byte: in a short frame, another cause than the limit failed.
            if len(context.frame) <= self._few:
                raise
        most = self._limits.request_values
        if not self.parts.is_node(context.session):
            most = min(most, self._limits.client_values)
            await place()
        async with self.reading:
            return await asyncio.to_thread(self.read, context, most, gives_way=True)

    def begin(self, direct: Direct, answer: Answer) -> bool:
        """Begins a request with the direct handler. Returns False, and logs why, if its connection must end."""
        assert self.parts.direct is not None
        self._metrics.requests += 1
        context = direct.context
        try:
            self.parts.direct.begin(context, direct.request, answer)
        except (NetworkError, DecodeError) as error:
            self.refuse(context.peer, error)
            return False
        except Exception as error:
            self.blame_us(context.peer, error, context.api_key, context.version)
            return False
        return True

    # Responses.

    def versions_frame(
        self, header: RequestHeader, request: ApiVersionsRequest | None, throttle_time_ms: int = 0
    ) -> list[Piece]:
        """The frame of an ApiVersions response; `request` is None if its version is unsupported."""
        version = header.request_api_version
        if request is None:
            return framed_response(refusal(self.api_versions), 0, header)
        if not is_valid(request, version):
            answer = ApiVersionsResponse(error_code=Errors.INVALID_REQUEST.value)
        elif means_another(request, self.parts.identity):
            answer = ApiVersionsResponse(error_code=Errors.REBOOTSTRAP_REQUIRED.value)
        else:
            answer = for_version(self.versions_answer, version)
        if throttle_time_ms:
            answer = copy(answer)
            answer.throttle_time_ms = throttle_time_ms
        return framed_response(answer, version, header)

    def response_frame(self, context: RequestContext, request: Message, answer: Message | Encoded) -> list[Piece]:
        """The frame of an answer, which is counted in the metrics; TypeError for a response to another request."""
        header, version = context.header, context.version
        response, body = answer if isinstance(answer, Encoded) else (answer, None)
        check_kind(request, response)
        if isinstance(response, FetchResponse):
            body = [self._fetched.body(response, version)]
        frame = framed_response(response, version, header, body)
        error_code = getattr(response, "error_code", Errors.NONE.value)
        now_s = asyncio.get_running_loop().time()
        self._metrics.answered(header.request_api_key, error_code, context.began_s, now_s)
        return frame

    def direct_frame(self, direct: Direct, response: Message) -> list[Piece] | None:
        """The frame of a direct handler's response; None, with a line in the log, after an internal error."""
        context = direct.context
        try:
            return self.response_frame(context, direct.request, response)
        except Exception as error:
            self.blame_us(context.peer, error, context.api_key, context.version)
            return None

    # Connections that must end.

    def refuse(self, peer: str, error: KcoreError) -> None:
        """Counts and logs the error of a client, whose connection the caller closes."""
        self._metrics.errors[type(error).__name__] += 1
        self._log.warning("%s: %s: closed", peer, error)

    def blame_us(self, peer: str, error: Exception, api_key: int, version: int) -> None:
        """Counts and logs an internal error in a handler; the caller closes only this connection."""
        self._metrics.errors[type(error).__name__] += 1
        self._log.exception("%s: %s %s was not answered", peer, name_of_key(api_key), version)
