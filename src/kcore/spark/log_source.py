"""The format "kcore.log": segments and snapshots as a DataFrame with one row per record.

A file larger than the option `splitSize` is read in parts, each by a task. A part ends where the next one begins: if
the batches do not end there, the task fails, so that no batch is read twice or lost. A file at a URI is one part: its
task reads it into memory.
"""

import re
from collections.abc import Iterator, MutableMapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise
from mmap import mmap
from pathlib import Path
from typing import Any, Final

import numpy as np

from kcore.constants import METADATA_TOPIC
from kcore.errors import DecodeError, StorageError
from kcore.extras import needs
from kcore.spark.conditions import Condition, kept, may_hold
from kcore.spark.file_source import FAILFAST, OPTIONS, FileReader, FileSource
from kcore.spark.uri_files import UriPath
from kcore.storage.log.continuity import gap_in_file, gaps_between_files, has_all_offsets
from kcore.storage.log.partition_folder import partition_of
from kcore.storage.log.segment import LOG, is_segment, map_file
from kcore.storage.raft.snapshot import SUFFIX, snapshot_id
from kcore.storage.tools.diverge_dirs import partitions_in
from kcore.storage.tools.dump import files_of
from kcore.storage.tools.foreign import explained, is_unused
from kcore.storage.tools.record_rows import BYTES_AT_ONCE, rows_of
from kcore.storage.tools.record_rows import SCHEMA as ROWS
from kcore.storage.tools.splits import borders
from kcore.types import Bools
from kcore.wire.arrow_times import UTC_TIME, utc_times
from kcore.wire.log_formats import decode_run, runs_of, scan_log
from kcore.wire.message_sets import UNKNOWN_COUNT
from kcore.wire.record_batch import MAGIC_AT, RecordBatches, missing_offsets, scan_batches

with needs("spark"):
    import pyarrow as pa
    from pyspark.sql.datasource import InputPartition

SPLIT_SIZE: Final = 128 << 20  # Bytes of a part, by default.
_LISTS_AT_ONCE: Final = 16  # Partitions' folders of a store, which answers each request after some time.
_SIZE: Final = re.compile(r"([0-9]{1,18}) ?(?:([kmgt])b?|b)?")
_UNITS: Final = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}
REMEDY: Final = "; .option('mode', 'permissive') reads the readable data, .option('where', ...) skips files"
SCHEMA: Final = ROWS.set(ROWS.get_field_index("timestamp"), pa.field("timestamp", UTC_TIME))
_OF_A_FILE: Final = pa.schema([SCHEMA.field(name) for name in ("file", "topic", "partition")])
_MOST: Final = np.iinfo(np.int64).max


@dataclass
class File(InputPartition):
    """A segment or snapshot, or a part of one, with the bounds of its offsets, which names and batch headers give."""

    path: str
    base_offset: int = 0
    end_offset: int = _MOST
    gap: str = ""  # The missing offsets between the file before and this one, as an error's text.
    start: int = 0  # Bytes.
    end: int = _MOST
    read_until: int = _MOST  # A stream reads the batches before this offset; later bytes may be half written.
    source: UriPath | None = None  # Where the task reads a file that is not local; `path` is its name.
    next_base: int | None = None  # The segment after one of a metadata log at a URI begins here: the task checks it.


