"""Bugs in how files are written, named, synced and recovered, so that a crash loses or damages durable data."""

import os
from dataclasses import replace
from typing import Any, Final

from kcore.storage import files
from kcore.storage.files import OS, sync_folder, write_file
from kcore.storage.log import log_writer
from kcore.storage.log.log_writer import LogWriter
from kcore.storage.raft import raft_dir, raft_recovery
from kcore.storage.raft.raft_snapshots import PARTIAL, RaftSnapshots
from planted_raft.patches import Patches, planted_bug

FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_TRUNC


@planted_bug("DurableIsFound")
def name_of_a_small_file_is_not_synced(patches: Patches) -> None:
    """A power cut undoes the rename of quorum-state, because the folder is not fsynced."""
    patches.put(files, "sync_folder", lambda _: lambda folder, files=OS: None)


@planted_bug("DirectoryOpens")
def small_file_is_written_in_place(patches: Patches) -> None:
    """quorum-state is overwritten in place, so that a crash leaves half of its bytes."""
    patches.put(raft_dir, "write_atomically", lambda _: write_file)


@planted_bug("DirectoryOpens")
def small_file_gets_its_name_before_it_is_synced(patches: Patches) -> None:
    """quorum-state is renamed before it is fsynced, so that a power cut may lose its bytes."""

    def broken(path: Any, data: bytes, system: Any = OS) -> None:
        beside = path.with_name(path.name + ".tmp")
        with files.opened(beside, FLAGS, files=system) as file:
            files.write_all(file, data, system)
        system.replace(beside, path)
        sync_folder(path.parent, system)

    patches.put(raft_dir, "write_atomically", lambda _: broken)


@planted_bug("LogMatching")
def damaged_tail_is_counted(patches: Patches) -> None:
    """Recovery does not check checksums: a batch with a flipped bit stays in the log."""

    def make(scan: Any) -> Any:
        def broken(data: Any, **options: Any) -> Any:
            found = scan(data, **options)
            return replace(found, crc_matches=found.crc_matches | True)

        return broken

    patches.put(raft_recovery, "scan_batches", make)
    patches.put(raft_recovery, "split_batches", lambda split: lambda data: split(data, check_crc=False))


@planted_bug("SameSnapshots")
def snapshot_is_frozen_before_it_is_synced(patches: Patches) -> None:
    """A snapshot gets its final name before its bytes are fsynced."""

    def broken(self: Any, snapshot: Any) -> None:
        self._files.replace(self._path(snapshot, PARTIAL), self._path(snapshot))
        sync_folder(self._folder, self._files)
        self._close(snapshot)
        self._set(sorted({*self._by_age, snapshot}, key=lambda each: (each.epoch, each.offset)))

    patches.put(RaftSnapshots, "freeze", lambda _: broken)


@planted_bug("ClaimsAreDurable")
def name_of_a_segment_is_not_synced(patches: Patches) -> None:
    """A power cut removes a new segment with all its flushed records, because the folder is not fsynced."""
    patches.put(log_writer, "sync_folder", lambda _: lambda *given: None)


@planted_bug("ClaimsAreDurable")
def full_segment_is_not_synced(patches: Patches) -> None:
    """The log continues in a new segment, and the node takes the old segment for durable without an fsync."""

    def make(close: Any) -> Any:
        def broken(self: Any) -> None:
            if self._file >= 0:
                self.abandon()
                log_writer.write_indexes(self._path, self._interval_bytes, self._files)

        return broken

    patches.put(LogWriter, "close", make)
