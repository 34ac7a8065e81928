"""Handles the requests of a ZooKeeper-mode broker: control requests as columns, and administrators' requests.

`broker_request_handlers.py` handles the requests of clients and followers.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, NamedTuple

from kcore.broker.zk_control.control_requests import CONTROL_REQUESTS
from kcore.metadata.table.broker_registration import LiveBroker
from kcore.metadata.table.broker_table import Endpoint
from kcore.net.limits.connection_limits import HEADER_VALUES
from kcore.net.server import RequestContext
from kcore.net.versions import answer_of, response_of
from kcore.node.authorization import Authorizer
from kcore.node.zk.admin.configs import is_of_all_brokers
from kcore.schema import DescribeConfigsRequest, IncrementalAlterConfigsRequest
from kcore.schema.api_versions import ApiVersionsResponse
from kcore.schema.configs import AlterConfigsRequest
from kcore.schema.headers import RequestHeader, ResponseHeader
from kcore.schema.index import message_class
from kcore.schema.scram import DescribeUserScramCredentialsRequest
from kcore.schema.structure import Message
from kcore.schema.versions import Versions
from kcore.server.broker import broker_request_handlers as handlers
from kcore.server.broker.broker_authorization import ZkBrokerAuthorization
from kcore.server.broker.broker_request_handlers import BrokerRequestHandlers, HandlerParts
from kcore.server.broker.forwarding import ControllerRelay
from kcore.server.cluster_view import ClusterView
from kcore.server.large_descriptions import described_in_parts
from kcore.server.zk_broker import zk_security_requests as zk_security
from kcore.server.zk_broker.node_admin import NodeAdmin
from kcore.server.zk_broker.zk_security_requests import SecurityAdmin
from kcore.wire.codec import decode_from, encode

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


class ControlPath:
    """Passes LeaderAndIsr, StopReplica and UpdateMetadata undecoded to `answer`, which decodes them into columns."""

    def __init__(self, answer: Callable[[type[Message], int, memoryview], Awaitable[bytes]]) -> None:
        self._answer = answer

    def takes(self, api_key: int, version: int) -> bool:
        """True for a control request."""
        return api_key in CONTROL_REQUESTS and version in CONTROL_REQUESTS[api_key].versions

    async def ask(self, connection_id: int, frame: bytes) -> bytes:
        """The encoded response with its header. DecodeError for invalid bytes."""
        api_key, version = int.from_bytes(frame[:2]), int.from_bytes(frame[2:4])
        message = CONTROL_REQUESTS[api_key]
        header, at = decode_from(RequestHeader, message.header_version(version), frame, most_values=HEADER_VALUES)
        body = await self._answer(message, version, memoryview(frame)[at:])
        head = ResponseHeader(correlation_id=header.correlation_id)
        return bytes(encode(head, response_of(message).header_version(version))) + bytes(body)

    def forget(self, connection_id: int) -> None:
        """Does nothing: this relay keeps no state of connections."""


class Forwarded(NamedTuple):
    """The relay to the quorum's controller of a migrating broker; on once this controller controls the brokers."""

    relay: ControllerRelay
    is_on: Callable[[], bool]

    def takes(self, api_key: int, version: int) -> bool:
        """True if the relay is on, and the quorum's controller answers the request."""
        return self.is_on() and self.relay.takes(api_key, version)


class Frames:
    """The relay for requests that are not decoded first: control requests, and forwarded ones."""

    def __init__(self, control: ControlPath, forwarded: Forwarded | None = None) -> None:
        self._control, self._forwarded = control, forwarded

    def takes(self, api_key: int, version: int) -> bool:
        """True for a control request or a request that is forwarded."""
        if self._forwarded is not None and self._forwarded.takes(api_key, version):
            return True
        return self._control.takes(api_key, version)

    async def ask(self, connection_id: int, frame: bytes) -> bytes:
        """The response from the quorum's controller or from this broker."""
        api = int.from_bytes(frame[:2]), int.from_bytes(frame[2:4])
        if self._forwarded is not None and self._forwarded.takes(*api):
            return await self._forwarded.relay.ask(connection_id, frame)
        return await self._control.ask(connection_id, frame)

    def forget(self, connection_id: int) -> None:
        """Does nothing: this relay keeps no state of connections."""


class ZkBrokerRequestHandlers(BrokerRequestHandlers):
    """Handles requests with the metadata from UpdateMetadata and the settings in ZooKeeper."""

    authorization = ZkBrokerAuthorization

    def __init__(
        self,
        parts: HandlerParts,
        admin: NodeAdmin,
        security: SecurityAdmin,
        forward: Callable[[Message, int], Awaitable[Message | None]],
        is_migrated: Callable[[], bool],
        authorizer: Authorizer | None = None,
    ) -> None:
        """`forward`: asks one of Kafka's brokers; None if no broker answers.

        `is_migrated`: whether a KRaft controller controls the brokers.
        """
        super().__init__(parts, authorizer)
        self._admin, self._security, self._forward, self._is_migrated = admin, security, forward, is_migrated

    async def may_coordinate(self) -> bool:
        return await self._admin.has_coordinators()

    async def administer(self, context: RequestContext, request: Message) -> Message | None:
        match request:
            case DescribeConfigsRequest():
                return await described_in_parts(
                    request, lambda part: self._admin.describe_configs(part, context.version)
                )
            case IncrementalAlterConfigsRequest() | AlterConfigsRequest():
                return await self._alter_configs(request, context.version)
            case DescribeUserScramCredentialsRequest():
                return await self._admin.describe_scram(request)
        return await self._security.answer(context, request)

    async def _alter_configs(
        self, request: IncrementalAlterConfigsRequest | AlterConfigsRequest, version: int
    ) -> Message:
        """Forwards changes of all brokers' settings to a Kafka broker, if one answers: kcore checks only throttles."""
        if is_of_all_brokers(request) and (answer := await self._forward(request, version)) is not None:
            return answer
        if isinstance(request, AlterConfigsRequest):
            return await self._admin.replace_configs(request)
        return await self._admin.alter_configs(request)

    def view(self, listener: str) -> ClusterView:
        """The cluster from UpdateMetadata. Under a KRaft controller, clients get this broker as the controller."""
        table, controller_id = self._manager.cluster.table, self._manager.cluster.controller_id
        if self._is_migrated():
            controller_id = self._manager.broker_id
        endpoints: tuple[Endpoint, ...] = ()
        rack = None
        if controller_id in table.brokers and self._manager.cluster.is_alive(controller_id):
            row = table.brokers.row(controller_id)
            endpoints, rack = tuple(table.brokers.endpoints[row]), table.brokers.racks[row]
        controller = LiveBroker(controller_id, endpoints, rack)
        offline = self._manager.cluster.offline_replicas
        return ClusterView(table, listener, controller, self._logs.directories.cluster_id, offline=offline)
