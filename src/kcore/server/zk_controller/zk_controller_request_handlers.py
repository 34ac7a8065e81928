"""Handles the requests to a ZooKeeper-mode controller: events, answers from its table, and relayed requests."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from itertools import count
from typing import Final

from kcore.controller.zk.effects import SendResponse
from kcore.controller.zk.events import RequestEvent
from kcore.controller.zk.handlers import REQUEST_HANDLERS
from kcore.errors import DecodeError, KcoreError
from kcore.metadata.principal import ANONYMOUS
from kcore.net.limits.connection_limits import Limits
from kcore.net.limits.work_in_parts import next_turn, run_steps
from kcore.net.request_context import ClientSession
from kcore.net.security.client_security import Security
from kcore.net.security.sasl_server import SaslListener
from kcore.net.security.tls import TlsContext
from kcore.net.server import RequestContext, Server, serve
from kcore.net.versions import api_name, response_of
from kcore.node.parsed import is_parsed
from kcore.node.tokens import OfTokens
from kcore.node.zk.acls import AclAuthorizer
from kcore.node.zk.admin.acls import describe_acls
from kcore.node.zk.admin.configs import is_of_all_brokers
from kcore.node.zk.requester import Requester
from kcore.protocol_errors import Errors
from kcore.schema.acls import DescribeAclsRequest
from kcore.schema.alter_partition import AlterPartitionRequest
from kcore.schema.api_versions import ApiVersionsRequest
from kcore.schema.cluster_metadata import (
    DescribeClusterRequest,
    DescribeClusterResponse,
    MetadataRequest,
    MetadataResponse,
)
from kcore.schema.configs import DescribeConfigsRequest
from kcore.schema.controlled_shutdown import ControlledShutdownRequest
from kcore.schema.index import message_class
from kcore.schema.log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse, DescribeLogDirsResult
from kcore.schema.structure import Message
from kcore.schema.topics import CreateTopicsResponse
from kcore.server.cluster_view import ClusterView
from kcore.server.large_descriptions import described_in_parts
from kcore.server.pipeline import OF_SASL, RequestPipeline, Route, request_of
from kcore.server.request_parts import ENTRIES_AT_ONCE, answered_in_parts, checked_in_parts, splitting_of
from kcore.server.security.audit import AuditLog
from kcore.server.security.request_throttle import RequestThrottle
from kcore.server.security.rights import Checked, Rights, is_cluster_node
from kcore.server.zk_controller.document_requests import DocumentRequests
from kcore.server.zk_controller.zk_controller_authorization import ZkControllerAuthorization
from kcore.server.zk_controller.zk_controller_metrics import ControllerMetrics
from kcore.server.zk_node.document_routing import is_mutation, with_bumped
from kcore.server.zk_node.relay import CHECKED, Address, BrokerRelay, refusal_of
from kcore.types import Uuid

logger = logging.getLogger(__name__)
LEARN_S: Final = 5.0  # Seconds between two reads of a live broker's ApiVersions, which an upgrade changes.
LEARN_SOON_S: Final = 0.3  # Seconds after a failed read: a broker's port opens some time after its registration.

# The APIs that only the active controller serves, in the versions of 3.9.1: a standby answers NOT_CONTROLLER.
OWNED: Final = {
    "AllocateProducerIds": (0, 0),
    "AlterUserScramCredentials": (0, 0),
    "AlterPartition": (0, 3),
    "AlterPartitionReassignments": (0, 0),
    "ControlledShutdown": (0, 3),
    "CreatePartitions": (0, 3),
    "CreateTopics": (0, 7),
    "DeleteTopics": (0, 6),
    "ElectLeaders": (0, 2),
    "ListPartitionReassignments": (0, 0),
    "UpdateFeatures": (0, 1),
}
OF_TOKENS: Final = {
    "CreateDelegationToken": (1, 3),
    "RenewDelegationToken": (1, 2),
    "ExpireDelegationToken": (1, 2),
    "DescribeDelegationToken": (1, 3),
}
# APIs that any broker serves: a standby relays them to a live broker.
ANY_NODE: Final = {
    "AlterConfigs": (0, 2),
    "AlterClientQuotas": (0, 1),
    "DescribeClientQuotas": (0, 1),
    "CreateAcls": (0, 3),
    "DeleteAcls": (0, 3),
    "DescribeConfigs": (0, 4),
    "DescribeUserScramCredentials": (0, 0),
    "IncrementalAlterConfigs": (0, 1),
}
# The active controller answers these from its table; a standby relays them to a live broker.
VIEWS: Final = {"Metadata": (0, 12), "DescribeCluster": (0, 1), "DescribeAcls": (0, 3)}
# Empty responses: clients ask each node, and a controller has no groups, transactions or logs.
EMPTY: Final = {"ListGroups": (0, 5), "ListTransactions": (0, 1), "DescribeLogDirs": (0, 4)}
NO_LOG_DIR: Final = "none"  # A directory without partitions. Kafka's client refuses a response without directories.
APIS: Final = {**OWNED, **ANY_NODE, **OF_TOKENS, **VIEWS, **EMPTY, **OF_SASL}


def _keys(names: Collection[str]) -> frozenset[int]:
    return frozenset(message_class(f"{name}Request").api_key for name in names)


_EMPTY: Final = {message_class(f"{name}Request") for name in EMPTY}
_KEYS: Final = _keys(APIS) | {ApiVersionsRequest.api_key}
_KEYS_OF_STANDBY: Final = _KEYS - _keys([*VIEWS, *ANY_NODE])
_OF_NODES: Final = (AlterPartitionRequest, ControlledShutdownRequest)


def is_exempt(request: Message, version: int) -> bool:
    """Whether request quotas do not count a request if a cluster node sends it (sendResponseExemptThrottle)."""
    return isinstance(request, _OF_NODES)


class ZkControllerRequestHandlers:
    """Listens for a controller's clients, and handles their requests."""

    def __init__(
        self,
        put: Callable[[RequestEvent[Message]], None],
        view: Callable[[], ClusterView | None],
        brokers: Callable[[], Awaitable[Sequence[Address]]],
        metrics: ControllerMetrics,
        authorizer: AclAuthorizer | None = None,
        wall_ms: Callable[[], int] = int,
        audit: AuditLog | None = None,
        *,
        routes_as_documented: bool = False,
        outgoing: Callable[[], Security] | None = None,
        throttle: RequestThrottle | None = None,
    ) -> None:
        """`put` queues events. `view`: the cluster for clients; None while not active. `brokers`: for relayed requests.

        `wall_ms`: ms since 1970, for time stamps of tokens. `routes_as_documented`: see `document_routing`.

        `outgoing`: TLS and SASL for connections to brokers. `throttle`: enforces request quotas.

        With an authorizer or `outgoing`, a standby relays as little as an active controller, because a broker would
        see the controller's principal instead of the client's.
        """
        self._put, self._view, self._authorizer, self._wall_ms = put, view, authorizer, wall_ms
        self._routes_as_documented = routes_as_documented
        self._relays_little = authorizer is not None or outgoing is not None
        only = CHECKED if self._relays_little else None
        self._relay = BrokerRelay(brokers, self._owned, metrics.count_relayed, only=only, security=outgoing)
        routes = [Route(self._relay.takes, self._relay.ask, self._refuse_relayed, self._relay.forget)]
        if routes_as_documented:
            document = DocumentRequests(lambda: self._pipeline, lambda: self._view() is not None, self._is_node)
            routes.insert(0, document.route())
        self._pipeline = RequestPipeline(
            *(self._handle, self._is_node),
            refuse=self._refuse,
            routes=routes,
            throttle=throttle,
            audit=audit,
            wall_ms=wall_ms,
        )
        self._waiting: dict[int, asyncio.Future[Message]] = {}
        self._request_ids = count()
        self._server: Server | None = None
        self._brokers_changed = asyncio.Event()

    def _owned(self) -> Collection[int]:
        """The keys of the APIs that are not relayed now."""
        return _KEYS_OF_STANDBY if self._view() is None and not self._relays_little else _KEYS

    async def open(
        self,
        host: str,
        port: int,
        listener_name: str,
        *,
        tls: TlsContext | None = None,
        sasl: SaslListener | None = None,
        limits: Limits | None = None,
        rate_of: Callable[[str], float | None] | None = None,
    ) -> int:
        """Listens, and returns the port; `port` 0 stands for any free port. OSError if the port is not free.

        `rate_of` returns the limit of new connections a second from an address.
        """
        parts = self._pipeline.parts
        if self._routes_as_documented:
            parts = replace(parts, advertised=with_bumped)
        self._server = await serve(
            *(host, port, self._pipeline.handle, APIS),
            tls=tls,
            sasl=sasl,
            limits=limits,
            parts=parts,
            listener_name=listener_name,
            rate_of=rate_of,
        )
        return self._server.port

    async def close(self) -> None:
        """Stops listening, after the requests in progress are answered."""
        if self._server is not None:
            await self._server.close()

    def _is_node(self, session: ClientSession) -> bool:
        return is_cluster_node(self._authorizer, session)

    def answer(self, answer: SendResponse) -> None:
        """Completes a waiting request with its response."""
        future = self._waiting.pop(answer.request_id)
        if not future.done():  # Cancelled if the client has disconnected.
            future.set_result(answer.response)

    def brokers_changed(self) -> None:
        """Makes `keep_learning` read ApiVersions again, because other brokers may serve other APIs."""
        self._brokers_changed.set()

    def _refuse(self, context: RequestContext, request: Message) -> None:
        """DecodeError for a request that Kafka's parser would not accept."""
        if not is_parsed(request):
            raise DecodeError(f"{api_name(type(request))} has an unknown code", 0)

    async def _refuse_relayed(self, context: RequestContext) -> Message | None:
        """The response to a request that the client may not send, and that would be relayed; None if it may."""
        if self._authorizer is None:
            return None
        request, rights = request_of(context, self._is_node), Rights(self._authorizer, context)
        return await run_steps(refusal_of(rights, request, context.version))

    async def _handle(self, context: RequestContext, request: Message) -> Message | None:
        """The response to a request, by the client's rights. A mutation in the document's version is never relayed."""
        is_ours = self._routes_as_documented and is_mutation(context.api_key, context.version, bumped=True)
        if self._authorizer is None:
            return await self._decide(context, request, None, is_ours=is_ours)
        authorization = ZkControllerAuthorization(self._authorizer, context)
        if authorization.refuses(api_name(type(request))):
            return await self._refused(context, request, Errors.CLUSTER_AUTHORIZATION_FAILED)
        names = cache(self._names)  # Computed once, and only if the request names a topic by id.
        name_of = None if self._view() is None else lambda topic_id: names().get(topic_id)
        checked = await checked_in_parts(request, lambda part: authorization.check(part, name_of))
        if not isinstance(checked, Checked):
            return checked
        if checked.is_empty:
            response: Message | None = response_of(type(request))()
        else:
            response = await self._decide(context, checked.request, authorization, is_ours=is_ours)
        if response is not None:
            if isinstance(response, CreateTopicsResponse):
                for begin in range(0, len(response.topics), ENTRIES_AT_ONCE):
                    authorization.hide_configs(response.topics[begin : begin + ENTRIES_AT_ONCE])
                    await next_turn()
            checked.complete(response)
            authorization.cut(response)
        return response

    async def _refused(self, context: RequestContext, request: Message, error: Errors) -> Message | None:
        if type(request) not in REQUEST_HANDLERS:
            response: Message = response_of(type(request))(error_code=error)
            return response

        async def refused_part(part: Message) -> Message:
            return self._event(context, part).refused(error)

        return await answered_in_parts(request, refused_part)

    def _names(self) -> dict[Uuid, str]:
        view = self._view()
        return {} if view is None else view.names()

    async def _decide(
        self,
        context: RequestContext,
        request: Message,
        authorization: ZkControllerAuthorization | None,
        *,
        is_ours: bool,
    ) -> Message | None:
        if is_of_all_brokers(request) and not is_ours:
            relayed = await self._relay.forward(request, context.version)
            if relayed is not None:
                return relayed
        if isinstance(request, OfTokens):
            return await self._decide_token(context, request)
        if isinstance(request, DescribeConfigsRequest):
            return await described_in_parts(
                request, lambda part: self._handled(context, self._event(context, part, is_proxied=is_ours))
            )
        if type(request) in REQUEST_HANDLERS:
            if self._view() is None and splitting_of(request) is not None:
                return await self._refused(context, request, Errors.NOT_CONTROLLER)
            return await self._handled(context, self._event(context, request, is_proxied=is_ours))
        if isinstance(request, DescribeAclsRequest):
            acls = None if self._authorizer is None else self._authorizer.acls
            return await run_steps(describe_acls(acls, request))
        if isinstance(request, DescribeLogDirsRequest):
            return DescribeLogDirsResponse(results=[DescribeLogDirsResult(log_dir=NO_LOG_DIR)])
        if type(request) in _EMPTY:
            nothing: Message = response_of(type(request))()
            return nothing
        view = self._view()
        # A standby's response has no brokers, so the client sends the request to another node.
        if isinstance(request, MetadataRequest):
            rights = None if authorization is None else authorization.topic_filter
            return await view.metadata(request, context.version, rights) if view else MetadataResponse()
        assert isinstance(request, DescribeClusterRequest)
        return view.describe(request) if view else DescribeClusterResponse(error_code=Errors.BROKER_NOT_AVAILABLE)

    def _event(
        self,
        context: RequestContext,
        request: Message,
        authorization: ZkControllerAuthorization | None = None,
        *,
        is_proxied: bool = False,
    ) -> RequestEvent[Message]:
        requester = Requester(context.principal, context.header.client_id, self._wall_ms())
        if authorization is not None:
            requester = requester._replace(may_describe_token=authorization.may_describe_token)
        return RequestEvent(next(self._request_ids), request, context.version, requester, is_proxied)

    async def _handled(self, context: RequestContext, event: RequestEvent[Message]) -> Message | None:
        answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._waiting[event.request_id] = answer
        self._put(event)
        return await context.while_here(answer)

    async def _decide_token(self, context: RequestContext, request: OfTokens) -> Message | None:
        """Needs a principal that authenticated without a token (KafkaApis.allowTokenRequests)."""
        authorization = None if self._authorizer is None else ZkControllerAuthorization(self._authorizer, context)
        event = self._event(context, request, authorization)
        if context.principal == ANONYMOUS or context.session.is_token_authenticated:
            return event.refused(Errors.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
        if authorization is not None and not authorization.may_ask_token(request):
            return event.refused(Errors.DELEGATION_TOKEN_AUTHORIZATION_FAILED)
        return await self._handled(context, event)

    async def keep_learning(self) -> None:
        """Keeps the ApiVersions response current: the controller's own APIs, and those of a live broker."""
        server = self._server
        assert server is not None, "open it first"
        own = server.apis.versions_answer
        while True:
            self._brokers_changed.clear()
            wait_s = LEARN_SOON_S
            try:
                if (relayed := await self._relay.learn(own)) is not None:
                    server.apis.advertise(relayed)
                    wait_s = LEARN_S
            except KcoreError as error:  # ZooKeeper is unreachable, or a broker's znode is unreadable.
                logger.info("cannot read the live brokers, trying again: %s", error)
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._brokers_changed.wait()
