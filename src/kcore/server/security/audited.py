"""Writes audit log lines for the requests of a handler, and for requests that a server relays or answers as bytes."""

from collections.abc import Callable
from typing import Any, Final

from kcore.errors import KcoreError
from kcore.net.framed_connection import Encoded
from kcore.net.request_context import SESSION, RequestContext
from kcore.net.requests import Handler, Relay, RelayAround
from kcore.net.versions import api_name, response_of
from kcore.schema.headers import RequestHeader, ResponseHeader
from kcore.schema.index import REQUESTS
from kcore.schema.structure import Message
from kcore.server.security.audit import AuditLog, is_logged, items_of, outcome_of
from kcore.wire.codec import decode_from

MOST_BYTES: Final = 256 * 1024  # A longer frame is not decoded for the audit log.
UNREAD: Final = "not read"  # The outcome of a response that is not decoded.


def audited(handler: Handler, audit: AuditLog | None, wall_ms: Callable[[], int]) -> Handler:
    """Wraps the handler: each request has a line in the audit log. Without an audit log, returns the handler itself."""
    if audit is None:
        return handler

    async def handle(context: RequestContext, request: Any) -> Any:
        answer = await handler(context, request)
        response = answer.response if isinstance(answer, Encoded) else answer
        audit.write(wall_ms(), context.principal, context.client_address, request, response)
        return answer

    return handle


class AuditedRelay(RelayAround):
    """A relay that also writes audit log lines."""

    def __init__(self, relay: Relay, audit: AuditLog, wall_ms: Callable[[], int]) -> None:
        super().__init__(relay)
        self._audit, self._wall_ms = audit, wall_ms

    async def ask(self, connection_id: int, frame: bytes) -> bytes:
        """The relay's response; writes a line for the request."""
        try:
            answer = await self._relay.ask(connection_id, frame)
        except KcoreError:
            self._write(frame, None)
            raise
        self._write(frame, answer)
        return answer

    def _write(self, frame: bytes, answer: bytes | None) -> None:
        kind, session = REQUESTS.get(int.from_bytes(frame[:2])), SESSION.get()
        if kind is None or session is None:
            return
        name, version = api_name(kind), int.from_bytes(frame[2:4])
        outcome = _outcome(kind, version, answer)
        if is_logged(name, outcome):
            items = _items(kind, version, frame)
            self._audit.line(self._wall_ms(), session.principal, session.client_address, name, items, outcome)


def _items(kind: type[Message], version: int, frame: bytes) -> int | None:
    try:
        if len(frame) > MOST_BYTES:
            return None
        _, at = decode_from(RequestHeader, kind.header_version(version), frame)
        return items_of(decode_from(kind, version, frame, at)[0])
    except KcoreError:  # An unsupported version, or a malformed request.
        return None


def _outcome(kind: type[Message], version: int, answer: bytes | None) -> dict[str, int] | str:
    if answer is None:
        return outcome_of(None)
    response = response_of(kind)
    try:
        if len(answer) > MOST_BYTES:
            return UNREAD
        _, at = decode_from(ResponseHeader, response.header_version(version), answer)
        return outcome_of(decode_from(response, version, answer, at)[0])
    except KcoreError:
        return UNREAD
