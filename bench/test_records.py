"""CRC-32C and the batch scanner against a copy of the same bytes: 64 MiB of recorded batches."""

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import cases
from kcore.wire.record_batch import crc32c, scan_batches


@pytest.fixture(scope="module")
def segment() -> bytes:
    once = b"".join(bytes.fromhex(case["hex"]) for case in cases.load("records"))
    return once * (64 * 2**20 // len(once))


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
