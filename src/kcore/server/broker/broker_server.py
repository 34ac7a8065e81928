"""A broker as a process, in either mode: logs, replicas, fetchers and listeners.

`zk_broker_server.py` and `kraft_broker_server.py` add the modes. Source: KafkaServer of 3.9.1, BrokerServer of 4.3.1.
"""

import asyncio
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from random import SystemRandom
from typing import Any, ClassVar, Final

from kcore.broker.replicas.broker_config import BrokerConfig
from kcore.broker.replicas.fetch_sessions import FetchSessionCache
from kcore.broker.replicas.isr_changes import for_version
from kcore.broker.replicas.outputs import FetchFrom, IsrChangesWait, LogFailed, Notice, NoticeKind, SendResponse, Verify
from kcore.broker.replicas.producing import on_verified
from kcore.broker.replicas.replica import Key
from kcore.broker.replicas.replica_manager import ReplicaManager
from kcore.metadata.table.broker_table import Endpoint
from kcore.net.connection_metrics import Metrics
from kcore.net.limits.bounded_log import BoundedLog
from kcore.net.request_context import PEER
from kcore.net.security.sasl_mechanisms import Credentials
from kcore.net.server import Relay, Server, ServerParts, serve
from kcore.protocol_errors import Errors
from kcore.schema.alter_partition import AlterPartitionRequest
from kcore.schema.api_versions import ApiVersionsResponse
from kcore.schema.producers import AllocateProducerIdsRequest
from kcore.schema.structure import Message
from kcore.server.broker.broker_connections import ControllerClient, Dialer
from kcore.server.broker.broker_request_handlers import BrokerRequestHandlers
from kcore.server.broker.coordination import led_partitions
from kcore.server.broker.fetchers import BrokerFetchers
from kcore.server.broker.logs import BrokerLogs
from kcore.server.broker.topic_creation import OrdinaryTopics, TopicCreation
from kcore.server.broker.transaction_verifier import TransactionVerifier
from kcore.server.clock import now_ms, wall_ms
from kcore.server.properties.listeners import BrokerListeners
from kcore.server.security.audit import AuditLog
from kcore.server.security.audited import AuditedRelay, audited
from kcore.server.security.byte_quotas import ByteQuotas
from kcore.server.security.request_throttle import RequestThrottle
from kcore.server.security.throttled import ThrottledRelay, throttled
from kcore.storage.log.live_log import Settings

logger = logging.getLogger(__name__)
TICK_S: Final = 0.02  # The interval of checks for requests that have timed out.
CHECKPOINT_S: Final = 5.0  # replica.high.watermark.checkpoint.interval.ms
AGAIN_S: Final = 0.3
NEVER_MS: Final = 2**62


