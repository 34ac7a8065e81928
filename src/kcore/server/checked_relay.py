"""Authorizes requests before this node relays them to another node.

The other node authorizes them as requests of this node. So this node checks the client and the request.
"""

from collections.abc import Callable
from typing import TypeAlias

from kcore.controller.rules.authorization import Authorizer
from kcore.errors import DisconnectedError
from kcore.metadata.acl_codes import CLUSTER_ACTION
from kcore.net.limits.connection_limits import CLIENT_VALUES, REQUEST_VALUES
from kcore.net.request_context import SESSION
from kcore.net.requests import Relay, RelayAround
from kcore.schema.headers import RequestHeader, ResponseHeader
from kcore.schema.index import REQUESTS
from kcore.schema.structure import Message
from kcore.server.security.rights import Rights
from kcore.wire.codec import decode_from, encode

Refuse: TypeAlias = Callable[[Rights, Message, int], Message | None]
"""The response to a request of that version where a right is missing; None where it may go on."""


class CheckedRelay(RelayAround):
    """A relay that forwards only the requests that `refuse` does not answer."""

    def __init__(self, relay: Relay, authorizer: Authorizer, refuse: Refuse) -> None:
        super().__init__(relay)
        self._authorizer, self._refuse = authorizer, refuse

    async def ask(self, connection_id: int, frame: bytes) -> bytes:
        """The other node's answer, or the refusal. DecodeError for other bytes; DisconnectedError without a client."""
        session = SESSION.get()
        if session is None:
            raise DisconnectedError("nobody asks")
        rights = Rights(self._authorizer, session)
        header, request = read_request(frame, rights)
        refused = self._refuse(rights, request, header.request_api_version)
        if refused is None:
            return await self._relay.ask(connection_id, frame)
        return response_bytes(header, refused)


def read_request(frame: bytes, rights: Rights | None = None) -> tuple[RequestHeader, Message]:
    """Decodes a frame whose API and version the relay takes. DecodeError, also for more values than the limit."""
    kind, version = REQUESTS[int.from_bytes(frame[:2])], int.from_bytes(frame[2:4])
    is_client = len(frame) > CLIENT_VALUES and rights is not None and not rights.allows(CLUSTER_ACTION)
    most = CLIENT_VALUES if is_client else REQUEST_VALUES  # A value takes a byte at least.
    header, at = decode_from(RequestHeader, kind.header_version(version), frame, most_values=most)
    return header, decode_from(kind, version, frame, at, most_values=most)[0]


def response_bytes(header: RequestHeader, response: Message) -> bytes:
    """The response's header and body, in the version of the request."""
    version = header.request_api_version
    head = ResponseHeader(correlation_id=header.correlation_id)
    return bytes(encode(head, response.header_version(version))) + bytes(encode(response, version))
