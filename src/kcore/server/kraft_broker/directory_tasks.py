"""Performs the outputs of a KRaft broker's BrokerDirectories, and sends its requests.

`broker/directories/` chooses the directory of a replica. This module creates and deletes logs, reports disk failures,
and sends AssignReplicasToDirs. Source: AssignmentsManager, ReplicaManager of 4.3.1.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from kcore.broker.directories.assignments import ImagePlacements
from kcore.broker.directories.broker_directories import BrokerDirectories
from kcore.broker.directories.found import FoundLog, settle_found
from kcore.broker.directories.outputs import (
    AssignmentsRefused,
    CreateReplica,
    DropSource,
    HeartbeatNow,
    Output,
    ShutDown,
    TopicIdPartition,
)
from kcore.broker.replicas.replica import Key
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.table.directory_table import MIGRATING_UUID
from kcore.net.limits.bounded_log import BoundedLog
from kcore.protocol_errors import ApiException, Errors
from kcore.schema.log_dirs import AssignReplicasToDirsRequest
from kcore.server.broker.broker_connections import ControllerClient
from kcore.server.broker.log_directories import LogDirectories
from kcore.server.broker.logs import BrokerLogs
from kcore.server.broker.replica_moves import ReplicaMoves
from kcore.server.kraft_broker.timed_requests import TimedRequests
from kcore.storage.checkpoints import TopicPartition
from kcore.storage.log.log_directory import LogDirectory
from kcore.types import ZERO_UUID, Uuid

logger = logging.getLogger(__name__)
ANSWER_S: Final = 30.0  # request.timeout.ms


class DirectoryHooks(NamedTuple):
    """Functions of the broker process that the directories call."""

    now_ms: Callable[[], int]
    failed: Callable[[Sequence[Key] | None], None]  # BrokerRuntime's `directories_failed`.
    heartbeat_now: Callable[[], None]
    stop: Callable[[str], None]  # Stops the broker for the given reason.


class DirectoryTasks:
    """The log directories of one broker; implements ReplicaDirectories for its MetadataPublisher."""

    def __init__(
        self,
        machine: BrokerDirectories,
        logs: BrokerLogs,
        placements: ImagePlacements,
        channel: ControllerClient,
        hooks: DirectoryHooks,
        moves: ReplicaMoves | None = None,
    ) -> None:
        """`moves`: None: replicas cannot move."""
        self.machine, self._moves = machine, moves
        self._logs, self._placements, self._hooks = logs, placements, hooks
        name = "assignments of replicas to directories"
        self.requests = TimedRequests(name, channel, hooks.now_ms, self._wake, self._answered)
        self._keys: dict[TopicIdPartition, Key] = {}  # The names of the broker's partitions in the image.
        self._refused: set[TopicIdPartition] = set()  # Partitions with several logs and no rule for which is valid.
        self._migrating: list[TopicIdPartition] | None = None  # Partitions in MIGRATING at the last check; None before.
        self._has_begun = self._is_performing = False
        self._log = BoundedLog(logger)

    @property
    def queued_assignments(self) -> int:
        """The gauge QueuedReplicaToDirAssignments."""
        return self.machine.queue.queued

    # Changes of the cluster.

    def registered(self, broker_epoch: int) -> None:
        """Sets the broker epoch of requests. No request is sent before the first registration."""
        self.machine.queue.broker_epoch = broker_epoch
        self.perform()

    def follow(self, image: ClusterImage, cordoned: Sequence[Uuid], *, is_supported: bool) -> None:
        """Takes a new image; called before the replicas follow it.

        `is_supported`: true if the metadata.version has log directories (KAFKA-16131).
        """
        self._placements.follow(image)
        self.machine.cordoned = cordoned
        was_supported, self.machine.queue.is_supported = self.machine.queue.is_supported, is_supported
        if is_supported and not was_supported and self._keys:
            self.machine.catch_up([*self._keys], self._hooks.now_ms())
            self.perform()

    # ReplicaDirectories.

    def begin(self, topic_ids: Mapping[Key, Uuid]) -> None:
        """Decides which logs found at the start are valid. Two logs with equal claims stop the broker."""
        if self._has_begun:
            return
        self._has_begun = True
        found = logs_found(self._logs.directories, topic_ids, self.fail)
        if self._moves is not None:
            for key, futures in self._moves.found_futures(topic_ids).items():
                found.setdefault(key, []).extend(futures)
        partitions = [(topic_ids[key], key[1]) for key in found]
        assigned = self._placements.directories_of(partitions)
        for partition, logs, place in zip(partitions, found.values(), assigned, strict=True):
            assert place is not None, f"{partition} is not this broker's"
            settled = settle_found(partition, logs, place)
            if settled.refused is not None:
                self._refused.add(partition)
                self._hooks.stop(settled.refused)
            else:
                self.machine.on_found(partition, settled)
        self._keys.update((partition, key) for partition, key in zip(partitions, found, strict=True))
        self.perform()

    def prepare(self, topic_ids: Mapping[Key, Uuid]) -> None:
        """Creates new logs, and queues an assignment for each log that is in another directory than in the image."""
        partitions = {(topic_id, key[1]): key for key, topic_id in topic_ids.items()}
        self._keys.update(partitions)
        self.machine.catch_up([each for each in partitions if each not in self._refused], self._hooks.now_ms())
        self.perform()

    def serves(self, key: Key, topic_id: Uuid) -> bool:
        partition = (topic_id, key[1])
        return partition not in self._refused and self.machine.serves(partition)

    def dropped(self, key: Key, topic_id: Uuid) -> None:
        """Deletes the replica's log, also if it was not served."""
        partition = (topic_id, key[1])
        self.machine.on_stopped(partition, self._hooks.now_ms())
        self.perform()
        self._keys.pop(partition, None)
        try:
            self._logs.delete(key)
        except ApiException as error:
            self._hooks.failed(self._logs.fail(key, str(error)))

    def are_migrated(self) -> bool:
        """True once the image has the directory of each serving replica that came from ZooKeeper (KIP-858).

        Before that the broker stays fenced. Called after each image, until it returns True.
        """
        if not self.machine.queue.is_supported:
            return True
        if self._migrating is None:
            self._migrating = [*self._keys]
        assigned = self._placements.directories_of(self._migrating)
        waiting = zip(self._migrating, assigned, strict=True)
        self._migrating = [each for each, place in waiting if place == MIGRATING_UUID and self.machine.serves(each)]
        return self.machine.are_persisted(self._migrating)

    # Failures.

    def fail(self, directory: LogDirectory, why: str) -> None:
        """Takes the directory offline after a disk failure."""
        self._hooks.failed(self._logs.directories.fail(directory, why))

    def follow_failures(self) -> None:
        """Passes the failures of directories to BrokerDirectories."""
        for each in self._logs.directories:
            if each.failed is not None and each.directory_id is not None:
                self.machine.on_directory_failed(each.directory_id, self._hooks.now_ms())
        self.perform()

    # Outputs, and time.

    def perform(self) -> None:
        """Performs the outputs of BrokerDirectories in order, until there are none."""
        if self._is_performing:
            return  # The outer call performs the new outputs.
        self._is_performing = True
        try:
            is_more = True
            while is_more:
                for output in self.machine.take_outputs():
                    self._perform(output)
                self._send()
                is_more = self.machine.has_outputs
        finally:
            self._is_performing = False
        self.requests.set_deadline(self.machine.next_deadline_ms)

    def _perform(self, output: Output) -> None:
        if self._moves is not None and self._moves.perform_output(output):
            return
        match output:
            case CreateReplica(partition, directory_id):
                self._create(partition, directory_id)
            case DropSource(partition, directory_id):
                self._drop(partition, directory_id)
            case HeartbeatNow():
                self._hooks.heartbeat_now()
            case ShutDown(reason):
                self._hooks.stop(reason)
            case AssignmentsRefused(count, partition, directory_id, reason, error_code):
                values = (count, partition[0], partition[1], directory_id, reason, Errors.of(error_code).name)
                self._log.warning(
                    "the controller refuses %s assignments of replicas to log directories, the first of topic id %s, "
                    "partition %s, to %s (%s): %s; retrying",
                    *values,
                )
            case _:
                raise AssertionError(f"an output without a handler: {output}")

    def _create(self, partition: TopicIdPartition, assigned: Uuid | None) -> None:
        machine, key = self.machine, self._keys[partition]
        online = [each.directory_id for each in self._logs.directories.online if each.directory_id is not None]
        if not online or (assigned is not None and assigned not in online):
            machine.on_not_created(partition)
            return
        chosen = machine.choice.take(key, assigned, online, machine.cordoned, machine.logs_in)
        try:
            self._logs.create(key, partition[0], chosen)
        except ApiException as error:
            machine.on_not_created(partition)
            if error.error is Errors.KAFKA_STORAGE_ERROR:
                self._hooks.failed(self._logs.fail(key, str(error)))
            else:
                logger.error("%s", error)
        else:
            machine.on_created(partition, chosen, self._hooks.now_ms())

    def _drop(self, partition: TopicIdPartition, directory_id: Uuid) -> None:
        """Deletes the partition's log in this directory, because the valid log is in another directory."""
        directory, key = self._logs.directories.with_id(directory_id), TopicPartition(*self._keys[partition])
        if directory is not None:
            try:
                directory.delete(key)
            except ApiException as error:
                self.fail(directory, str(error))

    def _wake(self) -> None:
        self.machine.tick(self._hooks.now_ms())
        self.perform()

    def _send(self) -> None:
        """Sends the next request, if it is due."""
        if not self.requests.is_closed and (request := self.machine.next_request(self._hooks.now_ms())) is not None:
            self.requests.send(lambda choose: (request, choose(AssignReplicasToDirsRequest)), ANSWER_S)

    def _answered(self, response: Any) -> None:
        self.machine.on_response(response, self._hooks.now_ms())
        self.perform()


