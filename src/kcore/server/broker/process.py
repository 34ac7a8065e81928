"""A broker with real replicas as a process: registered in ZooKeeper, under a controller, with clients.

Source: KafkaServer of 3.9.1.
"""

import asyncio
import logging
import time
import uuid
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, suppress
from pathlib import Path, PurePosixPath
from typing import Any, Final, Self

from kcore.broker.replicas.config import BrokerConfig
from kcore.broker.replicas.isr_changes import for_version
from kcore.broker.replicas.notices import NoticeKind
from kcore.broker.replicas.outputs import FetchFrom, IsrChangesWait, LogFailed, Notice, SendResponse, Verify
from kcore.broker.replicas.producing import on_verified
from kcore.broker.replicas.replica import Key
from kcore.broker.replicas.replica_manager import ReplicaManager
from kcore.broker.zk_control.control_requests import ControlRequests
from kcore.controller.zk.admin.configs import settings_of
from kcore.errors import ZookeeperError
from kcore.metadata import znodes
from kcore.metadata.broker_table import SECURITY_PROTOCOLS, Endpoint
from kcore.metadata.znode_brokers import BrokerNode, encode_broker
from kcore.metadata.znode_operations import Create
from kcore.net.bounded_log import BoundedLog
from kcore.net.served import PEER
from kcore.net.server import Server, serve
from kcore.protocol_errors import Errors
from kcore.schema import LeaderAndIsrRequest
from kcore.schema.alter_partition import AlterPartitionRequest
from kcore.schema.controlled_shutdown import ControlledShutdownRequest
from kcore.schema.index import message_class
from kcore.schema.producers import AllocateProducerIdsRequest
from kcore.schema.structure import Message
from kcore.server.broker.controller_client import ControllerClient
from kcore.server.broker.coordination import led_partitions
from kcore.server.broker.fetchers import BrokerFetchers
from kcore.server.broker.front import APIS, RELAYED, BrokerFront, ControlPath, Frames
from kcore.server.broker.isr_znodes import write_isrs
from kcore.server.broker.logs import BrokerLogs
from kcore.server.broker.node_admin import NodeAdmin
from kcore.server.broker.topic_settings import TopicSettingsWatch
from kcore.server.broker.verifier import TransactionVerifier
from kcore.server.controller.relay import BrokerRelay
from kcore.storage.live_log import Settings
from kcore.types import Uuid
from kcore.wire.column_codec import decode_columns
from kcore.zookeeper.client import ZookeeperClient
from kcore.zookeeper.registration import register_broker
from kcore.zookeeper.session import SessionEvent

logger = logging.getLogger(__name__)
TICK_S: Final = 0.02  # How late a fetch may be answered that finds nothing.
CHECKPOINT_S: Final = 5.0  # replica.high.watermark.checkpoint.interval.ms
SHUTDOWN_TRIES: Final = 3  # controlled.shutdown.max.retries
SHUTDOWN_BACKOFF_S: Final = 5.0  # controlled.shutdown.retry.backoff.ms
REGISTER_AGAIN_S: Final = 0.3
LEARN_S: Final = 5.0  # Between two looks at what Kafka's brokers know.
NEVER_MS: Final = 2**62


def now_ms() -> int:
    """The monotonic time in ms, for lags and deadlines."""
    return time.monotonic_ns() // 1_000_000


def date_ms() -> int:
    """The time of day, in ms since 1970: what records' timestamps are compared with."""
    return time.time_ns() // 1_000_000