class LogReader(FileReader):
    """Reads each file, or each part of a large file, in a task of its own. Skips files, batches and rows that `where`
    excludes as early as possible."""

    def __init__(
        self,
        paths: list[Path | UriPath],
        schema: pa.Schema,
        mode: str,
        conditions: list[Condition],
        split_size: int = SPLIT_SIZE,
    ) -> None:
        super().__init__(paths, schema, mode, conditions)
        self.split_size = split_size

    def partitions(self) -> Sequence[InputPartition]:
        alone = len(self.paths) == 1
        files = [file for path in self.paths for file in files_at(path, alone=alone)]
        if not files:
            raise StorageError(f"{', '.join(map(str, self.paths))}: neither a segment nor a folder of segments")
        return self.parts(files)

    def parts(self, files: Sequence[File]) -> list[File]:
        """The files as parts of `split_size`, without those that hold no row for `where`."""
        parts = [part for file in files if self._may_hold(file) for part in self._split(file)]
        return [part for part in parts if self._may_hold(part)]

    def _split(self, file: File) -> list[File]:
        if file.source is not None:
            return [file]
        try:
            found = borders(Path(file.path), self.split_size)
        except (OSError, StorageError):
            return [file]  # The task reports the problem.
        starts = [(file.start, file.base_offset), *found]
        ends = [*found, (file.end, file.end_offset)]
        parts = [
            replace(file, start=start, base_offset=base, end=end, end_offset=end_offset if end_offset > base else _MOST)
            for (start, base), (end, end_offset) in zip(starts, ends, strict=True)
        ]
        return [parts[0], *(replace(part, gap="") for part in parts[1:])]

    def _may_hold(self, file: File) -> bool:
        topic, partition = _partition_of(file.path)
        row = {"file": file.path, "topic": topic, "partition": partition}
        of_file = [each for each in self.conditions if each.column in _OF_A_FILE.names]
        if not kept(pa.RecordBatch.from_pylist([row], schema=_OF_A_FILE), of_file).num_rows:
            return False
        bounds = np.array([file.base_offset]), np.array([file.end_offset - 1])
        return bool(may_hold(self.conditions, "offset", *bounds)[0])

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, File):
            return  # Spark's own placeholder, if `where` excludes all files.
        if partition.gap:
            yield from self._failed(partition.path, 0, DecodeError(partition.gap, 0))
        yield from self._rows(partition)

    def _rows(self, file: File) -> Iterator[pa.RecordBatch]:
        path = file.path
        try:
            data = map_file(Path(path)) if file.source is None else file.source.read()
        except (OSError, StorageError) as error:
            if self.mode == FAILFAST:
                raise
            yield from self._corrupt(path, None, str(error))
            return
        part = memoryview(data)[: file.end]
        batches = scan_log(part, start=file.start, stop=True, skip=self.mode != FAILFAST)
        chosen = replace(batches.take(self._wanted(batches)), problem=None)  # Reported after the readable records.
        for run in runs_of(chosen, BYTES_AT_ONCE):
            yield from self._decoded(path, data, run)
        yield from self._unread(file, part, batches)
        if file.next_base is not None:
            yield from self._gap_after(file, data, file.next_base)

    def _unread(self, file: File, part: memoryview, batches: RecordBatches) -> Iterator[pa.RecordBatch]:
        """Reports what is in the part beside the batches: other formats, damage, holes in the offsets."""
        for problem, count in _runs(batches):
            said = explained(problem, part)
            more = f" ({count:,} of them, one after the other)" if count > 1 else ""
            yield from self._corrupt(file.path, problem.offset - MAGIC_AT, f"{said}{more}")
        if len(batches) and batches.last_offset[-1] + 1 >= file.read_until:
            return
        if len(part) < (file.end if file.end < _MOST else file.start):
            yield from self._failed(file.path, len(part), DecodeError("the file became shorter meanwhile", len(part)))
            return
        if batches.problem:
            if not is_unused(part, batches.end):
                yield from self._failed(file.path, batches.end, explained(batches.problem, part))
        elif gap := self._gap(file, batches):
            yield from self._failed(file.path, gap.offset, gap)

    def _gap(self, file: File, batches: RecordBatches) -> DecodeError | None:
        """The first hole in the part's offsets, the border to the next part included; None in files that may have
        holes."""
        path = Path(file.path)
        if not has_all_offsets(path):
            return None
        if file.end < _MOST:
            with_next = map_file(path)
            batches = scan_batches(with_next, start=file.start, limit=len(batches) + 1, check_crc=False, stop=True)
        return gap_in_file(path, batches, whole=file.start == 0)

    def _gap_after(self, file: File, data: mmap | bytes, next_base: int) -> list[pa.RecordBatch]:
        """Reports missing offsets between a metadata log's file at a URI and the next one, as of the next one."""
        batches = scan_batches(data, check_crc=False, stop=True)
        end_offset = int(batches.last_offset[-1]) + 1 if len(batches) else file.base_offset
        if end_offset == next_base:
            return []
        next_file = f"{file.path.rpartition('/')[0]}/{next_base:020}{LOG}"
        return self._failed(next_file, 0, DecodeError(f"{missing_offsets(end_offset, next_base)} before it", 0))

    def _wanted(self, batches: RecordBatches) -> Bools:
        """True for each batch that may hold a record that meets `where`, and for each batch whose CRC does not
        match. The header of a wrapper of magic 0 or 1 does not say which offsets and times its messages have."""
        ranges: dict[str, tuple[Any, Any]] = {
            "offset": (batches.base_offset, batches.last_offset),
            "partitionLeaderEpoch": (batches.partition_leader_epoch, batches.partition_leader_epoch),
            "batchPosition": (batches.position, batches.position),
            "timestamp": (np.full(len(batches), -_MOST), batches.max_timestamp),
        }
        found = np.ones(len(batches), np.bool_)
        for column, (low, high) in ranges.items():
            found &= may_hold(self.conditions, column, low.astype(np.int64), high.astype(np.int64))
        is_wrapper: Bools = batches.count == UNKNOWN_COUNT
        return found | ~batches.crc_matches | is_wrapper

    def _decoded(self, path: str, data: mmap | bytes, batches: RecordBatches) -> Iterator[pa.RecordBatch]:
        try:
            records = decode_run(data, batches)
        except DecodeError as error:
            if len(batches) == 1 or self.mode == FAILFAST:
                yield from self._failed(path, int(batches.position[0]), error)
            else:  # One batch is damaged: decode each alone, to find it and to keep the rows of the others.
                for row in range(len(batches)):
                    yield from self._decoded(path, data, batches.take(slice(row, row + 1)))
            return
        names = dict.fromkeys([*self.schema.names, *(each.column for each in self.conditions)])
        plain = [name for name in names if name in ROWS.names]
        made = rows_of(records, path, *_partition_of(path), plain)
        columns = [utc_times(made[name].to_numpy()) if name == "timestamp" else made[name] for name in plain]
        rows = kept(pa.RecordBatch.from_arrays(columns, schema=pa.schema(map(SCHEMA.field, plain))), self.conditions)
        if rows.num_rows:
            nulls = pa.nulls(rows.num_rows, pa.string())  # For `_corrupt`, which is null in readable rows.
            arrays = [rows[name] if name in plain else nulls for name in self.schema.names]
            yield pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _failed(self, path: str, position: int, error: DecodeError) -> list[pa.RecordBatch]:
        if self.mode == FAILFAST:
            raise DecodeError(f"{path}: {error.message}{REMEDY}", error.offset)
        return self._corrupt(path, position, str(error))

    def _corrupt(self, path: str, position: int | None, problem: str) -> list[pa.RecordBatch]:
        topic, partition = _partition_of(path)
        return self.corrupt_row(problem, file=path, topic=topic, partition=partition, batchPosition=position)


