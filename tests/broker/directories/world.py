"""One broker with its disks and a model of its controller, with faults between any two outputs.

A log is the number of its records. After each step the world asserts three rules. A serving replica has all
acknowledged records, unless its disk failed. A replica is promoted only in the controller's directory, and only if it
is complete. A log is deleted only when another complete one has the final name.
"""

from dataclasses import dataclass, field

from broker.directories.placements import BROKER, EPOCH, Image, answer, asked
from kcore.broker.directories.broker_directories import BrokerDirectories
from kcore.broker.directories.failures import DirectoryFailures
from kcore.broker.directories.found import FoundLog, settle_found
from kcore.broker.directories.outputs import (
    CreateFuture,
    CreateReplica,
    DeleteFuture,
    DropSource,
    HeartbeatNow,
    Output,
    Promote,
    ShutDown,
    StartCopy,
    StopCopy,
    TopicIdPartition,
)
from kcore.metadata.table.directory_table import UNASSIGNED_UUID
from kcore.protocol_errors import Errors
from kcore.schema.log_dirs import AssignReplicasToDirsRequest
from kcore.types import Uuid

TIMEOUT_MS = 30_000


@dataclass
class Disk:
    """A log directory. Its files survive a crash of the broker, and its own failure if it comes back."""

    has_failed: bool = False
    current: dict[TopicIdPartition, int] = field(default_factory=dict)
    future: dict[TopicIdPartition, int] = field(default_factory=dict)


