"""Work on partitions' folders for which an event loop must not wait: writing topic ids, deleting folders and files.

A topic id is durable before the first append to its log, so that records never lose their topic (KIP-516). Until then
the log directory keeps it in memory. A folder, a segment or a producer snapshot is renamed before it is deleted: a
start deletes what is left.

Source: PartitionMetadataFile (maybeFlush), LogManager.deleteLogs, LocalLog.deleteSegmentFiles and
ProducerStateManager.removeAndMarkSnapshotForDeletion of 3.9.1, which use background threads, too.
"""

import errno
import os
import shutil
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
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
        self._is_abandoned = self._is_closed = False

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
            self._later(self.finish, folder)

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
            self._later(shutil.rmtree, folder)

    def moved_to(self, folder: Path) -> None:
        """Call after a log's folder was renamed to `folder`: deletes segments that waited for the thread."""
        if self._thread is not None:
            self._later(delete_discarded, folder)

    def _discard(self, path: Path) -> None:
        """Renames a file of a log, so that the log may have a new file of the name, and deletes it in the thread."""
        self._check_is_used(path)
        renamed = path.with_name(path.name + DISCARDED)
        path.replace(renamed)
        self._later(_unlink, renamed)

    def _later(self, work: Callable[[Path], object], path: Path) -> None:
        """Does work about a path in the thread; at once after `close`. OSError after `abandon`."""
        self._check_is_used(path)
        assert self._thread is not None
        if self._is_closed:
            work(path)
        else:
            self._thread.submit(work, path).add_done_callback(self._ended)

    def _check_is_used(self, path: Path) -> None:
        if self._is_abandoned:
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))

    def _ended(self, work: "Future[object]") -> None:
        self._failure = self._failure or (None if work.cancelled() else work.exception())

    def check(self) -> None:
        """Raises the first error of the thread."""
        if self._failure is not None:
            raise self._failure

    def abandon(self) -> None:
        """Begins no more work, because the disk has failed; raises OSError for it. Does not wait for the disk."""
        self._unwritten.clear()
        self._is_abandoned = True
        if self._thread is not None:
            self._thread.shutdown(wait=False, cancel_futures=True)

    def close(self) -> None:
        """Waits until all work is done. Later work is done at once."""
        self._is_closed = True
        if self._thread is not None:
            self._thread.shutdown()


def delete_discarded(folder: Path) -> None:
    """Deletes the rest of a log's segments whose deletion was not done. The folder may be gone."""
    with suppress(FileNotFoundError):
        for each in [*folder.iterdir()]:
            if each.suffix == DISCARDED:
                _unlink(each)


def _unlink(path: Path) -> None:
    """Deletes a file if it exists."""
    path.unlink(missing_ok=True)
