"""Runs a raft node without a listener: passes events to the node one at a time, and performs its effects in order.

Quorum nodes, controllers and brokers use it. Source: KafkaRaftManager and KafkaRaftClientDriver of 4.3.1.
"""

import asyncio
import time
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, NamedTuple, Self

from kcore.net.security.listener_security import ListenerSecurity
from kcore.net.versions import api_name
from kcore.raft.driver import MachineEffect
from kcore.raft.effects import Committed, Effect, Flush, LeaderChanged, SendResponse, SnapshotLoaded, Stopped
from kcore.raft.log.raft_log import RaftLog
from kcore.raft.node import RaftNode
from kcore.raft.raft_config import RaftConfig
from kcore.raft.state_machine import StateMachine
from kcore.schema.describe_quorum import DescribeQuorumRequest
from kcore.schema.raft_voters import AddRaftVoterRequest
from kcore.schema.structure import Message
from kcore.server.clock import Clock, DeadlineTimer
from kcore.server.metrics.watched_loop import current_watched_loop
from kcore.server.quorum_node.directory_watch import DirectoryWatch
from kcore.server.quorum_node.elections import Elections
from kcore.server.quorum_node.foreign_clusters import ForeignClusters
from kcore.server.quorum_node.lifetime import Lifetime
from kcore.server.quorum_node.log_flusher import LogFlusher
from kcore.server.quorum_node.machine_runner import MachineRunner
from kcore.server.quorum_node.node_effects import NodeEffects
from kcore.server.quorum_node.peers import QuorumPeers
from kcore.server.quorum_node.quorum_metrics import QuorumMetrics
from kcore.storage.raft.file_raft_log import DiskRaftLog

STOP_MS: Final = 5_000
PLAINTEXT: Final = ListenerSecurity()
_ABOUT_OBSERVERS: Final = {DescribeQuorumRequest, AddRaftVoterRequest}


def _nothing(*_: Any) -> None:
    """The default of a hook."""


class RuntimeHooks(NamedTuple):
    """Functions that a runtime calls within its events. The defaults are those of a node without a listener."""

    answer: Callable[[SendResponse], None] = _nothing
    fold_progress: Callable[[], None] = _nothing  # Called before the node reads the progress of its observers.
    performed: Callable[[], None] = _nothing  # Called after effects of the node.
    on_machine_effect: Callable[[MachineEffect], None] = _nothing  # Called before the state machine.
    perform_own: Callable[[Any], None] = _nothing  # Performs an effect of the state machine.
    taken: Callable[[], None] = _nothing  # Called after each event that did not fail.


NO_HOOKS: Final = RuntimeHooks()


