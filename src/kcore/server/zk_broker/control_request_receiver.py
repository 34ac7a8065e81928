"""Checks the control requests of the controller, and applies them to the replicas."""

from kcore.broker.zk_control.control_requests import CONTROL_REQUESTS, ControlRequests, KnownController
from kcore.net.request_context import RequestContext
from kcore.net.versions import response_of
from kcore.node.zk.acls import AclAuthorizer
from kcore.protocol_errors import Errors
from kcore.schema import LeaderAndIsrRequest
from kcore.schema.headers import ResponseHeader
from kcore.schema.structure import Message
from kcore.server.broker.broker_runtime import BrokerRuntime
from kcore.server.clock import now_ms
from kcore.server.zk_broker.control_request_authorization import ControlRequestAuthorization
from kcore.server.zk_broker.topic_settings import ZkTopicSettings
from kcore.wire.codec import encode
from kcore.wire.column_codec import decode_columns
from kcore.zookeeper.client import ZookeeperClient


class ControlRequestReceiver:
    """Receives LeaderAndIsr, UpdateMetadata and StopReplica, whose frames it decodes into columns."""

    def __init__(
        self,
        control: ControlRequests,
        runtime: BrokerRuntime,
        topics: ZkTopicSettings,
        zookeeper: ZookeeperClient,
        authorizer: AclAuthorizer | None,
        control_plane: str | None,
    ) -> None:
        """`control_plane`: the only listener for such requests; None: every listener."""
        self._control, self._runtime, self._topics = control, runtime, topics
        self._authorization = ControlRequestAuthorization(
            self._current_controller, zookeeper, authorizer=authorizer, listener=control_plane
        )

    def _current_controller(self) -> KnownController:
        control, controller_id = self._control, self._runtime.manager.cluster.controller_id
        if controller_id < 0:
            return KnownController(control.controller_epoch, None)
        return KnownController(control.controller_epoch, controller_id, control.is_kraft)

    def takes(self, api_key: int, version: int) -> bool:
        """True for a control request."""
        return api_key in CONTROL_REQUESTS and version in CONTROL_REQUESTS[api_key].versions

    async def ask(self, context: RequestContext) -> bytes:
        """The encoded response with its header. DecodeError for invalid bytes."""
        message = CONTROL_REQUESTS[context.api_key]
        head = ResponseHeader(correlation_id=context.header.correlation_id)
        body = await self._answer(context, message, context.version)
        return bytes(encode(head, response_of(message).header_version(context.version))) + body

    async def _answer(self, context: RequestContext, message: type[Message], version: int) -> bytes:
        body = memoryview(context.frame)[context.body_at :]
        self._authorization.check_size(context, message, len(body))
        request = decode_columns(message, version, body)
        refused = await self._authorization.refusal(context, request)
        if refused is not Errors.NONE:
            return self._control.answer_columns(message, version, request, now_ms(), refused)
        if message is LeaderAndIsrRequest:  # Read the topics' settings before a replica leads.
            await self._topics.learn({*request.topic_states.topic_name})
        answer = self._control.answer_columns(message, version, request, now_ms())
        self._runtime.perform()
        if message is LeaderAndIsrRequest:
            self._runtime.warn_of_internal_topics()
        return answer