class LogSource(FileSource):
    """The format with one row per record, the same fields as `kcore dump --deep` shows."""

    columns = SCHEMA
    known_options: tuple[str, ...] = (*OPTIONS, "splitSize")

    @classmethod
    def name(cls) -> str:
        return "kcore.log"

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        given = {name.lower(): value for name, value in options.items()}
        self.split_size = bytes_of("splitSize", given["splitsize"]) if "splitsize" in given else SPLIT_SIZE

    def reader_of(self, paths: list[Path | UriPath], schema: pa.Schema) -> LogReader:
        return LogReader(paths, schema, self.mode, self.conditions, self.split_size)


def _partition_of(path: str) -> tuple[str | None, int | None]:
    return partition_of(Path(path).parent) or (None, None)


def files_at(path: Path | UriPath, *, alone: bool) -> list[File]:
    """The segments and snapshots of a log directory or a partition's folder, or `path` itself if it is a file.

    A file with another suffix is read only if it is the only path: a glob also matches indexes.
    """
    if isinstance(path, Path):
        return files_in(path, alone=alone)
    if not path.is_folder:
        return [File(path.name, source=path)] if alone or path.name.endswith((LOG, SUFFIX)) else []
    children = path.children()
    found = {of: each for each in children if each.is_folder and (of := partition_of(Path(each.name)))}
    if not found:
        return _files_of_uri(path, children)
    folders = [folder for _, folder in sorted(found.items())]
    with ThreadPoolExecutor(_LISTS_AT_ONCE) as pool:
        lists = zip(folders, pool.map(UriPath.children, folders), strict=True)
        return [file for folder, names in lists for file in _files_of_uri(folder, names)]


