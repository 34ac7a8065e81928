"""Work on partitions' folders for which an event loop must not wait: writing topic ids, deleting folders and files.

A topic id is durable before the first append to its log, so that records never lose their topic (KIP-516). Until then
the log directory keeps it in memory. A folder, a segment or a producer snapshot is renamed before it is deleted: a
start deletes what is left.

Source: PartitionMetadataFile (maybeFlush), LogManager.deleteLogs, LocalLog.deleteSegmentFiles and
ProducerStateManager.removeAndMarkSnapshotForDeletion of 3.9.1, which use background threads, too.
"""

import shutil
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import Final

from kcore.storage.files import OS, FileSystem, OsFileSystem
from kcore.storage.partition_metadata import PARTITION_METADATA, write_partition_metadata
from kcore.types import Uuid

DISCARDED: Final = ".deleted"  # The suffix of a log's file that is being deleted (LogFileUtils).


class FolderWork:
    """The work of one log directory, in order, on a thread or at once."""

    def __init__(self, *, in_background: bool) -> None:
        self._thread: Final = ThreadPoolExecutor(1, "log folders") if in_background else None
        # The files of logs: with a thread, it deletes them. A large file takes many milliseconds.
        self.files: Final[FileSystem] = OsFileSystem(self._discard) if in_background else OS
        self._unwritten: dict[Path, Uuid] = {}  # The topic ids that are not durable yet, by folder.
        self._writing = Lock()  # Held while a topic id is written.
        self._failure: BaseException | None = None

    def topic_id(self, folder: Path) -> Uuid | None:
        """The topic id of the folder that is not durable yet; None if there is none."""
        return self._unwritten.get(folder)

    def write_topic_id(self, folder: Path, topic_id: Uuid) -> None:
        """Writes partition.metadata. OSError if there is no thread and the write fails."""
        self.finish(folder)
        self._unwritten[folder] = topic_id
        if self._thread is None:
            self.finish(folder)
        else:
            self._thread.submit(self.finish, folder).add_done_callback(self._ended)

    def finish(self, folder: Path) -> None:
        """Makes the topic id of the folder durable, if it is not yet. Called before each append. OSError."""
        if folder in self._unwritten:
            with self._writing:
                if (topic_id := self._unwritten.get(folder)) is not None:
                    write_partition_metadata(folder / PARTITION_METADATA, topic_id)
                    self._unwritten.pop(folder, None)

    def drop_topic_id(self, folder: Path) -> None:
        """Writes no topic id from now on, because the folder gets another name."""
        if folder in self._unwritten:
            with self._writing:
                self._unwritten.pop(folder, None)

    def delete(self, folder: Path) -> None:
        """Deletes a folder, which is of no log any more. OSError if there is no thread and the deletion fails."""
        if self._thread is None:
            shutil.rmtree(folder)
        else:
            self._thread.submit(shutil.rmtree, folder).add_done_callback(self._ended)

    def _discard(self, path: Path) -> None:
        """Renames a file of a log, so that the log may have a new file of the name, and deletes it in the thread."""
        assert self._thread is not None
        renamed = path.with_name(path.name + DISCARDED)
        path.replace(renamed)
        self._thread.submit(renamed.unlink, missing_ok=True).add_done_callback(self._ended)

    def _ended(self, work: "Future[None]") -> None:
        self._failure = self._failure or (None if work.cancelled() else work.exception())

    def check(self) -> None:
        """Raises the first error of the thread."""
        if self._failure is not None:
            raise self._failure

    def abandon(self) -> None:
        """Begins no more work, because the disk has failed. Does not wait for the disk."""
        self._unwritten.clear()
        if self._thread is not None:
            self._thread.shutdown(wait=False, cancel_futures=True)

    def close(self) -> None:
        """Waits until all work is done."""
        if self._thread is not None:
            self._thread.shutdown()
