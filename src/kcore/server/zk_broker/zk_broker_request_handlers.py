"""Handles the requests of administrators to a ZooKeeper-mode broker.

`broker_request_handlers.py` handles the requests of clients and followers, `control_request_receiver.py` those of the
controller.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Final

from kcore.metadata.table.broker_registration import LiveBroker
from kcore.metadata.table.broker_table import Endpoint
from kcore.net.server import RequestContext
from kcore.net.versions import answer_of
from kcore.node.zk.admin import scram
from kcore.node.zk.admin.configs import alter_configs, describe_configs, is_of_all_brokers, replace_configs
from kcore.schema import DescribeConfigsRequest, IncrementalAlterConfigsRequest
from kcore.schema.api_versions import ApiVersionsResponse
from kcore.schema.configs import AlterConfigsRequest
from kcore.schema.index import message_class
from kcore.schema.scram import DescribeUserScramCredentialsRequest
from kcore.schema.structure import Message
from kcore.schema.versions import Versions
from kcore.server.broker import broker_request_handlers as handlers
from kcore.server.broker.broker_authorization import ZkBrokerAuthorization
from kcore.server.broker.broker_request_handlers import HandlerParts
from kcore.server.cluster_view import ClusterView
from kcore.server.large_descriptions import described_in_parts
from kcore.server.zk_broker import zk_security_requests as zk_security
from kcore.server.zk_broker.node_admin import NodeAdmin
from kcore.server.zk_broker.zk_security_requests import SecurityAdmin
from kcore.types import Uuid

APIS: Final = {
    **handlers.APIS,
    "LeaderAndIsr": (0, 7),
    "StopReplica": (0, 4),
    "UpdateMetadata": (0, 8),
    "AlterConfigs": (0, 2),
    "IncrementalAlterConfigs": (0, 1),
    "DescribeUserScramCredentials": (0, 0),
    **zk_security.APIS,
}


def with_apis(own: ApiVersionsResponse, apis: Mapping[str, tuple[int, int]]) -> ApiVersionsResponse:
    """Adds APIs by name to a response; the APIs that it already has keep their versions."""
    known = {each.api_key for each in own.api_keys}
    more = {message: Versions(*apis[name]) for name in apis if (message := message_class(f"{name}Request"))}
    own.api_keys = [*own.api_keys, *(each for each in answer_of(more).api_keys if each.api_key not in known)]
    return own


class ZkBrokerRequestHandlers:
    """Handles requests with the metadata from UpdateMetadata and the settings in ZooKeeper (ModeRequestHandlers)."""

    authorization: Final = ZkBrokerAuthorization

    def __init__(
        self,
        parts: HandlerParts,
        admin: NodeAdmin,
        security: SecurityAdmin,
        forward: Callable[[Message, int], Awaitable[Message | None]],
        is_migrated: Callable[[], bool],
    ) -> None:
        """`forward`: asks one of Kafka's brokers; None if no broker answers.

        `is_migrated`: whether a KRaft controller controls the brokers.
        """
        self._cluster, self._broker_id, self._logs = parts.manager.cluster, parts.manager.broker_id, parts.logs
        self._admin, self._security, self._forward, self._is_migrated = admin, security, forward, is_migrated

    def refuse(self, context: RequestContext, request: Message) -> None:
        """Refuses no request as a whole."""

    def cordoned(self) -> Collection[Uuid]:
        """No directory: ZooKeeper mode cannot cordon directories."""
        return ()

    async def may_coordinate(self) -> bool:
        return await self._admin.has_coordinators()

    async def administer(self, context: RequestContext, request: Message) -> Message | None:
        admin = self._admin
        match request:
            case DescribeConfigsRequest():
                return await described_in_parts(
                    request, lambda part: admin.perform(describe_configs(admin.node, part, context.version))
                )
            case IncrementalAlterConfigsRequest() | AlterConfigsRequest():
                return await self._alter_configs(request, context.version)
            case DescribeUserScramCredentialsRequest():
                return await admin.perform(scram.describe(request))
        return await self._security.answer(context, request)

    async def _alter_configs(
        self, request: IncrementalAlterConfigsRequest | AlterConfigsRequest, version: int
    ) -> Message:
        """Forwards changes of all brokers' settings to a Kafka broker, if one answers: kcore checks only throttles."""
        if is_of_all_brokers(request) and (answer := await self._forward(request, version)) is not None:
            return answer
        if isinstance(request, AlterConfigsRequest):
            return await self._admin.perform(replace_configs(self._admin.node, request))
        return await self._admin.perform(alter_configs(self._admin.node, request))

    def view(self, listener: str) -> ClusterView:
        """The cluster from UpdateMetadata. Under a KRaft controller, clients get this broker as the controller."""
        cluster = self._cluster
        table, controller_id = cluster.table, cluster.controller_id
        if self._is_migrated():
            controller_id = self._broker_id
        endpoints: tuple[Endpoint, ...] = ()
        rack = None
        if controller_id in table.brokers and cluster.is_alive(controller_id):
            row = table.brokers.row(controller_id)
            endpoints, rack = tuple(table.brokers.endpoints[row]), table.brokers.racks[row]
        controller = LiveBroker(controller_id, endpoints, rack)
        return ClusterView(
            table, listener, controller, self._logs.directories.cluster_id, offline=cluster.offline_replicas
        )
