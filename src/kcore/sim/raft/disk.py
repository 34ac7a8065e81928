"""A machine's directory: the production storage code over a simulated file system, with hooks for checkers.

`WatchedLog` is the log of production, and calls a watcher after each change. It also keeps the batches that the log
must have, so that checkers need not read files. The simulated file system reports which bytes survive any crash.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from itertools import accumulate
from operator import attrgetter
from pathlib import Path
from random import Random
from typing import Final

from kcore.errors import StorageError
from kcore.metadata.metadata_version import FEATURE_NAME as METADATA_VERSION
from kcore.raft.log.batches import CRC_END, StoredBatch, split_batches
from kcore.raft.log.raft_log import Appended
from kcore.raft.membership.replicas import ElectionState, ReplicaKey, Voter
from kcore.replication.epochs import EpochCache
from kcore.replication.raft_log import Level, OffsetAndEpoch
from kcore.sim.kernel.file_system import CrashError, SimFile, SimFileSystem
from kcore.sim.kernel.violation import Violation
from kcore.storage.files import path_in
from kcore.storage.log.segment import LOG
from kcore.storage.log.segmented_log import Settings
from kcore.storage.raft.file_raft_log import DiskRaftLog
from kcore.storage.raft.raft_dir import METADATA_FOLDER, RaftDirectory, read_election
from kcore.storage.raft.raft_format import format_directory

WHERE: Final = Path("/data")
FEATURES: Final = {METADATA_VERSION: 25}
_BASE_OFFSET, _LAST_OFFSET = attrgetter("base_offset"), attrgetter("last_offset")
STORE_STEPS: Final = 5  # Create, write and sync a new file; rename it over the old one; sync the folder.


class LogWatcher:
    """Called after each change of a log."""

    def on_appended(self, batch: StoredBatch, epoch_before: int) -> None:
        """A batch is written; `epoch_before`: the epoch of the batch before it."""

    def on_cut(self, batches: tuple[StoredBatch, ...], durable_end: int) -> None:
        """These batches are cut off the end; `durable_end`: how far the log was durable before."""

    def on_replaced(self, snapshot: OffsetAndEpoch) -> None:
        """The log now begins after a snapshot of the leader."""

    def on_frozen(self, snapshot: OffsetAndEpoch) -> None:
        """A snapshot is complete."""


class ParsedFile:
    """The parsed batches of a segment's file, and its bytes up to the end of the last whole batch."""

    __slots__ = ("batches", "committed", "controls", "data", "ends", "judged")

    def __init__(self) -> None:
        self.data = b""
        self.batches: list[StoredBatch] = []
        self.ends: list[int] = []  # The end of each batch in the file.
        self.controls: list[StoredBatch] = []  # The batches of control records.
        self.judged = 0  # The number of batches that were compared with `Facts.written`.
        self.committed = 0  # Batches below this offset were compared with the committed ones.

    def update(self, data: bytes) -> None:
        """Updates the batches to the file's new data, which usually extends or shortens the old data."""
        rows = range(len(self.ends))
        if not data.startswith(self.data):  # Keeps the batches before the first difference.
            self._keep(bisect_left(rows, True, key=lambda row: not data.startswith(self.data[: self.ends[row]])))
        begin = len(self.data)
        found = split_batches(data[begin:], check_crc=False)[0]
        if found:
            self.batches += found
            self.ends += [*accumulate([len(batch.data) for batch in found], initial=begin)][1:]
            self.controls += [batch for batch in found if batch.is_control]
            self.data = data[: self.ends[-1]]

    def _keep(self, count: int) -> None:
        del self.batches[count:], self.ends[count:]
        self.controls = [batch for batch in self.batches if batch.is_control]
        self.data = self.data[: self.ends[-1] if self.ends else 0]
        self.judged = min(self.judged, count)
        self.committed = min(self.committed, self.batches[-1].last_offset + 1 if self.batches else 0)

    def doubt(self, epoch: int) -> None:
        """Makes the checkers compare all batches again if the last compared one has this epoch or a later one."""
        if self.judged and self.batches[self.judged - 1].epoch >= epoch:
            self.judged = 0


def parsed_file(file: SimFile) -> ParsedFile:
    """The parsed batches of a segment's file, which the file caches."""
    parsed: ParsedFile = file.cache or ParsedFile()
    parsed.update(bytes(file.data))
    file.cache = parsed
    return parsed


