"""Runs a node of a KRaft quorum: passes events to a raft node one at a time, and performs its effects in order.

Source: KafkaRaftManager and KafkaRaftClientDriver of 4.3.1.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, Final, Protocol, Self

from kcore.errors import KcoreError, StorageError
from kcore.net.connection_metrics import Metrics
from kcore.net.limits.bounded_log import BoundedLog
from kcore.net.limits.connection_limits import Limits
from kcore.net.security.listener_security import ListenerSecurity
from kcore.net.security.sasl_mechanisms import NoCredentials
from kcore.net.security.sasl_server import SaslListener
from kcore.net.versions import api_name
from kcore.raft.driver import MachineEffect, StateMachineDriver
from kcore.raft.effects import (
    Committed,
    Effect,
    Flush,
    LeaderChanged,
    Notice,
    Send,
    SendResponse,
    SnapshotLoaded,
    Stopped,
    StoreElection,
)
from kcore.raft.fetching import is_of_observer
from kcore.raft.log.raft_log import RaftLog
from kcore.raft.membership.cluster_id import ClusterIdKnown, ClusterIdMaker
from kcore.raft.membership.replicas import ElectionState
from kcore.raft.node import RaftNode
from kcore.raft.raft_config import RaftConfig
from kcore.raft.state_machine import StateMachine
from kcore.replication.raft_log import OffsetAndEpoch
from kcore.schema.cluster_metadata import DescribeClusterResponse
from kcore.schema.describe_quorum import DescribeQuorumRequest
from kcore.schema.raft_voters import AddRaftVoterRequest
from kcore.schema.structure import Message
from kcore.schema.update_features import UpdateFeaturesRequest
from kcore.server.clock import Clock
from kcore.server.metrics.watched_loop import current_watched_loop
from kcore.server.quorum_node.answer_loop import AnswerLoopKind
from kcore.server.quorum_node.directory_watch import DirectoryWatch
from kcore.server.quorum_node.features import FeatureUpdates
from kcore.server.quorum_node.foreign_clusters import ForeignClusters
from kcore.server.quorum_node.peers import QuorumPeers
from kcore.server.quorum_node.quorum_metrics import QuorumMetrics
from kcore.server.quorum_node.quorum_request_handlers import LIMITS, QuorumRequestHandlers, described
from kcore.server.security.audit import AuditLog
from kcore.storage.raft.file_raft_log import DiskRaftLog
from kcore.storage.raft.raft_dir import random_directory_id

logger = logging.getLogger(__name__)
STOP_MS: Final = 5_000
PLAINTEXT: Final = ListenerSecurity()
SNAPSHOT_SLICE: Final = "snapshot slice written"  # The kind of this event in the metrics.
_ABOUT_OBSERVERS: Final = {DescribeQuorumRequest, AddRaftVoterRequest}


class Elections(Protocol):
    """Stores a node's epoch and vote."""

    def read(self) -> ElectionState | None:
        """The state that was written last; None if there is none."""

    def write(self, election: ElectionState, kraft_version: int) -> None:
        """Stores the state; it is durable when this returns."""


class MemoryElections:
    """The elections of a node that loses its state with its process."""

    def __init__(self) -> None:
        self._election: ElectionState | None = None

    def read(self) -> ElectionState | None:
        return self._election

    def write(self, election: ElectionState, kraft_version: int) -> None:
        self._election = election