class World:
    """`controller` has what is committed; `image`, which the broker sees, may lag behind it."""

    def __init__(self, directories: list[Uuid], partitions: list[TopicIdPartition]) -> None:
        self.disks = {each: Disk() for each in directories}
        self.partitions = partitions
        self.controller = dict.fromkeys(partitions, UNASSIGNED_UUID)
        self.refuses: dict[TopicIdPartition, Errors] = {}
        self.acknowledged = dict.fromkeys(partitions, 0)
        self.now_ms = 0
        self.crashes = -1
        self.excused: set[TopicIdPartition] = set()  # Partitions whose disk has failed.
        self.restart()

    # The broker's process.

    def restart(self) -> None:
        """A crash, and a new start with the directories that are not broken."""
        if self.crashes >= 0:
            self.excuse()
        self.crashes += 1
        self.todo: list[Output] = []
        self.copying: dict[TopicIdPartition, tuple[Uuid, Uuid]] = {}
        self.request: AssignReplicasToDirsRequest | None = None
        self.is_stopped = False
        self.image = Image(self.controller)
        online = [each for each, disk in self.disks.items() if not disk.has_failed]
        failures = DirectoryFailures(online, len(self.disks), timeout_ms=TIMEOUT_MS)
        self.broker = BrokerDirectories(BROKER, failures, self.image, lambda: 1.0)
        self.broker.queue.broker_epoch, self.broker.queue.is_supported = EPOCH + self.crashes, True
        for partition in self.partitions:
            self._find(partition, online)
        self.broker.catch_up(self.partitions, self.now_ms)
        self.fetch_what_was_lost()
        self.collect()

    def fetch_what_was_lost(self) -> None:
        """The leader has the records of the lost disk."""
        for partition in [*self.excused]:
            place = self.serving(partition)
            if place is not None and partition in self.disks[place].current:
                self.disks[place].current[partition] = self.acknowledged[partition]
                self.excused.discard(partition)

    def excuse(self) -> None:
        """Those whose disk has failed: what takes their place, or comes back later, may lack records."""
        for partition, place in self.broker.places.items():
            if self.disks[place].has_failed:
                self.excused.add(partition)

    def _find(self, partition: TopicIdPartition, online: list[Uuid]) -> None:
        logs = [FoundLog(each, is_future=False) for each in online if partition in self.disks[each].current]
        logs += [FoundLog(each, is_future=True) for each in online if partition in self.disks[each].future]
        found = settle_found(partition, logs, self.controller.get(partition, UNASSIGNED_UUID))
        if found.refused is not None:  # The operator deletes all but the first, which may lack records.
            self.excused.add(partition)
            for each in logs[1:]:
                disk = self.disks[each.directory]
                (disk.future if each.is_future else disk.current).pop(partition)
            found = settle_found(partition, logs[:1], UNASSIGNED_UUID)
        self.broker.on_found(partition, found)

    def serving(self, partition: TopicIdPartition) -> Uuid | None:
        """The directory from which the replica serves."""
        return self.broker.places[partition] if self.broker.serves(partition) else None

    def collect(self) -> None:
        """After each call of the broker."""
        self.todo += self.broker.take_outputs()

    def drain(self, most: int = 1_000) -> None:
        """Does the outputs in order, at most so many."""
        for _ in range(most):
            if self.todo:
                self.do(self.todo.pop(0))
                self.collect()
                self.check()

    # The edge.

    def do(self, output: Output) -> None:
        """One output; what is for a failed disk is not done."""
        match output:
            case CreateReplica(partition, directory):
                logs = self.broker.logs_in
                place = directory or min(self.broker.failures.online, key=lambda each: (logs[each], each))
                if self.disks[place].has_failed:
                    self.broker.on_not_created(partition)
                else:
                    assert not any(partition in disk.current for disk in self.up())
                    assert not self.acknowledged[partition] or partition in self.excused, "an empty one in its place"
                    self.excused.discard(partition)
                    self.disks[place].current[partition] = self.acknowledged[partition]
                    self.broker.on_created(partition, place, self.now_ms)
            case CreateFuture(partition, directory):
                assert not any(partition in disk.future for disk in self.up())
                if not self.disks[directory].has_failed:
                    self.disks[directory].future[partition] = 0
            case StartCopy(partition, source, target):
                if not self.disks[source].has_failed and not self.disks[target].has_failed:
                    assert partition not in self.copying
                    assert partition in self.disks[target].future
                    self.copying[partition] = source, target
            case StopCopy(partition):
                self.copying.pop(partition, None)
            case Promote(partition, source, target):
                self.promote(partition, source, target)
            case DropSource(partition, directory):
                place = self.serving(partition)  # None: the one that replaced it has failed meanwhile.
                assert place != directory
                if place is not None and not self.disks[directory].has_failed:
                    self.disks[directory].current.pop(partition, None)
            case DeleteFuture(partition, directory):
                if not self.disks[directory].has_failed:
                    self.disks[directory].future.pop(partition)
            case ShutDown():
                self.is_stopped = True
            case HeartbeatNow():
                self.broker.failures.on_heartbeat_accepted(self.broker.failures.offline_log_dirs)

    def up(self) -> list[Disk]:
        return [disk for disk in self.disks.values() if not disk.has_failed]

    def promote(self, partition: TopicIdPartition, source: Uuid | None, target: Uuid) -> None:
        disk = self.disks[target]
        if disk.has_failed:
            return
        assert partition not in disk.current
        if source is not None:
            assert self.controller.get(partition, target) == target, "promoted before the controller agreed"
            if disk.future[partition] != self.acknowledged[partition]:
                self.broker.on_behind(partition, self.now_ms)
                return
            self.excused.discard(partition)
        disk.current[partition] = disk.future.pop(partition)
        self.broker.on_promoted(partition, self.now_ms)
        self.fetch_what_was_lost()

    # Events.

    def append(self, partition: TopicIdPartition) -> None:
        self.drain()
        place = self.serving(partition)
        if place is not None:
            self.acknowledged[partition] += 1
            self.disks[place].current[partition] += 1

    def copy(self, partition: TopicIdPartition) -> None:
        """One record, or all that is left to do about having caught up."""
        self.drain()
        if partition in self.copying:
            source, target = self.copying[partition]
            there = self.disks[target].future[partition]
            missing = self.disks[source].current[partition] - there
            self.disks[target].future[partition] += min(missing, 1)
            if missing <= 1:
                self.broker.on_caught_up(partition, self.now_ms)
                self.collect()

    def alter(self, partition: TopicIdPartition, target: Uuid) -> Errors:
        self.drain()
        error = self.broker.alter_replica_log_dir(("topic", partition[1]), partition, target, self.now_ms)
        self.collect()
        return error

    def send(self) -> None:
        """The next request goes out, if there is one; the controller has not seen it yet."""
        self.drain()
        self.now_ms += 20_000
        if self.request is None:
            self.request = self.broker.next_request(self.now_ms)
            self.collect()

    def write(self, *, is_lost: bool = False) -> None:
        """The controller writes what was asked, and the answer comes or is lost."""
        self.drain()
        if self.request is not None:
            request, self.request = self.request, None
            errors = {each: self.error_of(each) for each in asked(request)}
            for partition, directory in asked(request).items():
                if errors[partition] is Errors.NONE:
                    self.controller[partition] = directory
            self.broker.on_response(None if is_lost else answer(request, errors.__getitem__), self.now_ms)
            self.collect()

    def error_of(self, partition: TopicIdPartition) -> Errors:
        if partition not in self.controller:
            return Errors.UNKNOWN_TOPIC_ID
        return self.refuses.get(partition, Errors.NONE)

    def lose(self) -> None:
        """The request does not come to the controller."""
        self.drain()
        if self.request is not None:
            self.request = None
            self.broker.on_response(None, self.now_ms)
            self.collect()

    def publish(self) -> None:
        """The broker's image gets what the controller has."""
        self.drain()
        gone = [each for each in self.image if each not in self.controller]
        touched = [each for each, place in self.controller.items() if self.image.get(each) != place]
        self.image.clear()
        self.image.update(self.controller)
        for partition in gone:
            self.broker.on_stopped(partition, self.now_ms)
            for disk in self.up():
                disk.current.pop(partition, None)
        self.broker.catch_up(touched, self.now_ms)
        self.collect()

    def fail(self, directory: Uuid) -> None:
        """At any time, in the middle of outputs, too; but one directory stays."""
        if len(self.up()) > 1 and not self.disks[directory].has_failed:
            self.disks[directory].has_failed = True
            self.copying = {key: ends for key, ends in self.copying.items() if directory not in ends}
            self.excuse()
            self.broker.on_directory_failed(directory, self.now_ms)
            self.collect()
            self.check()

    def repair(self, directory: Uuid) -> None:
        """The disk is back with its files, and the broker restarts."""
        self.excuse()
        self.disks[directory].has_failed = False
        self.restart()

    def replace(self, directory: Uuid, by: Uuid) -> None:
        """An empty disk in its place, which gets a new id, and the broker restarts."""
        if self.disks[directory].has_failed:
            self.excuse()
            self.disks = {by if each == directory else each: disk for each, disk in self.disks.items()}
            self.disks[by] = Disk()
            self.broker.places = {}
            self.restart()

    # Invariants.

    def check(self) -> None:
        for partition in self.partitions:
            place = self.serving(partition)
            if place is not None and partition in self.controller and not any(self._waits(partition)):
                assert self.disks[place].current[partition] == self.acknowledged[partition], "records are lost"

    def _waits(self, partition: TopicIdPartition) -> list[bool]:
        return [isinstance(each, CreateReplica) and each.partition == partition for each in self.todo]

    def heal(self) -> None:
        """Performs all outputs without further faults."""
        self.refuses.clear()
        for _ in range(40):
            for partition in self.partitions:
                for _ in range(4):
                    self.copy(partition)
            self.send()
            self.write()
            self.publish()
            self.drain()
            if self.broker.queue.queued == 0 and not self.broker.moves and self.image == self.controller:
                break

    def check_healed(self) -> None:
        """The controller's directories are the broker's, or LOST; nothing is queued or in flight."""
        assert self.broker.queue.queued == 0 and self.todo == []
        assert len(self.broker.moves) == 0
        online = {each for each, disk in self.disks.items() if not disk.has_failed}
        for partition, known in self.controller.items():
            place = self.serving(partition)
            assert place is not None or len(self.up()) < len(self.disks)
            if place is None:  # The controller does not take the replica for online.
                assert known not in online and known != UNASSIGNED_UUID
            else:
                assert known == place
                assert [each for each in online if partition in self.disks[each].current] == [place]
            if place is not None:
                assert not any(partition in disk.future for disk in self.up())
