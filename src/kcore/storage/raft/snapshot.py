"""Reads and writes snapshots of a metadata log (KIP-630): `<end offset>-<epoch>.checkpoint`.

The batches of a snapshot are between a header and a footer.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from mmap import mmap
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from kcore.errors import StorageError
from kcore.schema.control_records import KRaftVersionRecord, SnapshotFooterRecord, SnapshotHeaderRecord, VotersRecord
from kcore.schema.structure import Data
from kcore.storage.files import OS, FileSystem, naming, write_atomically
from kcore.storage.log.segment import map_file
from kcore.wire.codec import encode
from kcore.wire.record_batch import CONTROL, RecordBatches, gap_in, scan_batches
from kcore.wire.record_building import encode_records
from kcore.wire.records import CONTROL_TYPES, Record, Records, control_message, decode_records, records_of

BOOTSTRAP: Final = "bootstrap.checkpoint"
SUFFIX: Final = ".checkpoint"
DELETED: Final = ".deleted"
HEADER: Final = "SNAPSHOT_HEADER"
FOOTER: Final = "SNAPSHOT_FOOTER"
BATCH_BYTES: Final = 1 << 20  # Bytes of the values in a written batch; Kafka's batches have at most 8 MiB.
_MOST_OFFSET, _MOST_EPOCH = 2**63 - 1, 2**31 - 1
_NAME: Final = re.compile(r"([0-9]{20})-([0-9]{10})\.checkpoint")


class SnapshotId(NamedTuple):
    """A snapshot's id: the snapshot has all records below `end_offset`, and `epoch` is the last record's epoch."""

    end_offset: int
    epoch: int

    @property
    def file_name(self) -> str:
        return f"{self.end_offset:020}-{self.epoch:010}{SUFFIX}"


def is_snapshot(name: str) -> bool:
    """True for the name of a snapshot, also of one that Kafka has marked for deletion."""
    return name.removesuffix(DELETED).endswith(SUFFIX)


@lru_cache(maxsize=1024)
def snapshot_id(name: str) -> SnapshotId | None:
    """The id in a file's name; None for other files, as incomplete snapshots, and for invalid ids.

    Cached: a start parses the same few names several times.
    """
    match = _NAME.fullmatch(name)
    found = SnapshotId(int(match[1]), int(match[2])) if match else None
    return found if found and found.end_offset <= _MOST_OFFSET and found.epoch <= _MOST_EPOCH else None


def age(snapshot: tuple[int, int]) -> tuple[int, int]:
    """The sort key of a snapshot (offset, epoch): the epoch comes before the offset (OffsetAndEpoch)."""
    offset, epoch = snapshot
    return epoch, offset


def check_one_history(folder: Path, snapshots: Iterable[tuple[int, int]]) -> None:
    """Raises StorageError if two snapshots (offset, epoch) cannot be of one log: a later epoch has a later offset."""
    for older, newer in pairwise(sorted(snapshots, key=age)):
        if older[0] >= newer[0]:
            names = f"{SnapshotId(*older).file_name} and {SnapshotId(*newer).file_name}"
            raise StorageError(f"{folder}: {names} cannot be of one log: move away the one that is foreign")


def snapshots_in(folder: Path, files: FileSystem = OS) -> list[SnapshotId]:
    """The ids of the complete snapshots in a folder, sorted by end offset, then epoch."""
    return sorted(found for name in files.names(folder) if (found := snapshot_id(name)))


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """The content of one snapshot: raft's control records as messages, the state machine's records undecoded."""

    id: SnapshotId | None  # None if the file's name has no id, as bootstrap.checkpoint.
    header: SnapshotHeaderRecord
    kraft_version: KRaftVersionRecord | None
    voters: VotersRecord | None
    records: Records

    def __iter__(self) -> Iterator[bytes]:
        """The values of the state machine's records."""
        return (record.value or b"" for record in self.records if record.control is None)


def read_snapshot(path: Path) -> Snapshot:
    """Reads a snapshot. Raises StorageError without a header or a footer, DecodeError for a torn file."""
    with naming(path):
        records = decode_records(map_file(path))
        controls = records.in_rows(np.flatnonzero(records.is_control))
        found: dict[str | None, Any] = {record.control: control_message(record) for record in controls}
        ends = [record.control for record in records.in_rows(np.array([0, len(records) - 1]))] if len(records) else []
        if not ends or ends[0] != HEADER:
            raise StorageError("a snapshot begins with its header")
        if ends[1] != FOOTER:
            raise StorageError("a snapshot ends with its footer: this one was not finished")
        if (gap := gap_in(records.batches, 0)) is not None:
            raise gap.problem
    return Snapshot(
        snapshot_id(path.name.removesuffix(DELETED)),
        found["SNAPSHOT_HEADER"],
        found.get("KRAFT_VERSION"),
        found.get("KRAFT_VOTERS"),
        records,
    )


