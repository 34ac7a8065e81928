"""A KRaft controller as a process: the node of a quorum, with a controller as its state machine.

Source: ControllerServer, SnapshotGenerator, ControllerRegistrationManager of 4.3.1.
"""

import asyncio
import logging
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from random import Random, SystemRandom
from typing import Any, Final

from kcore.controller.kraft.activation import Bootstrap
from kcore.controller.kraft.controller import KraftController
from kcore.controller.kraft.departures import KILLED_LEADERS
from kcore.controller.kraft.kraft_context import RequestInfo
from kcore.controller.kraft.kraft_controller_config import KraftControllerConfig
from kcore.controller.kraft.outputs import Clocks, LogLine, ReadSnapshotSlice, RequestAnswer, WorkOn
from kcore.controller.kraft.tasks import all_tasks
from kcore.metadata.acl_codes import CLUSTER_ACTION
from kcore.metadata.newer_records import check_batches
from kcore.net.limits.bounded_log import BoundedLog
from kcore.net.limits.connection_limits import Limits
from kcore.net.security.listener_security import PROTOCOLS, ListenerSecurity
from kcore.net.security.sasl_server import SaslListener
from kcore.net.versions import api_name
from kcore.node.kraft.snapshot_slices import snapshot_slices
from kcore.raft.driver import MachineEffect
from kcore.raft.effects import Effect, LeaderChanged
from kcore.raft.fetching import is_of_observer
from kcore.raft.log.raft_log import RaftLog
from kcore.raft.membership import kraft_version
from kcore.raft.raft_config import RaftConfig
from kcore.raft.snapshots import ends_within_a_batch
from kcore.releases.known import RELEASES
from kcore.replication.java_random import JavaRandom
from kcore.replication.raft_log import OffsetAndEpoch
from kcore.schema.broker_lifecycle import BrokerRegistrationRequest
from kcore.schema.structure import Message
from kcore.server.clock import Clock, wall_ms
from kcore.server.kraft_controller.kraft_controller_request_handlers import KraftControllerRequestHandlers
from kcore.server.kraft_controller.registration import Registration
from kcore.server.quorum_node.answer_loop import AnswerLoopKind
from kcore.server.quorum_node.quorum_request_handlers import LIMITS, QuorumRequestHandlers
from kcore.server.quorum_node.quorum_server import PLAINTEXT, STOP_MS, Elections, QuorumServer
from kcore.server.security.log_credentials import LogCredentials
from kcore.storage.raft.raft_dir import random_directory_id

import_module("numpy.ma")  # np.unique imports it at its first call, which would delay an event.
logger = logging.getLogger(__name__)
SNAPSHOT_CHECK_S: Final = 1.0


