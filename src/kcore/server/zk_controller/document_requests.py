"""The controller's side of the document of KIP-590: only the controller serves the new versions of mutations."""

from collections.abc import Callable

from kcore.errors import DisconnectedError
from kcore.metadata.principal import ANONYMOUS, KafkaPrincipal
from kcore.net.request_context import ClientSession, RequestContext
from kcore.node.tokens import OfTokens
from kcore.protocol_errors import Errors
from kcore.schema.structure import Message
from kcore.server.pipeline import IsNode, RequestPipeline, Route, request_of, response_bytes
from kcore.server.zk_node.document_routing import client_of, is_mutation, refused


class DocumentRequests:
    """Serves the new versions of mutations, with the rights of the client that a broker has named.

    A standby answers NOT_CONTROLLER, so that no request is forwarded twice.
    """

    def __init__(self, pipeline: Callable[[], RequestPipeline], is_active: Callable[[], bool], is_node: IsNode) -> None:
        self._pipeline, self._is_active, self._is_node = pipeline, is_active, is_node

    def route(self) -> Route:
        """The routing policy: the new versions of mutations."""
        return Route(lambda *api: is_mutation(*api, bumped=True), self.ask, is_decided=True)

    async def ask(self, context: RequestContext) -> bytes:
        """The response. DisconnectedError if the client has disconnected."""
        request, version = request_of(context, self._is_node), context.version
        name, address = client_of(context.header)
        error = Errors.NONE if self._is_active() else Errors.NOT_CONTROLLER
        if error is Errors.NONE and name is not None:
            error = self._naming_refused(context, request)
        if error is not Errors.NONE:  # The audit log names the sender, because the name of the client is not trusted.
            response = refused(request, version, error)
            self._pipeline().ended(context, request, response)
        else:
            client = context if name is None else _context_of_client(context, name, address)
            response = await self._pipeline().decided(client, request)
        if response is None:
            raise DisconnectedError("the client has disconnected")
        return response_bytes(context, response)

    def _naming_refused(self, context: RequestContext, request: Message) -> Errors:
        """The error if the sender may not name a client: only brokers may, for tokens only authenticated ones."""
        if not self._is_node(context.session):
            return Errors.CLUSTER_AUTHORIZATION_FAILED
        if isinstance(request, OfTokens) and context.principal == ANONYMOUS:
            return Errors.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        return Errors.NONE


def _context_of_client(context: RequestContext, name: str, address: str | None) -> RequestContext:
    """The context of the client that a broker has named; the broker's address if it has given none."""
    session = ClientSession(context.listener_name, address or context.client_address)
    session.authenticated(KafkaPrincipal(name))
    return context._replace(session=session, through=context)