class WatchedLog(DiskRaftLog):
    """The log of one process; its last state stays readable when the process is gone."""

    def __init__(
        self, folder: Path, settings: Settings, *, level: Level, files: SimFileSystem, watcher: LogWatcher
    ) -> None:
        self._disk, self._watcher = files, watcher
        self.is_over = False  # Whether the process is gone.
        self.batches: list[StoredBatch] = []
        self._files_of_batches: list[SimFile] = []  # The file of each batch.
        self._ends: list[int] = []  # The end of each batch in its file.
        self._is_open = False
        super().__init__(folder, settings, level=level, files=files)
        self._is_open = True
        self._names = files.folder(folder)
        self._find_segments()
        self.found = [parsed_file(file) for file in self._files_of_log]  # By segment: its batches at the opening.
        for file, parsed in zip(self._files_of_log, self.found, strict=True):
            self.batches += parsed.batches
            self._files_of_batches += [file] * len(parsed.ends)
            self._ends += parsed.ends
        self._uncut = self.end_offset  # Below this offset the log has not been cut since it was opened.
        # The file system's count of changes, and at this count: the log's end offset, its durable end offset, and the
        # durable end offset of log and snapshots together.
        self._known = -1, 0, 0, 0

    def _find_segments(self) -> None:
        """Looks up the last segment and the segments' files, after a change of the segments."""
        self._last = self._log.segments[-1]
        self._files_of_log = [self._disk.file(segment.path) for segment in self._log.segments]

    @property
    def epochs(self) -> EpochCache:
        return self._log.epochs

    # The durable part.

    @property
    def flushed_end(self) -> int:
        """Records below this offset survive any crash, according to the file system."""
        count, end, known, _ = self._known
        if self.is_over or (count == self._disk.count and end == self.end_offset):
            return known
        return self._find_durable()[2]

    def _find_durable(self) -> tuple[int, int, int, int]:
        known, latest = self._flushed_end(), self._snapshots.latest
        durable = known if latest is None else max(known, latest.offset)
        self._known = self._disk.count, self.end_offset, known, durable
        return self._known

    def _flushed_end(self) -> int:
        # If the process crashed in an append, `end_offset` counts records that `batches` lacks.
        lowest = self.batches[-1].last_offset + 1 if self.batches else self.start_offset
        names = self._names
        if not self._disk.unsynced and not names.unsynced:
            return lowest
        at_risk = {file: file.safe for file in self._disk.unsynced if file in self._files_of_log}
        for name in names.unsynced_names() if names.unsynced else ():
            entry = names.entries.get(name)
            if isinstance(entry, SimFile) and name.endswith(LOG):
                at_risk[entry] = 0
        last = self._files_of_log[-1]
        for row in range(len(self.batches) - 1, -1, -1):
            file, end = self._files_of_batches[row], self._ends[row]
            if last is not file:
                at_risk.pop(last, None)
                last = file
            if not at_risk:
                break
            safe = at_risk.get(file, end)
            if end > safe:
                lowest = self.batches[row].base_offset
            else:  # All earlier batches of this file are safe too.
                at_risk.pop(file, None)
        return lowest

    @property
    def durable_end(self) -> int:
        """Records below this offset survive any crash, in the log or in a snapshot."""
        count, end, _, known = self._known
        if self.is_over or (count == self._disk.count and end == self.end_offset):
            return known
        return self._find_durable()[3]

    @property
    def durable_epoch(self) -> int:
        """The epoch of the last record below `durable_end`; 0 if there is none."""
        end, latest = self.durable_end, self.latest_snapshot
        if latest is not None and latest.offset == end:
            return latest.epoch
        return (self.epochs.epoch_for_offset(end - 1) or 0) if end else 0

    def end_process(self) -> None:
        """Keeps the durable ends as they are now, because the process has ended."""
        self._known = -1, 0, self.flushed_end, self.durable_end
        self.is_over = True

    # The batches.

    def batches_between(self, begin: int, end: int) -> Sequence[StoredBatch]:
        """The batches between two offsets, at which batches begin or end."""
        first = bisect_left(self.batches, begin, key=_BASE_OFFSET)
        return self.batches[first : bisect_left(self.batches, end, first, key=_BASE_OFFSET)]

    def compared_to(self) -> int:
        """Below this offset an earlier start compared the batches with the committed ones, and no cut followed."""
        return min(self.found[0].committed, self._uncut) if len(self.found) == 1 else 0

    def were_compared(self, begin: int, end: int) -> None:
        """Remembers that the log's batches between these offsets equal the committed ones."""
        found = self.found[0]
        if len(self.found) == 1 and found.batches and begin <= max(found.committed, found.batches[0].base_offset):
            found.committed = max(found.committed, min(end, self._uncut, found.batches[-1].last_offset + 1))

    def count_begun(self) -> int:
        """The number of incomplete snapshots."""
        return self._snapshots.count_begun

    # Changes of the log.

    def _append(self, data: bytes, batches: list[StoredBatch]) -> Appended:
        before = self.last_epoch
        appended = super()._append(data, batches)
        segment = self._log.segments[-1]
        if segment is not self._last:
            self._find_segments()
        file = self._files_of_log[-1]
        end = len(file.data) - len(data)
        for batch in batches:
            end += len(batch.data)
            self.batches.append(batch)
            self._files_of_batches.append(file)
            self._ends.append(end)
            self._watcher.on_appended(batch, before)
            before = batch.epoch
        return appended

    def truncate_to_end_offset(self, end: OffsetAndEpoch) -> int:
        durable_end = self.durable_end
        try:
            offset = super().truncate_to_end_offset(end)
        except CrashError:
            row = bisect_left(self.batches, self._rules().truncation_offset(end), key=_LAST_OFFSET)
            self._crashed_in_cut(self.batches[row].base_offset if row < len(self.batches) else self.end_offset)
            raise
        removed = self._forget_from(bisect_left(self.batches, offset, key=_LAST_OFFSET))
        self._watcher.on_cut(removed, durable_end)
        return offset

    def truncate_to_latest_snapshot(self) -> bool:
        try:
            if not super().truncate_to_latest_snapshot():
                return False
        except CrashError:
            self._crashed_in_cut(0)
            raise
        if self._is_open:
            self._forget_from(0)
            assert self.latest_snapshot is not None
            self._watcher.on_replaced(self.latest_snapshot)
        return True

    def _crashed_in_cut(self, offset: int) -> None:
        """After a crash within a cut at `offset`: flushed records below `offset` must still survive."""
        flushed, latest = min(self.flushed_end, offset) if self._is_open else 0, self._snapshots.latest
        self._known = -1, 0, flushed, flushed if latest is None else max(flushed, latest.offset)
        self.is_over = True

    def _forget_from(self, row: int) -> tuple[StoredBatch, ...]:
        removed = tuple(self.batches[row:])
        if removed:
            self._uncut = min(self._uncut, removed[0].base_offset)
        del self.batches[row:], self._files_of_batches[row:], self._ends[row:]
        self._find_segments()
        return removed

    def delete_before(self, snapshot: OffsetAndEpoch) -> bool:
        if not super().delete_before(snapshot):
            return False
        row = bisect_left(self.batches, snapshot.offset, key=_LAST_OFFSET)
        del self.batches[:row], self._files_of_batches[:row], self._ends[:row]
        self._find_segments()
        return True

    @property
    def damaged_snapshots(self) -> Sequence[OffsetAndEpoch]:
        """Snapshots that the log found damaged when it was opened, and ignores."""
        return [*self._snapshots.damaged]

    def freeze_snapshot(self, snapshot: OffsetAndEpoch) -> None:
        super().freeze_snapshot(snapshot)
        self._watcher.on_frozen(snapshot)


