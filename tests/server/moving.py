"""One broker with its log directories on a real disk, and a controller of a few lines, for replicas that move.

Outputs are done one by one, so that a test can crash the broker, or break a disk, between any two. A crash leaves the
files as they are: whatever was written is with the operating system.
"""

from collections.abc import Sequence
from pathlib import Path

from broker.directories.placements import answer, asked
from kcore import schema as s
from kcore.broker.directories.assignments import ImagePlacements
from kcore.broker.directories.broker_directories import BrokerDirectories
from kcore.broker.directories.failures import DirectoryFailures
from kcore.broker.directories.found import FoundLog, settle_found
from kcore.broker.directories.outputs import CreateReplica, Output, ShutDown
from kcore.broker.metadata_delta.publisher import MetadataPublisher
from kcore.broker.replicas.broker_config import BrokerConfig
from kcore.broker.replicas.outputs import LogFailed
from kcore.broker.replicas.replica_manager import ReplicaManager
from kcore.metadata.image.image import ClusterImage
from kcore.protocol_errors import Errors, exception_of
from kcore.schema.log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
    AssignReplicasToDirsRequest,
)
from kcore.server.broker.logs import BrokerLogs
from kcore.server.broker.replica_moves import MoveHooks, ReplicaMoves
from kcore.storage.checkpoints import TopicPartition
from kcore.storage.log.live_log import LiveLog, Settings
from kcore.storage.log.log_directory import LogDirectory
from kcore.storage.raft.raft_format import format_log_directories
from kcore.types import Uuid
from kcore.wire.records import decode_records
from storage import building

OWN, TOPIC = 1, Uuid(b"t" * 16)
KEY = ("t", 0)
TP = TopicPartition(*KEY)
P = (TOPIC, 0)
SETTINGS = Settings(segment_bytes=1_000, index_interval_bytes=200)
END = 2**62
PRODUCER = 77


