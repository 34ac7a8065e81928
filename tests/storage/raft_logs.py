"""Metadata logs on a disk for tests: filled, crashed, and read whole."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from kcore.replication.raft_log import OffsetAndEpoch
from kcore.storage.log.segmented_log import Settings
from kcore.storage.raft.file_raft_log import DiskRaftLog
from kcore.wire.record_batch import scan_batches
from raft.batches import WHOLE_SNAPSHOT
from storage import building

SMALL = Settings(segment_bytes=1500, index_interval_bytes=200)  # Seven batches a segment.
FOLDER = "__cluster_metadata-0"
END = 2**62


def opened(directory: Path, settings: Settings = SMALL) -> DiskRaftLog:
    return DiskRaftLog(directory / FOLDER, settings)


def fill(log: DiskRaftLog, count: int, epoch: int = 1) -> list[bytes]:
    """So many batches of one record each, from the end on."""
    batches = building.batches(count, first=log.end_offset, epoch=epoch)
    for batch in batches:
        log.append_as_leader(batch, epoch)
    return batches


def read_all(log: DiskRaftLog) -> bytes:
    data, offset = b"", log.start_offset
    while piece := log.read(offset, 400, END):
        data += piece
        offset = int(scan_batches(piece).last_offset[-1]) + 1
    return data


def snapshot(log: DiskRaftLog, offset: int, epoch: int, data: bytes = WHOLE_SNAPSHOT) -> None:
    end = OffsetAndEpoch(offset, epoch)
    log.begin_snapshot(end)
    log.append_snapshot(end, data)
    log.freeze_snapshot(end)


def crashed(log: DiskRaftLog, directory: Path) -> Path:
    """A copy of the directory as a kill -9 leaves it now; the log goes on."""
    shutil.copytree(log.folder.parent, directory)
    return directory


def files(directory: Path, suffixes: Sequence[str] = (".log",)) -> list[Path]:
    return sorted(path for path in (directory / FOLDER).iterdir() if path.suffix in suffixes)