class BrokerServer:
    """`async with` it: then it is registered and serves. `wait_failed` returns when its disks have all failed."""

    def __init__(
        self,
        config: BrokerConfig,
        zookeeper: str,
        log_dirs: Sequence[Path],
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        advertised: tuple[str, int] | None = None,
        listener: str = "PLAINTEXT",
        rack: str | None = None,
        session_timeout_ms: int = 18_000,
        settings: Settings | None = None,
    ) -> None:
        self.config, self.port, self.listener = config, port, listener
        self._host, self._advertised, self._rack = host, advertised, rack
        self._session_s = session_timeout_ms / 1000
        self._log_dirs, self._settings = log_dirs, settings
        self._zookeeper = ZookeeperClient(
            zookeeper,
            session_timeout_s=self._session_s,
            connect_timeout_s=self._session_s,
            on_session=self._session_changed,
        )
        self._notices = {kind: BoundedLog(logger) for kind in NoticeKind}
        self._failed = asyncio.Event()
        self._isr_changes_wait = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._internal_led: frozenset[Key] = frozenset()
        self._producer_ids: list[range] = []
        self._allocating = asyncio.Lock()

    async def __aenter__(self) -> Self:
        # Before the session: recovery may outlast one, and a broker whose directories are of no use needs none.
        self.logs = BrokerLogs(self._log_dirs, self._settings)
        async with AsyncExitStack() as stack:
            opened = stack.enter_context(ExitStack())
            opened.callback(self.logs.close)
            await stack.enter_async_context(self._zookeeper)
            stack.callback(opened.pop_all().close)  # At the end: closed before the session and its znode end.
            for path in znodes.PERSISTENT_PATHS:
                await self._zookeeper.make_path(path)
            cluster_id = await self._cluster_id()
            self.logs.claim(self.config.broker_id, cluster_id)
            self._compose(cluster_id)
            server = await self._serve()
            stack.push_async_callback(server.close)
            await self._register()
            self._begin(self._tick(), "ticks")
            self._begin(self._checkpoint(), "checkpoints")
            self._begin(self._change_isrs(), "ISR changes")
            self._begin(self._topics.follow_changes(), "topics' configurations")
            self._begin(self._learn(), "what Kafka's brokers answer")
            stack.push_async_callback(self._end_tasks)
            self._closing = stack.pop_all()
        return self

    def _compose(self, cluster_id: str) -> None:
        manager = self.manager = ReplicaManager(self.config, -1, self.logs)
        self.control = ControlRequests(manager)
        self.fetchers = BrokerFetchers(manager, self._endpoint, now_ms, self.perform)
        admin = NodeAdmin(manager, self.logs, self._zookeeper, self.listener, self._advertised_settings())
        own = {message_class(f"{name}Request").api_key for name in APIS}
        self._relay = BrokerRelay(admin.addresses_of_coordinators, lambda: own, lambda: None, only=RELAYED)
        callbacks = self.perform, self._next_producer_id, admin, date_ms, self._relay.forward
        self.front = BrokerFront(manager, self.listener, cluster_id, now_ms, *callbacks)
        self._verifier = TransactionVerifier(manager, self._endpoint, self._verified)
        self._topics = TopicSettingsWatch(self._zookeeper, manager, now_ms, self.perform)
        name = f"broker-{self.config.broker_id}-to-controller"
        self._isr_channel = ControllerClient(f"{name}-alter-partition", self._controller)
        self._channel = ControllerClient(name, self._controller)

    def _advertised_settings(self) -> dict[str, str]:
        """The broker's settings in DescribeConfigs."""
        dirs = {"log.dirs": ",".join(str(path.absolute()) for path in self._log_dirs)}
        return {**settings_of(self.config, ["protocol"]), **dirs}

    async def _serve(self) -> Server:
        frames = Frames(ControlPath(self._control), self._relay)
        server = self._server = await serve(
            self._host, self.port, self.front.handle, APIS, relay=frames, listener_name=self.listener
        )
        self.port = server.port
        return server

    async def _learn(self) -> None:
        """Updates ApiVersions: this broker's APIs, and those that it relays to a Kafka broker."""
        own = self._server.versions_answer
        while True:
            self._server.versions_answer = await self._relay.learn(own) or own
            await asyncio.sleep(LEARN_S)

    async def __aexit__(self, *_: object) -> None:
        """Moves leaders away first, unless the disks failed; closes logs, deletes the znode."""
        if not self._failed.is_set() and self.manager.cluster.controller_id >= 0:
            await self._controlled_shutdown()
        await self._closing.aclose()

    def _begin(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """A background task; its failure ends the process."""
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("%s: failed", task.get_name(), exc_info=error)

    async def _end_tasks(self) -> None:
        tasks, self._tasks = self._tasks, set()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.fetchers.close()
        await self._verifier.close()
        self.manager.tick(NEVER_MS)  # Waiting requests are answered.
        self.perform()
        self._isr_channel.close()
        self._channel.close()

    async def wait_failed(self) -> None:
        """Until no log directory is left."""
        await self._failed.wait()

    # ZooKeeper.

    async def _cluster_id(self) -> str:
        """The first broker of a cluster makes it."""
        made = str(Uuid(uuid.uuid4().bytes))
        await self._zookeeper.make_path(str(PurePosixPath(znodes.CLUSTER_ID).parent))
        await self._zookeeper.write([Create(znodes.CLUSTER_ID, znodes.encode_cluster_id(made))])
        [node] = await self._zookeeper.read_nodes([znodes.CLUSTER_ID])
        assert node is not None
        return znodes.decode_cluster_id(node.data)

    async def _register(self) -> None:
        """The czxid of the znode is the broker epoch (KIP-380).

        One that a session before a crash has left is waited for: Kafka's broker dies of it.
        """
        host, port = self._advertised or (self._host, self.port)
        endpoint = Endpoint(port, host, self.listener, SECURITY_PROTOCOLS["PLAINTEXT"])
        version = 5 if self.config.has_alter_partition else 4
        node = BrokerNode([endpoint], self._rack, version=version, coordinates=False)
        data = encode_broker(node, time.time_ns() // 1_000_000)
        give_up_s = time.monotonic() + self._session_s + 5.0
        while True:
            try:
                epoch = await register_broker(self._zookeeper, self.config.broker_id, data)
                break
            except ZookeeperError as error:
                if time.monotonic() > give_up_s:
                    raise
                logger.info("not registered yet: %s", error)
                await asyncio.sleep(REGISTER_AGAIN_S)
        self.manager.broker_epoch = epoch
        logger.info("broker %s is registered with epoch %s at %s:%s", self.config.broker_id, epoch, host, port)

    def _session_changed(self, event: SessionEvent) -> None:
        if event is SessionEvent.EXPIRED and self._tasks:
            logger.warning("the session is lost; registering again")
            self._begin(self._register_again(), "registering again")

    async def _register_again(self) -> None:
        while True:
            with suppress(ZookeeperError):
                await self._register()
                await self._topics.begin()
                return
            await asyncio.sleep(REGISTER_AGAIN_S)

    # What is known of others.

    def _endpoint(self, broker_id: int) -> Endpoint | None:
        """The endpoint of a broker for other brokers."""
        brokers = self.manager.cluster.table.brokers
        if not self.manager.cluster.is_alive(broker_id):
            return None
        endpoints = brokers.endpoints[brokers.row(broker_id)]
        return next((each for each in endpoints if each.listener == self.listener), None)

    def _controller(self) -> Endpoint | None:
        return self._endpoint(self.manager.cluster.controller_id)

    # The machine.

    async def _control(self, message: type[Message], version: int, body: memoryview) -> bytes:
        request = decode_columns(message, version, body)
        if message is LeaderAndIsrRequest:  # A topic's settings are to be known before a replica leads.
            await self._topics.learn({*request.topic_states.topic_name})
        answer = self.control.answer_columns(message, version, request, now_ms())
        self.perform()
        if message is LeaderAndIsrRequest:
            self._tell_of_internal_topics()
        return answer

    def _tell_of_internal_topics(self) -> None:
        """An operator is to move them: the groups and transactions that hash to them fail."""
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
        """Does what the machine asks for, in order, until it asks for nothing more."""
        while outputs := self.manager.take_outputs():
            for output in outputs:
                match output:
                    case SendResponse(request_id, response):
                        self.front.answer(request_id, response)
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
        """Takes the replicas there offline and notifies the controller; without any directory left the broker exits."""
        if keys is None:
            return
        for key in keys:
            self.manager.go_offline(key)
        if not self.logs.online:
            logger.critical("no log directory is left")
            self._failed.set()
        else:
            self._begin(self._tell_of_failure(), "telling of a log directory")

    async def _tell_of_failure(self) -> None:
        path = f"{znodes.LOG_DIR_EVENT_NOTIFICATION}/{znodes.LOG_DIR_EVENT_PREFIX}"
        event = Create(path, znodes.encode_log_dir_event(self.config.broker_id), sequential=True)
        while True:  # A repeated notification does no harm; a missing one leaves these partitions without leaders.
            try:
                await self._zookeeper.write([event])
                return
            except ZookeeperError as error:
                logger.warning("the controller has not heard of the log directory yet: %s", error)
                await asyncio.sleep(REGISTER_AGAIN_S)

    async def _tick(self) -> None:
        """Runs time-outs of requests and the check for lagging followers."""
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
        """Not before a LeaderAndIsr (KAFKA-7235): until then nothing has moved."""
        while True:
            await asyncio.sleep(CHECKPOINT_S)
            if self.control.received_leader_and_isr:
                self._directories_failed(self.logs.checkpoint())
                self._topics.keep_only({topic for topic, _ in self.manager.partitions})
                self.perform()

    # What is asked of the controller.

    async def _change_isrs(self) -> None:
        changes = self.manager.isr_changes
        while True:
            self._isr_changes_wait.clear()
            wait_ms = changes.wait_ms(now_ms())
            if wait_ms is None:
                await self._isr_changes_wait.wait()
                continue
            await asyncio.sleep(wait_ms / 1000)
            if self.config.has_alter_partition:
                request = changes.next_request(self.manager.broker_epoch)
                answer = await self._isr_channel.ask(self._alter_partition(request))
                self.manager.on_alter_partition(answer, now_ms())
            else:
                versions = await write_isrs(self._zookeeper, changes.next_writes())
                self.manager.on_states_written(versions, now_ms())
            self.perform()

    def _alter_partition(
        self, request: AlterPartitionRequest
    ) -> Callable[[Callable[[type[Message]], int]], tuple[Message, int]]:
        def make(choose: Callable[[type[Message]], int]) -> tuple[Message, int]:
            request.broker_epoch = self.manager.broker_epoch
            version = self.manager.isr_changes.version(choose(AlterPartitionRequest))
            return for_version(request, version), version

        return make

    async def _next_producer_id(self) -> int:
        """Out of a block that is this broker's alone (KIP-730)."""
        async with self._allocating:
            while not self._producer_ids or not self._producer_ids[0]:
                answer = await self._channel.ask(
                    lambda choose: (
                        AllocateProducerIdsRequest(
                            broker_id=self.config.broker_id, broker_epoch=self.manager.broker_epoch
                        ),
                        choose(AllocateProducerIdsRequest),
                    )
                )
                if answer.error_code == Errors.NONE:
                    begin = answer.producer_id_start
                    self._producer_ids = [range(begin, begin + answer.producer_id_len)]
                else:
                    await asyncio.sleep(REGISTER_AGAIN_S)
            block = self._producer_ids[0]
            self._producer_ids = [block[1:]]
            return block[0]

    async def _controlled_shutdown(self) -> None:
        """Requests controlled shutdown; again with the new epoch if it was registered again (380.5)."""
        for tried in range(SHUTDOWN_TRIES):
            if tried:
                await asyncio.sleep(SHUTDOWN_BACKOFF_S)
            with suppress(TimeoutError):
                async with asyncio.timeout(self._session_s):
                    answer = await self._channel.ask(self._shutdown_request)
                    if answer.error_code == Errors.NONE and not answer.remaining_partitions:
                        logger.info("controlled shutdown: all leaders are moved")
                        return
                    left = len(answer.remaining_partitions)
                    logger.info("controlled shutdown: error %s, %s leaders left", answer.error_code, left)
        logger.warning("controlled shutdown did not succeed")

    def _shutdown_request(self, choose: Callable[[type[Message]], int]) -> tuple[Message, int]:
        request = ControlledShutdownRequest(broker_id=self.config.broker_id, broker_epoch=self.manager.broker_epoch)
        return request, choose(ControlledShutdownRequest)