class MovingBroker:
    """Broker 1 leads t-0 in its first directory. `records`: what the controller has committed."""

    def __init__(self, folder: Path, names: Sequence[str] = ("a", "b", "c")) -> None:
        self.paths = [folder / name for name in names]
        self.ids = [*format_log_directories(self.paths, node_id=OWN, cluster_id="c").values()]
        first = self.ids[0]
        self.records: list[object] = [
            s.RegisterBrokerRecord(broker_id=OWN, broker_epoch=5, fenced=False),
            s.TopicRecord(name="t", topic_id=TOPIC),
            s.PartitionRecord(
                partition_id=0,
                topic_id=TOPIC,
                replicas=[OWN],
                isr=[OWN],
                leader=OWN,
                leader_epoch=0,
                partition_epoch=0,
                directories=[first],
            ),
        ]
        self.acknowledged: list[bytes] = []
        self.broken: set[Path] = set()
        self.now_ms = 0
        self.start()

    # The process.

    def start(self) -> None:
        """As the broker's process would."""
        self.todo: list[Output] = []
        self.request: AssignReplicasToDirsRequest | None = None
        self.is_stopped = False
        self.logs = BrokerLogs(self.paths, SETTINGS, node_id=OWN, metadata_dir=self.paths[-1])
        self.image, self.published = ClusterImage(), 0
        self.image.keep_deltas(0)
        self._replay()
        self.manager = ReplicaManager(BrokerConfig(OWN), 5, self.logs)
        self.placements = ImagePlacements(self.image, OWN)
        online = [each.directory_id for each in self.logs.directories.online if each.directory_id is not None]
        failures = DirectoryFailures(online, len(self.paths))
        self.machine = BrokerDirectories(OWN, failures, self.placements, lambda: 1.0)
        self.machine.queue.broker_epoch, self.machine.queue.is_supported = 5, True
        hooks = MoveHooks(lambda: self.image, self.fail, self.collect, lambda: self.now_ms)
        self.moves = ReplicaMoves(self.logs, self.manager, self.machine, hooks)
        self._settle()
        self.machine.catch_up([P] if self.is_held() else [], self.now_ms)
        self.drain()
        self.publisher = MetadataPublisher(self.manager, self.image)
        self.publisher.publish(self.now_ms)
        self.drain()

    def _settle(self) -> None:
        """The replica's logs at the start."""
        futures = self.moves.found_futures({KEY: TOPIC} if self.is_held() else {})
        found = futures.get(KEY, [])
        for directory in self.logs.directories.online:
            if not self.is_held():
                directory.delete(TP)  # A stray. The replica manager has only one of two logs.
            elif TP in directory.logs:
                found.append(FoundLog(self.id_of(directory.path), is_future=False))
        [place] = self.placements.directories_of([P])
        if place is not None:
            settled = settle_found(P, found, place)
            assert settled.refused is None
            self.machine.on_found(P, settled)

    def crash(self) -> None:
        """kill -9, and a new start."""
        self.start()

    def stop(self) -> None:
        """Cleanly, and a new start."""
        self.drain()
        self.logs.close(5)
        self.start()

    def _replay(self) -> None:
        for record in self.records[self.image.end_offset :]:
            self.image.apply(record, self.image.end_offset)  # type: ignore[arg-type]

    def is_held(self) -> bool:
        return bool(self.placements_of(self.image)[0] is not None)

    def placements_of(self, image: ClusterImage) -> list[Uuid | None]:
        return ImagePlacements(image, OWN).directories_of([P])

    # Its outputs.

    def collect(self) -> None:
        self.todo += self.machine.take_outputs()
        for output in self.manager.take_outputs():
            if isinstance(output, LogFailed):
                self._offline(self.logs.fail(output.key, output.why))

    def drain(self, most: int = 1_000) -> None:
        """Performs at most `count` outputs."""
        self.collect()
        for _ in range(most):
            if not self.todo:
                return
            self.do(self.todo.pop(0))
            self.collect()

    def do(self, output: Output) -> None:
        match output:
            case CreateReplica(partition, directory):
                chosen = directory or self.ids[0]
                try:
                    self.logs.create(KEY, TOPIC, chosen)
                except exception_of(Errors.KAFKA_STORAGE_ERROR):
                    self.machine.on_not_created(partition)
                else:
                    self.machine.on_created(partition, chosen, self.now_ms)
            case ShutDown():
                self.is_stopped = True
            case _:
                self.moves.perform_output(output)

    def fail(self, directory: LogDirectory, why: str) -> None:
        self._offline(self.logs.directories.fail(directory, why))

    def _offline(self, keys: Sequence[tuple[str, int]] | None) -> None:
        for key in keys or ():
            self.manager.go_offline(key)
        for each in self.logs.directories:
            if each.failed is not None and each.directory_id is not None:
                self.machine.on_directory_failed(each.directory_id, self.now_ms)
        self.collect()

    # Events.

    def produce(self, count: int = 1) -> None:
        self.drain()
        self.append(count)

    def append(self, count: int = 1) -> None:
        """At once, whatever is to be done."""
        partition = self.manager.partitions[KEY]
        for _ in range(count):
            number = len(self.acknowledged)
            value = b"%d" % number
            batch = building.batch(0, [value.ljust(100)], producer=(PRODUCER, 0, number))
            partition.append(batch, 1, self.now_ms, building.TIME_MS)
            self.acknowledged.append(value)

    def alter(self, path: Path | str, key: tuple[str, int] = KEY) -> Errors:
        """AlterReplicaLogDirs."""
        topic = AlterReplicaLogDirTopic(name=key[0], partitions=[key[1]])
        directory = AlterReplicaLogDir(path=str(path), topics=[topic])
        response = self.moves.alter(AlterReplicaLogDirsRequest(dirs=[directory]))
        [found] = response.results
        assert found.topic_name == key[0] and found.partitions[0].partition_index == key[1]
        return Errors.of(found.partitions[0].error_code)

    def copy(self, turns: int = 1) -> None:
        for _ in range(turns):
            self.drain()
            self.moves.copy_some()

    def send(self) -> None:
        """The next request goes out, if there is one."""
        self.drain()
        self.now_ms += 20_000
        if self.request is None:
            self.request = self.machine.next_request(self.now_ms)
            self.collect()

    def write(self) -> None:
        """The controller takes it, and answers."""
        self.drain()
        if self.request is not None:
            request, self.request = self.request, None
            if self.is_held():
                for directory in asked(request).values():
                    self.commit(directory)
                self.machine.on_response(answer(request), self.now_ms)
            else:
                self.machine.on_response(answer(request, lambda _: Errors.UNKNOWN_TOPIC_ID), self.now_ms)
            self.collect()

    def commit(self, directory: Uuid) -> None:
        self.records.append(s.PartitionChangeRecord(topic_id=TOPIC, partition_id=0, directories=[directory]))

    def publish(self) -> None:
        """The broker's image gets what is committed; the topic may be gone."""
        self.drain()
        before = self.image.end_offset
        self._replay()
        if before == self.image.end_offset:
            return
        if self.is_held():
            self.machine.catch_up([P], self.now_ms)
        else:
            self.machine.on_stopped(P, self.now_ms)
        self.drain()
        self.publisher.publish(self.now_ms)
        self.drain()

    def delete_topic(self) -> None:
        """In the log; the broker does not know yet."""
        self.records.append(s.RemoveTopicRecord(topic_id=TOPIC))

    def heal(self) -> None:
        """Performs all outputs without further faults."""
        for _ in range(20):
            self.copy(40)
            self.send()
            self.write()
            self.publish()
            self.drain()

    # The state.

    def id_of(self, path: Path) -> Uuid:
        return self.ids[self.paths.index(path)]

    @property
    def controller(self) -> Uuid:
        """The directory by what is committed."""
        image = ClusterImage()
        for record in self.records:
            image.apply(record, image.end_offset)  # type: ignore[arg-type]
        [place] = self.placements_of(image)
        assert place is not None
        return place

    @property
    def log(self) -> LiveLog:
        """That serves."""
        log = self.manager.partitions[KEY].log
        assert isinstance(log, LiveLog)
        return log

    def folders(self) -> list[str]:
        """The folders of partitions by directory, also those that a move may leave behind."""
        return sorted(f"{each.parent.name}/{each.name}" for path in self.paths for each in path.glob("*t-0*"))

    def values(self) -> list[bytes]:
        return values_of(self.log)

    def check(self) -> None:
        """Every acknowledged record is there, once."""
        assert self.values() == self.acknowledged

    def check_healed(self, name: str) -> None:
        """There is one log, in that directory, and the controller knows."""
        self.check()
        assert self.folders() == [f"{name}/t-0"]
        assert self.controller == self.id_of(self.log.folder.parent)
        assert self.log.folder.parent.name == name
        assert len(self.machine.moves) == 0 and self.machine.queue.queued == 0 and self.todo == []
        state = self.log.producers.by_id[PRODUCER]
        assert state.batches[-1].last_sequence == len(self.acknowledged) - 1


def values_of(log: LiveLog) -> list[bytes]:
    """All records of a log."""
    values: list[bytes] = []
    offset = log.start_offset
    while piece := log.read(offset, 1_000, END, at_least_one=True):
        for record in decode_records(piece):
            if record.offset >= offset:
                values.append(bytes(record.value or b"").strip())
        offset = record.offset + 1
    return values
