"""kcore.log without a Spark: parts of files, other formats between batches, and the logs that a stream reads."""

import struct
import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes

from kcore.errors import DecodeError, StorageError
from kcore.spark.log_source import LogSource
from kcore.spark.log_stream import LogStreamReader, StreamedLogSource
from kcore.spark.metadata_source import MetadataSource
from kcore.wire.record_batch import index_entries, scan_batches
from storage.building import batch, batches
from storage.samples import OLD_FORMATS

OLD_BODY = struct.pack(">bbii", 0, 0, -1, -1)
OLD = struct.pack(">qiI", 3, 14, zlib.crc32(OLD_BODY)) + OLD_BODY  # A message of magic 0, without key and value.


def rows_of(options: dict[str, str], **more: str) -> list[dict[str, Any]]:
    source = LogSource(options | more)
    reader = source.reader(source.schema())
    return [row for part in reader.partitions() for rows in reader.read(part) for row in rows.to_pylist()]


def offsets(rows: list[dict[str, Any]]) -> list[int]:
    return [row["offset"] for row in rows if row["offset"] is not None]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """t-0 with segments from 0 and 60 on, the first with an index."""
    found = tmp_path / "t-0"
    found.mkdir()
    for base in (0, 60):
        data = b"".join(batches(60, first=base))
        (found / f"{base:020}.log").write_bytes(data)
    entries = index_entries(scan_batches((found / f"{0:020}.log").read_bytes()), 0, 500)
    (found / f"{0:020}.index").write_bytes(entries.offset_index())
    return found


@pytest.mark.parametrize("size", ["1", "200", "1000", "3k", "128m"])
def test_every_split_size_reads_the_same_rows(folder: Path, size: str) -> None:
    whole = rows_of({"path": str(folder)})
    assert rows_of({"path": str(folder)}, splitSize=size) == whole and offsets(whole) == list(range(120))


def test_a_large_file_is_several_tasks_and_where_leaves_parts_out(folder: Path) -> None:
    def tasks(**options: str) -> int:
        source = LogSource({"path": str(folder), "splitSize": "1000"} | options)
        return len(source.reader(source.schema()).partitions())

    assert tasks() > 15 and tasks(where="offset = 70") == 1


def test_a_border_that_is_none_fails_the_part_before_it(folder: Path) -> None:
    source = LogSource({"path": str(folder), "splitSize": "1000"})
    reader = source.reader(source.schema())
    first = reader.partitions()[0]
    first.end -= 1  # type: ignore[attr-defined]
    with pytest.raises(DecodeError, match="torn"):
        list(reader.read(first))


def test_a_file_that_becomes_shorter_after_the_split_is_an_error(folder: Path) -> None:
    (folder / f"{60:020}.log").unlink()
    path = folder / f"{0:020}.log"
    source = LogSource({"path": str(folder), "splitSize": "1000"})
    reader = source.reader(source.schema())
    parts = reader.partitions()
    border = parts[1].start  # type: ignore[attr-defined]
    path.write_bytes(path.read_bytes()[:border])
    assert sum(rows.num_rows for rows in reader.read(parts[0])) > 0
    for part in parts[1:]:
        with pytest.raises(DecodeError, match="became shorter meanwhile"):
            list(reader.read(part))


@pytest.mark.parametrize("size", ["", "0", "-1", "x", "1.5m", "9" * 18 + "t"])
def test_a_split_size_that_is_none_is_refused(size: str) -> None:
    with pytest.raises(StorageError, match=r"splitSize .*: give a number of bytes such as"):
        LogSource({"path": "x", "splitSize": size})
    with pytest.raises(StorageError, match="there is no option 'splitSize'"):
        MetadataSource({"path": "x", "splitSize": "1m"})


def test_a_hole_at_a_border_of_a_metadata_log_is_told(tmp_path: Path) -> None:
    folder = tmp_path / "__cluster_metadata-0"
    folder.mkdir()
    made = batches(30)
    for gone in (1, 2, 14, 27, 28):
        (folder / f"{0:020}.log").write_bytes(b"".join(made[:gone] + made[gone + 1 :]))
        for size in ("1", "600", "1m"):
            rows = rows_of({"path": str(folder)}, splitSize=size, mode="permissive")
            [said] = [row["_corrupt"] for row in rows if row["_corrupt"]]
            assert f"offset {gone} is missing" in said and len(rows) == 30
            with pytest.raises(DecodeError, match=f"offset {gone} is missing"):
                rows_of({"path": str(folder)}, splitSize=size)


