"""Whole log directories compared: every partition of two brokers' disks, in parallel."""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from os import cpu_count
from pathlib import Path

from kcore.errors import StorageError
from kcore.storage.checkpoints import TopicPartition
from kcore.storage.diverge import MISSING, Divergence, diverge
from kcore.storage.log import partition_of, segment_files


def partitions_in(log_dir: str | Path) -> dict[TopicPartition, Path]:
    """The partitions that a log directory holds, in order; what is being deleted or moved is none of them."""
    folders = ((partition_of(path), path) for path in Path(log_dir).iterdir() if path.is_dir())
    return dict(sorted((partition, path) for partition, path in folders if partition))


def diverge_log_dirs(
    log_dir_a: str | Path,
    log_dir_b: str | Path,
    *,
    read: str = "bytes",
    threads: int | None = None,
    partitions: Iterable[TopicPartition] | None = None,
) -> dict[TopicPartition, Divergence]:
    """How the replicas in two log directories differ, by partition: of all that either holds, or of those asked.

    `read` as in `diverge`; a thread a core unless told otherwise. What only one side holds is "missing". A folder that
    cannot be compared raises: StorageError or OSError with its path.
    """
    sides = partitions_in(log_dir_a), partitions_in(log_dir_b)
    wanted = sorted(sides[0].keys() | sides[1].keys() if partitions is None else partitions)
    with ThreadPoolExecutor(threads or cpu_count() or 1) as pool:
        return dict(zip(wanted, pool.map(partial(_one, *sides, read), wanted, chunksize=16), strict=True))


def _one(
    side_a: dict[TopicPartition, Path], side_b: dict[TopicPartition, Path], read: str, partition: TopicPartition
) -> Divergence:
    folders = side_a.get(partition), side_b.get(partition)
    if folders[0] and folders[1]:
        return diverge(folders[0], folders[1], read=read)
    found = folders[0] or folders[1]
    if found is None:
        raise StorageError(f"neither log directory holds {partition}")
    begin = segment_files(found)
    offset = int(begin[0].stem) if begin else None
    return Divergence(offset, MISSING, f"the {'second' if folders[0] else 'first'} log directory lacks it")
