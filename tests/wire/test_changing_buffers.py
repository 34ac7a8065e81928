"""Buffers and columns that another thread changes while they are read: old bytes, new bytes or an error, no overflow.

`ci/sanitize` runs the same with AddressSanitizer.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from mmap import ACCESS_READ, ACCESS_WRITE, mmap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kcore
from kcore.errors import DecodeError, EncodeError
from kcore.schema import PartitionRecord
from kcore.wire import Columns, Rows, Strings, Vectors, column_codec
from kcore.wire.buffers import immutable, is_immutable
from kcore.wire.columns import UnknownTags
from kcore.wire.metadata_frames import encode_metadata_record
from kcore.wire.record_batch import scan_batches
from kcore.wire.record_building import encode_records
from kcore.wire.records import Record, decode_records
from wire.every_kind import EveryKind

NAME, VERSION, TOPICS, EACH = "LeaderAndIsrRequest", 7, 20, 10
RACE_S = 0.4  # How long threads race.


def request(version: int = VERSION, *, mixed: bool = True) -> Columns:
    rows = TOPICS * EACH
    lengths = np.arange(rows) % 4 if mixed else np.full(rows, 3)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    members = Vectors(offsets, np.arange(offsets[-1], dtype=np.int32))
    partitions = Rows(
        np.arange(0, rows + 1, EACH, dtype=np.int32), partition_index=np.arange(rows, dtype=np.int32), isr=members
    )
    names = Strings.of(f"topic-{k}" for k in range(TOPICS))
    states = Rows(np.array([0, TOPICS], np.int32), topic_name=names, partition_states=partitions)
    return Columns(NAME, controller_id=1, topic_states=states)


def owned(columns: Columns) -> Columns:
    """The same in writable arrays."""
    partitions, names = columns.topic_states.partition_states, columns.topic_states.topic_name
    partitions.isr.offsets = partitions.isr.offsets.copy()
    names.offsets, names.values = names.offsets.copy(), names.values.copy()
    return columns


def buffers(data: bytes, folder: Path) -> Iterator[tuple[Any, bool]]:
    """One buffer of every kind, and whether it is immutable."""
    path = folder / "data"
    path.write_bytes(data)
    array = np.frombuffer(data, np.uint8)
    yield from ((data, True), (memoryview(data), True), (memoryview(data)[:], True), (array, True), (array[:], True))
    written = bytearray(data)
    yield from ((written, False), (memoryview(written).toreadonly(), False), (array.copy(), False))
    frozen = array.copy()[:]
    frozen.flags.writeable = False
    yield frozen, False
    with path.open("r+b") as file:
        yield mmap(file.fileno(), 0, access=ACCESS_READ), False
        yield mmap(file.fileno(), 0, access=ACCESS_WRITE), False


def test_what_counts_as_immutable(tmp_path: Path) -> None:
    for buffer, expected in buffers(b"some bytes", tmp_path):
        assert is_immutable(memoryview(buffer)) is expected, type(buffer)
        read = immutable(buffer)
        assert read == b"some bytes" and read.readonly
        shared = np.shares_memory(np.frombuffer(read, np.uint8), np.frombuffer(buffer, np.uint8))
        assert shared is expected, type(buffer)
        mapped = isinstance(buffer, mmap) and memoryview(buffer).readonly
        assert is_immutable(memoryview(buffer), mapped=True) is (expected or mapped)
    decompressed = decode_records(encode_records([Record(0, 0, None, b"x")], codec="zstd")).decompressed
    assert is_immutable(decompressed)
    with pytest.raises(BufferError):
        immutable(memoryview(b"some bytes")[::2])


def test_every_kind_of_buffer_is_decoded(tmp_path: Path) -> None:
    data = kcore.encode_columns(request(), VERSION)
    message, expected = kcore.decode(NAME, VERSION, data), kcore.decode_columns(NAME, VERSION, data)
    batch = encode_records([Record(0, 0, b"k", b"v")])
    for buffer, _ in buffers(data, tmp_path):
        columns = kcore.decode_columns(NAME, VERSION, buffer)
        assert kcore.encode_columns(columns, VERSION) == kcore.encode_columns(expected, VERSION) == data
        assert kcore.decode(NAME, VERSION, buffer) == message
        assert kcore.wire.decode_from(NAME, VERSION, buffer) == (message, len(data))
    for buffer, _ in buffers(batch, tmp_path):
        assert len(scan_batches(buffer)) == 1 and [each.value for each in decode_records(buffer)] == [b"v"]


def rows_of(data: Any, spans: np.ndarray[Any, Any]) -> list[tuple[int, list[int]]]:
    rows = column_codec.decode_rows(PartitionRecord, 0, data, spans)
    return list(zip(rows.partition_id.tolist(), map(list, rows.replicas), strict=True))


def test_many_messages_of_a_buffer_that_may_change() -> None:
    frames = [
        encode_metadata_record(PartitionRecord(partition_id=k, replicas=[k, k + 1][: k % 3]), 0) for k in range(9)
    ]
    data = b"?".join(frames)
    ends = np.cumsum([len(frame) + 1 for frame in frames]) - 1
    spans = np.stack([ends - [len(frame) - 3 for frame in frames], ends], axis=1)[::-1]
    assert rows_of(bytearray(data), spans) == rows_of(data, spans)
    for m, begin in ((4, 0), (0, 0), (8, 0)):
        wrong = spans.copy()
        wrong[m, 1] -= 1 + begin
        found = []
        for buffer in (data, bytearray(data)):
            with pytest.raises(DecodeError) as raised:
                rows_of(buffer, wrong)
            found.append((raised.value.message, raised.value.offset))
        assert found[0] == found[1]


# Changes at the worst moment.


def test_bytes_that_change_between_the_measure_and_the_fill(monkeypatch: pytest.MonkeyPatch) -> None:
    data = bytearray(kcore.encode_columns(request(), VERSION))

    class Meddler(column_codec.Reader):
        def fill(self, arena: Any) -> None:
            data[:] = b"\xff" * len(data)
            super().fill(arena)

    expected = kcore.decode_columns(NAME, VERSION, bytes(data))
    monkeypatch.setattr(column_codec, "Reader", Meddler)
    columns = kcore.decode_columns(NAME, VERSION, data)
    assert data[0] == 0xFF
    assert kcore.encode_columns(columns, VERSION) == kcore.encode_columns(expected, VERSION)


def change_offsets(columns: Columns) -> None:
    columns.topic_states.partition_states.isr.offsets[1:] += 1000


def change_names(columns: Columns) -> None:
    columns.topic_states.topic_name.offsets[1:] = 2**31 - 1


def change_topics(columns: Columns) -> None:
    columns.topic_states.partition_states.row_offsets[1:-1] = 2**30


@pytest.mark.parametrize("version", [1, 2, VERSION])
@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("change", [change_offsets, change_names, change_topics])
def test_columns_that_change_between_the_measure_and_the_write(
    version: int, mixed: bool, change: Callable[[Columns], None]
) -> None:
    expected = kcore.encode_columns(request(mixed=mixed), version)
    columns = owned(request(mixed=mixed))
    writer = column_codec.prepare(columns, version)
    change(columns)
    assert writer.to_bytes() == expected


def every_kind() -> Columns:
    messages = kcore.encode(EveryKind(names=["one", "two"], records=b"some records", numbers=[1, 2, 3]), 3)
    return column_codec.decode_columns(EveryKind, 3, messages)


def test_nulls_and_spans_that_change_between_the_measure_and_the_write() -> None:
    columns = every_kind()
    expected = kcore.encode_columns(columns, 3)
    writer = column_codec.prepare(columns, 3)
    records: Any = columns.column("records")
    records.begins[:] = 2**40
    records.valid[:] = False
    assert writer.to_bytes() == expected


def test_unknown_tags_that_change_between_the_measure_and_the_write() -> None:
    columns = request()
    arrays = (
        np.zeros(1, np.int32),
        np.array([9000], np.uint32),
        np.array([0, 3], np.int32),
        np.frombuffer(b"abc", np.uint8),
    )
    columns.unknown_tags = UnknownTags(*arrays)
    expected = kcore.encode_columns(columns, VERSION)
    writer = column_codec.prepare(columns, VERSION)
    arrays[1][:], arrays[2][1] = 2**32 - 1, 2**30
    assert writer.to_bytes() == expected


@pytest.mark.parametrize("mixed", [False, True])
def test_offsets_beyond_what_there_is_are_refused(mixed: bool) -> None:
    """As after a change between the checks of `gather` and of the Writer."""
    columns = request(mixed=mixed)
    running = column_codec.program(columns.message, VERSION)
    gathered = column_codec.gather(running, columns)
    offsets = columns.topic_states.partition_states.isr.offsets
    for wrong in (offsets * 2, offsets[::-1].copy()):
        arrays = [wrong.astype(np.int32) if array is offsets else array for array in gathered.arrays]
        arrays = [None if array is None else np.ascontiguousarray(array) for array in arrays]
        problem, _ = column_codec.Writer(running.tables, arrays, gathered.rows, gathered.tag_counts).measure()
        assert problem


# Threads.


@contextmanager
def meddling(change: Callable[[int], None]) -> Iterator[None]:
    """Another thread makes one change after the other."""
    over = threading.Event()

    def run() -> None:
        for turn in count():
            if over.is_set():
                return
            change(turn)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def race(work: Callable[[], object], *refused: type[Exception]) -> None:
    until = time.monotonic() + RACE_S
    while time.monotonic() < until:
        with suppress(*refused):
            work()


def flips(data: Any) -> Callable[[int], None]:
    """Bytes that are sometimes a length."""
    array = np.frombuffer(data, np.uint8)
    kept = array.copy()
    return lambda turn: array.__setitem__(slice(None), kept if turn % 2 else np.roll(kept, turn % 7))


@pytest.mark.parametrize("kind", [bytearray, lambda data: np.frombuffer(data, np.uint8).copy()])
def test_a_thread_changes_what_is_decoded(kind: Callable[[bytes], Any]) -> None:
    data, records = (
        kind(kcore.encode_columns(request(), VERSION)),
        kind(encode_records([Record(k, 0, None, b"x" * 9) for k in range(50)])),
    )
    with meddling(flips(data)):
        race(lambda: kcore.decode_columns(NAME, VERSION, data), DecodeError)
        race(lambda: kcore.decode(NAME, VERSION, data), DecodeError)
    with meddling(flips(records)):
        race(lambda: decode_records(records, check_crc=False), DecodeError)


def test_a_thread_changes_a_file_that_is_mapped(tmp_path: Path) -> None:
    path = tmp_path / "data"
    for data, decode in (
        (kcore.encode_columns(request(), VERSION), lambda mapped: kcore.decode_columns(NAME, VERSION, mapped)),
        (
            encode_records([Record(k, 0, None, b"x" * 9) for k in range(50)]),
            lambda mapped: decode_records(mapped, check_crc=False),
        ),
        (
            encode_records([Record(k, 0, None, b"x" * 9) for k in range(50)], codec="lz4"),
            lambda mapped: decode_records(mapped, check_crc=False),
        ),
    ):
        path.write_bytes(data)
        with path.open("r+b") as file:
            mapped, written = (mmap(file.fileno(), 0, access=how) for how in (ACCESS_READ, ACCESS_WRITE))
            with meddling(flips(written)):
                race(lambda: decode(mapped), DecodeError)  # noqa: B023


@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("version", [1, VERSION])
def test_a_thread_changes_columns_that_are_encoded(mixed: bool, version: int) -> None:
    columns = owned(request(mixed=mixed))
    offsets, names = columns.topic_states.partition_states.isr.offsets, columns.topic_states.topic_name.offsets
    kept, kept_names = offsets.copy(), names.copy()

    def change(turn: int) -> None:
        offsets[:] = (kept, kept // 2, kept[::-1], kept * 50)[turn % 4]
        names[:] = kept_names if turn % 3 else kept_names * 9

    with meddling(change):
        race(lambda: kcore.encode_columns(columns, version), EncodeError)
