"""A broker's log directory: partitions' folders, `meta.properties`, checkpoints of high watermarks and log starts.

Source: LogManager of 3.9.1 and OffsetCheckpointFile.
"""

import json
import logging
import re
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Self

from kcore.constants import METADATA_TOPIC, UNKNOWN_BROKER_EPOCH
from kcore.errors import StorageError
from kcore.metadata.topic_names import MAX_FOLDER_NAME, partition_error
from kcore.protocol_errors import exception_of
from kcore.storage.checkpoints import OFFSETS, TopicPartition, read_offsets, write_offsets
from kcore.storage.files import OS, FileSystem, is_there, read_bytes, remove, sync_folder, write_atomically
from kcore.storage.log.folder_work import FolderWork, delete_discarded
from kcore.storage.log.holes import ASIDE, rename
from kcore.storage.log.live_log import LiveLog, Settings, disk_failures
from kcore.storage.log.partition_folder import partition_of, segment_files
from kcore.storage.log.segmented_log import remove_indexes
from kcore.storage.meta_properties import (
    META_PROPERTIES,
    MetaProperties,
    read_meta_properties,
    verify_directories,
    write_meta_properties,
)
from kcore.storage.partition_metadata import PARTITION_METADATA, read_partition_metadata, write_partition_metadata
from kcore.storage.raft.raft_dir import METADATA_FOLDER
from kcore.types import ZERO_UUID, Uuid

logger = logging.getLogger(__name__)
HIGH_WATERMARKS, _, LOG_STARTS, _ = OFFSETS
DELETED: Final = "-delete"  # The suffix of a partition's folder that is being deleted.
STRAY: Final = "-stray"  # The suffix of a folder whose partition has no replica on this broker.
_DELETED: Final = re.compile(r"\S+-\S+\.\S+-delete")  # UnifiedLog.DeleteDirPattern
SWAP: Final = ".swap"  # The suffix of compacted segments before they replace the original segments.
FUTURE: Final = "-future"  # The suffix of a future log's folder, named topic-partition.<32 hexadecimal digits>-future.
_FUTURE: Final = re.compile(r"(\S+-\S+)\.\S+-future")  # UnifiedLog.FutureDirPattern