def test_permissive_goes_on_behind_batches_of_another_magic(folder: Path) -> None:
    newer = bytearray(batch(5))
    newer[16] = 3
    data = b"".join((*batches(2), OLD, batch(4), bytes(newer), bytes(newer), batch(6)))
    (folder / f"{60:020}.log").unlink()
    (folder / f"{0:020}.log").write_bytes(data)
    for size in ("1", "128m"):
        rows = rows_of({"path": str(folder)}, mode="permissive", splitSize=size)
        assert offsets(rows) == [0, 1, 3, 4, 6]
        [other] = [(row["batchPosition"], row["_corrupt"]) for row in rows if row["_corrupt"]]
        assert other[0] == data.index(newer) and "2 of them" in other[1] and "magic is not 2" in other[1]
        assert offsets(rows_of({"path": str(folder)}, mode="dropmalformed", splitSize=size)) == [0, 1, 3, 4, 6]
        with pytest.raises(DecodeError, match="magic is not 2"):
            rows_of({"path": str(folder)}, splitSize=size)


@pytest.mark.parametrize("size", ["1", "400", "900", "128m"])
def test_segments_of_every_format(size: str) -> None:
    """The recorded segment has messages of magic 0 and 1, also compressed ones, and a batch of magic 2."""
    path = {"path": str(OLD_FORMATS / "orders-0")}
    whole = rows_of(path, splitSize=size)
    assert offsets(whole) == [
        *(each for base in range(100, 150, 10) for each in (*range(base, base + 4), base + 8, base + 9)),
        *(150, 151),
    ]
    assert [row["timestamp"] for row in whole[:12]] == [None] * 12
    assert {row["timestamp"].timestamp() for row in whole[18:30]} == {1_700_000_000}
    for where in ("offset = 120", "offset in (103, 131)", "offset > 148", "timestamp < '2017-07-14T02:40:00Z'"):
        found = offsets(rows_of(path, splitSize=size, where=where))
        expected = [row["offset"] for row in whole if holds(where, row)]
        assert found == expected and found, where


def holds(where: str, row: dict[str, Any]) -> bool:
    if where.startswith("timestamp"):
        return row["timestamp"] is not None and row["timestamp"].timestamp() < 1_500_000_000
    wanted = {"offset = 120": (120,), "offset in (103, 131)": (103, 131)}.get(where, (149, 150, 151))
    return row["offset"] in wanted


def test_a_damaged_message_of_magic_1_is_an_error_or_a_row(folder: Path) -> None:
    data = bytearray((OLD_FORMATS / "orders-0" / f"{100:020}.log").read_bytes())
    data[1000] ^= 1  # In the wrapper of the offsets 120 to 129.
    (folder / f"{60:020}.log").unlink()
    (folder / f"{0:020}.log").write_bytes(data)
    with pytest.raises(DecodeError, match="a message whose CRC does not match"):
        rows_of({"path": str(folder)})
    rows = rows_of({"path": str(folder)}, mode="permissive")
    [corrupt] = [row for row in rows if row["_corrupt"]]
    assert corrupt["batchPosition"] == 903 and "a message whose CRC does not match" in corrupt["_corrupt"]
    assert offsets(rows) == [
        offset for offset in offsets(rows_of({"path": str(OLD_FORMATS / "orders-0")})) if offset // 10 != 12
    ]


def test_the_zeros_of_a_preallocated_segment_are_its_end(folder: Path) -> None:
    last = folder / f"{60:020}.log"
    last.write_bytes(last.read_bytes() + bytes(5000))
    for mode in ("failfast", "permissive"):
        rows = rows_of({"path": str(folder)}, mode=mode, splitSize="1000")
        assert offsets(rows) == list(range(120)) == [row["offset"] for row in rows]
    last.write_bytes(last.read_bytes() + b"\1")
    with pytest.raises(DecodeError, match="magic is not 2"):
        rows_of({"path": str(folder)})


