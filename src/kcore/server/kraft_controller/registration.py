"""Registers this controller with the active controller, with its listeners and features (KIP-919).

Source: ControllerRegistrationManager of 4.3.1.
"""

import asyncio
import logging
from collections.abc import Callable
from random import Random
from typing import Final

from kcore.controller.kraft.controller import KraftController
from kcore.errors import NetworkError, UnsupportedVersionError
from kcore.java_hash import hash_map_order
from kcore.metadata.metadata_version import FEATURE_NAME
from kcore.net.connect import connect
from kcore.net.limits.connection_limits import Limits
from kcore.net.retry import Backoff
from kcore.net.security.client_security import Security
from kcore.protocol_errors import Errors
from kcore.raft.membership.replicas import Address
from kcore.raft.node import RaftNode
from kcore.raft.raft_config import RaftConfig
from kcore.schema.broker_lifecycle import (
    ControllerRegistrationRequest,
    Feature,
    Listener,
)
from kcore.storage.raft.raft_dir import random_directory_id

logger = logging.getLogger(__name__)
CHECK_S: Final = 0.1
LIMITS: Final = Limits(connect_s=2.0, request_s=5.0, close_s=0.2)
BACKOFF: Final = Backoff(first_s=0.1, highest_s=10.0)


class Registration:
    """The registration of one process; each start is a new incarnation."""

    def __init__(
        self,
        config: RaftConfig,
        node: RaftNode,
        controller: KraftController,
        random: Random,
        protocol: int = 0,
        security: Callable[[], Security] | None = None,
    ) -> None:
        """`protocol`: the code of the listener's SecurityProtocol; `security`: for connections to controllers."""
        self._protocol, self._security = protocol, security
        self._config, self._node, self._controller, self._random = config, node, controller, random
        self.incarnation_id = random_directory_id()

    async def run(self) -> None:
        """Registers with the active controller while the log lacks this incarnation; runs until cancelled."""
        delays = BACKOFF.delays_s(self._random)
        while True:
            if not self.is_wanted():
                delays = BACKOFF.delays_s(self._random)
                await asyncio.sleep(CHECK_S)
                continue
            problem = await self._try()
            if problem:
                logger.info("controller %s is not registered yet: %s", self._config.node_id, problem)
            await asyncio.sleep(next(delays))

    def is_wanted(self) -> bool:
        """True if the log lacks this incarnation, and the metadata.version has registrations of controllers.

        False on a standby that has not applied all records that it knows to be committed: Kafka registers from its
        first published image.
        """
        controller = self._controller
        image, high_watermark = controller.image, self._node.high_watermark
        if FEATURE_NAME not in image.features or high_watermark is None:
            return False
        if not controller.is_active and controller.committed < high_watermark:
            return False
        if not controller.context.version.controller_registration_supported:
            return False
        known = image.controllers.get(self._config.node_id)
        return known is None or known.incarnation_id != self.incarnation_id

    async def _try(self) -> str:
        """Sends one request. Returns the reason of a failure, or ""."""
        where = self._active()
        if where is None:
            return "no controller is active"
        try:
            security = None if self._security is None else self._security()
            async with await connect(
                *where, client_id="controller-registration", security=security, limits=LIMITS
            ) as connection:
                answer = await connection.send(self.request())
        except (NetworkError, UnsupportedVersionError) as error:
            return str(error)
        return "" if not answer.error_code else f"{Errors.of(answer.error_code).name}: {answer.error_message}"

    def _active(self) -> Address | None:
        """The address of the leader, which may be this node."""
        node, listener = self._node, self._config.listener
        if node.leads:
            return self._config.endpoints.get(listener)
        leader = node.voters.voters.get(node.leader_id)
        return leader.endpoints.get(listener) if leader is not None else None

    def request(self) -> ControllerRegistrationRequest:
        """The request that this controller sends to the active controller."""
        config = self._controller.config
        return ControllerRegistrationRequest(
            controller_id=config.node.node_id,
            incarnation_id=self.incarnation_id,
            zk_migration_ready=False,
            listeners=[
                Listener(name=name, host=each.host, port=each.port, security_protocol=self._protocol)
                for name, each in self._config.endpoints.items()
            ],
            features=[
                Feature(name=name, min_supported_version=lowest, max_supported_version=highest)
                for name in hash_map_order(config.node.supported_features, capacity=1)
                for lowest, highest in [config.node.supported_features[name]]
            ],
        )