class QuorumServer:
    """A raft node with its connections; it takes part in the quorum within `async with`.

    `wait_failed` raises its fatal error: of a disk, or a bug. `machine` gets committed records and changes of
    leadership. Its outputs are performed after the current event; appends between events go to `submit`.
    The server starts the machine once it has the cluster id.
    """

    def __init__(
        self,
        config: RaftConfig,
        log: RaftLog,
        elections: Elections,
        *,
        host: str | None,
        port: int,
        machine: StateMachine[Any] | None,
        store_cluster_id: Callable[[str], None] | None = None,
        stop_ms: int = STOP_MS,
        answer_loop: AnswerLoopKind = "compiled",
        security: ListenerSecurity = PLAINTEXT,
        super_users: Collection[str] | None = None,
        limits: Limits = LIMITS,
    ) -> None:
        """`host`: None for an observer without a listener. `security`: of the listener and of connections to nodes.

        `super_users`: the principals that the node answers; None: all. `limits`: of the listener's connections.
        `store_cluster_id` stores durably the cluster id that the node learns from the log, if `config` has none.
        `stop_ms`: how long a leader that stops waits for a new leader. `answer_loop`: the kind of loop that answers
        requests that change nothing.
        """
        self.config, self.log, self.port = config, log, port
        self.node = RaftNode(config, log)
        self.metrics, self._watched_loop = QuorumMetrics(), current_watched_loop()
        self._elections, self._host, self._machine, self._stop_ms = elections, host, machine, stop_ms
        self._store_cluster_id = store_cluster_id
        self._features = FeatureUpdates(self.node)
        self._foreign_clusters = ForeignClusters()
        self._log = BoundedLog(logger)  # Bounded: without super users any client can request votes.
        self._driver: StateMachineDriver[Any] | None = None
        self._outputs: list[Any] = []  # Outputs of the machine, to perform after the current event.
        self._is_catching_up = False
        self._has_begun = self._is_starting = False
        self.directory = DirectoryWatch(log.folder) if isinstance(log, DiskRaftLog) else None
        self._watching: asyncio.Task[None] | None = None
        self._clock = Clock()
        self._stopped = asyncio.Event()
        self._failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._super_users, self._limits = super_users, limits
        self._handlers, self._answer_loop_kind, self._security = self._new_handlers(), answer_loop, security
        self._outgoing = security.outgoing()
        client_id = f"raft-client-{config.node_id}"
        self._peers = QuorumPeers(config.level, client_id, self._responded, self._refused, self._outgoing)
        self._timer: asyncio.TimerHandle | None = None
        self._flusher = ThreadPoolExecutor(1, "flush")
        self._flushing: asyncio.Task[None] | None = None
        self._flush_wanted: Flush | None = None

    def audit_to(self, audit: AuditLog | None) -> None:
        """Sets the audit log for requests; called before `async with`."""
        self._handlers.audit = audit

    def _new_handlers(self) -> QuorumRequestHandlers:
        """Creates the handlers of requests from clients and other nodes."""
        return QuorumRequestHandlers(
            *(self.config.level, self._requested, self._describe_cluster),
            listener=self.config.listener,
            super_users=self._super_users,
            is_of_observer=partial(is_of_observer, self.node),
        )

    def _server_sasl(self) -> SaslListener | None:
        """The SASL listener, if clients must authenticate. This node knows only the users of PLAIN."""
        return self._security.server_sasl(NoCredentials(), lambda: 0)

    async def __aenter__(self) -> Self:
        try:
            if self._host is None:
                self._begin()
                return self
            tls, sasl = self._security.server_tls(), self._server_sasl()
            fail = self._fail if self._answer_loop_kind == "compiled" else None
            self.port = await self._handlers.open(
                *(self._host, self.port),
                tls=tls,
                sasl=sasl,
                limits=self._limits,
                before_listening=self._begin,
                fail=fail,
            )
            self._handlers.begin_answer_loop(self.node, self._clock)
        except BaseException:
            await self.__aexit__()
            raise
        return self

    def _begin(self) -> None:
        """Starts the node once its address is bound: it may then store an epoch and win an election."""
        self._has_begun = True
        if self.directory is not None:
            self._watching = asyncio.get_running_loop().create_task(self.directory.run())
        self._is_starting = True
        self._take("start", self._start)
        self._is_starting = False
        if self._failed.done():
            self._failed.result()

    async def __aexit__(self, *_: object) -> None:
        """Ends the node. A leader sends EndQuorumEpoch, so that the other nodes need not wait for a time-out."""
        if self._has_begun and not self._failed.done():
            self._take("shutdown", lambda now_ms: self.node.shutdown(now_ms, self._stop_ms))
            with suppress(TimeoutError):
                async with asyncio.timeout(2 * self._stop_ms / 1000):
                    await self._stopped.wait()
        if self._timer is not None:
            self._timer.cancel()
        if self._watching is not None:
            self._watching.cancel()
        await self._handlers.close()
        self._peers.close()
        if self._flushing is not None:
            await asyncio.gather(self._flushing, return_exceptions=True)
        self._flusher.shutdown()
        self._failed.cancel()

    @property
    def network(self) -> Metrics:
        """The metrics of the listener's connections."""
        self._handlers.count()
        return self._handlers.metrics

    @property
    def is_ready(self) -> bool:
        """Whether a leader is known, and the log directory is in its place."""
        return self.node.leader_id >= 0 and (self.directory is None or self.directory.problem is None)

    async def wait_failed(self) -> None:
        """Waits until the node fails, and raises the error."""
        await asyncio.shield(self._failed)

    def submit(self, outputs: Sequence[Any]) -> None:
        """Performs outputs that the machine made outside of an event. The machine gets refused appends back."""
        self._outputs += outputs
        self._take("submit", lambda _: [])

    async def write_snapshot(
        self, snapshot: OffsetAndEpoch, last_contained_log_timestamp: int, slices: Iterable[bytes]
    ) -> bool:
        """Writes a snapshot of the state at `snapshot`. `slices`: whole batches; other events run after each slice.

        False if the log has this snapshot, can have none at this offset, or begins after the offset in the end.
        """
        first_s = begin_s = time.monotonic()
        writer = self.node.begin_snapshot(snapshot, last_contained_log_timestamp, self._clock.now_ms())
        if writer is None:
            return False
        nbytes = 0
        try:
            for batches in slices:
                writer.add(batches)
                nbytes += len(batches)
                self._measure(SNAPSHOT_SLICE, begin_s)
                await asyncio.sleep(0)
                begin_s = time.monotonic()
            await asyncio.get_running_loop().run_in_executor(None, writer.flush())
            begin_s, is_written = time.monotonic(), writer.freeze()
            self._measure("snapshot frozen", begin_s)
            if is_written:
                self.metrics.snapshots.add(nbytes, first_s, time.monotonic())
            return is_written
        finally:
            writer.drop()

    async def write_due_snapshot(
        self, snapshot: OffsetAndEpoch, last_contained_log_timestamp: int, slices: Iterable[bytes], why: str
    ) -> bool:
        """As `write_snapshot`; logs why the snapshot was due, or what failed. False also after a failure."""
        try:
            is_written = await self.write_snapshot(snapshot, last_contained_log_timestamp, slices)
        except StorageError as error:  # The disk is full, or gone.
            logger.error("the snapshot %s-%s was not written: %s", snapshot.offset, snapshot.epoch, error)
            return False
        except Exception:
            logger.exception("the snapshot %s-%s was not written", snapshot.offset, snapshot.epoch)
            return False
        if is_written:
            logger.info("snapshot %s-%s is written: %s", snapshot.offset, snapshot.epoch, why)
        return is_written

    # Events.

    def _start(self, now_ms: int) -> list[Effect]:
        effects = self.node.start(self._elections.read(), now_ms)
        if self.config.cluster_id is None:
            self._drive(ClusterIdMaker(lambda: str(random_directory_id())))
        elif self._machine is not None:
            self._drive(self._machine)
        return effects

    def _drive(self, machine: StateMachine[Any] | None) -> None:
        """Makes `machine` the node's state machine."""
        self._driver = None if machine is None else StateMachineDriver(self.node, machine)

    def _requested(self, request: Message, version: int, reply_to: Hashable) -> None:
        if isinstance(request, UpdateFeaturesRequest):
            event = partial(self._features.on_request, request, version, reply_to)
        else:
            if type(request) in _ABOUT_OBSERVERS:
                self._handlers.fold_progress()
            self._foreign_clusters.look(request, self.node.cluster_id)
            event = partial(self.node.on_request, request, version, reply_to)
        self._take(api_name(type(request)), event)

    def _responded(self, correlation_id: int, response: Message | None) -> None:
        if self.node.leads and self.node.leading.change is not None:
            self._handlers.fold_progress()  # An observer becomes a voter once it has caught up.
        kind = "no response" if response is None else type(response).__name__
        self._take(kind, partial(self.node.on_response, correlation_id, response))

    def _refused(self, correlation_id: int) -> None:
        self._take("connection refused", partial(self.node.on_refused, correlation_id))

    def _timed(self) -> None:
        self._timer = None
        self._take("raft timer", self.node.on_timer)

    def _take(self, kind: str, event: Callable[[int], list[Effect]]) -> None:
        """Handles one event. An exception ends the process, as Kafka's fault handler does: its state may be wrong.

        `kind`: the kind of the event in the metrics.
        """
        if self._failed.done():
            return
        begin_s = machine_s = time.monotonic()
        try:
            self._perform(event(self._clock.now_ms()))
            machine_s = time.monotonic()
            self._run_machine()
        except Exception as error:
            self._fail(error)
        else:
            self._taken()
        self._measure(kind, begin_s, machine_s)

    def _taken(self) -> None:
        """Called after each event that did not fail."""

    def _measure(self, kind: str, begin_s: float, machine_s: float | None = None) -> None:
        """Records how long an event that began at `begin_s` blocked the event loop."""
        end_s, loop = time.monotonic(), self._watched_loop
        self.metrics.took(kind, begin_s, machine_s or end_s, end_s, None if loop is None else loop.turn_begin_s)
        self.metrics.parsed_file(self.node, end_s)

    def _fail(self, error: Exception) -> None:
        """Ends the node with an error. kcore's own errors explain themselves; others are logged with a traceback.

        kcore's own error at the start is not logged, as the caller gets it.
        """
        is_ours = isinstance(error, KcoreError)
        if not (is_ours and self._is_starting):
            self._log_failure(error, is_ours=is_ours)
        if not self._failed.done():
            self._failed.set_exception(error)

    def _log_failure(self, error: Exception, *, is_ours: bool) -> None:
        logger.critical("node %s cannot go on: %s", self.config.node_id, error, exc_info=None if is_ours else error)
        logger.debug("node %s: where it was", self.config.node_id, exc_info=error)

    # Effects.

    def _perform(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case SendResponse():
                    self._handlers.answer(effect)
                case Send():
                    self._peers.send(effect)
                case Flush():
                    self._flush_wanted = effect
                    self._flushing = self._flushing or asyncio.get_running_loop().create_task(self._flush())
                case StoreElection(election, kraft_version):
                    self._elections.write(election, kraft_version)
                    leader = "unknown" if election.leader_id < 0 else election.leader_id
                    voted = "nobody" if election.voted is None else election.voted.id
                    self._log.info("epoch %s is stored: leader %s, voted for %s", election.epoch, leader, voted)
                case Notice(text):
                    self._log.warning("%s", text)
                case Stopped():
                    self._stopped.set()
                case Committed() | LeaderChanged() | SnapshotLoaded():
                    self._on_machine_effect(effect)
        self._handlers.follow()
        self._wake_at(self.node.next_deadline_ms)

    def _on_machine_effect(self, effect: MachineEffect) -> None:
        if isinstance(effect, LeaderChanged):
            self.metrics.new_leaders += effect.leader_id >= 0
            leader = effect.leader_id if effect.leader_id >= 0 else "unknown"
            self._log.info("epoch %s: the leader is %s", effect.epoch, leader)
        for answer in self._features.on_effect(effect):
            self._handlers.answer(answer)
        if self._driver is not None:
            self._outputs += self._driver.note(effect)

    # The state machine.

    def _run_machine(self) -> None:
        """Makes one call of the state machine and performs its outputs; further calls run in later loop iterations."""
        if self._driver is None or self._stopped.is_set():
            self._outputs.clear()
            return
        self._outputs += self._driver.catch_up()
        while self._outputs and self._driver is not None:
            outputs, self._outputs = self._outputs, []
            effects, own = self._driver.submit(outputs, self._clock.now_ms())
            self._perform(effects)
            for each in own:
                self._perform_own(each)
        if self._driver is not None and self._driver.has_more and not self._is_catching_up:
            self._is_catching_up = True
            asyncio.get_running_loop().call_soon(self._catch_up)

    def _catch_up(self) -> None:
        self._is_catching_up = False
        self._take("catch up", lambda _: [])

    def _perform_own(self, effect: Any) -> None:
        """Stores the cluster id that the machine has found, passes it to the node, and starts the node's machine."""
        assert isinstance(effect, ClusterIdKnown)
        if self._store_cluster_id is not None:
            self._store_cluster_id(effect.cluster_id)
        self.node.cluster_id = effect.cluster_id
        logger.info("the cluster is %s", effect.cluster_id)
        self._drive(self._machine)

    def _wake_at(self, at_ms: int | None) -> None:
        when_s = None if at_ms is None else self._clock.seconds_of(at_ms)
        if self._timer is not None:
            if self._timer.when() == when_s:
                return
            self._timer.cancel()
            self._timer = None
        if when_s is not None:
            self._timer = asyncio.get_running_loop().call_at(when_s, self._timed)

    async def _flush(self) -> None:
        """Runs one flush after the other. Flushes that are requested during a flush are combined into the next one."""
        loop = asyncio.get_running_loop()
        while (flush := self._flush_wanted) is not None and not self._failed.done():
            self._flush_wanted, begin_s = None, time.monotonic()
            try:
                await loop.run_in_executor(self._flusher, self.log.flush)
            except Exception as error:
                self._fail(error)
                break
            end_s = time.monotonic()
            self.metrics.flushes.add(end_s - begin_s, end_s)
            self._take("flushed", partial(self.node.on_flushed, flush))
        self._flushing = None

    # Requests about the cluster.

    def _describe_cluster(self) -> DescribeClusterResponse:
        config, node = self.config, self.node
        voters = {voter.key.id: voter.endpoints for voter in node.voters.voters.values()}
        return described(node.cluster_id or "", node.leader_id, voters, config.listener)
