"""A broker's side of the document of KIP-590: it converts older versions of mutations to the new version.

It sends the converted requests to the controller. `document_routing.py` says what a mutation and its new version are.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from kcore.errors import DisconnectedError, FrameError
from kcore.metadata.table.broker_table import Endpoint
from kcore.net.address import check_address
from kcore.net.request_context import SESSION, ClientSession
from kcore.net.server import Relay
from kcore.node.tokens import OfTokens
from kcore.protocol_errors import Errors
from kcore.schema.structure import Message
from kcore.server.broker.broker_connections import LIMITS, Dialer
from kcore.server.zk_node.document_routing import (
    BUMPED,
    RoutedRequest,
    is_mutation,
    layout_of,
    proxied,
    read_request,
    read_response,
    read_response_body,
    refused,
    response_bytes,
)

MOST_PROXIED: Final = 64  # The limit of requests in flight, of all clients together: each opens a connection.


class DocumentRelay:
    """Forwards mutations to the controller, and passes all other requests to the relay `others`."""

    def __init__(
        self,
        controller: Callable[[], Endpoint | None],
        others: Relay,
        dialer: Dialer | None = None,
        is_node: Callable[[ClientSession], bool] = lambda session: True,
    ) -> None:
        """`dialer`: connects to the controller; plaintext by default.

        `is_node`: whether a client has the rights of a cluster node.
        """
        self._controller, self._others, self._dialer = controller, others, dialer or Dialer()
        self._is_node = is_node
        self._proxying = asyncio.Semaphore(MOST_PROXIED)

    def takes(self, api_key: int, version: int) -> bool:
        """True for mutations, and for the requests that the relay `others` takes.

        A mutation of the new version is answered with NOT_CONTROLLER. An older one is sent to the controller.
        """
        is_ours = is_mutation(api_key, version, bumped=True) or is_mutation(api_key, version, bumped=False)
        return is_ours or self._others.takes(api_key, version)

    async def ask(self, connection_id: int, frame: bytes) -> bytes:
        """The controller's response; NOT_CONTROLLER to the new version. DisconnectedError if no controller responds."""
        api_key, version = int.from_bytes(frame[:2]), int.from_bytes(frame[2:4])
        if is_mutation(api_key, version, bumped=True):
            session = SESSION.get()
            is_node = session is not None and self._is_node(session)
            return self._refused(read_request(frame, is_node=is_node), Errors.NOT_CONTROLLER)
        if is_mutation(api_key, version, bumped=False):
            return await self._proxied(frame)
        return await self._others.ask(connection_id, frame)

    def forget(self, connection_id: int) -> None:
        """Tells the relay `others` that the connection has ended."""
        self._others.forget(connection_id)

    def _refused(self, routed: RoutedRequest, error: Errors) -> bytes:
        version = routed.header.request_api_version
        answer = refused(routed.request, version, error)
        return response_bytes(routed.header, type(routed.request), answer)

    async def _proxied(self, frame: bytes) -> bytes:
        if (session := SESSION.get()) is None:
            raise DisconnectedError("a mutation has no client session")
        routed = read_request(frame, is_node=self._is_node(session))
        if session.is_token_authenticated and isinstance(routed.request, OfTokens):
            # The forwarded request has only the principal's name and address.
            return self._refused(routed, Errors.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
        head, body = proxied(routed, session.principal.name, session.client_address, routed.header.correlation_id)
        kind = type(routed.request)
        try:
            async with self._proxying, asyncio.timeout(LIMITS.request_s):
                where = self._controller()
                if where is None:
                    raise DisconnectedError("no controller is known")
                if self._dialer.is_plaintext:
                    answer = read_response(kind, await self._response(where, head + body))
                else:
                    answer = await self._asked_as_ourselves(where, routed, head, body)
        except (OSError, TimeoutError, asyncio.IncompleteReadError, FrameError) as error:
            raise DisconnectedError(f"the controller did not answer a mutation: {error}") from error
        return response_bytes(routed.header, kind, answer)

    async def _asked_as_ourselves(self, where: Endpoint, routed: RoutedRequest, head: bytes, body: bytes) -> Message:
        """Sends the request once, on a connection that is authenticated as this node. NetworkError."""
        kind = type(routed.request)
        connection = await self._dialer.connect(where, routed.header.client_id or "")
        try:
            layout = layout_of(kind, BUMPED[kind])
            return read_response_body(kind, await connection.send_bytes(kind.api_key, layout, body, head=head))
        finally:
            connection.abort()

    async def _response(self, where: Endpoint, frame: bytes) -> bytes:
        """Sends the request once, on a plaintext connection. Returns the response's frame."""
        check_address(where.host, where.port)
        reader, writer = await asyncio.open_connection(where.host, where.port)
        try:
            writer.write(len(frame).to_bytes(4) + frame)
            size = int.from_bytes(await reader.readexactly(4))
            if size > LIMITS.frame_bytes:
                raise FrameError(f"the controller's answer has {size:,} bytes, more than {LIMITS.frame_bytes:,}")
            return await reader.readexactly(size)
        finally:
            writer.transport.abort()