class LogDirectory:
    """One log directory, locked by its broker. `failed` is the error of a failed disk, otherwise None."""

    def __init__(self, path: Path, settings: Settings | None = None, *, in_background: bool = False) -> None:
        """Does not access the disk; `open` reads the directory.

        `in_background`: a thread writes topic ids and deletes folders and files. `checkpoint` raises its errors.
        """
        self.path, self._settings = path, settings or Settings()
        self._work = FolderWork(in_background=in_background)
        self.logs: dict[TopicPartition, LiveLog] = {}
        self.futures: dict[TopicPartition, LiveLog] = {}  # Future logs, which will replace current logs (KIP-113).
        self.replaced: dict[TopicPartition, LiveLog] = {}  # Logs that a log in another directory has replaced.
        self.failed: str | None = None
        self.directory_id: Uuid | None = None  # Only in KRaft mode, and while a broker migrates to KRaft mode.
        self._place: tuple[int, int] | None = None  # Device and inode of the opened directory.

    def open(self) -> Self:
        """Opens every log. Raises KafkaStorageException if the disk fails; logs then stay open until `fail`."""
        with disk_failures(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            self._place = _place_of(self.path)
            for folder in [each for each in self.path.iterdir() if _DELETED.fullmatch(each.name) and each.is_dir()]:
                shutil.rmtree(folder)  # A crash interrupted the deletion.
            high_watermarks, starts = self._offsets(HIGH_WATERMARKS), self._offsets(LOG_STARTS)
            for logs, key, folder in self._folders():
                _tidy(folder)
                topic_id_in(folder)  # A damaged partition.metadata is reported now, not at the first request.
                if key in logs:
                    raise StorageError(f"{folder} and {logs[key].folder.name} are of the same replica: delete one")
                log = logs[key] = self._log_in(folder)
                self._begin_at(log, starts.get(key, 0))
                wanted = min(high_watermarks.get(key, log.start_offset), log.end_offset)
                if wanted < high_watermarks.get(key, 0):
                    text = "%s: committed up to offset %d by %s, but the log ends at %d: its end is missing"
                    logger.warning(text, folder, high_watermarks[key], HIGH_WATERMARKS, log.end_offset)
                log.high_watermark = max(wanted, log.start_offset)
        return self

    def _begin_at(self, log: LiveLog, start: int) -> None:
        """Raises the log start offset to `start`, from the checkpoint.

        If `start` is above the log's end, raises StorageError, or renames all segments with `set_aside`.
        """
        if start <= (end := log.end_offset):
            log.raise_start_offset(start)
            return
        said = f"{self.path / LOG_STARTS}: {log.folder.name} starts at offset {start}, but the log ends at {end}"
        if not self._settings.set_aside:
            raise StorageError(f"{said}: correct the entry, or start with --set-aside, which renames all segments")
        logger.warning("%s: its segments are renamed to *%s", said, ASIDE)
        for path in reversed(segment_files(log.folder)):
            remove_indexes(path)
            rename(path)
        log.truncate_fully_and_start_at(end)

    def _offsets(self, name: str) -> dict[TopicPartition, int]:
        path = self.path / name
        return read_offsets(path) if is_there(path) else {}

    def _folders(self) -> Iterator[tuple[dict[TopicPartition, LiveLog], TopicPartition, Path]]:
        """The partitions' folders, each with the dict for its log (`logs` or `futures`) and its partition.

        In ZooKeeper mode there are no future logs.
        """
        for folder in sorted(self.path.iterdir()):
            if not folder.is_dir() or folder.name == METADATA_FOLDER:
                continue
            future = _FUTURE.fullmatch(folder.name) if self.directory_id is not None else None
            name = folder.name if future is None else future[1]
            key = partition_of(self.path / name)
            if key is None or key.topic == METADATA_TOPIC or partition_error(*key) or str(key) != name:
                logger.warning("%s: no partition of a broker has a folder of this name; it is ignored", folder)
            else:
                yield self.logs if future is None else self.futures, key, folder

    def _folder(self, key: TopicPartition) -> Path:
        """The partition's folder; raises an ApiException for an invalid topic or partition."""
        if error := partition_error(*key):
            raise exception_of(error)(f"{key.topic!r:.300}, partition {key.partition}: no log can have that name")
        return self.path / str(key)

    def claim(self, broker_id: int, cluster_id: str) -> None:
        """Writes meta.properties, or checks the existing file.

        Raises StorageError for a directory of another broker or cluster, KafkaStorageException for an unreadable file.
        """
        known = self.read_meta()
        if known is None:
            self.write_meta(MetaProperties(0, cluster_id=cluster_id, node_id=broker_id))
        else:
            verify_directories({self.path: known}, node_id=broker_id, cluster_id=cluster_id, needs_directory_ids=False)

    def read_meta(self) -> MetaProperties | None:
        """The content of meta.properties; None without the file. Raises KafkaStorageException if it is unreadable."""
        with disk_failures(self.path):
            path = self.path / META_PROPERTIES
            return read_meta_properties(path) if is_there(path) else None

    def write_meta(self, meta: MetaProperties) -> None:
        """Replaces meta.properties; raises KafkaStorageException if the disk fails."""
        with disk_failures(self.path):
            write_meta_properties(self.path / META_PROPERTIES, meta)

    def topic_id(self, key: TopicPartition) -> Uuid:
        """The topic id of the log, or ZERO_UUID. Raises KafkaStorageException for an unreadable partition.metadata."""
        with disk_failures(self.path):
            return self._work.topic_id(self._folder(key)) or topic_id_in(self._folder(key))

    def create(self, key: TopicPartition) -> LiveLog:
        """The partition's log; creates the log if it does not exist."""
        if (known := self.logs.get(key)) is not None:
            return known
        log = self.logs[key] = self._log_in(self._folder(key))
        return log

    def _log_in(self, folder: Path) -> LiveLog:
        work = self._work
        return LiveLog(folder, settings=self._settings, before_append=work.finish, files=work.files)

    def assign_topic_id(self, key: TopicPartition, topic_id: Uuid) -> None:
        """Sets the topic id in partition.metadata; durable before the next append (KIP-516)."""
        with disk_failures(self.path):
            if topic_id != ZERO_UUID and self.topic_id(key) != topic_id:
                self._work.write_topic_id(self._folder(key), topic_id)

    def delete(self, key: TopicPartition) -> None:
        """Deletes a log, if there is one; renames its folder first, so that a crash leaves no partial log."""
        self._delete(self.logs, key)

    def _delete(self, logs: dict[TopicPartition, LiveLog], key: TopicPartition, *, sync: bool = False) -> None:
        log = logs.pop(key, None)
        if log is None:
            return
        log.abandon()
        self._work.drop_topic_id(log.folder)
        with disk_failures(self.path):
            going = self._other_folder(key, DELETED)
            log.folder.rename(going)
            if sync:
                sync_folder(self.path)
            self._work.delete(going)

    def set_stray(self, key: TopicPartition) -> None:
        """Renames the folder of a stray log, so that no broker opens it (UnifiedLog.logStrayDirName)."""
        if (log := self.logs.pop(key, None)) is not None:
            log.abandon()
            with disk_failures(self.path):
                self._work.finish(log.folder)
                stray = self._other_folder(key, STRAY)
                log.folder.rename(stray)
                sync_folder(self.path)
                self._work.moved_to(stray)
            text = "%s-%s in %s is of no replica of this broker: its folder is renamed to %s"
            logger.warning(text, *key, self.path, stray.name)

    def _other_folder(self, key: TopicPartition, suffix: str) -> Path:
        ends = f"-{key.partition}.{uuid.uuid4().hex}{suffix}"
        return self.path / f"{key.topic[: MAX_FOLDER_NAME - len(ends)]}{ends}"

    # Replicas that move (KIP-113).

    def create_future(self, key: TopicPartition, topic_id: Uuid, start_offset: int, segment_bytes: int) -> LiveLog:
        """Creates an empty future log (LogManager.getOrCreateLog, UnifiedLog.logFutureDirName)."""
        self.delete_future(key)
        with disk_failures(self.path):
            folder = self.path / f"{self._folder(key).name}.{uuid.uuid4().hex}{FUTURE}"
            folder.mkdir()
            write_partition_metadata(folder / PARTITION_METADATA, topic_id)
            sync_folder(self.path)
        log = self.futures[key] = LiveLog(
            folder, start_offset=start_offset, settings=self._settings, files=self._work.files
        )
        log.set_segment_bytes(segment_bytes)
        return log

    def future_topic_id(self, key: TopicPartition) -> Uuid:
        """The topic id of a future log; ZERO_UUID if a crash interrupted its creation."""
        with disk_failures(self.path):
            return topic_id_in(self.futures[key].folder)

    def delete_future(self, key: TopicPartition) -> None:
        """Deletes the future log, if there is one."""
        self._delete(self.futures, key, sync=True)

    def promote(self, key: TopicPartition) -> LiveLog:
        """Turns this directory's future log into the partition's current log. Durable on return.

        The caller then calls `set_aside` and `delete_replaced` of the directory with the former current log. Source:
        LogManager.replaceCurrentWithFutureLog.
        """
        log = self.futures[key]
        log.move_to(self._folder(key))
        self.logs[key] = self.futures.pop(key)
        with disk_failures(self.path):
            self._work.moved_to(log.folder)
        return log

    def set_aside(self, key: TopicPartition) -> None:
        """Stops using this directory's log of a partition, because a log in another directory has replaced it."""
        if (log := self.logs.pop(key, None)) is not None:
            self.replaced[key] = log

    def delete_replaced(self, key: TopicPartition) -> None:
        """Deletes a log for which `set_aside` was called."""
        self._delete(self.replaced, key, sync=True)

    def checkpoint(self) -> None:
        """Writes the high watermarks and the log start offsets, each file atomically.

        Raises KafkaStorageException if the path no longer leads to the directory that was opened. After an unmount, the
        path leads to an empty directory that accepts files, while open segments are still written to the disk.
        """
        with disk_failures(self.path):
            self._work.check()
            if self._place not in (None, _place_of(self.path)):
                raise StorageError("another directory is there than the one that was opened; was its disk unmounted?")
            logs = {**self.futures, **self.logs}
            marks: dict[tuple[str, int], int] = {key: log.high_watermark for key, log in logs.items()}
            write_offsets(self.path / HIGH_WATERMARKS, marks)
            starts: dict[tuple[str, int], int] = {
                key: log.start_offset for key, log in logs.items() if log.start_offset
            }
            if starts or is_there(self.path / LOG_STARTS):
                write_offsets(self.path / LOG_STARTS, starts)

    def fail(self, why: str) -> list[TopicPartition]:
        """Takes the directory offline because of the error `why`; returns the partitions whose current logs it had."""
        self.failed = self.failed or why
        gone = [*self.logs]
        for logs in (self.logs, self.futures, self.replaced):
            for log in logs.values():
                log.abandon()
            logs.clear()
        self._work.abandon()
        return gone

    def take_clean_shutdown(self) -> int:
        """Reads the broker epoch of the last clean shutdown and deletes its file (see the function of this name)."""
        with disk_failures(self.path):
            return take_clean_shutdown(self.path)

    def close(self, broker_epoch: int | None = None) -> None:
        """Makes all logs durable and closes them. In KRaft mode writes the broker epoch to the clean shutdown file."""
        self._work.close()
        if self.failed is not None:
            return
        self.checkpoint()
        for logs in (self.logs, self.futures, self.replaced):
            for log in logs.values():
                log.close()
            logs.clear()
        if broker_epoch is not None:
            with disk_failures(self.path):
                write_clean_shutdown(self.path, broker_epoch)


def _place_of(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_dev, found.st_ino


def _tidy(folder: Path) -> None:
    """Deletes the files of logs whose deletion a crash interrupted (LogLoader).

    Raises StorageError for an unfinished compaction: `.swap` files have records of deleted segments.
    """
    if swapped := sorted(each for each in folder.iterdir() if each.suffix == SWAP):
        raise StorageError(f"{swapped[0]}: a Kafka broker did not finish this compaction; start it once to do so")
    delete_discarded(folder)


def topic_id_in(folder: Path) -> Uuid:
    """The topic id in a folder's partition.metadata; ZERO_UUID without the file. Raises OSError, StorageError."""
    path = folder / PARTITION_METADATA
    return read_partition_metadata(path) if is_there(path) else ZERO_UUID


CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"  # The name of the clean shutdown file, in a log directory.
_MOST: Final = 2**63 - 1
_EPOCH: Final = re.compile(rb'\{\s*"version"\s*:\s*0\s*,\s*"brokerEpoch"\s*:\s*(\d{1,19})\s*\}\s*')


def take_clean_shutdown(directory: Path, files: FileSystem = OS) -> int:
    """The broker epoch in the clean shutdown file, which it deletes; UNKNOWN_BROKER_EPOCH without a valid file."""
    path = directory / CLEAN_SHUTDOWN
    if not is_there(path, files):
        return UNKNOWN_BROKER_EPOCH
    found = _EPOCH.fullmatch(read_bytes(path, files=files))
    remove(path, files)
    return int(found[1]) if found and int(found[1]) <= _MOST else UNKNOWN_BROKER_EPOCH


def write_clean_shutdown(directory: Path, broker_epoch: int, files: FileSystem = OS) -> None:
    """Writes the clean shutdown file; the directory's other files must already be durable."""
    content = json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":"))
    write_atomically(directory / CLEAN_SHUTDOWN, content.encode(), files)
