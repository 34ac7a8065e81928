"""Applies request quotas to the handler of a server, and to requests that it forwards or answers as bytes."""

from collections.abc import Callable, Collection
from functools import cache
from typing import Any, Final, TypeAlias

from kcore.errors import KcoreError
from kcore.net.limits.connection_limits import HEADER_VALUES
from kcore.net.request_context import SESSION, ClientSession, RequestContext
from kcore.net.requests import Handler, Relay, RelayAround
from kcore.net.versions import response_of
from kcore.schema.headers import RequestHeader, ResponseHeader
from kcore.schema.index import REQUESTS
from kcore.schema.structure import Message
from kcore.server.security.request_throttle import FIELD, RequestThrottle, with_throttle_time
from kcore.wire.codec import decode_from, encode
from kcore.wire.frame_places import with_places

Asks: TypeAlias = RequestContext | ClientSession
_WIDTH: Final = 4  # The bytes of the field of the throttle time.


def throttled(handler: Handler, throttle: RequestThrottle, may: Callable[[Asks], bool]) -> Handler:
    """Wraps the handler: clients that have used up their quotas are muted.

    `may`: whether a sender has the rights of a cluster node.
    """

    async def handle(context: RequestContext, request: Any) -> Any:
        answer: Any = await handler(context, request)  # Not encoded yet.
        throttle.answered(context, request, answer, lambda _: may(context))
        return answer

    return handle


class ThrottledRelay(RelayAround):
    """A relay that applies request quotas.

    A client is muted for its throttle time at this node, or for the one in the controller's response if that is longer
    (RequestHandlerHelper.sendForwardedResponse).
    """

    def __init__(
        self, relay: Relay, throttle: RequestThrottle, may: Callable[[Asks], bool], exempt: Collection[int] = ()
    ) -> None:
        """`exempt`: API keys without a quota, if the sender has the rights of a cluster node (`may`)."""
        super().__init__(relay)
        self._throttle, self._may, self._exempt = throttle, may, exempt

    async def ask(self, connection_id: int, frame: bytes) -> bytes:
        """The relay's response, with the throttle time of its client."""
        answer = await self._relay.ask(connection_id, frame)
        session, kind = SESSION.get(), REQUESTS.get(int.from_bytes(frame[:2]))
        if session is None or kind is None:
            return answer
        if kind.api_key in self._exempt and self._may(session):
            self._throttle.pass_over(session)
            return answer
        try:
            return self._with_throttle_time(session, kind, frame, answer)
        except KcoreError:  # The answer has an unsupported version.
            return answer

    def _with_throttle_time(self, session: ClientSession, kind: type[Message], frame: bytes, answer: bytes) -> bytes:
        version, used_ms = int.from_bytes(frame[2:4]), 0
        if self._throttle.is_on:
            header, _ = decode_from(RequestHeader, kind.header_version(version), frame, most_values=HEADER_VALUES)
            used_ms = self._throttle.used_by(session, header.client_id)
        answer, session.mute_ms = with_time(answer, response_of(kind), version, used_ms)
        return answer


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
