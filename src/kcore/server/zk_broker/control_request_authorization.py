"""Authorizes control requests by their listener, their principal and the controller in ZooKeeper.

Source: KafkaApis (authorizeClusterOperation with CLUSTER_ACTION), control.plane.listener.name.
"""

import logging
from collections.abc import Callable

from kcore.broker.zk_control.control_requests import KnownController, controller_of, sender_error
from kcore.errors import DecodeError
from kcore.metadata.zookeeper import znodes
from kcore.net.limits.bounded_log import BoundedLog
from kcore.net.limits.connection_limits import CLIENT_VALUES
from kcore.net.request_context import RequestContext
from kcore.net.versions import api_name
from kcore.node.zk.acls import AclAuthorizer
from kcore.protocol_errors import Errors
from kcore.schema.structure import Message
from kcore.server.security.rights import is_cluster_node
from kcore.wire.columns import Columns
from kcore.zookeeper.client import ZookeeperClient

logger = logging.getLogger(__name__)


class ControlRequestAuthorization:
    """Checks control requests before they are handled."""

    def __init__(
        self,
        current_controller: Callable[[], KnownController],
        zookeeper: ZookeeperClient,
        *,
        authorizer: AclAuthorizer | None = None,
        listener: str | None = None,
    ) -> None:
        """`current_controller`: the sender of the last accepted request. `listener`: the only one for such requests."""
        self._current_controller, self._zookeeper = current_controller, zookeeper
        self._authorizer, self._listener = authorizer, listener
        self._log = BoundedLog(logger)

    def check_size(self, context: RequestContext, message: type[Message], size: int) -> None:
        """DecodeError for a large request that its sender may not send: decoding it would take too long."""
        if size > CLIENT_VALUES and self._sender_error(context) is not Errors.NONE:  # A value takes at least one byte.
            raise DecodeError(
                f"{api_name(message)} of {size:,} bytes: this principal may not send it on this listener", 0
            )

    async def refusal(self, context: RequestContext, request: Columns) -> Errors:
        """The error for the whole request; NONE if it is accepted. A ZookeeperError closes the connection."""
        error, why = self._sender_error(context), "this principal may not send it on this listener"
        if error is Errors.NONE:
            error, why = await self._epoch_error(request), "ZooKeeper has no such controller"
        if error is Errors.NOT_CONTROLLER or error is Errors.CLUSTER_AUTHORIZATION_FAILED:
            name = request.message.__name__.removesuffix("Request")
            subject = f"{name} from controller {request.controller_id}, epoch {request.controller_epoch}"
            self._log.warning("%s: %s is refused: %s", context.peer, subject, why)
        return error

    def _sender_error(self, context: RequestContext) -> Errors:
        is_allowed = self._listener in (None, context.listener_name)
        is_allowed = is_allowed and is_cluster_node(self._authorizer, context.session)
        return Errors.NONE if is_allowed else Errors.CLUSTER_AUTHORIZATION_FAILED

    async def _epoch_error(self, request: Columns) -> Errors:
        """Looks up a controller epoch that is above the last accepted one. `ControlRequests` refuses lower epochs."""
        current = self._current_controller()
        if request.controller_epoch <= current.epoch:
            return sender_error(request, current) if request.controller_epoch == current.epoch else Errors.NONE
        known = await self._read_controller()
        if request.controller_epoch > known.epoch:  # The server that answered may be behind ZooKeeper's leader.
            await self._zookeeper.sync(znodes.CONTROLLER_EPOCH)
            known = await self._read_controller()
        return sender_error(request, known)

    async def _read_controller(self) -> KnownController:
        return controller_of(*await self._zookeeper.read_nodes([znodes.CONTROLLER_EPOCH, znodes.CONTROLLER]))
