"""Records as Arrow, and batches from columns, beside memcpy, decoding and plain Python loops: 16 MiB of records."""

import random

import numpy as np
import pyarrow as pa
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from kcore.wire.record_building import encode_records
from kcore.wire.records import Record, Records, decode_records
from reference import record_fields

BYTES = 16 * 2**20
BATCH_BYTES = 2**20
VALUE_BYTES = 100


@pytest.fixture(scope="module")
def batch() -> bytes:
    """One batch of about BATCH_BYTES: the size that a producer with a large batch.size sends."""
    dice = random.Random(1)
    count = BATCH_BYTES // (VALUE_BYTES + 20)
    return encode_records(
        [Record(row, 1_700_000_000_000 + row, dice.randbytes(8), dice.randbytes(VALUE_BYTES)) for row in range(count)]
    )


@pytest.fixture(scope="module")
def records(batch: bytes) -> Records:
    return decode_records(batch * (BYTES // len(batch)))


def test_memcpy(benchmark: BenchmarkFixture, records: Records) -> None:
    source = np.frombuffer(records.data, np.uint8)
    assert len(benchmark(source.copy)) == len(source)


def test_decode(benchmark: BenchmarkFixture, records: Records) -> None:
    assert len(benchmark(decode_records, records.data, records.batches)) == len(records)


def test_to_arrow(benchmark: BenchmarkFixture, records: Records) -> None:
    assert benchmark(records.to_arrow).num_rows == len(records)


def test_to_arrow_through_objects(benchmark: BenchmarkFixture, records: Records) -> None:
    def rows() -> pa.Table:
        return pa.Table.from_pylist([{"offset": row.offset, "key": row.key, "value": row.value} for row in records])

    assert benchmark.pedantic(rows, rounds=1).num_rows == len(records)


def test_decode_by_a_python_loop(benchmark: BenchmarkFixture, batch: bytes) -> None:
    """One batch, a sixteenth of the other cases' bytes."""
    assert len(benchmark.pedantic(record_fields.records, args=(batch, 0), rounds=1)) == len(decode_records(batch))


@pytest.mark.parametrize("form", ["objects", "columns", "table"])
def test_encode_a_batch(benchmark: BenchmarkFixture, batch: bytes, form: str) -> None:
    decoded = decode_records(batch)
    given = {"objects": list(decoded), "columns": decoded, "table": decoded.to_arrow()}[form]
    assert benchmark(encode_records, given) == batch
