"""Envelopes at a KRaft controller: a forwarded request passes the pipeline with the rights of its client (KIP-590)."""

import asyncio
from collections.abc import Callable, Mapping

from kcore.controller.kraft.departures import LEADERS_NAMED
from kcore.controller.kraft.kraft_context import ControllerContext
from kcore.metadata.acl_codes import CLUSTER_ACTION
from kcore.net.framed_connection import PIECE_BYTES, Encoded
from kcore.net.limits.connection_limits import CLIENT_VALUES, REQUEST_VALUES
from kcore.net.limits.large_requests import let_go, long_lists
from kcore.net.request_context import ClientSession, RequestContext
from kcore.net.versions import api_name
from kcore.protocol_errors import Errors
from kcore.schema.envelope import EnvelopeRequest, EnvelopeResponse
from kcore.schema.structure import Message
from kcore.server.envelopes import Forwarded, is_refused_change_of_voters, opened, wrapped
from kcore.server.pipeline import RequestPipeline


class EnvelopeRequests:
    """Opens envelopes, and encloses the responses to their requests (a `Carrier` of the pipeline)."""

    def __init__(
        self,
        apis: Mapping[str, tuple[int, int]],
        context: Callable[[], ControllerContext],
        is_allowed: Callable[[RequestContext, int], bool],
        reading: Callable[[], asyncio.Lock],
    ) -> None:
        """`apis`: the served versions. `reading`: the lock that is held while a large request is decoded."""
        self._apis, self._context, self._is_allowed, self._reading = apis, context, is_allowed, reading

    async def __call__(
        self, pipeline: RequestPipeline, context: RequestContext, envelope: EnvelopeRequest
    ) -> Message | Encoded:
        """Handles a forwarded request with its client's rights; the sender of the envelope needs CLUSTER_ACTION."""
        pipeline.refuse(context, envelope)  # Closes the connection before the ACLs are loaded.
        found = await self._opened(context, envelope)
        if isinstance(found, Errors):
            answer = EnvelopeResponse(error_code=found.value)
            pipeline.ended(context, envelope, answer)
            return answer
        session = ClientSession(context.listener_name, found.client_address, context.session.security_protocol)
        session.authenticated(found.principal, is_token=found.is_token_authenticated)
        client = context._replace(header=found.header, session=session, through=context)
        response = await pipeline.decided(client, found.request)
        if response is None:
            return EnvelopeResponse(error_code=Errors.UNKNOWN_SERVER_ERROR.value)
        if LEADERS_NAMED not in self._context().config.kafka_way and is_refused_change_of_voters(response):
            return EnvelopeResponse(error_code=Errors.NOT_CONTROLLER.value)
        enclosed = await wrapped(found, response)
        if len(envelope.request_data) > PIECE_BYTES or isinstance(enclosed, Encoded):
            lists = [*long_lists(found.request), *long_lists(response)]
            del found, response
            await let_go(lists)
        return enclosed

    async def _opened(self, context: RequestContext, envelope: EnvelopeRequest) -> Forwarded | Errors:
        if not self._is_allowed(context, CLUSTER_ACTION):
            return Errors.CLUSTER_AUTHORIZATION_FAILED
        most = CLIENT_VALUES if self._context().config.node.has_authorizer else REQUEST_VALUES
        found = await opened(envelope, most, self._reading())
        if isinstance(found, Errors):
            return found
        lowest, highest = self._apis.get(api_name(type(found.request)), (0, -1))
        is_known = lowest <= found.header.request_api_version <= highest
        return found if is_known else Errors.UNSUPPORTED_VERSION
