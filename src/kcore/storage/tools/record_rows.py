"""The records of a segment as Arrow batches of rows, for `kcore dump --arrow` and Spark."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from kcore.errors import DecodeError
from kcore.extras import needs
from kcore.storage.log.partition_folder import partition_of
from kcore.storage.log.segment import map_file
from kcore.wire.log_formats import decode_run, runs_of, scan_log
from kcore.wire.record_arrow import RECORD_SCHEMA, record_columns
from kcore.wire.records import Records

with needs("arrow"):
    import pyarrow as pa

BYTES_AT_ONCE = 8 << 20  # Bytes of the segment whose records are in one Arrow batch.

SCHEMA = pa.schema([("file", pa.string()), ("topic", pa.string()), ("partition", pa.int32()), *RECORD_SCHEMA])


def record_rows(path: Path) -> Iterator[pa.RecordBatch]:
    """One row per record of a segment or snapshot; a DecodeError names the file and the position of invalid bytes."""
    partition = partition_of(path.resolve().parent)
    data = map_file(path)
    try:
        for run in runs_of(scan_log(data), BYTES_AT_ONCE):
            yield rows_of(decode_run(data, run), str(path), *(partition or (None, None)))
    except DecodeError as error:
        raise DecodeError(f"{path}: {error.message}", error.offset) from None


def rows_of(
    records: Records, file: str, topic: str | None, partition: int | None, columns: Sequence[str] = tuple(SCHEMA.names)
) -> pa.RecordBatch:
    """The records with these columns of SCHEMA; copies only these."""
    count = len(records)
    places = {"file": (file, pa.string()), "topic": (topic, pa.string()), "partition": (partition, pa.int32())}
    names = [name for name in columns if name not in places]
    made = dict(zip(names, record_columns(records, 0, count, names), strict=True))
    made |= {name: pa.repeat(pa.scalar(*place), count) for name, place in places.items() if name in columns}
    return pa.RecordBatch.from_arrays(
        [made[name] for name in columns], schema=pa.schema([SCHEMA.field(name) for name in columns])
    )
