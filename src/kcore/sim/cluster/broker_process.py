"""A broker's process: the production observer, lifecycle and log directories, and a model of its leaders."""

from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any, Final

import numpy as np

from kcore.broker.directories.assignments import ImagePlacements
from kcore.broker.directories.broker_directories import BrokerDirectories
from kcore.broker.directories.failures import DirectoryFailures
from kcore.broker.directories.found import settle_found
from kcore.broker.directories.outputs import CreateReplica, DeleteFuture, DropSource, HeartbeatNow, ShutDown
from kcore.broker.lifecycle import machine as lifecycle
from kcore.broker.lifecycle.heartbeat_fields import fit_version
from kcore.broker.lifecycle.machine import BrokerLifecycle, BrokerState, LifecycleConfig
from kcore.broker.lifecycle.registration_fields import features_of
from kcore.broker.metadata_delta.loader import ImageChanged, MetadataLoader, ReadSnapshotSlice
from kcore.broker.replicas.isr_changes import for_version
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.metadata_version import FEATURE_NAME, MetadataVersion
from kcore.node.kraft.snapshot_slices import snapshot_slices
from kcore.releases.known import RELEASES
from kcore.schema.broker_lifecycle import BrokerHeartbeatRequest, Listener
from kcore.schema.structure import Message
from kcore.sim.cluster.broker_disks import BrokerDisks
from kcore.sim.cluster.committed_cluster import PartitionId
from kcore.sim.cluster.exchanges import Exchanges
from kcore.sim.cluster.leaderships import Leaderships
from kcore.sim.cluster.options import ClusterOptions
from kcore.sim.cluster.process_events import ProcessEvents
from kcore.sim.cluster.snapshots import Snapshot
from kcore.sim.raft.running_world import RunningWorld
from kcore.sim.raft.simulated_machine import Machine
from kcore.types import Uuid

ANSWER_MS: Final = 2_000  # The time-out of AlterPartition and of assignments.


