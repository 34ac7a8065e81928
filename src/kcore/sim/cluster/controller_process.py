"""A controller's process: the production KraftController as the state machine of a voter, its timer and snapshots."""

import logging
from collections.abc import Sequence
from random import Random
from typing import Any, Final

from kcore.controller.kraft.activation import Bootstrap
from kcore.controller.kraft.controller import KraftController
from kcore.controller.kraft.kraft_context import RaftView, RequestInfo
from kcore.controller.kraft.kraft_controller_config import KraftControllerConfig
from kcore.controller.kraft.outputs import Clocks, LogLine, ReadSnapshotSlice, RequestAnswer, WorkOn
from kcore.controller.kraft.tasks import all_tasks
from kcore.metadata.image.image import ClusterImage
from kcore.node.kraft.node_config import NodeConfig
from kcore.node.kraft.snapshot_slices import snapshot_slices
from kcore.releases.known import RELEASES
from kcore.replication.java_random import JavaRandom
from kcore.sim.cluster.exchanges import Arrival, Exchanges
from kcore.sim.cluster.options import ClusterOptions
from kcore.sim.cluster.process_events import ProcessEvents
from kcore.sim.cluster.snapshots import Snapshot
from kcore.sim.kernel.violation import Violation
from kcore.sim.raft.running_world import RunningWorld
from kcore.sim.raft.simulated_machine import Machine
from kcore.types import Uuid

_ELR_OF_3_9: Final = "eligible.leader.replicas.enable"


def config_of(options: ClusterOptions, node_id: int, cluster_id: str) -> KraftControllerConfig:
    """The settings of a controller."""
    release = RELEASES[options.release]
    static = {} if release.rules.elr_is_a_feature else {_ELR_OF_3_9: str(options.has_elr).lower()}
    node = NodeConfig(node_id, cluster_id, options.release, release.supported_features, static_configs=static)
    return KraftControllerConfig(
        node,
        broker_session_timeout_ms=options.session_timeout_ms,
        leader_imbalance_check_interval_seconds=options.rebalance_s,
        unclean_leader_election_interval_ms=options.rebalance_s * 1000,
        metadata_max_idle_interval_ms=options.idle_interval_ms,
    )


class ControllerProcess:
    """One process. `controller` is the state machine."""

    def __init__(self, world: RunningWorld, machine: Machine, options: ClusterOptions, exchanges: Exchanges) -> None:
        self._world, self._machine, self._exchanges = world, machine, exchanges
        self._events = ProcessEvents(world, machine)
        config = config_of(options, machine.index, world.cluster_id)
        random = Random(world.random.getrandbits(64))
        self.controller = KraftController(
            config,
            Bootstrap.of_features(options.features, "the simulator"),
            all_tasks(config),
            Clocks(self._events.now_ms, self._events.now_ms),
            JavaRandom(random.getrandbits(48)),
            lambda: Uuid(random.randbytes(16)),
            RaftView(),
        )

    # Events.

    def on_request(self, arrival: Arrival) -> None:
        """Decides a request."""
        exchange, now_ms = arrival.exchange, self._events.now_ms()
        info = RequestInfo(exchange.version, now_ms, now_ms)
        self._submit(self.controller.on_request(exchange.request, info, arrival))

    def on_leader(self, leader_id: int) -> None:
        """The node knows another leader."""
        self.controller.raft.leader_id = leader_id

    def after_event(self) -> None:
        """Follows raft's facts, and sets the timer of the periodic tasks."""
        view, node = self.controller.raft, self._machine.node
        view.kraft_version, view.voter_ids = node.voter_history.kraft_version, node.voters.ids
        self._events.set_deadline(self.controller.next_due_ms, self._timed)

    def _timed(self) -> None:
        self._submit(self.controller.on_timer())

    def _submit(self, outputs: Sequence[Any]) -> None:
        self._world.edge.submit(self._machine, outputs)

    # Effects.

    def perform(self, effect: Any) -> None:
        """Performs an effect of the controller."""
        if isinstance(effect, RequestAnswer):
            assert isinstance(effect.reply_to, Arrival)
            self._exchanges.answer(effect.reply_to, effect.response)
        elif isinstance(effect, LogLine):
            if effect.level >= logging.ERROR:
                raise Violation("I13 ControllerFault", f"node {self._machine.index}: {effect.text}")
        elif isinstance(effect, ReadSnapshotSlice):
            self._events.soon(lambda: self._submit(self.controller.on_read_slice()), "a snapshot slice is read")
        elif isinstance(effect, WorkOn):
            self._events.soon(lambda: self._submit(self.controller.on_work()), f"{effect.name} continues")

    # For checks and clients.

    @property
    def committed_image(self) -> ClusterImage | None:
        """The image, if it has no uncommitted record and no part of a record is being applied."""
        watched, controller = self._machine.watched, self.controller
        is_whole = not (watched.journal or watched.is_reading or controller.is_at_work or controller.is_busy)
        return controller.image if is_whole else None

    @property
    def end_offset(self) -> int:
        return self.controller.committed

    def begin_snapshot(self) -> Snapshot | None:
        """Begins a snapshot of the committed state; None if there can be none now."""
        snapshots, log = self.controller.snapshots, self._machine.log
        offset = self.controller.snapshot_offset()
        if offset is None or not 0 < offset <= log.end_offset:
            return None
        release = snapshots.hold(offset)
        slices = lambda epoch: snapshot_slices(  # noqa: E731
            self.controller.image, offset, epoch, 0, release, self.controller.config.node.release
        )
        return Snapshot(offset, slices, release)
