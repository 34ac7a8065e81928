"""The controller's side of the document of KIP-590: only the controller serves the new versions of mutations."""

from collections.abc import Awaitable, Callable

from kcore.errors import DisconnectedError
from kcore.net.request_context import PEER, SESSION, ClientSession, RequestContext
from kcore.net.server import Relay
from kcore.protocol_errors import Errors
from kcore.schema.structure import Message
from kcore.server.zk_node.document_routing import RoutedRequest, is_mutation, read_request, refused, response_bytes

Decide = Callable[[RequestContext, RoutedRequest], Awaitable[Message | None]]


class DocumentRequests:
    """A relay that serves the new versions of mutations, and passes other requests to another relay.

    A standby answers NOT_CONTROLLER, so that no request is forwarded twice.
    """

    def __init__(
        self, decide: Decide, is_active: Callable[[], bool], others: Relay, is_node: Callable[[ClientSession], bool]
    ) -> None:
        """`others`: the relay for other requests. `is_node`: whether a client has the rights of a cluster node."""
        self._decide, self._is_active, self._others, self._is_node = decide, is_active, others, is_node

    def takes(self, api_key: int, version: int) -> bool:
        """True for the new versions of mutations, and for requests that the other relay takes."""
        return is_mutation(api_key, version, bumped=True) or self._others.takes(api_key, version)

    async def ask(self, connection_id: int, frame: bytes) -> bytes:
        """The response. DisconnectedError if the client has disconnected."""
        api_key, version = int.from_bytes(frame[:2]), int.from_bytes(frame[2:4])
        if not is_mutation(api_key, version, bumped=True):
            return await self._others.ask(connection_id, frame)
        if (session := SESSION.get()) is None:
            raise DisconnectedError("the request has no session")
        routed = read_request(frame, is_node=self._is_node(session))
        context = RequestContext(PEER.get(), connection_id, routed.header, session)
        answer: Message | None = refused(routed.request, version, Errors.NOT_CONTROLLER)
        if self._is_active():
            answer = await self._decide(context, routed)
        if answer is None:
            raise DisconnectedError("the client has disconnected")
        return response_bytes(routed.header, type(routed.request), answer)

    def forget(self, connection_id: int) -> None:
        """Called when a client's connection has ended."""
        self._others.forget(connection_id)
