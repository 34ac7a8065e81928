"""The replicas of a broker with their fetchers, their requests to the controller and their background tasks.

Both modes use it. It has no listener, and reaches the cluster through a ClusterLink. Source: KafkaServer of 3.9.1,
BrokerServer of 4.3.1.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from random import SystemRandom
from typing import Final

from kcore.broker.replicas.broker_config import BrokerConfig
from kcore.broker.replicas.fetch_sessions import FetchSessionCache
from kcore.broker.replicas.outputs import (
    FetchFrom,
    IsrChangesWait,
    LogFailed,
    Notice,
    NoticeKind,
    SendInSteps,
    SendResponse,
    Verify,
)
from kcore.broker.replicas.producing import on_verified
from kcore.broker.replicas.replica import Key
from kcore.broker.replicas.replica_manager import ReplicaManager
from kcore.metadata.table.broker_table import Endpoint
from kcore.net.limits.bounded_log import BoundedLog
from kcore.net.request_context import PEER
from kcore.protocol_errors import Errors
from kcore.server.broker.background_tasks import BackgroundTasks
from kcore.server.broker.broker_connections import Dialer
from kcore.server.broker.broker_request_handlers import HandlerParts
from kcore.server.broker.cluster_link import ClusterLink
from kcore.server.broker.controller_requests import ControllerRequests
from kcore.server.broker.coordination import led_partitions
from kcore.server.broker.fetchers import BrokerFetchers
from kcore.server.broker.logs import BrokerLogs
from kcore.server.broker.replica_requests import ReplicaRequests
from kcore.server.broker.topic_creation import OrdinaryTopics
from kcore.server.broker.transaction_verifier import TransactionVerifier
from kcore.server.clock import now_ms, wall_ms
from kcore.server.security.byte_quotas import ByteQuotas

logger = logging.getLogger(__name__)
TICK_S: Final = 0.02  # The interval of checks for requests that have timed out.
CHECKPOINT_S: Final = 5.0  # replica.high.watermark.checkpoint.interval.ms
NEVER_MS: Final = 2**62


def new_replicas(config: BrokerConfig, logs: BrokerLogs) -> ReplicaManager:
    """The replicas of a broker that is not registered yet."""
    sessions = FetchSessionCache(config.max_incremental_fetch_session_cache_slots, SystemRandom().randrange)
    return ReplicaManager(config, -1, logs, sessions)


def endpoint_of(manager: ReplicaManager, listener: str, broker_id: int) -> Endpoint | None:
    """The endpoint of a broker at a listener; None if the broker is not alive or has no such listener."""
    brokers = manager.cluster.table.brokers
    if not manager.cluster.is_alive(broker_id):
        return None
    endpoints = brokers.endpoints[brokers.row(broker_id)]
    return next((each for each in endpoints if each.listener == listener), None)


class BrokerRuntime:
    """Performs the outputs of a broker's replicas, from `begin` to `close`."""

    def __init__(
        self,
        manager: ReplicaManager,
        logs: BrokerLogs,
        link: ClusterLink,
        tasks: BackgroundTasks,
        *,
        dialer: Dialer,
        listener: str,
        ordinary_topics: OrdinaryTopics | None = None,
        write_isrs: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """`dialer`: for the brokers' `listener`.

        `ordinary_topics`: see TopicCreation. `write_isrs`: see ControllerRequests.
        """
        self.manager, self.logs, self._link = manager, logs, link
        self.waiting = ReplicaRequests(manager, self.perform)
        self.tasks = tasks
        endpoint = partial(endpoint_of, manager, listener)
        self.fetchers = BrokerFetchers(manager, endpoint, now_ms, self.perform, dialer)
        self._verifier = TransactionVerifier(manager, endpoint, self._verified, dialer)
        self.requests = ControllerRequests(manager, link, self.perform, ordinary_topics, write_isrs)
        self._notices = {kind: BoundedLog(logger) for kind in NoticeKind}
        self._internal_led: frozenset[Key] = frozenset()

    def handler_parts(self) -> HandlerParts:
        """New arguments of request handlers."""
        requests = self.requests
        return HandlerParts(
            *(self.manager, self.logs, now_ms, wall_ms, self.waiting),
            *(requests.next_producer_id, requests.topic_creation, ByteQuotas(self._link.throttle)),
        )

    def begin(self) -> None:
        """Starts the background tasks."""
        self.tasks.begin(self._tick(), "ticks")
        self.tasks.begin(self._checkpoint(), "checkpoints")
        self.tasks.begin(self.requests.change_isrs(), "ISR changes")
        self.tasks.begin(self._expire_producers(), "producers")

    async def close(self) -> None:
        """Ends the tasks and the fetchers, answers all waiting requests, and closes the connections."""
        await self.tasks.close()
        await self.fetchers.close()
        await self._verifier.close()
        await self.requests.topic_creation.close()
        self.manager.tick(NEVER_MS)  # All waiting requests time out.
        self.perform()
        self.requests.close()

    def warn_of_internal_topics(self) -> None:
        """Logs which partitions of internal topics this broker leads, so that an operator moves them."""
        led, before = led_partitions(self.manager), self._internal_led
        self._internal_led = led
        if led - before:
            names = ", ".join(sorted({topic for topic, _ in led}))
            logger.warning(
                "this broker leads %s partitions of %s, and coordinates no groups and no transactions: those that hash "
                "to them fail until kafka-reassign-partitions has moved them",
                *(len(led), names),
            )

    def perform(self) -> None:
        """Performs the replicas' outputs in order, until there are none."""
        while outputs := self.manager.take_outputs():
            for output in outputs:
                match output:
                    case SendResponse(request_id, response):
                        self.waiting.answer(request_id, response)
                    case SendInSteps(request_id, steps):
                        self.waiting.answer(request_id, steps)
                    case Verify():
                        self._verifier.ask(output)
                    case FetchFrom(leader_id):
                        self.fetchers.changed(leader_id)
                    case IsrChangesWait():
                        self.requests.isr_changes_wait()
                    case LogFailed(key, why):
                        self.directories_failed(self.logs.fail(key, why))
                    case Notice(kind, text):
                        self._notices[kind].warning("%s: %s", PEER.get(), text)

    def directories_failed(self, keys: Sequence[Key] | None) -> None:
        """Takes the replicas of failed directories offline, and reports the directories. None: no directory failed."""
        if keys is None:
            return
        for key in keys:
            self.manager.go_offline(key)
        self._link.report_failed_directories()

    def _verified(self, request_id: int, refused: Mapping[Key, Errors]) -> None:
        on_verified(self.manager, request_id, refused, now_ms())
        self.perform()

    async def _tick(self) -> None:
        """Periodically times out requests, and removes lagging followers from ISRs."""
        shrink_s = self.manager.config.replica_lag_time_max_ms / 2000
        next_shrink_s = time.monotonic() + shrink_s
        while True:
            await asyncio.sleep(TICK_S)
            self.manager.tick(now_ms())
            if time.monotonic() >= next_shrink_s:
                next_shrink_s = time.monotonic() + shrink_s
                self.manager.shrink_isrs(now_ms())
            self.perform()

    async def _checkpoint(self) -> None:
        while True:
            await asyncio.sleep(CHECKPOINT_S)
            if self._link.has_states():
                self.directories_failed(self.logs.checkpoint())
                self._link.keep_settings({topic for topic, _ in self.manager.partitions})
                self.perform()

    async def _expire_producers(self) -> None:
        while True:
            await asyncio.sleep(self.manager.config.producer_id_expiration_check_interval_ms / 1000)
            self.manager.expire_producers(wall_ms())
