"""Request quotas: a client that takes too much event loop time gets a throttle time, and the server mutes the client.

The time of a request is the time that its connection's task runs in the event loop: reading, deciding, encoding.
`node/rate_quotas` chooses the quota that a request counts against. A server without request quotas does
not measure; it mutes clients only for the throttle times of other quotas (controller_mutation_rate).

Source: RequestHandlerHelper, ThrottledChannel, ClientRequestQuotaManager, ControllerApis and KafkaApis of 3.9.1, 4.3.1.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Final, Protocol, TypeAlias

from kcore.errors import KcoreError
from kcore.metadata.image.image_state import ImageState
from kcore.net.limits.stopwatch import NOBODY, Asker
from kcore.net.request_context import ClientSession, RequestContext
from kcore.net.requests import Answer
from kcore.net.versions import response_of
from kcore.node.rate_quotas import REQUEST_PERCENTAGE, ClientQuotas, percentage, request_quotas
from kcore.sampled_rate import WINDOW_MS, WINDOWS
from kcore.schema.headers import ResponseHeader
from kcore.schema.index import REQUESTS
from kcore.schema.structure import Message
from kcore.wire.codec import decode_from, encode
from kcore.wire.frame_places import with_places

FIELD: Final = "throttle_time_ms"
_WIDTH: Final = 4  # The bytes of this field.

Exempts: TypeAlias = Callable[[Message, int], bool]
"""Whether a request of this version is exempt from quotas if a cluster node sent it."""
May: TypeAlias = Callable[[Message], bool]
"""Whether the sender of a request has the right of a cluster node; takes the response to the request."""


class Known(Protocol):
    """The client quotas that a node has."""

    @property
    def quotas(self) -> ClientQuotas:
        """The quotas by entity."""

    @property
    def changes(self) -> int:
        """A number that differs after each change of the quotas."""


class KnownByImage:
    """The client quotas in the metadata log."""

    def __init__(self, image: Callable[[], ImageState | None]) -> None:
        """`image`: None while there is no image."""
        self._image = image

    @property
    def quotas(self) -> ClientQuotas:
        image = self._image()
        return {} if image is None else image.quotas

    @property
    def changes(self) -> int:
        image = self._image()
        return 0 if image is None else image.changed_keys("quotas").count


class RequestThrottle:
    """The request quotas of one node; implements `kcore.net.requests.Throttle`."""

    def __init__(
        self,
        known: Known,
        now_ms: Callable[[], int],
        exempts: Exempts,
        windows: int = WINDOWS,
        window_s: int = WINDOW_MS // 1000,
    ) -> None:
        """`now_ms`: a clock that never goes back; `windows`, `window_s`: quota.window.num and .size.seconds."""
        self.clock_ns: Callable[[], int] = time.monotonic_ns
        self.known, self.now_ms, self._exempts = known, now_ms, exempts
        self.windows = windows, window_s * 1000  # Their number and their length in ms.
        self.rates = request_quotas(*self.windows)
        self._seen: tuple[ClientQuotas, int] = {}, -1
        self._is_on = False

    @property
    def is_on(self) -> bool:
        """Whether any client has a request quota."""
        quotas = self.known.quotas
        if not quotas:
            return False
        changes = self.known.changes
        if quotas is not self._seen[0] or changes != self._seen[1]:
            self._seen = quotas, changes
            self._is_on = any(REQUEST_PERCENTAGE in each for each in quotas.values())
        return self._is_on

    # Calls of the server.

    def used(self, session: ClientSession) -> int:
        """See `Throttle.used`."""
        session.mute_ms = self._use(session, (session.principal.name, session.client_id))
        return session.mute_ms

    def sent(self, session: ClientSession) -> None:
        """See `Throttle.sent`."""
        watch = session.watch
        if watch is not None and watch.asker is not None:
            self._record(watch.asker, watch.take_ns(), checks=False)

    # Calls of request handlers.

    def used_in(self, context: RequestContext) -> int:
        """Counts the time of a request until now, and returns the client's throttle time in ms.

        The handler must put it into the response; `answered` then only mutes the client.
        """
        return self._use(context.session, (context.principal.name, context.header.client_id)) if self.is_on else 0

    def answered(self, context: RequestContext, request: Message, response: Message | None, may: May) -> None:
        """Counts the request, sets the throttle time of its response, and mutes the session for this time.

        The longest throttle time counts: this one, that of the response, or the one that the handler mutes the session
        for. `response`: None if the request has no response.
        """
        session = context.session
        if session.watch is None or not self.is_on or session.watch.asker is not None:  # It may be counted already.
            session.mute_ms = max(session.mute_ms, getattr(response, FIELD, 0))
        elif response is None or self._is_exempt(request, context.version, response, may):
            self.pass_over(session)
        else:
            session.mute_ms = max(session.mute_ms, with_throttle_time(response, self.used_in(context)))

    def answered_frame(self, context: RequestContext, answer: bytes, is_exempt: bool) -> bytes:
        """Counts a request that another node has answered. Returns the response with the throttle time of its client.

        The client is muted for its throttle time at this node, or for the one in the response if that is longer
        (RequestHandlerHelper.sendForwardedResponse).
        """
        session = context.session
        if is_exempt:
            self.pass_over(session)
            return answer
        kind, used_ms = response_of(REQUESTS[context.api_key]), self.used_in(context)
        with suppress(KcoreError):  # The answer has an unsupported version.
            answer, session.mute_ms = with_time(answer, kind, context.version, used_ms)
        return answer

    def answered_through(self, session: ClientSession, context: RequestContext, response: Message) -> None:
        """Charges the client of a forwarded request and sets the throttle time; the broker mutes that client.

        `session`: of the broker.
        """
        if session.watch is not None and self.is_on:
            with_throttle_time(response, self._use(session, (context.principal.name, context.header.client_id)))

    def pass_over(self, session: ClientSession) -> None:
        """Charges the time of the request to no client."""
        if session.watch is not None:
            session.watch.take_ns()
            session.watch.asker = NOBODY

    def watched(self, context: RequestContext, request: Message, answer: Answer, may: May) -> "WatchedAnswer":
        """Wraps `answer` for a request without a task that may be exempt: counts it if the sender lacks the right."""
        return WatchedAnswer(self, context, request, answer, may)

    def refused(self, context: RequestContext, request: Message, response: Message, may: May, took_ns: int) -> None:
        """Counts a request without a task, unless it is exempt; `took_ns`: the time that it took."""
        if not self._is_exempt(request, context.version, response, may):
            asker = context.principal.name, context.header.client_id
            context.session.mute_ms = with_throttle_time(response, self._record(asker, took_ns))

    def _is_exempt(self, request: Message, version: int, response: Message, may: May) -> bool:
        return self._exempts(request, version) and may(response)

    def _use(self, session: ClientSession, asker: Asker) -> int:
        watch = session.watch
        if watch is None:
            return 0
        watch.asker = asker
        return self._record(asker, watch.take_ns())

    def _record(self, asker: Asker, ns: int, *, checks: bool = True) -> int:
        return self.rates.record(self.known.quotas, *asker, percentage(ns), self.now_ms(), checks=checks)


class WatchedAnswer:
    """Answers a request without a task, after its time is counted."""

    def __init__(
        self,
        throttle: RequestThrottle,
        context: RequestContext,
        request: Message,
        answer: Answer,
        may: May,
    ) -> None:
        self._throttle, self._context, self._request, self._answer, self._may = throttle, context, request, answer, may
        self._began_ns = throttle.clock_ns()
        self._took_ns: int | None = None

    def __call__(self, response: Message | None) -> None:
        if response is not None:
            self._throttle.refused(self._context, self._request, response, self._may, self._took())
        self._answer(response)

    def begun(self) -> None:
        """Ends the measured time: from now on the request waits."""
        self._took_ns = self._took()

    def _took(self) -> int:
        return self._throttle.clock_ns() - self._began_ns if self._took_ns is None else self._took_ns


def with_throttle_time(response: Message, throttle_time_ms: int) -> int:
    """Sets the throttle time of the response, unless it has a longer one. Returns the client's throttle time in ms."""
    given_ms = getattr(response, FIELD, None)
    if given_ms is None:
        return throttle_time_ms
    throttled_ms: int = max(given_ms, throttle_time_ms)
    setattr(response, FIELD, throttled_ms)
    return throttled_ms


