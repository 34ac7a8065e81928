"""A partition's folder: its segments in order, its leader epochs, its topic id, its snapshots; read only."""

import re
from contextlib import ExitStack
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from kcore.errors import DecodeError, StorageError
from kcore.replication.epochs import EpochEntry
from kcore.storage.checkpoints import LEADER_EPOCHS, TopicPartition, read_leader_epochs
from kcore.storage.files import OS, FileSystem, is_there, path_in
from kcore.storage.log.segment import Segment, is_segment
from kcore.storage.partition_metadata import PARTITION_METADATA, read_partition_metadata
from kcore.types import Uuid

_FOLDER: Final = re.compile(r"(.+)-([0-9]{1,10})")


@lru_cache(maxsize=64)
def partition_of(folder: Path) -> TopicPartition | None:
    """The partition of a folder, by its name; None for other folders, those being deleted among them."""
    match = _FOLDER.fullmatch(folder.name)
    return TopicPartition(match[1], int(match[2])) if match else None


def segment_files(folder: Path, files: FileSystem = OS) -> list[Path]:
    """The segments' files by base offset."""
    return [path_in(folder, name) for name in sorted(filter(is_segment, files.names(folder)))]


class Log:
    """One partition's log on disk. The segments stay mapped until it is closed."""

    def __init__(self, folder: Path) -> None:
        """Maps every segment. StorageError if there is none; OSError if the folder cannot be read."""
        self.folder = folder
        self.partition = partition_of(folder.resolve())
        if not (paths := segment_files(folder)):
            raise StorageError(f"{folder}: no segment there")
        with ExitStack() as opened:
            self.segments = [opened.enter_context(Segment(path)) for path in paths]
            epochs = folder / LEADER_EPOCHS
            self.leader_epochs: list[EpochEntry] = read_leader_epochs(epochs) if is_there(epochs) else []
            self._closing = opened.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Lets go of every mapping."""
        self._closing.close()

    @property
    def topic_id(self) -> Uuid | None:
        """The content of partition.metadata, if there is one."""
        path = self.folder / PARTITION_METADATA
        return read_partition_metadata(path) if is_there(path) else None

    @property
    def start_offset(self) -> int:
        """The first segment's base offset; a log-start-offset-checkpoint may know of a later one."""
        return self.segments[0].base_offset

    @property
    def end_offset(self) -> int:
        """The offset after the last batch's."""
        return self.segments[-1].end_offset

    @property
    def problems(self) -> list[tuple[Path, DecodeError]]:
        """All that is wrong with the segments, with the file and the position in it."""
        found = [(segment.path, problem) for segment in self.segments for problem in segment.problems]
        for before, after in zip(self.segments, self.segments[1:], strict=False):
            if before.end_offset > after.base_offset:
                text = f"offsets up to {before.end_offset - 1} reach into the segment of {after.base_offset}"
                found.append((before.path, DecodeError(text, before.batches.end)))
        return found