class BrokerProcess:
    """One process. `loader` is the state machine. `end(is_clean)` ends the process."""

    def __init__(
        self,
        world: RunningWorld,
        machine: Machine,
        options: ClusterOptions,
        exchanges: Exchanges,
        disks: BrokerDisks,
        end: Callable[[bool], None],
    ) -> None:
        self._world, self._machine, self._options, self._exchanges = world, machine, options, exchanges
        self._disks, self._end = disks, end
        self._events = ProcessEvents(world, machine)
        self._random = Random(world.random.getrandbits(64))
        self.loader = MetadataLoader(RELEASES[options.release])
        online = disks.online
        self.failures = DirectoryFailures(online, len(disks.directories))
        self.placements = ImagePlacements(self.loader.image, machine.index)
        self.directories = BrokerDirectories(machine.index, self.failures, self.placements, self._jitter)
        self.lifecycle = BrokerLifecycle(self._config(online), lambda: self.loader.end_offset - 1, self.failures)
        self.leaderships = Leaderships(machine.index)
        self._found = disks.found()
        self._published: int | None = None  # The replicas have all records below this offset.
        self._held: set[PartitionId] = set()
        self._is_ready = False

    def _config(self, online: Sequence[Uuid]) -> LifecycleConfig:
        options, disks = self._options, self._disks
        previous_epoch, disks.clean_epoch = disks.clean_epoch, -1
        return LifecycleConfig(
            self._machine.index,
            self._world.cluster_id,
            Uuid(self._random.randbytes(16)),
            [Listener(name="PLAINTEXT", host=self._machine.address.host, port=9092, security_protocol=0)],
            features_of(RELEASES[options.release].supported_features),
            online,
            previous_broker_epoch=previous_epoch,
            heartbeat_interval_ms=options.heartbeat_interval_ms,
        )

    def _jitter(self) -> float:
        return 0.98 + 0.04 * self._random.random()

    @property
    def broker_epoch(self) -> int:
        return self.lifecycle.broker_epoch

    # The lifecycle.

    def start(self) -> None:
        self.take(lifecycle.Started())

    def take(self, event: lifecycle.Event) -> None:
        """Takes an event of the lifecycle, and performs its effects."""
        for effect in self.lifecycle.on_event(event, self._events.now_ms()):
            self._perform_of_lifecycle(effect)
        self.set_deadline()

    def _perform_of_lifecycle(self, effect: lifecycle.Effect) -> None:
        match effect:
            case lifecycle.Send(request):
                self._send(request, self._options.heartbeat_interval_ms, lambda got: self.take(lifecycle.Answered(got)))
            case lifecycle.Registered(epoch):
                self._world.notes(lambda: f"broker {self._machine.index} is registered under epoch {epoch}")
                self.directories.queue.broker_epoch = epoch
                self._perform_of_directories()
            case lifecycle.StateChanged(state):
                self._world.seen[f"broker: {state.value}"] += 1
                self._world.notes(lambda: f"broker {self._machine.index} is {state.value}")
                if state is BrokerState.SHUTTING_DOWN:
                    self._disks.clean_epoch = self.broker_epoch
                    self._events.soon(lambda: self._end(True), "the process ends")
            case lifecycle.Refused(request, error):
                self._world.seen[f"refused: {type(request).__name__} {error.name}"] += 1

    def _send(self, request: Message, timeout_ms: int, on_answer: Callable[[Any], None]) -> None:
        """Sends a request to the controller that this broker's node knows; without one, there is no answer."""
        leader_id = self._machine.node.leader_id
        if isinstance(request, BrokerHeartbeatRequest):
            fit_version(request, self._exchanges.version_of(request))
        if leader_id < 0:
            self._events.after_us(timeout_ms * 1000, lambda: on_answer(None), "there is no controller")
            return
        self._exchanges.send(self._machine, self._world.machines[leader_id], request, timeout_ms, on_answer)

    def shut_down(self) -> None:
        """Begins a controlled shutdown."""
        self.take(lifecycle.ShutdownRequested())

    # The image.

    def perform(self, effect: Any) -> None:
        """Performs an effect of the loader."""
        if isinstance(effect, ImageChanged):
            self._follow(is_new=effect.is_new)
        elif isinstance(effect, ReadSnapshotSlice):
            self._events.soon(self._read_slice, "a snapshot slice is read")

    def _read_slice(self) -> None:
        self._world.edge.submit(self._machine, self.loader.on_read_slice())

    def _follow(self, *, is_new: bool) -> None:
        """The replicas follow the image, once it has this incarnation's registration."""
        image = self.loader.image
        is_first = self._published is None
        if is_first and not self._is_registered_in(image):
            return
        self.placements.follow(image)
        rows = self._own_rows(image)
        held = {row: (image.topics.ids[image.table.topic_row__p[row]], int(index)) for row, index in rows}
        if is_first:
            self._settle_found(held)
        changed = self._changed(image, is_all=is_first or is_new)
        self._published = image.end_offset
        for partition in sorted(self._held.difference(held.values())):
            self._drop(partition)
        self._held = set(held.values())
        level = image.features.get(FEATURE_NAME)
        version = None if level is None else MetadataVersion.of_level(level, self._options.release)
        self.directories.queue.is_supported = version is not None and version.directories_supported
        partitions = [each for row, each in held.items() if changed is None or row in changed]
        self.directories.catch_up(partitions, self._events.now_ms())
        self._perform_of_directories()
        self.leaderships.follow(image, held, [self.directories.serves(each) for each in held.values()])
        if not self._is_ready:
            self._is_ready = True
            self.take(lifecycle.ReadyToUnfence())

    def _is_registered_in(self, image: ClusterImage) -> bool:
        own = image.brokers.get(self._machine.index)
        is_own = own is not None and own.incarnation_id == self.lifecycle.config.incarnation_id
        return is_own and self.lifecycle.is_registered

    def _own_rows(self, image: ClusterImage) -> list[tuple[int, int]]:
        """The rows of this broker's partitions, with the partitions' indexes."""
        table, brokers = image.table, image.brokers
        if self._machine.index not in brokers or not len(table):
            return []
        rows = np.flatnonzero((table.replicas__ps == brokers.row(self._machine.index)).any(axis=1))
        return list(zip(rows.tolist(), table.partition_index__p[rows].tolist(), strict=True))

    def _changed(self, image: ClusterImage, *, is_all: bool) -> set[int] | None:
        """The rows that changed since the last image; None: any may have changed."""
        if is_all:
            image.keep_deltas(image.end_offset)
            return None
        assert self._published is not None
        delta = image.changes_between(self._published, image.end_offset)
        return None if delta is None else set(delta.rows.tolist())

    def _settle_found(self, held: dict[int, PartitionId]) -> None:
        """Decides which logs found at the start are valid; logs of other partitions are strays."""
        found, mine = self._found, set(held.values())
        for partition in sorted(found.keys() - mine):
            self._disks.delete(partition)
        partitions = sorted(found.keys() & mine)
        for partition, place in zip(partitions, self.placements.directories_of(partitions), strict=True):
            assert place is not None
            settled = settle_found(partition, found[partition], place)
            assert settled.refused is None, settled
            self.directories.on_found(partition, settled)
        self._found = {}

    def _drop(self, partition: PartitionId) -> None:
        self.directories.on_stopped(partition, self._events.now_ms())
        self._disks.delete(partition)

    # The directories.

    def lose_directory(self, directory: Uuid) -> None:
        """A disk operation fails in this directory, and every later one too."""
        self.directories.on_directory_failed(directory, self._events.now_ms())
        self._perform_of_directories()

    def _perform_of_directories(self) -> None:
        machine = self.directories
        is_more = True
        while is_more:
            for output in machine.take_outputs():
                self._perform_output(output)
            request = machine.next_request(self._events.now_ms())
            if request is not None:
                self._send(request, ANSWER_MS, self._assigned)
            is_more = machine.has_outputs
        self.set_deadline()

    def _assigned(self, response: Any) -> None:
        self.directories.on_response(response, self._events.now_ms())
        self._perform_of_directories()

    def _perform_output(self, output: Any) -> None:
        match output:
            case CreateReplica(partition, directory):
                self._create(partition, directory)
            case DropSource(partition, directory) | DeleteFuture(partition, directory):
                self._disks.delete(partition, [directory])
            case HeartbeatNow():
                self.take(output)
            case ShutDown(reason):
                self._world.notes(lambda: f"broker {self._machine.index} stops: {reason}")
                self._world.seen["broker stops: a directory failed"] += 1
                self._events.soon(lambda: self._end(False), "the process ends")

    def _create(self, partition: PartitionId, assigned: Uuid | None) -> None:
        machine, online = self.directories, sorted(self.failures.online)
        if not online or (assigned is not None and assigned not in online):
            machine.on_not_created(partition)
            return
        key = str(partition[0]), partition[1]
        chosen = machine.choice.take(key, assigned, online, machine.cordoned, machine.logs_in)
        if self._disks.create(partition, chosen):
            machine.on_created(partition, chosen, self._events.now_ms())
        else:
            machine.on_not_created(partition)
            self.lose_directory(chosen)

    # Time.

    def set_deadline(self) -> None:
        """Sets the timer to the next deadline of the lifecycle and of the directories."""
        deadlines = (self.lifecycle.next_deadline_ms, self.directories.next_deadline_ms)
        due_ms = min((each for each in deadlines if each is not None), default=None)
        self._events.set_deadline(due_ms, self._timed)

    def _timed(self) -> None:
        now_ms = self._events.now_ms()
        due_ms = self.lifecycle.next_deadline_ms
        if due_ms is not None and due_ms <= now_ms:
            self.take(lifecycle.Timer())
        self.directories.tick(now_ms)
        self._perform_of_directories()

    # The leader's proposals.

    def send_proposals(self) -> None:
        """Sends the queued ISR changes, unless a request is in flight."""
        if not self._events.is_running or self.broker_epoch < 0:
            return
        request = self.leaderships.next_request(self.broker_epoch, self._events.now_ms())
        if request is not None:
            self._send(for_version(request, self._exchanges.version_of(request)), ANSWER_MS, self._altered)

    def _altered(self, response: Any) -> None:
        self.leaderships.answered(response, self._events.now_ms())
        self.send_proposals()

    # For checks and clients.

    @property
    def committed_image(self) -> ClusterImage | None:
        """The image, unless it is being replaced by a snapshot."""
        return None if self._machine.watched.is_reading else self.loader.image

    @property
    def end_offset(self) -> int:
        return self.loader.end_offset

    def begin_snapshot(self) -> Snapshot | None:
        """Begins a snapshot of the image; None if there can be none now."""
        image, offset = self.loader.image, self.loader.end_offset
        if image.in_transaction or FEATURE_NAME not in image.features or image.end_offset != offset or not offset:
            return None

        def slices(epoch: int) -> Iterator[bytes]:
            return snapshot_slices(image.copy(), None, epoch, 0, _nothing, self._options.release)

        return Snapshot(offset, slices, _nothing)


def _nothing() -> None:
    """A snapshot of a copy holds no journal."""