def with_time(answer: bytes, kind: type[Message], version: int, throttle_time_ms: int) -> tuple[bytes, int]:
    """Sets the throttle time of an encoded response, unless it has a longer one. Returns the response and its time.

    DecodeError. A response may be large: in most, the field comes first, and nothing else is decoded.
    """
    head = encode(ResponseHeader(), kind.header_version(version))
    place = _place(kind, version)
    if place is None:
        return answer, throttle_time_ms
    at = len(head)
    if place or answer[_WIDTH:at] != head[_WIDTH:]:
        header, at = decode_from(ResponseHeader, kind.header_version(version), answer)
        response, _ = decode_from(kind, version, answer, at)
        throttled_ms = with_throttle_time(response, throttle_time_ms)
        return bytes(encode(header, kind.header_version(version))) + bytes(encode(response, version)), throttled_ms
    given_ms = int.from_bytes(answer[at : at + _WIDTH], signed=True)
    if given_ms >= throttle_time_ms:
        return answer, given_ms
    return answer[:at] + throttle_time_ms.to_bytes(_WIDTH) + answer[at + _WIDTH :], throttle_time_ms


@cache
def _place(kind: type[Message], version: int) -> int | None:
    """The position of the throttle time, if nothing of variable size precedes it; None for versions without it."""
    if all(each.name != FIELD for each in kind.__fields__):
        return None

    def build(throttle_time_ms: int) -> bytes:
        return bytes(encode(kind(throttle_time_ms=throttle_time_ms), version))

    return with_places(build, [FIELD])[1][0]
