"""Moves replicas between the log directories of this broker, as `broker/directories/moves.py` decides.

`perform_output` performs the outputs of BrokerDirectories in order, and `run` copies. After a disk failure, the hook
`fail` takes the directory offline, and the operation ends. Source: ReplicaManager.alterReplicaLogDirs,
ReplicaAlterLogDirsThread, Partition.maybeReplaceCurrentWithFutureReplica, LogManager.replaceCurrentWithFutureLog of
4.3.1.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, NamedTuple

from kcore.broker.directories.broker_directories import BrokerDirectories
from kcore.broker.directories.found import FoundLog
from kcore.broker.directories.moves import State
from kcore.broker.directories.outputs import (
    CreateFuture,
    DeleteFuture,
    DropSource,
    Output,
    Promote,
    StartCopy,
    StopCopy,
    TopicIdPartition,
)
from kcore.broker.replicas.replica import Key, Role
from kcore.broker.replicas.replica_manager import ReplicaManager
from kcore.broker.replicas.replication_quota import ReplicationQuota
from kcore.errors import StorageError
from kcore.metadata.image.image import ClusterImage
from kcore.net.limits.bounded_log import BoundedLog
from kcore.protocol_errors import ApiException, Errors
from kcore.replication.epochs import EpochCache
from kcore.schema.log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from kcore.server.broker.logs import BrokerLogs
from kcore.storage.checkpoints import TopicPartition
from kcore.storage.log.live_log import NOTHING_CUT, LiveLog
from kcore.storage.log.log_directory import LogDirectory
from kcore.types import ZERO_UUID, Uuid
from kcore.wire.record_batch import scan_batches

SLICE_BYTES: Final = 1 << 18  # The bytes that are copied in one step, which blocks the event loop.
SYNC_BYTES: Final = 1 << 24  # Bytes after which the copy is synced, so that the promotion has little left to sync.


class FutureCopy:
    """Copies the log of a partition to its future log, a slice at a time (ReplicaAlterLogDirsThread).

    `at` is the directory in use: after a KafkaStorageException, the one whose disk failed.
    """

    def __init__(
        self, key: TopicPartition, source: LogDirectory, target: LogDirectory, quota: ReplicationQuota
    ) -> None:
        """KeyError unless the source has the current log, and the target a future one. `quota`: counts the copy."""
        self.key, self.source, self.target = key, source, target
        self._quota = quota
        self.is_near = False  # True once the future log has caught up.
        self.not_before_ms = 0  # The time of the next try after an error.
        self.at = target
        self._log, self._future = source.logs[key], target.futures[key]
        self._unsynced = 0

    @property
    def is_there(self) -> bool:
        """Whether both logs still exist."""
        same = self.source.logs.get(self.key) is self._log
        return same and self.target.futures.get(self.key) is self._future

    @property
    def lag(self) -> int:
        """The number of offsets that the future log lacks."""
        return self._log.end_offset - self._future.end_offset

    def begin(self) -> None:
        """Truncates the future log to the records that both logs have: the current log may have been truncated before.

        The common end is found by leader epochs, as between brokers. Source: ReplicaAlterLogDirsThread.truncate.
        """
        self.at = self.target
        self._log.lowest_cut = NOTHING_CUT
        self._cut(common_end(self._log, self._future))

    def step(self) -> bool:
        """Copies a slice. Returns True if both logs then end at the same offset. StorageError for a corrupt batch."""
        source, future = self._log, self._future
        self.at = self.target
        if source.lowest_cut < NOTHING_CUT:
            lowest, source.lowest_cut = source.lowest_cut, NOTHING_CUT
            self._cut(lowest)
        start_offset = source.start_offset
        is_empty_there = future.start_offset == future.end_offset == start_offset
        if future.end_offset <= start_offset and not is_empty_there:
            future.truncate_fully_and_start_at(start_offset)  # The current log has none of its records any more.
        if future.end_offset < source.end_offset:
            self.at = self.source
            data = source.read(future.end_offset, SLICE_BYTES, source.end_offset, at_least_one=True)
            self.at = self.target
            self._append(data)
        future.raise_start_offset(source.start_offset)
        future.high_watermark = max(min(source.high_watermark, future.end_offset), future.start_offset)
        return future.end_offset == source.end_offset

    def _cut(self, offset: int) -> None:
        future = self._future
        if offset < future.start_offset:
            if future.end_offset > future.start_offset or future.start_offset > self._log.start_offset:
                future.truncate_fully_and_start_at(self._log.start_offset)
        elif offset < future.end_offset:
            future.truncate_to(offset)

    def _append(self, data: bytes) -> None:
        batches, future = scan_batches(data), self._future
        if not len(batches) or not batches.crc_matches.all():
            raise StorageError(f"{self._log.folder}: the batch at offset {future.end_offset} is missing or corrupt")
        first_offset = int(batches.base_offset[0])
        if first_offset < future.end_offset == future.start_offset:
            # The current log starts in the middle of a batch (Partition.appendRecordsToFollowerOrFutureReplica).
            future.truncate_fully_and_start_at(first_offset)
        future.append(data, batches)
        self._quota.record(len(data))
        self._unsynced += len(data)
        if self._unsynced >= SYNC_BYTES:
            self._unsynced = 0
            future.sync()


def common_end(one: LiveLog, other: LiveLog) -> int:
    """The offset below which two logs of a partition have the same records, by leader epochs; -1 if unknown."""
    end_offset = other.end_offset
    for epoch, start_offset in reversed(other.epochs.entries):
        known = EpochCache(one.epochs.entries).end_offset_for(epoch, one.end_offset)
        if known.epoch == epoch:
            return min(known.end_offset, end_offset)
        end_offset = start_offset
    return -1


logger = logging.getLogger(__name__)
IDLE_S: Final = 0.05  # The interval of checks for new records of current logs.
BACKOFF_MS: Final = 1_000  # replica.fetch.backoff.ms


class MoveHooks(NamedTuple):
    """Callbacks of the moves to the broker process."""

    image: Callable[[], ClusterImage | None]  # The newest image that the replicas follow.
    fail: Callable[[LogDirectory, str], None]  # Takes a directory offline after a disk failure.
    perform: Callable[[], None]  # Performs the outputs of BrokerDirectories and of the replicas, in order.
    now_ms: Callable[[], int]


class ReplicaMoves:
    """The moves of one broker. All methods except `run` return after their disk operations are done."""

    def __init__(
        self, logs: BrokerLogs, manager: ReplicaManager, directories: BrokerDirectories, hooks: MoveHooks
    ) -> None:
        self._logs, self._manager, self._directories, self._hooks = logs, manager, directories, hooks
        self._copies: dict[TopicIdPartition, FutureCopy] = {}
        self._paused_until_ms = 0  # The end of a pause of all copies.
        self._has_copies = asyncio.Event()
        self._keys: dict[TopicIdPartition, Key] = {}  # The partitions of future logs, also of deleted topics.
        self._log = BoundedLog(logger)

    def found_futures(self, topic_ids: Mapping[Key, Uuid]) -> dict[Key, list[FoundLog]]:
        """The future logs that the online directories have at the start, for `settle_found`.

        `topic_ids`: the topic ids of this broker's partitions in its first image. Future logs are deleted if their
        topic is deleted, or if they have no topic id after a crash.
        """
        found: dict[Key, list[FoundLog]] = {}
        for directory in self._logs.directories.online:
            for key in [*directory.futures]:
                with self._reporting(directory):
                    topic_id = topic_ids.get(key)
                    if topic_id is None or directory.future_topic_id(key) != topic_id:
                        logger.warning("the future log of %s in %s is a stray: deleting it", key, directory.path)
                        directory.delete_future(key)
                    elif directory.directory_id is not None:
                        self._keys[topic_id, key.partition] = key
                        found.setdefault(key, []).append(FoundLog(directory.directory_id, is_future=True))
        return found

    # Outputs of BrokerDirectories.

    def perform_output(self, output: Output) -> bool:
        """Performs an output about moves; False for other outputs."""
        match output:
            case CreateFuture(partition, directory):
                self._create_future(partition, directory)
            case StartCopy(partition, source, target):
                self._start_copy(partition, source, target)
            case StopCopy(partition):
                self._copies.pop(partition, None)
            case Promote(partition, source, target):
                self._promote(partition, source, target)
            case DropSource(partition, directory):
                self._drop_source(partition, directory)
            case DeleteFuture(partition, directory):
                self._delete_future(partition, directory)
            case _:
                return False
        return True

    def _create_future(self, partition: TopicIdPartition, directory: Uuid) -> None:
        key, target = self._key(partition), self._logs.directories.with_id(directory)
        source = next((each for each in self._logs.directories.online if key in each.logs), None)
        if key is None or target is None or source is None:
            return
        log = source.logs[key]
        self._keys[partition] = key
        with self._reporting(target):
            target.create_future(key, partition[0], log.start_offset, log.segment_bytes)
            logger.info("%s moves from %s to %s", key, source.path, target.path)

    def _start_copy(self, partition: TopicIdPartition, source_id: Uuid, target_id: Uuid) -> None:
        key, source, target = (
            self._key(partition),
            self._logs.directories.with_id(source_id),
            self._logs.directories.with_id(target_id),
        )
        if key is None or source is None or target is None or key not in source.logs or key not in target.futures:
            return
        copy = FutureCopy(key, source, target, self._manager.quotas.alter_log_dirs)
        with self._reporting(target):
            copy.begin()
            self._copies[partition] = copy
            self._has_copies.set()

    def _promote(self, partition: TopicIdPartition, source_id: Uuid | None, target_id: Uuid) -> None:
        """Renames the future log if it ends at the offset of the current log: the first of Kafka's two renamings."""
        key, target, now_ms = self._key(partition), self._logs.directories.with_id(target_id), self._hooks.now_ms()
        if key is None or target is None or key not in target.futures:
            return
        source = None if source_id is None else self._logs.directories.with_id(source_id)
        if source_id is not None:
            if source is None or key not in source.logs:  # The source has failed: the controller elects another leader.
                self._directories.on_behind(partition, now_ms)
                return
            if not self._is_whole(key, source, target):
                self._directories.on_behind(partition, now_ms)
                return
        with self._reporting(target):
            if source is not None:
                target.futures[key].take_over(source.logs[key])
            log = target.promote(key)
            if source is not None:
                source.set_aside(key)
                self._manager.replace_log(key, log)
            self._keys.pop(partition, None)
            logger.info("%s: the replica in %s is the current one", key, target.path)
            self._directories.on_promoted(partition, now_ms)

    @staticmethod
    def _is_whole(key: TopicPartition, source: LogDirectory, target: LogDirectory) -> bool:
        log, future = source.logs[key], target.futures[key]
        return log.end_offset == future.end_offset and log.lowest_cut > future.end_offset

    def _drop_source(self, partition: TopicIdPartition, directory: Uuid) -> None:
        """Renames the old log and deletes it; also a second current log that was found at the start."""
        key, source = self._key(partition), self._logs.directories.with_id(directory)
        if key is not None and source is not None:
            with self._reporting(source):
                source.set_aside(key)
                source.delete_replaced(key)

    def _delete_future(self, partition: TopicIdPartition, directory: Uuid) -> None:
        key, target = self._key(partition), self._logs.directories.with_id(directory)
        self._keys.pop(partition, None)
        if key is not None and target is not None:
            with self._reporting(target):
                target.delete_future(key)

    # Copying.

    async def run(self) -> None:
        """Copies until the task is cancelled."""
        while True:
            if not self._copies:
                self._has_copies.clear()
                await self._has_copies.wait()
            await asyncio.sleep(0 if self.copy_some() else IDLE_S)

    def copy_some(self) -> bool:
        """Copies a slice of each copy that has caught up once, and of the first other copy. False if all are idle.

        New copies run one at a time, so that each finishes sooner (ReplicaAlterLogDirsThread).
        """
        is_more, is_first_taken, now_ms = False, False, self._hooks.now_ms()
        self._manager.quotas.set_time(now_ms)
        for partition, copy in [*self._copies.items()]:
            if now_ms < copy.not_before_ms or (is_first_taken and not copy.is_near):
                continue
            if self._must_pause(now_ms):
                is_more = False
                break
            is_first_taken = is_first_taken or not copy.is_near
            is_more = self._copy_slice(partition, copy, now_ms) or is_more
        self._hooks.perform()
        return is_more

    def _must_pause(self, now_ms: int) -> bool:
        """Pauses all copies for replica.fetch.backoff.ms if they exceed replica.alter.log.dirs.io.max.bytes.per.second.

        Source: LocalLeaderEndPoint.buildFetch, AbstractFetcherThread.maybeFetch.
        """
        if now_ms >= self._paused_until_ms and self._manager.quotas.alter_log_dirs.is_exceeded:
            self._paused_until_ms = now_ms + self._manager.config.replica_fetch_backoff_ms
        return now_ms < self._paused_until_ms

    def _copy_slice(self, partition: TopicIdPartition, copy: FutureCopy, now_ms: int) -> bool:
        """Copies a slice. True if this copy has more to copy, or another copy may now start."""
        if not copy.is_there:
            self._copies.pop(partition, None)  # A log was deleted, or its directory has failed.
            return False
        is_caught_up = False
        try:
            with self._reporting(copy.source, lambda: copy.at):
                is_caught_up = copy.step()
        except StorageError as error:  # Try again: the log may be truncated and fetched again.
            self._log.error("%s: %s", copy.key, error)
            copy.not_before_ms = now_ms + BACKOFF_MS
        if not is_caught_up:
            return copy.lag > 0 and not copy.not_before_ms > now_ms
        was_near, copy.is_near = copy.is_near, True
        move = self._directories.moves.get(partition)
        if move is not None and move.state in (State.COPYING, State.ACCEPTED):
            self._directories.on_caught_up(partition, now_ms)
        return not was_near

    # Requests.

    def alter(self, request: AlterReplicaLogDirsRequest) -> AlterReplicaLogDirsResponse:
        """Starts the move of each partition, or returns its error (KafkaApis.handleAlterReplicaLogDirsRequest)."""
        wanted = {
            (topic.name, index): directory.path
            for directory in request.dirs
            for topic in directory.topics
            for index in topic.partitions
        }
        topics: dict[str, list[AlterReplicaLogDirPartitionResult]] = {}
        for key, path in wanted.items():
            error = self._alter(key, path)
            if error is not Errors.NONE:
                self._log.warning("%s-%s is not moved to %s: %s", *key, path, error.name)
            result = AlterReplicaLogDirPartitionResult(partition_index=key[1], error_code=error)
            topics.setdefault(key[0], []).append(result)
        self._hooks.perform()
        results = [
            AlterReplicaLogDirTopicResult(topic_name=name, partitions=partitions) for name, partitions in topics.items()
        ]
        return AlterReplicaLogDirsResponse(results=results)

    def _alter(self, key: Key, path: str) -> Errors:
        directory = next((each for each in self._logs.directories if str(each.path.absolute()) == path), None)
        target = None
        if directory is not None:  # A directory that was unreadable at the start is offline and has no id.
            target = ZERO_UUID if directory.failed is not None else directory.directory_id
        topics = self._manager.cluster.table.topics
        partition = (topics.ids[topics.row(key[0])], key[1]) if key[0] in topics else None
        error = self._directories.alter_replica_log_dir(key, partition, target, self._hooks.now_ms())
        if error is Errors.REPLICA_NOT_AVAILABLE:
            known = self._manager.partitions.get(key)
            if known is not None and known.role is Role.OFFLINE:
                return Errors.KAFKA_STORAGE_ERROR
            if known is None and not self._manager.cluster.knows(key):
                return Errors.UNKNOWN_TOPIC_OR_PARTITION
        return error

    # Look-ups.

    def _key(self, partition: TopicIdPartition) -> TopicPartition | None:
        """The topic name and index of a partition with a future log or in the image; None for other partitions."""
        if (key := self._keys.get(partition)) is not None:
            return TopicPartition(*key)
        image = self._hooks.image()
        row = None if image is None else image.table.topics.row_of_id(partition[0])
        return None if image is None or row is None else TopicPartition(image.table.topics.names[row], partition[1])

    @contextmanager
    def _reporting(self, directory: LogDirectory, at: Callable[[], LogDirectory] | None = None) -> Iterator[None]:
        """Takes the directory offline after a disk failure. `at`: returns the one of two that failed."""
        try:
            yield
        except ApiException as error:
            self._hooks.fail(directory if at is None else at(), str(error))
