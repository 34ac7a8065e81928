"""Records as Arrow: the same tables as the slow twin makes; spans outside the bytes."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

import cases
from kcore._ext import records as kernel
from kcore.wire import record_arrow
from kcore.wire.record_building import encode_records
from kcore.wire.records import Record, decode_records
from reference import record_arrow as twin
from wire.record_strategies import batches


@given(batches())
def test_tables_are_those_of_the_twin(data: bytes) -> None:
    records = decode_records(data)
    table = records.to_arrow()
    table.validate()
    assert table.equals(twin.table(records))
    assert table.schema == record_arrow.RECORD_SCHEMA
    for column in table.columns:
        assert sum(chunk.null_count for chunk in column.chunks) == column.is_null().to_numpy().sum()


@pytest.mark.recorded
def test_recorded_batches_are_as_the_twin_has_them() -> None:
    for case in cases.load("records"):
        records = decode_records(bytes.fromhex(case["hex"]))
        table = records.to_arrow()
        table.validate(full=True)
        assert table.equals(twin.table(records))


def test_large_headers_are_batches_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch of rows with only large headers would exceed the 2 GiB of an array of binary."""
    monkeypatch.setattr(record_arrow, "BYTES_AT_ONCE", 100)
    given = [Record(k, 0, None, b"v", (("n", bytes(size)), ("m", None))) for k, size in enumerate((40, 50, 60, 500, 3))]
    records = decode_records(encode_records(given))
    assert [len(batch) for batch in pa.RecordBatchReader.from_stream(records)] == [2, 1, 1, 1]
    assert records.to_arrow().equals(twin.table(records))


def int64s(*numbers: int) -> memoryview:
    return np.array(numbers, np.int64).data


def int32s(*numbers: int) -> memoryview:
    return np.array(numbers, np.int32).data


def test_gather_copies_spans_of_all_buffers() -> None:
    validity, nulls, ends, values = kernel.gather((b"abc", b"", b"de"), int64s(3, 1, 0, 5, 0), int32s(2, 2, -1, 0, 1))
    assert (bytes(values), np.frombuffer(ends, np.int32).tolist()) == (b"debca", [0, 2, 4, 4, 4, 5])
    assert validity is not None
    assert (bytes(validity), nulls) == (bytes([0b11011]), 1)
    validity, nulls, ends, values = kernel.gather((), int64s(), int32s())
    assert (validity, nulls, bytes(ends), bytes(values)) == (None, 0, bytes(4), b"")


@pytest.mark.parametrize(
    ("offset", "length", "said"),
    [
        (-1, 1, "before the bytes .row 1"),
        (2, 2, "beyond the bytes .row 1"),
        (3, 3, "beyond the bytes .row 1"),
        (5, 1, "beyond the bytes .row 1"),
        (6, 0, "beyond the bytes .row 1"),
        (2**63 - 1, 1, "beyond the bytes .row 1"),
    ],
)
def test_gather_copies_no_span_outside(offset: int, length: int, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        kernel.gather((b"abc", b"de"), int64s(0, offset), int32s(1, length))


def test_gather_refuses_what_no_array_can_hold() -> None:
    with pytest.raises(ValueError, match="2147483648 bytes"):
        kernel.gather((b"abc",), int64s(0, 0), int32s(2**31 - 1, 1))
    with pytest.raises(ValueError, match="different lengths"):
        kernel.gather((b"abc",), int64s(0, 0), int32s(1))
