"""A KRaft controller as a process: the node of a quorum, with a controller as its state machine.

Source: ControllerServer, ControllerRegistrationManager of 4.3.1.
"""

import asyncio
import logging
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from random import Random, SystemRandom
from typing import Any, Self

from kcore.controller.kraft.activation import Bootstrap
from kcore.controller.kraft.controller import KraftController
from kcore.controller.kraft.departures import KILLED_LEADERS
from kcore.controller.kraft.kraft_context import RaftView, RequestInfo
from kcore.controller.kraft.kraft_controller_config import KraftControllerConfig
from kcore.controller.kraft.outputs import Clocks, LogLine, ReadSnapshotSlice, RequestAnswer, WorkOn
from kcore.controller.kraft.tasks import all_tasks
from kcore.metadata.acl_codes import CLUSTER_ACTION
from kcore.metadata.newer_records import check_batches
from kcore.net.connection_metrics import Metrics
from kcore.net.limits.bounded_log import BoundedLog
from kcore.net.limits.connection_limits import Limits
from kcore.net.security.listener_security import PROTOCOLS, ListenerSecurity
from kcore.net.versions import api_name
from kcore.raft.driver import MachineEffect
from kcore.raft.effects import LeaderChanged
from kcore.raft.fetching import is_of_observer
from kcore.raft.log.raft_log import RaftLog
from kcore.raft.membership import kraft_version
from kcore.raft.raft_config import RaftConfig
from kcore.releases.known import RELEASES
from kcore.replication.java_random import JavaRandom
from kcore.schema.broker_lifecycle import BrokerRegistrationRequest
from kcore.schema.structure import Message
from kcore.server.clock import Clock, DeadlineTimer, wall_ms
from kcore.server.kraft_controller.controller_snapshots import write_snapshots
from kcore.server.kraft_controller.kraft_controller_request_handlers import KraftControllerRequestHandlers
from kcore.server.kraft_controller.registration import Registration
from kcore.server.quorum_node.answer_loop import AnswerLoopKind
from kcore.server.quorum_node.elections import Elections
from kcore.server.quorum_node.quorum_listener import QuorumListener
from kcore.server.quorum_node.quorum_request_handlers import LIMITS
from kcore.server.quorum_node.quorum_runtime import PLAINTEXT, STOP_MS, QuorumRuntime, RuntimeHooks
from kcore.server.security.audit import AuditLog
from kcore.server.security.log_credentials import LogCredentials
from kcore.storage.raft.raft_dir import random_directory_id

import_module("numpy.ma")  # np.unique imports it at its first call, which would delay an event.
logger = logging.getLogger(__name__)