class Stream:
    """A query on a stream: reads micro-batches, and can restart from its checkpoint."""

    def __init__(self, path: Path, **options: str) -> None:
        self.options = {"path": str(path)} | options
        self.reader = self.new_reader()
        self.offsets = self.reader.initialOffset()

    def new_reader(self) -> LogStreamReader:
        source = StreamedLogSource(self.options)
        return source.streamReader(source.schema())

    def rows(self) -> list[dict[str, Any]]:
        start, self.offsets = self.offsets, self.reader.latestOffset()
        return self.between(start, self.offsets)

    def between(self, start: dict[str, int], end: dict[str, int]) -> list[dict[str, Any]]:
        parts = self.reader.partitions(start, end)
        found: list[pa.RecordBatch] = [rows for part in parts for rows in self.reader.read(part)]
        return [row for rows in found for row in rows.to_pylist()]


def micro_batches(query: Stream, most_bytes: int) -> list[list[dict[str, Any]]]:
    """The micro-batches until no record is left; each is read up to the offset that the reader admits."""
    found = []
    while True:
        start = query.offsets
        query.offsets = query.reader.latestOffset(start, ReadMaxBytes(most_bytes))
        if query.offsets == start:
            return found
        found.append(query.between(start, query.offsets))
        assert found[-1] and len(found) < 1000