class QuorumRuntime:
    """A raft node with its state machine and its connections to other nodes; it takes part within `async with`.

    `machine` gets committed records and changes of leadership, once the node has the cluster id. Its outputs are
    performed after the current event; appends between events go to `submit`.
    """

    def __init__(
        self,
        config: RaftConfig,
        log: RaftLog,
        elections: Elections,
        machine: StateMachine[Any] | None,
        *,
        hooks: RuntimeHooks = NO_HOOKS,
        store_cluster_id: Callable[[str], None] | None = None,
        stop_ms: int = STOP_MS,
        security: ListenerSecurity = PLAINTEXT,
    ) -> None:
        """`security`: TLS and SASL settings of connections to other nodes.

        `store_cluster_id` stores durably the cluster id that the node learns from the log, if `config` has none.
        `stop_ms`: how long a leader that stops waits for a new leader.
        """
        self.config, self.node = config, RaftNode(config, log)
        self.clock, self.metrics, self.lifetime = Clock(), QuorumMetrics(), Lifetime(config.node_id)
        self.directory = DirectoryWatch(log.folder) if isinstance(log, DiskRaftLog) else None
        self.foreign_clusters = ForeignClusters()
        self._hooks, self._stop_ms = hooks, stop_ms
        self._machine = MachineRunner(self.node, machine, self._perform, hooks.perform_own, store_cluster_id)
        self._timer = DeadlineTimer(self.clock, self._timed)
        client_id = f"raft-client-{config.node_id}"
        peers = QuorumPeers(config.level, client_id, self._responded, self._refused, security.outgoing())
        flusher = LogFlusher(log, self._flushed, self.lifetime, self.metrics.log.flushes)
        self._effects = NodeEffects(elections, peers, flusher)

    async def __aenter__(self) -> Self:
        try:
            self.begin()
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()
        await self.close()

    def begin(self) -> None:
        """Starts the node: it may then store an epoch and win an election. Raises what its log does not allow."""
        self.lifetime.has_begun = self.lifetime.is_starting = True
        if self.directory is not None:
            self.directory.begin()
        self.take("start", self._start)
        self.lifetime.is_starting = False
        self.lifetime.check()

    async def stop(self) -> None:
        """Ends the node. A leader sends EndQuorumEpoch, so that the other nodes need not wait for a time-out."""
        if self.lifetime.has_begun and not self.lifetime.has_failed:
            self.take("shutdown", lambda now_ms: self.node.shutdown(now_ms, self._stop_ms))
            with suppress(TimeoutError):
                async with asyncio.timeout(2 * self._stop_ms / 1000):
                    await self.lifetime.stopped.wait()
        self._timer.cancel()
        if self.directory is not None:
            self.directory.close()

    async def close(self) -> None:
        """Closes the connections and ends the flushes, after `stop`."""
        await self._effects.close()
        self.lifetime.close()

    @property
    def is_ready(self) -> bool:
        """Whether a leader is known, and the log directory is in its place."""
        return self.node.leader_id >= 0 and (self.directory is None or self.directory.problem is None)

    # Events.

    def submit(self, outputs: Sequence[Any]) -> None:
        """Performs outputs that the machine made outside of an event. The machine gets refused appends back."""
        self.machine_event("submit", lambda: outputs)

    def machine_event(self, kind: str, event: Callable[[], Sequence[Any]]) -> None:
        """Handles an event of the state machine: `event` returns the machine's outputs."""

        def taken(_: int) -> list[Effect]:
            self._machine.outputs += event()
            return []

        self.take(kind, taken)

    def on_request(self, request: Message, version: int, reply_to: Hashable) -> None:
        """Passes a request of raft to the node."""
        if type(request) in _ABOUT_OBSERVERS:
            self._hooks.fold_progress()
        self.foreign_clusters.look(request, self.node.cluster_id)
        self.take(api_name(type(request)), partial(self.node.on_request, request, version, reply_to))

    def take(self, kind: str, event: Callable[[int], list[Effect]]) -> None:
        """Handles one event. An exception ends the process, as Kafka's fault handler does: its state may be wrong.

        `kind`: the kind of the event in the metrics. `event` gets the time in ms, and returns effects of the node.
        """
        if self.lifetime.has_failed:
            return
        begin_s = machine_s = time.monotonic()
        try:
            self._perform(event(self.clock.now_ms()))
            machine_s = time.monotonic()
            self._run_machine()
        except Exception as error:
            self.lifetime.fail(error)
        else:
            self._hooks.taken()
        self.measure(kind, begin_s, machine_s)

    def measure(self, kind: str, begin_s: float, machine_s: float | None = None) -> None:
        """Records how long an event that began at `begin_s` blocked the event loop."""
        end_s, loop = time.monotonic(), current_watched_loop()
        self.metrics.events.add(kind, begin_s, machine_s or end_s, end_s, None if loop is None else loop.turn_begin_s)
        self.metrics.follow(self.node, end_s)

    def _start(self, now_ms: int) -> list[Effect]:
        effects = self.node.start(self._effects.elections.read(), now_ms)
        self._machine.begin(has_cluster_id=self.config.cluster_id is not None)
        return effects

    def _responded(self, correlation_id: int, response: Message | None) -> None:
        if self.node.leads and self.node.leading.change is not None:
            self._hooks.fold_progress()  # An observer becomes a voter once it has caught up.
        kind = "no response" if response is None else type(response).__name__
        self.take(kind, partial(self.node.on_response, correlation_id, response))

    def _refused(self, correlation_id: int) -> None:
        self.take("connection refused", partial(self.node.on_refused, correlation_id))

    def _flushed(self, flush: Flush) -> None:
        self.take("flushed", partial(self.node.on_flushed, flush))

    def _timed(self) -> None:
        self.take("raft timer", self.node.on_timer)

    # Effects.

    def _perform(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case SendResponse():
                    self._hooks.answer(effect)
                case Stopped():
                    self.lifetime.stopped.set()
                case Committed() | LeaderChanged() | SnapshotLoaded():
                    if isinstance(effect, LeaderChanged):
                        self.metrics.elections.new_leaders += effect.leader_id >= 0
                        self._effects.log_leader(effect)
                    self._hooks.on_machine_effect(effect)
                    self._machine.note(effect)
                case _:
                    self._effects.perform(effect)
        self._hooks.performed()
        self._timer.set(self.node.next_deadline_ms)

    def _run_machine(self) -> None:
        """Makes one call of the state machine; further calls run in later iterations of the event loop."""
        if self.lifetime.stopped.is_set():
            self._machine.outputs.clear()
            return
        self._machine.run(self.clock.now_ms)
        self._machine.schedule(self._catch_up)

    def _catch_up(self) -> None:
        self.take("catch up", lambda _: [])