def why_damaged(path: Path, files: FileSystem = OS) -> str | None:
    """The reason, in words, why a snapshot cannot be loaded; None if it can.

    A whole snapshot begins with a header, ends with a footer, and has only matching CRCs. Kafka does not require a
    footer.
    """
    data = map_file(path, files)
    try:
        batches = scan_batches(data, stop=True)
        bad = np.flatnonzero(~batches.crc_matches)
        if bad.size:
            return f"the CRC of the batch at position {batches.position[bad[0]]} does not match"
        if batches.problem is not None:
            return f"it is torn at position {batches.end}"
        names = [_control_of(data, batches, row) for row in (0, -1)] if len(batches) else ["", ""]
        if names[0] != HEADER:
            return "it has no header"
        if names[1] != FOOTER:
            return "it has no footer: its end is missing"
        gap = gap_in(batches, 0)
        return None if gap is None else str(gap.problem)
    finally:
        if isinstance(data, mmap):
            data.close()


def _control_of(data: bytes | mmap, batches: RecordBatches, row: int) -> str | None:
    """The type of the first control record of the first batch (row 0), or of the last one of the last batch (row -1).

    None for a batch of data.
    """
    if not batches.attributes[row] & CONTROL:
        return None
    begin = int(batches.position[row])
    records = records_of(data[begin : begin + int(batches.size[row])])
    return records[row].control if records else None


def write_snapshot(
    folder: Path,
    snapshot: SnapshotId,
    values: Iterable[bytes],
    *,
    time_ms: int,
    last_contained_log_timestamp: int,
    kraft_version: KRaftVersionRecord | None = None,
    voters: VotersRecord | None = None,
    batch_bytes: int = BATCH_BYTES,
    files: FileSystem = OS,
) -> Path:
    """Writes a snapshot of records with these values atomically; returns its path. Times are in ms since 1970."""
    path = folder / snapshot.file_name
    header = SnapshotHeaderRecord(version=0, last_contained_log_timestamp=last_contained_log_timestamp)
    begin = [("SNAPSHOT_HEADER", header), ("KRAFT_VERSION", kraft_version), ("KRAFT_VOTERS", voters)]
    write_atomically(path, _encode(snapshot.epoch, begin, _batched(values, batch_bytes), time_ms), files)
    return path


def write_bootstrap(directory: Path, values: Iterable[bytes], *, time_ms: int, files: FileSystem = OS) -> Path:
    """Writes bootstrap.checkpoint: a snapshot of a new cluster's records (BootstrapDirectory, BatchFileWriter)."""
    path = directory / BOOTSTRAP
    header = SnapshotHeaderRecord(version=0, last_contained_log_timestamp=0)
    data = _encode(0, [("SNAPSHOT_HEADER", header)], _batched(values, BATCH_BYTES), time_ms)
    write_atomically(path, data, files)
    return path


def _encode(
    epoch: int, begin: Sequence[tuple[str, Data | None]], batches: Iterable[list[bytes]], time_ms: int
) -> bytes:
    """A snapshot's bytes: a batch of control records, the state machine's batches, a batch with the footer."""
    offset, data = 0, bytearray()

    def add(records: list[tuple[bytes | None, bytes]], control: bool) -> None:
        nonlocal offset
        rows = [Record(offset + k, time_ms, key, value) for k, (key, value) in enumerate(records)]
        data.extend(encode_records(rows, control=control, partition_leader_epoch=epoch))
        offset += len(rows)

    add([_control(name, message) for name, message in begin if message is not None], control=True)
    for batch in batches:
        add([(None, value) for value in batch], control=False)
    add([_control("SNAPSHOT_FOOTER", SnapshotFooterRecord(version=0))], control=True)
    return bytes(data)


def _control(name: str, message: Data) -> tuple[bytes, bytes]:
    """A control record's key and value; the key has version 0 and the type (ControlRecordTypeSchema)."""
    return CONTROL_TYPES.index(name).to_bytes(4), encode(message, 0)


def _batched(values: Iterable[bytes], most: int) -> Iterator[list[bytes]]:
    """The values in lists of at most `most` bytes, or of one larger value."""
    batch: list[bytes] = []
    size = 0
    for value in values:
        if batch and size + len(value) > most:
            yield batch
            batch, size = [], 0
        batch.append(value)
        size += len(value)
    if batch:
        yield batch
