"""A broker's side of the document of KIP-590: it converts older versions of mutations to the new version.

It sends the converted requests to the controller. `document_routing.py` says what a mutation and its new version are.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from kcore.errors import DisconnectedError, FrameError
from kcore.metadata.table.broker_table import Endpoint
from kcore.net.request_context import RequestContext
from kcore.node.tokens import OfTokens
from kcore.protocol_errors import Errors
from kcore.schema.structure import Message
from kcore.server.broker.broker_connections import LIMITS, Dialer
from kcore.server.pipeline import IsNode, layout_of, request_of, response_bytes
from kcore.server.zk_node.document_routing import (
    BUMPED,
    is_mutation,
    proxied,
    read_response,
    refused,
)

MOST_PROXIED: Final = 64  # The limit of requests in flight, of all clients together: each opens a connection.


class DocumentForwarding:
    """Forwards mutations to the controller, rewritten to their new versions: the document's routing policy."""

    def __init__(
        self, controller: Callable[[], Endpoint | None], is_node: IsNode, dialer: Dialer | None = None
    ) -> None:
        """`dialer`: connects to the controller; plaintext by default."""
        self._controller, self._is_node, self._dialer = controller, is_node, dialer or Dialer()
        self._proxying = asyncio.Semaphore(MOST_PROXIED)

    def takes(self, api_key: int, version: int) -> bool:
        """True for mutations: one of the new version gets NOT_CONTROLLER, an older one is sent to the controller."""
        return is_mutation(api_key, version, bumped=True) or is_mutation(api_key, version, bumped=False)

    async def ask(self, context: RequestContext) -> bytes:
        """The controller's response; NOT_CONTROLLER to the new version. DisconnectedError if no controller responds."""
        request, error = request_of(context, self._is_node), None
        if is_mutation(context.api_key, context.version, bumped=True):
            error = Errors.NOT_CONTROLLER
        elif context.session.is_token_authenticated and isinstance(request, OfTokens):
            # The forwarded request has only the principal's name and address.
            error = Errors.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        if error is not None:
            return response_bytes(context, refused(request, context.version, error))
        return response_bytes(context, await self._forwarded(context, request))

    async def _forwarded(self, context: RequestContext, request: Message) -> Message:
        """Sends the request once, on a connection of its own, which is authenticated as this node."""
        kind, (head, body) = type(request), proxied(context, request)
        try:
            async with self._proxying, asyncio.timeout(LIMITS.request_s):
                where = self._controller()
                if where is None:
                    raise DisconnectedError("no controller is known")
                connection = await self._dialer.connect(where, context.header.client_id or "", ask_versions=False)
                try:
                    layout = layout_of(kind, BUMPED[kind])
                    return read_response(kind, await connection.send_bytes(kind.api_key, layout, body, head=head))
                finally:
                    connection.abort()
        except (OSError, TimeoutError, FrameError) as error:
            raise DisconnectedError(f"the controller did not answer a mutation: {error}") from error