class BrokerServer(ABC):
    """A broker process; within `async with` it is registered and serves. `wait_failed` returns when its disks fail.

    A mode creates `logs`, calls `_compose` and `_begin_work`, and at the end `_end_work`.
    """

    logs: BrokerLogs
    handlers: BrokerRequestHandlers
    audit: AuditLog | None = None  # May be set before `async with`.
    _of_nodes: ClassVar[Collection[int]] = ()  # API keys that only cluster nodes send, answered without decoding.

    def __init__(
        self,
        config: BrokerConfig,
        log_dirs: Sequence[Path],
        *,
        listeners: BrokerListeners | None = None,
        rack: str | None = None,
        settings: Settings | None = None,
        ordinary_topics: OrdinaryTopics | None = None,
    ) -> None:
        """`listeners`: by default one with plaintext at a free port. `ordinary_topics`: see TopicCreation."""
        self.config, self.listeners = config, listeners or BrokerListeners()
        self.ports: dict[str, int] = {}  # The ports by listener name, once the listeners are open.
        self._dialer = Dialer(self.listeners.of_brokers.security.outgoing())
        self._servers: list[Server] = []
        self._rack = rack
        self._log_dirs, self._settings, self._ordinary_topics = log_dirs, settings, ordinary_topics
        self._notices = {kind: BoundedLog(logger) for kind in NoticeKind}
        self._failed = asyncio.Event()
        self._isr_changes_wait = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._internal_led: frozenset[Key] = frozenset()
        self._producer_ids: list[range] = []
        self._allocating = asyncio.Lock()

    @property
    def port(self) -> int:
        """The port of the inter-broker listener."""
        return self.ports[self.listeners.inter_broker]

    # Implemented by each mode.

    @abstractmethod
    def _controller(self) -> Endpoint | None:
        """The endpoint of the active controller; None while it is unknown."""

    def _controller_knows_envelopes(self) -> bool:
        """Whether the controller accepts Envelope requests, which carry the client's principal."""
        return True

    def _broker_epoch(self) -> int:
        """The broker epoch under which the controller has registered this broker."""
        return self.manager.broker_epoch

    @abstractmethod
    def _credentials(self) -> Credentials:
        """The SCRAM users and delegation tokens of the cluster."""

    @abstractmethod
    def _throttle(self) -> RequestThrottle:
        """The throttle for the cluster's request quotas."""

    def _identity(self) -> tuple[str, int] | None:
        """The cluster's id and this broker's, which clients of KRaft brokers may name in ApiVersions (KIP-1242)."""
        return None

    @abstractmethod
    def _may_checkpoint(self) -> bool:
        """True once the replicas have states from the controller.

        An earlier checkpoint would lose the high watermarks of replicas without a state (KAFKA-7235).
        """

    @abstractmethod
    def _report_failed_directories(self) -> None:
        """Reports offline log directories to the controller; stops the broker if no directory is online."""

    @abstractmethod
    def _checkpointed(self) -> None:
        """Drops the settings of topics that the broker no longer holds; called after each checkpoint."""

    # Start and end.

    def _compose(self) -> None:
        """Creates the replicas and the connections to other nodes; the mode then adds its request handlers."""
        sessions = FetchSessionCache(self.config.max_incremental_fetch_session_cache_slots, SystemRandom().randrange)
        manager = self.manager = ReplicaManager(self.config, -1, self.logs, sessions)
        self.quotas = ByteQuotas(self._throttle())
        self.fetchers = BrokerFetchers(manager, self._endpoint, now_ms, self.perform, self._dialer)
        self._verifier = TransactionVerifier(manager, self._endpoint, self._verified, self._dialer)
        self._isr_channel = self._to_controller("to-controller-alter-partition")
        self._channel = self._to_controller("to-controller")
        topics_channel = self._to_controller("to-controller-create-topics")
        self._topic_creation = TopicCreation(
            topics_channel, self.config, self._ordinary_topics, self._controller_knows_envelopes
        )

    def _to_controller(self, name: str) -> ControllerClient:
        """A connection to the active controller; `name` is part of its client id."""
        return ControllerClient(f"broker-{self.config.broker_id}-{name}", self._controller, self._controller_dialer())

    def _controller_dialer(self) -> Dialer:
        """The dialer for controllers; in ZooKeeper mode the one for brokers."""
        return self._dialer

    def _callbacks(self) -> dict[str, Any]:
        """The arguments of BrokerRequestHandlers that both modes share."""
        return {
            "now_ms": now_ms,
            "date_ms": wall_ms,
            "perform": self.perform,
            "next_producer_id": self._next_producer_id,
            "topic_creation": self._topic_creation,
            "quotas": self.quotas,
        }

    async def _listen(
        self,
        stack: AsyncExitStack,
        apis: Mapping[str, tuple[int, int]],
        relay: Relay,
        advertised: Callable[[ApiVersionsResponse], ApiVersionsResponse],
        metrics: Metrics | None = None,
    ) -> None:
        """Opens all listeners; `stack` closes them. `advertised` changes the ApiVersions answer.

        Raises OSError if an address is in use; TlsError.
        """
        credentials, throttle = self._credentials(), self.quotas.requests
        handler = throttled(audited(self.handlers.handle, self.audit, wall_ms), throttle, self.handlers.is_node)
        throttled_relay = ThrottledRelay(relay, throttle, self.handlers.is_node, self._of_nodes)
        parts = ServerParts(
            relay=throttled_relay if self.audit is None else AuditedRelay(throttled_relay, self.audit, wall_ms),
            throttle=throttle,
            is_node=self.handlers.is_node,
            identity=self._identity(),
            advertised=advertised,
        )
        for each in self.listeners.each:
            server = await serve(
                each.listen.host or None,
                each.listen.port,
                handler,
                apis,
                tls=each.security.server_tls(),
                sasl=each.security.server_sasl(credentials, wall_ms),
                limits=each.limits,
                metrics=metrics,
                parts=parts,
                listener_name=each.name,
            )
            stack.push_async_callback(server.close)
            self._servers.append(server)
            self.ports[each.name] = server.port

    def _begin_work(self) -> None:
        """Starts the background tasks that both modes have."""
        self._begin(self._tick(), "ticks")
        self._begin(self._checkpoint(), "checkpoints")
        self._begin(self._change_isrs(), "ISR changes")
        self._begin(self._expire_producers(), "producers")

    def _begin(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Starts a background task; its failure is logged."""
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("%s: failed", task.get_name(), exc_info=error)

    async def _end_work(self) -> None:
        tasks, self._tasks = self._tasks, set()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.fetchers.close()
        await self._verifier.close()
        await self._topic_creation.close()
        self.manager.tick(NEVER_MS)  # All waiting requests time out.
        self.perform()
        self._isr_channel.close()
        self._channel.close()

    async def wait_failed(self) -> None:
        """Returns when the broker must stop because its log directories failed."""
        await self._failed.wait()

    # Other brokers.

    def _endpoint(self, broker_id: int) -> Endpoint | None:
        """The inter-broker endpoint of a broker; None if the broker is not alive or has no such listener."""
        brokers = self.manager.cluster.table.brokers
        if not self.manager.cluster.is_alive(broker_id):
            return None
        endpoints = brokers.endpoints[brokers.row(broker_id)]
        return next((each for each in endpoints if each.listener == self.listeners.inter_broker), None)

    # The replicas' outputs.

    def _warn_of_internal_topics(self) -> None:
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
                        self.handlers.answer(request_id, response)
                    case Verify():
                        self._verifier.ask(output)
                    case FetchFrom(leader_id):
                        self.fetchers.changed(leader_id)
                    case IsrChangesWait():
                        self._isr_changes_wait.set()
                    case LogFailed(key, why):
                        self._directories_failed(self.logs.fail(key, why))
                    case Notice(kind, text):
                        self._notices[kind].warning("%s: %s", PEER.get(), text)

    def _verified(self, request_id: int, refused: Mapping[Key, Errors]) -> None:
        on_verified(self.manager, request_id, refused, now_ms())
        self.perform()

    def _directories_failed(self, keys: Sequence[Key] | None) -> None:
        """Takes the replicas of failed directories offline, and reports the directories. None: no directory failed."""
        if keys is None:
            return
        for key in keys:
            self.manager.go_offline(key)
        self._report_failed_directories()

    def _stop(self, why: str) -> None:
        """Logs the reason; `wait_failed` then returns."""
        logger.critical("%s", why)
        self._failed.set()

    async def _tick(self) -> None:
        """Periodically times out requests, and removes lagging followers from ISRs."""
        shrink_s = self.config.replica_lag_time_max_ms / 2000
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
            if self._may_checkpoint():
                self._directories_failed(self.logs.checkpoint())
                self._checkpointed()
                self.perform()

    async def _expire_producers(self) -> None:
        while True:
            await asyncio.sleep(self.config.producer_id_expiration_check_interval_ms / 1000)
            self.manager.expire_producers(wall_ms())

    # Requests to the controller.

    async def _change_isrs(self) -> None:
        changes = self.manager.isr_changes
        while True:
            self._isr_changes_wait.clear()
            wait_ms = changes.wait_ms(now_ms())
            if wait_ms is None:
                await self._isr_changes_wait.wait()
                continue
            await asyncio.sleep(wait_ms / 1000)
            await self._settle_isrs()
            self.perform()

    async def _settle_isrs(self) -> None:
        """Sends all waiting ISR changes to the controller in one request."""
        request = self.manager.isr_changes.next_request(self._broker_epoch())
        answer = await self._isr_channel.ask(self._alter_partition(request))
        self.manager.on_alter_partition(answer, now_ms())

    def _alter_partition(
        self, request: AlterPartitionRequest
    ) -> Callable[[Callable[[type[Message]], int]], tuple[Message, int]]:
        def make(choose: Callable[[type[Message]], int]) -> tuple[Message, int]:
            request.broker_epoch = self._broker_epoch()
            version = self.manager.isr_changes.version(choose(AlterPartitionRequest))
            return for_version(request, version), version

        return make

    async def _next_producer_id(self) -> int:
        """An id from a block that the controller allocated to this broker (KIP-730)."""
        async with self._allocating:
            while not self._producer_ids or not self._producer_ids[0]:
                answer = await self._channel.ask(
                    lambda choose: (
                        AllocateProducerIdsRequest(broker_id=self.config.broker_id, broker_epoch=self._broker_epoch()),
                        choose(AllocateProducerIdsRequest),
                    )
                )
                if answer.error_code == Errors.NONE:
                    begin = answer.producer_id_start
                    self._producer_ids = [range(begin, begin + answer.producer_id_len)]
                else:
                    await asyncio.sleep(AGAIN_S)
            block = self._producer_ids[0]
            self._producer_ids = [block[1:]]
            return block[0]


async def until_first(*waits: Coroutine[Any, Any, object]) -> None:
    """Waits until one of the coroutines ends, raises its exception if it failed, and cancels the others."""
    ends = [asyncio.create_task(wait) for wait in waits]
    try:
        done, _ = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        for each in done:
            each.result()
    finally:
        for each in ends:
            each.cancel()