@pytest.mark.parametrize("most_bytes", [1, 500, 1999, 1 << 30])
def test_a_limited_micro_batch_has_whole_batches_and_loses_no_record(folder: Path, most_bytes: int) -> None:
    size = len(batches(1)[0])
    query = Stream(folder)
    found = micro_batches(query, most_bytes)
    assert [offset for rows in found for offset in offsets(rows)] == list(range(120))
    assert max(len(rows) for rows in found[:-1] or found) == max(1, min(120, most_bytes // size))
    append(folder / f"{60:020}.log", b"".join(batches(3, first=120)))
    query.reader = query.new_reader()  # After a restart, the offsets are those of the checkpoint.
    assert [offset for rows in micro_batches(query, most_bytes) for offset in offsets(rows)] == [120, 121, 122]


def test_partitions_share_the_limit_and_leave_the_rest_to_others(folder: Path) -> None:
    size = len(batches(1)[0])
    small = folder.parent / "u-1"
    small.mkdir()
    (small / f"{0:020}.log").write_bytes(b"".join(batches(2)))
    query = Stream(folder.parent)
    admitted = query.reader.latestOffset({}, ReadMaxBytes(10 * size))
    assert admitted == {str(folder): 8, str(small): 2}
    assert query.reader.latestOffset(admitted, ReadMaxBytes(10 * size)) == {str(folder): 18, str(small): 2}
    assert query.reader.latestOffset({}, ReadMaxBytes(size)) == {str(folder): 1}  # One batch, of the last partition.
    assert query.reader.latestOffset({}, ReadMaxBytes(1)) == {str(small): 1}  # No batch fits: one of the smallest.
    everything = {str(folder): 120, str(small): 2}
    assert query.reader.latestOffset({}, ReadAllAvailable()) == query.reader.latestOffset() == everything


def test_a_partition_whose_batch_is_larger_than_its_share_does_not_wait_for_ever(folder: Path) -> None:
    """The other partition has more records than a micro-batch may have, and could always take the limit."""
    size, others = len(batches(1)[0]), [folder.parent / name for name in ("u-1", "u-2")]
    for other in others:
        other.mkdir()
        (other / f"{0:020}.log").write_bytes(batch(0, [b"v" * 5 * size]) + batch(1))
    query, start, read = Stream(folder.parent), dict[str, int](), list[dict[str, int]]()
    for _ in range(5):
        start = query.reader.latestOffset(start, ReadMaxBytes(3 * size))
        read.append(start)
    first, second = map(str, others)
    assert read[0] == {str(folder): 3}
    assert read[1] == {str(folder): 3, first: 1} and read[2] == {str(folder): 3, first: 1, second: 1}
    assert read[4].keys() == {str(folder), first, second} and read[4][str(folder)] > 3


def test_a_limited_stream_passes_over_damage(folder: Path) -> None:
    newer = bytearray(batch(124))
    newer[16] = 3
    append(folder / f"{60:020}.log", bytes(newer) + batch(125))
    rows = [row for found in micro_batches(Stream(folder, mode="permissive"), 500) for row in found]
    assert offsets(rows) == [*range(120), 125]


def test_the_option_of_the_limit(folder: Path) -> None:
    source = StreamedLogSource({"path": str(folder), "maxbytespertrigger": "2k"})
    assert source.streamReader(source.schema()).getDefaultReadLimit() == ReadMaxBytes(2048)
    assert isinstance(Stream(folder).reader.getDefaultReadLimit(), ReadAllAvailable)
    with pytest.raises(StorageError, match=r"maxBytesPerTrigger is an option of spark.readStream: leave it out"):
        source.reader(source.schema())
    with pytest.raises(StorageError, match=r"maxBytesPerTrigger '0': give a number of bytes such as"):
        StreamedLogSource({"path": str(folder), "maxBytesPerTrigger": "0"})


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


@pytest.mark.parametrize("size", ["500", "128m"])
def test_a_stream_reads_each_appended_record_once(folder: Path, size: str) -> None:
    query = Stream(folder.parent, splitSize=size)
    assert offsets(query.rows()) == list(range(120)) and query.rows() == []
    last, more = folder / f"{60:020}.log", batches(9, first=120)
    append(last, more[0] + more[1] + more[2][:40])  # The broker is writing the third batch.
    assert offsets(query.rows()) == [120, 121]
    before = query.offsets
    append(last, more[2][40:])
    (folder / f"{123:020}.log").write_bytes(b"".join(more[3:6]))
    (folder.parent / "u-1").mkdir()
    (folder.parent / "u-1" / f"{0:020}.log").write_bytes(more[0])
    query.reader = query.new_reader()  # After a restart, only the checkpoint is known.
    assert sorted(offsets(query.rows())) == [120, 122, 123, 124, 125]
    append(folder / f"{123:020}.log", b"".join(more[6:]) + bytes(300))
    assert offsets(query.between(before, query.offsets)) == [122, 123, 124, 125, 120]  # A micro-batch done again.
    assert offsets(query.rows()) == [126, 127, 128]


def test_a_stream_tells_of_records_that_were_deleted_before_it_read_them(folder: Path) -> None:
    query = Stream(folder)
    query.offsets = {str(folder): 7}
    (folder / f"{0:020}.log").unlink()
    with pytest.raises(DecodeError, match="offsets 7 to 59 are missing: they were deleted before the stream read them"):
        query.rows()
    query = Stream(folder, mode="permissive")
    query.offsets = {str(folder): 7}
    rows = query.rows()
    assert offsets(rows) == list(range(60, 120)) and "deleted before" in rows[0]["_corrupt"]
    assert offsets(Stream(folder).rows()) == list(range(60, 120))  # A new stream begins with what there is.


def test_a_stream_fails_at_damage_or_passes_over_it(folder: Path) -> None:
    query, careless = Stream(folder), Stream(folder, mode="permissive", where="offset > 118")
    last = folder / f"{60:020}.log"
    newer = bytearray(batch(124))
    newer[16] = 3
    append(last, bytes(newer) + batch(125))
    with pytest.raises(StorageError, match=f"{last.name}: a record batch whose magic is not 2"):
        query.rows()
    rows = careless.rows()
    assert offsets(rows) == [119, 125] and [bool(row["_corrupt"]) for row in rows] == [False, False, True]


def test_what_cannot_be_a_stream_is_refused_in_one_line(folder: Path) -> None:
    with pytest.raises(StorageError, match=r"0\.log: a stream reads folders: name a partition's folder"):
        Stream(folder / f"{0:020}.log")
    source = MetadataSource({"path": str(folder)})
    with pytest.raises(StorageError, match=r"kcore\.metadata is not a stream: use spark.read"):
        source.streamReader(source.schema())
    log = StreamedLogSource({"path": str(folder)})
    schema = log.schema()
    schema["offset"].nullable = False
    for make in (log.reader, log.streamReader):
        with pytest.raises(StorageError, match="the column offset cannot be NOT NULL"):
            make(schema)
