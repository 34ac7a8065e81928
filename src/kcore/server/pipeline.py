"""The steps of each request, in order. They are the same for all five servers; a server gives the parts that differ.

1. frame (`net/framed_connection.py`): splits the client's bytes into frames.
2. authenticate (`net/served_requests.py`): SASL answers until the client is authenticated.
3. header (`net/requests.py`): reads the API key, version, correlation id and client id, once.
4. route: the first `Route` that takes the API key and version, or else the handlers of this server.
5. authorize: `refuse` of the server or of the route answers a request that its sender may not send. Handlers check
   the entries of a request one by one.
6. handle: a route gets the frame, and forwards, relays, refuses or decodes it itself. A handler gets the message.
7. audit: writes a line to the audit log.
8. throttle: counts the request for its client's quota, and puts the throttle time into the response.
9. answer (`net/requests.py`): encodes the response, truncates long messages, and writes the frame.

A request that carries the request of another client (an envelope) passes the steps 5 to 8 for that client.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

from kcore.errors import KcoreError
from kcore.net.framed_connection import Encoded
from kcore.net.limits.connection_limits import CLIENT_VALUES, REQUEST_VALUES
from kcore.net.request_context import ClientSession, RequestContext
from kcore.net.requests import Answer, Ask, DirectHandler, Handler, ServerParts
from kcore.node.error_responses import in_version, refused
from kcore.protocol_errors import Errors
from kcore.schema.fetch import FetchRequest
from kcore.schema.headers import ResponseHeader
from kcore.schema.index import REQUESTS
from kcore.schema.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from kcore.schema.structure import Message
from kcore.server.answers import made_to_fit
from kcore.server.clock import wall_ms
from kcore.server.security.audit import AuditLog
from kcore.server.security.request_throttle import RequestThrottle
from kcore.wire.codec import decode_from, encode

STEPS: Final = "frame", "authenticate", "header", "route", "authorize", "handle", "audit", "throttle", "answer"
# The APIs of SASL, which the step "authenticate" answers. For an authenticated client they are errors.
OF_SASL: Final = {"SaslHandshake": (0, 1), "SaslAuthenticate": (0, 2)}
ALREADY: Final = "SaslAuthenticate request received after successful authentication"
IsNode: TypeAlias = Callable[[ClientSession], bool]
"""Whether a client has the rights of a cluster node."""
Refuse: TypeAlias = Callable[[RequestContext, Message], Message | None]
"""Returns the response to a request that its sender may not send; None if it may. KcoreError closes the connection."""
MayBeExempt: TypeAlias = Callable[[RequestContext, Message, Message], bool]
"""Whether the sender of a request, which gets this response, has the right of a cluster node."""
Carrier: TypeAlias = Callable[["RequestPipeline", RequestContext, Any], Awaitable[Message | Encoded | None]]
"""Answers a request in the handler's place. An envelope calls `refuse`, then `decided` with the request inside."""


def _all_allowed(context: RequestContext, request: Message) -> None:
    return None


def _nothing(connection_id: int) -> None:
    """The `forget` of a route that keeps nothing for a connection."""


class Route(NamedTuple):
    """A routing policy: requests that this node's handlers do not get, and the function that answers their frames."""

    takes: Callable[[int, int], bool]  # Whether the route answers an API key in a version.
    ask: Ask
    refuse: Callable[[RequestContext], Awaitable[Message | None]] | None = None  # Checks the rights of the client.
    forget: Callable[[int], None] = _nothing  # Called when a connection has ended.
    is_of_nodes: bool = False  # Requests of cluster nodes are exempt from request quotas.
    is_decided: bool = False  # `ask` calls `decided` of the pipeline, so that audit and throttle are done.


