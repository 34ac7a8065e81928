"""Reads a partition's folder: its segments in order, its leader epochs and its topic id."""

import re
from contextlib import ExitStack
from functools import lru_cache
from pathlib import Path
from typing import Final

from kcore.errors import DecodeError, StorageError
from kcore.replication.epochs import EpochEntry
from kcore.storage.checkpoints import LEADER_EPOCHS, TopicPartition, read_leader_epochs
from kcore.storage.files import OS, Closing, FileSystem, is_there, path_in
from kcore.storage.log.segment import Segment, is_segment
from kcore.storage.partition_metadata import PARTITION_METADATA, read_partition_metadata
from kcore.types import Uuid

_FOLDER: Final = re.compile(r"(.+)-([0-9]{1,10})")


@lru_cache(maxsize=64)
def partition_of(folder: Path) -> TopicPartition | None:
    """The partition that a folder's name stands for; None for other names, as of a folder that is being deleted."""
    match = _FOLDER.fullmatch(folder.name)
    return TopicPartition(match[1], int(match[2])) if match else None


def segment_files(folder: Path, files: FileSystem = OS) -> list[Path]:
    """The paths of the segments' `.log` files, by base offset."""
    return [path_in(folder, name) for name in sorted(filter(is_segment, files.names(folder)))]


class Log(Closing):
    """One partition's log on disk. The segments stay mapped until `close`."""

    def __init__(self, folder: Path) -> None:
        """Maps every segment. Raises StorageError if there is no segment, OSError if the folder cannot be read."""
        self.folder = folder
        self.partition = partition_of(folder.resolve())
        if not (paths := segment_files(folder)):
            raise StorageError(f"{folder}: no segment there")
        with ExitStack() as opened:
            self.segments = [opened.enter_context(Segment(path)) for path in paths]
            epochs = folder / LEADER_EPOCHS
            self.leader_epochs: list[EpochEntry] = read_leader_epochs(epochs) if is_there(epochs) else []
            self._closing = opened.pop_all()

    def close(self) -> None:
        """Unmaps all segments."""
        self._closing.close()

    @property
    def topic_id(self) -> Uuid | None:
        """The topic id in partition.metadata; None without the file."""
        path = self.folder / PARTITION_METADATA
        return read_partition_metadata(path) if is_there(path) else None

    @property
    def start_offset(self) -> int:
        """The first segment's base offset; log-start-offset-checkpoint may have a later log start offset."""
        return self.segments[0].base_offset

    @property
    def end_offset(self) -> int:
        """The offset after the last record."""
        return self.segments[-1].end_offset

    @property
    def problems(self) -> list[tuple[Path, DecodeError]]:
        """All damage of the segments, each with its file; the error has the position in the file."""
        found = [(segment.path, problem) for segment in self.segments for problem in segment.problems]
        for before, after in zip(self.segments, self.segments[1:], strict=False):
            if before.end_offset > after.base_offset:
                text = f"offsets up to {before.end_offset - 1} reach into the segment of {after.base_offset}"
                found.append((before.path, DecodeError(text, before.batches.end)))
        return found