class KraftServer(QuorumServer):
    """A controller's process. Within `async with` it is a voter of the quorum, and controls the cluster if it leads."""

    def __init__(
        self,
        config: KraftControllerConfig,
        raft: RaftConfig,
        log: RaftLog,
        elections: Elections,
        bootstrap: Bootstrap,
        *,
        host: str,
        port: int,
        store_cluster_id: Callable[[str], None] | None = None,
        stop_ms: int = STOP_MS,
        answer_loop: AnswerLoopKind = "compiled",
        security: ListenerSecurity = PLAINTEXT,
        limits: Limits = LIMITS,
    ) -> None:
        check_data = partial(check_batches, release=RELEASES[config.node.release])
        raft = replace(raft, elects_when_refused=KILLED_LEADERS not in config.kafka_way, check_data=check_data)
        self._own_clock = Clock()
        dice = SystemRandom()
        self.controller = KraftController(
            config,
            bootstrap,
            all_tasks(config),
            Clocks(self._own_clock.now_ms, wall_ms),
            JavaRandom(dice.getrandbits(48)),
            random_directory_id,
        )
        self._has_loaded = False
        self._faults = BoundedLog(logger)  # Bounded, because a client can repeat a request that fails.
        self._control_timer: asyncio.TimerHandle | None = None
        self._tasks: list[asyncio.Task[None]] = []
        super().__init__(
            *(raft, log, elections),
            host=host,
            port=port,
            machine=self.controller,
            store_cluster_id=store_cluster_id,
            stop_ms=stop_ms,
            answer_loop=answer_loop,
            security=security,
            limits=limits,
        )
        self._registration = Registration(
            *(raft, self.node, self.controller, Random(dice.getrandbits(48))),
            PROTOCOLS.index(security.protocol),
            self._outgoing,
        )
        self.controller.raft.kraft_version_problem = self._why_no_kraft_version

    def _why_no_kraft_version(self, version: int) -> str | None:
        """Why the voters do not support this level of kraft.version; None if they do."""
        if not self.node.leads:
            return "this node does not lead"
        problem = kraft_version.upgrade(self.node, version, self._own_clock.now_ms(), validate_only=True)
        return None if problem is None else problem[1]

    def now_ms(self) -> int:
        """Milliseconds of the controller's clock, which never goes back."""
        return self._own_clock.now_ms()

    def wall_ms(self) -> int:
        """Milliseconds since 1970 of the wall clock."""
        return wall_ms()

    async def __aenter__(self) -> "KraftServer":
        await super().__aenter__()
        self._tasks = [
            asyncio.create_task(self._write_snapshots(), name="snapshots"),
            asyncio.create_task(self._registration.run(), name="registration"),
        ]
        return self

    async def __aexit__(self, *_: object) -> None:
        """Ends the background tasks, then the node: a leader resigns."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await super().__aexit__()
        if self._control_timer is not None:
            self._control_timer.cancel()

    def _server_sasl(self) -> SaslListener | None:
        secret_key = self.controller.config.node.delegation_token_secret_key
        users = LogCredentials(lambda: self.controller.context.image, secret_key, self.has_loaded)
        return self._security.server_sasl(users, wall_ms)

    def has_loaded(self) -> bool:
        """Whether the image has ever reached the leader's high watermark."""
        if not self._has_loaded:
            known = self.node.leaders_high_watermark
            has_all = known is not None and self.controller.committed >= known
            self._has_loaded = has_all and not self.controller.is_at_work
        return self._has_loaded

    @property
    def is_ready(self) -> bool:
        """True if the node is ready and its image has loaded. On the leader, the controller must also be active."""
        leads = self.node.leads
        return super().is_ready and self.has_loaded() and leads == self.controller.is_active

    def _new_handlers(self) -> QuorumRequestHandlers:
        self._own_handlers = KraftControllerRequestHandlers(
            self.controller.config.node.release,
            self.config.level,
            self.config.listener,
            self._requested,
            self._on_request,
            lambda: self.controller.context,
            lambda: (self._own_clock.now_ms(), wall_ms()),
            lambda: self.node.leader_id,
            self.has_loaded,
            partial(is_of_observer, self.node),
        )
        self._own_handlers.deliver_heartbeats_to(self.controller, self._own_clock)
        return self._own_handlers

    # Events of the controller.

    def _on_request(self, request: Message, info: RequestInfo, reply_to: Hashable) -> None:
        is_registration = isinstance(request, BrokerRegistrationRequest)
        if is_registration and self.controller.context.is_authorized(info, CLUSTER_ACTION):
            self._foreign_clusters.look(request, self.node.cluster_id)  # Only an authorized sender causes a log line.
        self._control(api_name(type(request)), partial(self.controller.on_request, request, info, reply_to))

    def deliver_heartbeats(self) -> None:
        """Gives the controller the heartbeats that the loop answered; call it before reading brokers' contacts."""
        self._control("heartbeats delivered", tuple)

    def _control(self, kind: str, event: Callable[[], Sequence[Any]]) -> None:
        def taken(_: int) -> list[Effect]:
            if contacts := self._own_handlers.contacts():  # They arrived before the event.
                self.controller.context.on_contacts(contacts)
            self._outputs += event()
            return []

        self._take(kind, taken)

    def _control_timed(self) -> None:
        self._control_timer = None
        task = self.controller.periodic.due(self._own_clock.now_ms())
        self._control("controller timer" if task is None else task.name, self.controller.on_timer)

    def _taken(self) -> None:
        """After an event: sets the timer of the periodic tasks, and shows clients the finalized features."""
        if not self._has_loaded and self.has_loaded():
            logger.info("caught up at offset %d", self.controller.committed)
        self._wake_controller()
        self._show_features()

    def _wake_controller(self) -> None:
        due_ms = self.controller.next_due_ms
        when_s = None if due_ms is None else self._own_clock.seconds_of(due_ms)
        if self._control_timer is not None:
            if self._control_timer.when() == when_s:
                return
            self._control_timer.cancel()
            self._control_timer = None
        if when_s is not None:
            self._control_timer = asyncio.get_running_loop().call_at(when_s, self._control_timed)

    def _show_features(self) -> None:
        view = self.controller.raft
        view.kraft_version = self.node.voter_history.kraft_version
        view.voter_ids = self.node.voters.ids
        self._own_handlers.show_decided(self.controller)

    # Effects.

    def _perform_own(self, effect: Any) -> None:
        if isinstance(effect, RequestAnswer):
            self._handlers.answer_to(effect.reply_to, effect.response)
        elif isinstance(effect, LogLine):
            if effect.level >= logging.ERROR:
                self.metrics.faults += 1
                self._faults.error("%s", effect.text)
            else:
                logger.log(effect.level, "%s", effect.text)
        elif isinstance(effect, ReadSnapshotSlice):
            asyncio.get_running_loop().call_soon(self._control, "snapshot slice read", self.controller.on_read_slice)
        elif isinstance(effect, WorkOn):
            kind = f"{effect.name.removesuffix('Request')} continued"
            asyncio.get_running_loop().call_soon(self._control, kind, self.controller.on_work)
        else:
            super()._perform_own(effect)

    def _on_machine_effect(self, effect: MachineEffect) -> None:
        if isinstance(effect, LeaderChanged):
            self.controller.raft.leader_id = effect.leader_id
        super()._on_machine_effect(effect)

    # Snapshots.

    async def _write_snapshots(self) -> None:
        """Writes snapshots of the committed state when they are due. A failed one is not repeated before the next."""
        while True:
            await asyncio.sleep(SNAPSHOT_CHECK_S)
            controller, snapshots, time_ms = self.controller, self.controller.snapshots, wall_ms()
            why = snapshots.need.why(controller.stable, time_ms) or self._why_a_better_one()
            if why is None or (offset := controller.snapshot_offset()) is None or self.node.log.end_offset < offset:
                continue
            snapshots.need.begin(offset, time_ms)
            snapshot = OffsetAndEpoch(offset, self.node.log.epoch_at(offset - 1))
            snapshots.hold(offset)
            image, release = snapshots.image(controller.image), controller.config.node.release
            slices = snapshot_slices(image, offset, snapshot.epoch, time_ms, snapshots.release, release)
            try:
                is_written = await self.write_due_snapshot(snapshot, time_ms, slices, why)
            finally:
                snapshots.release()
            if is_written:
                snapshots.need.has_size(self.metrics.snapshots.latest_bytes)

    def _why_a_better_one(self) -> str | None:
        """Why a new snapshot is due: Kafka's followers cannot go on if the last one ends within a batch. Or None."""
        latest, controller = self.node.log.latest_snapshot, self.controller
        if latest is None or not controller.is_active or controller.stable <= controller.snapshots.need.offset:
            return None
        is_within = ends_within_a_batch(self.node.log, latest)
        return f"the last one, up to offset {latest.offset}, ends within a batch" if is_within else None