def logs_found(
    log_directories: LogDirectories, topic_ids: Mapping[Key, Uuid], fail: Callable[[LogDirectory, str], None]
) -> dict[Key, list[FoundLog]]:
    """The logs of these partitions. A log of another topic id becomes a stray if the partition has several logs.

    `fail` takes a directory offline after a disk failure.
    """
    by_key: dict[TopicPartition, list[LogDirectory]] = {}
    for directory in log_directories.online:
        for key in directory.logs:
            by_key.setdefault(key, []).append(directory)
    found: dict[Key, list[FoundLog]] = {}
    for key, directories in by_key.items():
        for directory in directories:
            try:
                _take_log(key, directory, topic_ids.get(key), found, is_alone=len(directories) == 1)
            except ApiException as error:
                fail(directory, str(error))
    return found


def _take_log(
    key: TopicPartition,
    directory: LogDirectory,
    topic_id: Uuid | None,
    found: dict[Key, list[FoundLog]],
    *,
    is_alone: bool,
) -> None:
    """Adds the log to `found` if it is valid; also without a topic id (KAFKA-16814), or if its directory failed."""
    assert directory.directory_id is not None
    is_there = key in directory.logs
    if topic_id is not None and (not is_there or directory.topic_id(key) in (topic_id, ZERO_UUID)):
        found.setdefault(key, []).append(FoundLog(directory.directory_id, is_future=False))
    elif is_there and not is_alone:
        directory.set_stray(key)
