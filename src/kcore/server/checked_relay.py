"""Authorizes requests before this node relays them to another node.

The other node takes this node for the sender. So this node checks the rights of the client before it relays a request.
"""

from collections.abc import Callable
from typing import TypeAlias

from kcore.errors import DisconnectedError
from kcore.metadata.acl_codes import CLUSTER_ACTION
from kcore.net.limits.connection_limits import CLIENT_VALUES, REQUEST_VALUES
from kcore.net.limits.work_in_parts import run_steps
from kcore.net.request_context import SESSION
from kcore.net.requests import Relay, RelayAround
from kcore.node.authorization import Authorizer
from kcore.schema.headers import RequestHeader, ResponseHeader
from kcore.schema.index import REQUESTS
from kcore.schema.structure import Message
from kcore.server.security.rights import Rights
from kcore.steps import Steps
from kcore.wire.codec import decode_from, encode

Refuse: TypeAlias = Callable[[Rights, Message, int], Steps[Message | None]]
"""Returns the response if the client lacks a right for the request of this version; None if it may be relayed."""


class CheckedRelay(RelayAround):
    """A relay that first calls `refuse`, and forwards only the requests for which `refuse` returns None."""

    def __init__(self, relay: Relay, authorizer: Authorizer, refuse: Refuse) -> None:
        super().__init__(relay)
        self._authorizer, self._refuse = authorizer, refuse

    async def ask(self, connection_id: int, frame: bytes) -> bytes:
        """The other node's response, or the refusal. DecodeError if malformed; DisconnectedError without a session."""
        session = SESSION.get()
        if session is None:
            raise DisconnectedError("the request has no client session")
        rights = Rights(self._authorizer, session)
        header, request = read_request(frame, rights)
        refused = await run_steps(self._refuse(rights, request, header.request_api_version))
        if refused is None:
            return await self._relay.ask(connection_id, frame)
        return response_bytes(header, refused)


def read_request(frame: bytes, rights: Rights | None = None) -> tuple[RequestHeader, Message]:
    """Decodes a frame whose API and version the relay handles. DecodeError if malformed or with too many values."""
    kind, version = REQUESTS[int.from_bytes(frame[:2])], int.from_bytes(frame[2:4])
    is_client = len(frame) > CLIENT_VALUES and rights is not None and not rights.allows(CLUSTER_ACTION)
    most = CLIENT_VALUES if is_client else REQUEST_VALUES  # A value has at least one byte.
    header, at = decode_from(RequestHeader, kind.header_version(version), frame, most_values=most)
    return header, decode_from(kind, version, frame, at, most_values=most)[0]


def response_bytes(header: RequestHeader, response: Message) -> bytes:
    """Encodes the response and its header in the version of the request."""
    version = header.request_api_version
    head = ResponseHeader(correlation_id=header.correlation_id)
    return bytes(encode(head, response.header_version(version))) + bytes(encode(response, version))