class KraftServer:
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
        audit: AuditLog | None = None,
    ) -> None:
        """See QuorumServer."""
        check_data = partial(check_batches, release=RELEASES[config.node.release])
        raft = replace(raft, elects_when_refused=KILLED_LEADERS not in config.kafka_way, check_data=check_data)
        self.clock, dice = Clock(), SystemRandom()
        edge = Clocks(self.clock.now_ms, wall_ms), JavaRandom(dice.getrandbits(48)), random_directory_id
        view = RaftView(kraft_version_problem=self._why_no_kraft_version)
        self.controller = KraftController(config, bootstrap, all_tasks(config), *edge, view)
        self._has_loaded = False
        self._faults = BoundedLog(logger)  # Bounded, because a client can repeat a request that fails.
        self._timer = DeadlineTimer(self.clock, self._timed)
        self._tasks: list[asyncio.Task[None]] = []
        self.runtime = QuorumRuntime(
            *(raft, log, elections, self.controller),
            hooks=self._hooks(),
            store_cluster_id=store_cluster_id,
            stop_ms=stop_ms,
            security=security,
        )
        self.node = self.runtime.node
        self.handlers = self._new_handlers(audit)
        sasl = partial(security.server_sasl, self._users(), wall_ms)
        self._listener = QuorumListener(
            *(self.runtime, self.handlers, host, port),
            security=security,
            sasl=sasl,
            limits=limits,
            answer_loop=answer_loop,
        )
        random, protocol = Random(dice.getrandbits(48)), PROTOCOLS.index(security.protocol)
        own = raft, self.node, self.controller
        self._registration = Registration(*own, random, protocol, security.outgoing())

    def _hooks(self) -> RuntimeHooks:
        return RuntimeHooks(
            answer=lambda response: self.handlers.answer(response),
            fold_progress=lambda: self.handlers.fold_progress(),
            performed=lambda: self.handlers.follow(),
            on_machine_effect=self._on_machine_effect,
            perform_own=self._perform_own,
            taken=self._taken,
        )

    def _new_handlers(self, audit: AuditLog | None) -> KraftControllerRequestHandlers:
        config = self.runtime.config
        return KraftControllerRequestHandlers(
            self.controller.config.node.release,
            config.level,
            config.listener,
            self.runtime.on_request,
            self._on_request,
            lambda: self.controller.context,
            lambda: (self.clock.now_ms(), wall_ms()),
            lambda: self.node.leader_id,
            self.has_loaded,
            partial(is_of_observer, self.node),
            heartbeat_receiver=(self.controller, self.clock),
            audit=audit,
        )

    def _users(self) -> LogCredentials:
        secret_key = self.controller.config.node.delegation_token_secret_key
        return LogCredentials(lambda: self.controller.context.image, secret_key, self.has_loaded)

    def _why_no_kraft_version(self, version: int) -> str | None:
        """Why the voters do not support this level of kraft.version; None if they do."""
        if not self.node.leads:
            return "this node does not lead"
        problem = kraft_version.upgrade(self.node, version, self.clock.now_ms(), validate_only=True)
        return None if problem is None else problem[1]

    async def __aenter__(self) -> Self:
        await self._listener.__aenter__()
        self._tasks = [
            asyncio.create_task(write_snapshots(self.runtime, self.controller), name="snapshots"),
            asyncio.create_task(self._registration.run(), name="registration"),
        ]
        return self

    async def __aexit__(self, *_: object) -> None:
        """Ends the background tasks, then the node: a leader resigns."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._listener.__aexit__()
        self._timer.cancel()

    @property
    def port(self) -> int:
        return self._listener.port

    @property
    def network(self) -> Metrics:
        return self._listener.network

    async def wait_failed(self) -> None:
        """Waits until the node fails, and raises the error."""
        await self.runtime.lifetime.wait_failed()

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
        return self.runtime.is_ready and self.has_loaded() and leads == self.controller.is_active

    # Events of the controller.

    def _on_request(self, request: Message, info: RequestInfo, reply_to: Hashable) -> None:
        is_registration = isinstance(request, BrokerRegistrationRequest)
        if is_registration and self.controller.context.is_authorized(info, CLUSTER_ACTION):
            # Only an authorized sender causes a log line.
            self.runtime.foreign_clusters.look(request, self.node.cluster_id)
        self._control(api_name(type(request)), partial(self.controller.on_request, request, info, reply_to))

    def deliver_heartbeats(self) -> None:
        """Gives the controller the heartbeats that the loop answered; call it before reading brokers' contacts."""
        self._control("heartbeats delivered", tuple)

    def _control(self, kind: str, event: Callable[[], Sequence[Any]]) -> None:
        def taken() -> Sequence[Any]:
            if contacts := self.handlers.contacts():  # They arrived before the event.
                self.controller.context.on_contacts(contacts)
            return event()

        self.runtime.machine_event(kind, taken)

    def _timed(self) -> None:
        task = self.controller.periodic.due(self.clock.now_ms())
        self._control("controller timer" if task is None else task.name, self.controller.on_timer)

    def _taken(self) -> None:
        """After an event: sets the timer of the periodic tasks, and shows clients the finalized features."""
        if not self._has_loaded and self.has_loaded():
            logger.info("caught up at offset %d", self.controller.committed)
        self._timer.set(self.controller.next_due_ms)
        self._show_features()

    def _show_features(self) -> None:
        view = self.controller.raft
        view.kraft_version = self.node.voter_history.kraft_version
        view.voter_ids = self.node.voters.ids
        self.handlers.show_decided(self.controller)

    # Effects.

    def _perform_own(self, effect: Any) -> None:
        if isinstance(effect, RequestAnswer):
            self.handlers.pending.answer_to(effect.reply_to, effect.response)
        elif isinstance(effect, LogLine):
            if effect.level >= logging.ERROR:
                self.runtime.metrics.faults += 1
                self._faults.error("%s", effect.text)
            else:
                logger.log(effect.level, "%s", effect.text)
        elif isinstance(effect, ReadSnapshotSlice):
            asyncio.get_running_loop().call_soon(self._control, "snapshot slice read", self.controller.on_read_slice)
        elif isinstance(effect, WorkOn):
            kind = f"{effect.name.removesuffix('Request')} continued"
            asyncio.get_running_loop().call_soon(self._control, kind, self.controller.on_work)

    def _on_machine_effect(self, effect: MachineEffect) -> None:
        if isinstance(effect, LeaderChanged):
            self.controller.raft.leader_id = effect.leader_id