def files_in(path: Path, *, alone: bool) -> list[File]:
    """As `files_at`, on the local disk."""
    if not path.is_dir():
        return [File(str(path))] if alone or path.name.endswith((LOG, SUFFIX)) else []
    found = []
    for folder in folders_in(path):
        names = files_of(folder)
        gaps = gaps_between_files(folder)
        bounds = _bounds([name.name for name in names])
        found += [File(str(name), *of_file, gaps.get(name, "")) for name, of_file in zip(names, bounds, strict=True)]
    return found


def _files_of_uri(folder: UriPath, children: Sequence[UriPath]) -> list[File]:
    """The snapshots and segments in a partition's folder. Their names tell the gap before the first segment of a
    metadata log; tasks find the other gaps."""
    files = {each.base_name: each for each in children if not each.is_folder}
    snapshots, segments = sorted(filter(None, map(snapshot_id, files))), sorted(filter(is_segment, files))
    names = [*(each.file_name for each in snapshots), *segments]
    found = {
        name: File(files[name].name, *bounds, source=files[name])
        for name, bounds in zip(names, _bounds(names), strict=True)
    }
    partition = partition_of(Path(folder.name))
    if segments and partition is not None and partition.topic == METADATA_TOPIC:
        held = max((each.end_offset for each in snapshots), default=0)
        if found[segments[0]].base_offset > held:
            found[segments[0]].gap = f"{missing_offsets(held, found[segments[0]].base_offset)} before it"
        for name, after in pairwise(segments):
            next_base = found[after].base_offset
            found[name].next_base = next_base if next_base > held else None
    return [*found.values()]


def _bounds(names: Sequence[str]) -> list[tuple[int, int]]:
    """The first offset of each file in a partition's folder, and the offset after its last, as far as names say."""
    bases = [int(name.removesuffix(LOG)) for name in names if is_segment(name)]
    ends = dict(pairwise(bases))
    segments = ((base, ends.get(base, _MOST)) for base in bases)
    return [next(segments) if is_segment(name) else (0, _MOST) for name in names]


def folders_in(path: Path) -> list[Path]:
    """The partitions' folders in a log directory; `path` itself if it has none."""
    return sorted(partitions_in(path).values()) or [path]


def _runs(batches: RecordBatches) -> list[tuple[DecodeError, int]]:
    """The skipped batches: the first of each run without a readable batch in between, and the length of the run."""
    places = np.searchsorted(batches.position, [each.offset for each in batches.skipped])
    firsts = np.flatnonzero(np.diff(places, prepend=-1))
    counts = np.diff(firsts, append=len(places))
    return [(batches.skipped[first], count) for first, count in zip(firsts.tolist(), counts.tolist(), strict=True)]


def bytes_of(option: str, text: str) -> int:
    """A size such as 134217728 or 128m, with Spark's binary units. Raises StorageError for other text, and for 0."""
    match = _SIZE.fullmatch(text.strip().lower())
    size = int(match[1]) << _UNITS[match[2] or ""] if match else 0
    if not 0 < size <= _MOST:
        raise StorageError(f"kcore.log: {option} {text!r}: give a number of bytes such as 134217728 or 128m")
    return size
