"""The door for control requests: on which listener they come in, whose they are, and which controller sends them.

Source: KafkaApis (authorizeClusterOperation with CLUSTER_ACTION), control.plane.listener.name.
"""

import logging
from collections.abc import Callable

from kcore.broker.zk_control.senders import KnownController, controller_of, doubt
from kcore.controller.zk.acls import AclAuthorizer
from kcore.errors import DecodeError
from kcore.metadata.acl_codes import CLUSTER_ACTION
from kcore.metadata.zookeeper import znodes
from kcore.net.limits.bounded_log import BoundedLog
from kcore.net.limits.connection_limits import CLIENT_VALUES
from kcore.net.request_context import SESSION
from kcore.net.served_connection import PEER
from kcore.net.versions import api_name
from kcore.protocol_errors import Errors
from kcore.schema.structure import Message
from kcore.wire.columns import Columns
from kcore.zookeeper.client import ZookeeperClient

logger = logging.getLogger(__name__)


class ControlRequestAuthorization:
    """Asked before a control request is handled."""

    def __init__(
        self,
        obeyed: Callable[[], KnownController],
        zookeeper: ZookeeperClient,
        *,
        authorizer: AclAuthorizer | None = None,
        listener: str | None = None,
    ) -> None:
        """`obeyed`: the controller whose requests were taken last; `listener`: the only one for such requests."""
        self._obeyed, self._zookeeper = obeyed, zookeeper
        self._authorizer, self._listener = authorizer, listener
        self._log = BoundedLog(logger)

    def check_size(self, message: type[Message], size: int) -> None:
        """DecodeError for a request that is large and may not be sent at all: reading it would take too long."""
        if size > CLIENT_VALUES and self._unwelcome() is not Errors.NONE:  # A value takes a byte at least.
            raise DecodeError(
                f"{api_name(message)} of {size:,} bytes: this principal, on this listener, may not send it", 0
            )

    async def refusal(self, request: Columns) -> Errors:
        """Why nothing of the request is done; NONE otherwise. A ZookeeperError costs the connection."""
        error, why = self._unwelcome(), "it may not be sent by this principal, or on this listener"
        if error is Errors.NONE:
            error, why = await self._doubt(request), "ZooKeeper has no such controller"
        if error is Errors.NOT_CONTROLLER or error is Errors.CLUSTER_AUTHORIZATION_FAILED:
            name = request.message.__name__.removesuffix("Request")
            what = f"{name} of controller {request.controller_id}, epoch {request.controller_epoch}"
            self._log.warning("%s: %s is refused: %s", PEER.get(), what, why)
        return error

    def _unwelcome(self) -> Errors:
        session, authorizer = SESSION.get(), self._authorizer
        if session is None:
            return Errors.NONE
        if self._listener not in (None, session.listener_name):
            return Errors.CLUSTER_AUTHORIZATION_FAILED
        if authorizer is None or authorizer.allows(session.principal, session.client_address, CLUSTER_ACTION):
            return Errors.NONE
        return Errors.CLUSTER_AUTHORIZATION_FAILED

    async def _doubt(self, request: Columns) -> Errors:
        """An epoch above that of the controller that is obeyed is looked up. A smaller one is refused by others."""
        obeyed = self._obeyed()
        if request.controller_epoch <= obeyed.epoch:
            return doubt(request, obeyed) if request.controller_epoch == obeyed.epoch else Errors.NONE
        known = await self._look()
        if request.controller_epoch > known.epoch:  # The server that answered may be behind ZooKeeper's leader.
            await self._zookeeper.sync(znodes.CONTROLLER_EPOCH)
            known = await self._look()
        return doubt(request, known)

    async def _look(self) -> KnownController:
        return controller_of(*await self._zookeeper.read_nodes([znodes.CONTROLLER_EPOCH, znodes.CONTROLLER]))