class SimDirectory(RaftDirectory):
    """The node's directory, with a log that calls a watcher."""

    def __init__(self, files: SimFileSystem, node_id: int, cluster_id: str, voters: Sequence[int], watcher: LogWatcher):
        super().__init__(WHERE, node_id=node_id, cluster_id=cluster_id, voters=voters, files=files)
        self._disk, self._watcher = files, watcher

    def open_log(self, settings: Settings | None, level: Level) -> WatchedLog:
        assert settings is not None
        return WatchedLog(self.folder, settings, level=level, files=self._disk, watcher=self._watcher)


def formatted(key: ReplicaKey, cluster_id: str, voters: Sequence[Voter]) -> SimFileSystem:
    """A disk with a formatted, durable directory; `voters`: the first voters of a dynamic quorum."""
    files = SimFileSystem()
    files.mkdir(WHERE)
    format_directory(
        WHERE,
        node_id=key.id,
        features=FEATURES,
        cluster_id=cluster_id,
        directory_id=key.directory_id,
        initial_voters=voters,
        now_ms=0,
        files=files,
    )
    files.mkdir(WHERE / METADATA_FOLDER)
    for folder in (WHERE.parent, WHERE, WHERE / METADATA_FOLDER):
        files.fsync_folder(folder)
    return files


def found_election(files: SimFileSystem, node_id: int) -> ElectionState | None:
    """The election state that a process would read now."""
    try:
        return read_election(path_in(WHERE, METADATA_FOLDER), files)
    except StorageError as error:
        raise Violation("DirectoryOpens", f"node {node_id}: {error}") from error


def crash_within(files: SimFileSystem, operations: int, write: Callable[[], None]) -> bool:
    """Runs `write` up to a number of file operations; returns whether `write` ended before that."""
    files.crash_after(operations)
    try:
        write()
    except CrashError:
        return False
    return True


def flips_noticed(name: str, data: bytes) -> list[range]:
    """The bytes of a write in which a power cut may flip a bit: in a log, those that a batch's checksum covers.

    The checksum does not cover a batch's offset and epoch, and no log of Kafka detects that these are wrong.
    """
    return checksummed(data) if name.endswith(LOG) else [range(len(data))]


def checksummed(batches: bytes) -> list[range]:
    """The bytes that are covered by checksums of batches."""
    spans, position = [], 0
    for batch in split_batches(batches, check_crc=False)[0]:
        end = position + len(batch.data)
        spans.append(range(position + CRC_END, end))
        position = end
    return spans


def power_cut(files: SimFileSystem, random: Random) -> list[str]:
    """Cuts the power, and returns what happened to each file with unsynced changes, such as "torn write".

    If there was no such file, it returns "nothing unflushed". A world counts these texts as events.
    """
    return files.cut_power(random, flips_noticed) or ["nothing unflushed"]
