"""A broker's log directory: the partitions' folders in it, whose it is, and how far they were committed.

Source: LogManager of 3.9.1 and OffsetCheckpointFile.
"""

import logging
import re
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Self

from kcore.constants import METADATA_TOPIC
from kcore.metadata.topic_names import MAX_FOLDER_NAME, partition_error
from kcore.protocol_errors import exception_of
from kcore.storage.checkpoints import OFFSETS, TopicPartition, read_offsets, write_offsets
from kcore.storage.clean_shutdown import take_clean_shutdown, write_clean_shutdown
from kcore.storage.files import is_there
from kcore.storage.live_log import LiveLog, Settings, disk_failures
from kcore.storage.log import partition_of
from kcore.storage.meta_properties import (
    META_PROPERTIES,
    MetaProperties,
    read_meta_properties,
    verify_directories,
    write_meta_properties,
)
from kcore.storage.partition_metadata import PARTITION_METADATA, read_partition_metadata, write_partition_metadata
from kcore.storage.raft_dir import METADATA_FOLDER
from kcore.types import ZERO_UUID, Uuid

logger = logging.getLogger(__name__)
HIGH_WATERMARKS, _, LOG_STARTS, _ = OFFSETS
DELETED: Final = "-delete"  # Ends the name of a partition's folder that goes.
_DELETED: Final = re.compile(r"\S+-\S+\.\S+-delete")  # UnifiedLog.DeleteDirPattern


class LogDirectory:
    """One directory, locked by one broker. `failed` is the error of its disk, if there was one."""

    def __init__(self, path: Path, settings: Settings | None = None) -> None:
        """Nothing is looked at before `open`."""
        self.path, self._settings = path, settings or Settings()
        self.logs: dict[TopicPartition, LiveLog] = {}
        self.failed: str | None = None
        self.directory_id: Uuid | None = None  # In KRaft mode.

    def open(self) -> Self:
        """Every log in it. KafkaStorageException if that fails: some may be open then, until `fail`."""
        with disk_failures(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            for folder in [each for each in self.path.iterdir() if _DELETED.fullmatch(each.name) and each.is_dir()]:
                shutil.rmtree(folder)  # A deletion that a crash cut short.
            high_watermarks, starts = self._offsets(HIGH_WATERMARKS), self._offsets(LOG_STARTS)
            for key, folder in self._folders():
                self.topic_id(key)  # One that cannot be read is found here, not by the controller's first request.
                log = self.logs[key] = LiveLog(folder, settings=self._settings)
                log.raise_start_offset(starts.get(key, 0))
                wanted = min(high_watermarks.get(key, log.start_offset), log.end_offset)
                log.high_watermark = max(wanted, log.start_offset)
        return self

    def _offsets(self, name: str) -> dict[TopicPartition, int]:
        path = self.path / name
        return read_offsets(path) if is_there(path) else {}

    def _folders(self) -> Iterator[tuple[TopicPartition, Path]]:
        for folder in sorted(self.path.iterdir()):
            if not folder.is_dir() or (folder.name == METADATA_FOLDER and self.directory_id is not None):
                continue
            key = partition_of(folder)
            if key is None or key.topic == METADATA_TOPIC or partition_error(*key) or str(key) != folder.name:
                logger.warning("%s: no partition of a broker can have that folder; it is left alone", folder)
            else:
                yield key, folder

    def _folder(self, key: TopicPartition) -> Path:
        """The partition's folder, always in this directory; an ApiException for an invalid topic or partition."""
        if error := partition_error(*key):
            raise exception_of(error)(f"{key.topic!r:.300}, partition {key.partition}: no log can have that name")
        return self.path / str(key)

    def claim(self, broker_id: int, cluster_id: str) -> None:
        """Claims the directory.

        StorageError if it is another broker's or cluster's. KafkaStorageException without readable meta.properties.
        """
        known = self.read_meta()
        if known is None:
            self.write_meta(MetaProperties(0, cluster_id=cluster_id, node_id=broker_id))
        else:
            verify_directories({self.path: known}, node_id=broker_id, cluster_id=cluster_id, needs_directory_ids=False)

    def read_meta(self) -> MetaProperties | None:
        """Whose it is; None if nobody's. KafkaStorageException if the disk does not say."""
        with disk_failures(self.path):
            path = self.path / META_PROPERTIES
            return read_meta_properties(path) if is_there(path) else None

    def write_meta(self, meta: MetaProperties) -> None:
        """KafkaStorageException."""
        with disk_failures(self.path):
            write_meta_properties(self.path / META_PROPERTIES, meta)

    def topic_id(self, key: TopicPartition) -> Uuid:
        """As partition.metadata has it; ZERO_UUID if it has none. KafkaStorageException if it cannot be read."""
        path = self._folder(key) / PARTITION_METADATA
        with disk_failures(self.path):
            return read_partition_metadata(path) if is_there(path) else ZERO_UUID

    def create(self, key: TopicPartition) -> LiveLog:
        """The partition's log, created if need be."""
        if (known := self.logs.get(key)) is not None:
            return known
        log = self.logs[key] = LiveLog(self._folder(key), settings=self._settings)
        return log

    def assign_topic_id(self, key: TopicPartition, topic_id: Uuid) -> None:
        """Which topic of that name it is; on the disk when this returns (KIP-516)."""
        with disk_failures(self.path):
            if topic_id != ZERO_UUID and self.topic_id(key) != topic_id:
                write_partition_metadata(self._folder(key) / PARTITION_METADATA, topic_id)

    def delete(self, key: TopicPartition) -> None:
        """The folder goes under another name first, so that a crash leaves no half of a log."""
        log = self.logs.pop(key, None)
        if log is None:
            return
        log.abandon()
        with disk_failures(self.path):
            ends = f"-{key.partition}.{uuid.uuid4().hex}{DELETED}"
            going = self.path / f"{key.topic[: MAX_FOLDER_NAME - len(ends)]}{ends}"
            log.folder.rename(going)
            shutil.rmtree(going)

    def checkpoint(self) -> None:
        """How far each log is committed, and where it starts; whole or not at all."""
        with disk_failures(self.path):
            marks: dict[tuple[str, int], int] = {key: log.high_watermark for key, log in self.logs.items()}
            write_offsets(self.path / HIGH_WATERMARKS, marks)
            starts: dict[tuple[str, int], int] = {
                key: log.start_offset for key, log in self.logs.items() if log.start_offset
            }
            if starts or is_there(self.path / LOG_STARTS):
                write_offsets(self.path / LOG_STARTS, starts)

    def fail(self, why: str) -> list[TopicPartition]:
        """Takes the directory offline; returns its partitions."""
        self.failed = self.failed or why
        gone = [*self.logs]
        for log in self.logs.values():
            log.abandon()
        self.logs.clear()
        return gone

    def take_clean_shutdown(self) -> int:
        """The broker epoch of the last run, if that closed the directory; once."""
        with disk_failures(self.path):
            return take_clean_shutdown(self.path)

    def close(self, broker_epoch: int | None = None) -> None:
        """Everything on the disk. In KRaft mode a file says so, with the broker epoch."""
        if self.failed is not None:
            return
        self.checkpoint()
        for log in self.logs.values():
            log.close()
        self.logs.clear()
        if broker_epoch is not None:
            with disk_failures(self.path):
                write_clean_shutdown(self.path, broker_epoch)
