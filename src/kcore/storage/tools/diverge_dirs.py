"""Compares the log directories of two brokers: all their partitions, in parallel."""

import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Final, NamedTuple

from kcore.errors import StorageError
from kcore.storage.checkpoints import TopicPartition
from kcore.storage.files import checked_path
from kcore.storage.log.partition_folder import partition_of, segment_files
from kcore.storage.tools.diverge import MISSING, Divergence, Read, diverge

_AT_ONCE: Final = 64  # Partitions per task of a thread: comparing a small partition takes less time than a new task.


class Pair(NamedTuple):
    """A partition and its folder in each of two log directories; None if a directory lacks the partition."""

    topic: str
    partition: int
    folder_a: str | None
    folder_b: str | None


def partitions_in(log_dir: str | Path) -> dict[TopicPartition, Path]:
    """The partitions in a log directory, in order, without those that are being deleted or moved."""
    with os.scandir(log_dir) as entries:
        folders = [Path(entry.path) for entry in entries if entry.is_dir()]
    found = ((partition_of(path), path) for path in folders)
    return dict(sorted((partition, path) for partition, path in found if partition))


def pairs_in(
    log_dir_a: str | Path, log_dir_b: str | Path, partitions: Iterable[TopicPartition] | None = None
) -> list[Pair]:
    """The partitions to compare in two log directories: all partitions in order, or the requested ones in their order.

    Raises StorageError for a requested partition that neither directory has.
    """
    side_a, side_b = partitions_in(log_dir_a), partitions_in(log_dir_b)
    pairs = []
    for topic, partition in sorted(side_a.keys() | side_b.keys()) if partitions is None else partitions:
        folder_a, folder_b = (side.get(TopicPartition(topic, partition)) for side in (side_a, side_b))
        if folder_a is None and folder_b is None:
            raise StorageError(f"neither log directory holds {topic}-{partition}")
        pairs.append(Pair(topic, partition, *(None if each is None else str(each) for each in (folder_a, folder_b))))
    return pairs


def compare(pairs: Iterable[Pair], read: Read = "bytes") -> list[Divergence]:
    """The divergence of each pair. StorageError or OSError, with the path, for a folder that cannot be compared."""
    return [_compared(pair.folder_a, pair.folder_b, read) for pair in pairs]


def diverge_log_dirs(
    log_dir_a: str | Path,
    log_dir_b: str | Path,
    *,
    read: Read = "bytes",
    threads: int | None = None,
    partitions: Iterable[TopicPartition] | None = None,
) -> dict[TopicPartition, Divergence]:
    """The divergences of replicas in two log directories, by partition: all partitions, or the given `partitions`.

    `read` as in `diverge`; `threads` is the number of cores by default. A partition of only one side is "missing".
    Raises StorageError or OSError with the path of a folder that cannot be compared.
    """
    pairs = pairs_in(checked_path(log_dir_a), checked_path(log_dir_b), partitions)
    parts = [pairs[first : first + _AT_ONCE] for first in range(0, len(pairs), _AT_ONCE)]
    with ThreadPoolExecutor(threads or os.cpu_count() or 1) as pool:
        found = chain.from_iterable(pool.map(partial(compare, read=read), parts))
        return {TopicPartition(pair.topic, pair.partition): each for pair, each in zip(pairs, found, strict=True)}


def _compared(folder_a: str | None, folder_b: str | None, read: Read) -> Divergence:
    if folder_a is not None and folder_b is not None:
        return diverge(folder_a, folder_b, read=read)
    begin = segment_files(Path(folder_a or folder_b or ""))
    offset = int(begin[0].stem) if begin else None
    return Divergence(offset, MISSING, f"the {'second' if folder_a else 'first'} log directory lacks it")
