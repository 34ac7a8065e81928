"""Record batches against a copy of the same bytes: 64 MiB of batches, as producers send them and as recorded."""

import random

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import cases
from kcore.wire.record_batch import crc32c, scan_batches
from kcore.wire.record_building import encode_batches, encode_records
from kcore.wire.records import Record, decode_records

SEGMENT_BYTES = 64 * 2**20


@pytest.fixture(scope="module", params=["16 KiB batches", "recorded batches"])
def segment(request: pytest.FixtureRequest) -> bytes:
    if request.param == "recorded batches":
        once = b"".join(bytes.fromhex(case["hex"]) for case in cases.load("records"))
    else:
        dice = random.Random(1)
        records = [Record(offset, 1_700_000_000_000, dice.randbytes(8), dice.randbytes(100)) for offset in range(136)]
        once = encode_records(records)
    return once * (SEGMENT_BYTES // len(once))


def test_memcpy(benchmark: BenchmarkFixture, segment: bytes) -> None:
    source = np.frombuffer(segment, np.uint8)
    out = np.zeros_like(source)
    benchmark(np.copyto, out, source)
    assert np.array_equal(out, source)


def test_crc32c(benchmark: BenchmarkFixture, segment: bytes) -> None:
    assert benchmark(crc32c, segment) == crc32c(segment[1000:], crc32c(segment[:1000]))


def test_scan_batches(benchmark: BenchmarkFixture, segment: bytes) -> None:
    batches = benchmark(scan_batches, segment)
    assert batches.end == len(segment)
    assert batches.crc_matches.all()


def test_decode_records(benchmark: BenchmarkFixture, segment: bytes) -> None:
    batches = scan_batches(segment)
    records = benchmark(decode_records, segment, batches)
    assert len(records) == batches.count.sum()


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_encode_batches(benchmark: BenchmarkFixture, segment: bytes, codec: str) -> None:
    records = decode_records(segment[: scan_batches(segment, limit=500).end])
    again = benchmark(encode_batches, records, codec=codec)
    assert np.array_equal(decode_records(again).offset, records.offset)