class RequestPipeline:
    """The steps from the route to the throttle of one server: its router, handler and direct handler."""

    def __init__(
        self,
        handle: Handler,
        is_node: IsNode,
        *,
        refuse: Refuse = _all_allowed,
        routes: Sequence[Route] = (),
        carriers: Mapping[type[Message], Carrier] | None = None,
        direct: DirectHandler | None = None,
        throttle: RequestThrottle | None = None,
        may_be_exempt: MayBeExempt | None = None,
        audit: AuditLog | None = None,
        wall_ms: Callable[[], int] = wall_ms,
    ) -> None:
        """`carriers`: by the class of the request. `direct`: gets requests that need no task, after `refuse`.

        `may_be_exempt`: by default, whether the sender is a cluster node. `wall_ms`: the clock of the audit log.
        """
        self._handle, self._is_node, self.refuse, self._routes = handle, is_node, refuse, routes
        of_sasl: dict[type[Message], Carrier] = {
            SaslHandshakeRequest: _refuse_sasl,
            SaslAuthenticateRequest: _refuse_sasl,
        }
        self._carriers, self._direct = {**of_sasl, **(carriers or {})}, direct
        self.throttle, self.audit, self._wall_ms = throttle, audit, wall_ms
        self._may_be_exempt = may_be_exempt or (lambda context, request, response: is_node(context.session))

    @property
    def parts(self) -> ServerParts:
        """The parts of a server with this pipeline."""
        return ServerParts(
            router=self if self._routes else None,
            direct=None if self._direct is None else self,
            throttle=self.throttle,
            is_node=self._is_node,
        )

    # Requests that a route answers (Router).

    def route(self, api_key: int, version: int) -> Ask | None:
        """See `Router.route`."""
        for each in self._routes:
            if each.takes(api_key, version):
                return partial(self._routed, each)
        return None

    def forget(self, connection_id: int) -> None:
        """See `Router.forget`."""
        for each in self._routes:
            each.forget(connection_id)

    async def _routed(self, route: Route, context: RequestContext) -> bytes:
        if route.is_decided:
            return await route.ask(context)
        try:
            refusal = None if route.refuse is None else await route.refuse(context)
            answer = await route.ask(context) if refusal is None else response_bytes(context, refusal)
        except KcoreError:
            self._write_frame(context, None)
            raise
        self._write_frame(context, answer)
        if self.throttle is None:
            return answer
        return self.throttle.answered_frame(context, answer, route.is_of_nodes and self._is_node(context.session))

    def _write_frame(self, context: RequestContext, answer: bytes | None) -> None:
        if self.audit is not None:
            self.audit.write_frame(self._wall_ms(), context, answer)

    # Requests that the server's handler answers.

    def handle(self, context: RequestContext, request: Any) -> Awaitable[Message | Encoded | None]:
        """The response to a decoded request; None if the request has none."""
        carrier = self._carriers.get(type(request))
        return self.decided(context, request) if carrier is None else carrier(self, context, request)

    async def decided(self, context: RequestContext, request: Any) -> Any:
        """Authorizes and handles a request of a client, writes its line, and counts it for the client's quota.

        Returns the response, which the version can encode; None if the request has none.
        """
        response: Any = self.refuse(context, request)
        if response is None:
            response = await self._handle(context, request)
        self.ended(context, request, response)
        if response is None:
            return None
        await made_to_fit(response)
        return in_version(response, context.version)

    def ended(self, context: RequestContext, request: Message, response: Message | None) -> None:
        """Writes the audit log line of a request, and counts it for its client's quota."""
        self._write(context, request, response)
        throttle, through = self.throttle, context.through
        if throttle is None:
            return
        if through is None:
            throttle.answered(context, request, response, partial(self._may_be_exempt, context, request))
        elif response is not None:
            throttle.answered_through(through.session, context, response)

    def _write(self, context: RequestContext, request: Message, response: Message | None) -> None:
        if self.audit is not None:
            through = context.through
            via = (None, None) if through is None else (through.principal, through.client_address)
            client = context.principal, context.client_address
            self.audit.write(self._wall_ms(), *client, request, response, *via)

    # Requests without a task each (DirectHandler).

    def takes(self, api_key: int) -> bool:
        """See `DirectHandler.takes`."""
        return self._direct is not None and self._direct.takes(api_key)

    def begin(self, context: RequestContext, request: Message, answer: Answer) -> None:
        """See `DirectHandler.begin`: the steps of `decided`, without a task."""
        refusal = self.refuse(context, request)
        if self.throttle is None or not self.throttle.is_on:
            self._begin(context, request, answer, refusal)
            return
        may = partial(self._may_be_exempt, context, request)
        watched = self.throttle.watched(context, request, answer, may)
        self._begin(context, request, watched, refusal)
        watched.begun()

    def _begin(self, context: RequestContext, request: Message, answer: Answer, refusal: Message | None) -> None:
        if self.audit is not None and (refusal is not None or not isinstance(request, FetchRequest)):
            answer = partial(self._audited, context, request, answer)
        if refusal is not None:
            answer(refusal)
        elif self._direct is not None:
            self._direct.begin(context, request, answer)

    def _audited(self, context: RequestContext, request: Message, answer: Answer, response: Message | None) -> None:
        self._write(context, request, response)
        answer(response)


async def _refuse_sasl(pipeline: RequestPipeline, context: RequestContext, request: Message) -> Message:
    """The answer to a request of SASL that comes after the authentication, or to a listener without SASL."""
    message = ALREADY if isinstance(request, SaslAuthenticateRequest) else None
    answer = refused(request, Errors.ILLEGAL_SASL_STATE, message)
    pipeline.ended(context, request, answer)
    return answer


def request_of(context: RequestContext, is_node: IsNode) -> Message:
    """Decodes the request of a route. DecodeError if malformed, or of more values than its sender may send."""
    kind, frame = REQUESTS[context.api_key], context.frame
    is_client = len(frame) > CLIENT_VALUES and not is_node(context.session)  # A value has at least one byte.
    most = CLIENT_VALUES if is_client else REQUEST_VALUES
    return decode_from(kind, layout_of(kind, context.version), frame, context.body_at, most_values=most)[0]


def response_bytes(context: RequestContext, response: Message) -> bytes:
    """Encodes the response and its header in the version of the request."""
    layout = layout_of(REQUESTS[context.api_key], context.version)
    head = ResponseHeader(correlation_id=context.header.correlation_id)
    body = encode(in_version(response, layout), layout)
    return bytes(encode(head, response.header_version(layout))) + bytes(body)


def layout_of(kind: type[Message], version: int) -> int:
    """The version with the same fields that kcore has; a node may name newer versions (`document_routing.py`)."""
    return min(version, kind.versions.highest)
