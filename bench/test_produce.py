"""A leader's checks of a produced batch of 136 records of 108 bytes, compared with one CRC pass over the same bytes.

The CRC is checked in any case; reading the records, and decompressing them, comes on top.
`./kcore test bench/test_produce.py --benchmark-enable --benchmark-only`.
"""

import random

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from kcore._ext import records as kernel
from kcore.broker.replicas.log_validator import LogConfig, validate
from kcore.wire.record_batch import HEADER_END, crc32c
from kcore.wire.record_building import CODECS, encode_records
from kcore.wire.records import Record

RECORDS = 136
NOW_MS = 1_700_000_000_000
EACH_CODEC = pytest.mark.parametrize("codec", CODECS)


def batch_of(codec: str) -> bytes:
    dice = random.Random(1)
    rows = [Record(offset, NOW_MS, dice.randbytes(8), dice.randbytes(50) + b"v" * 50) for offset in range(RECORDS)]
    return encode_records(rows, codec=codec)


@EACH_CODEC
def test_crc32c(benchmark: BenchmarkFixture, codec: str) -> None:
    batch = batch_of(codec)
    assert benchmark(crc32c, batch) == crc32c(batch)


@EACH_CODEC
def test_records_validated(benchmark: BenchmarkFixture, codec: str) -> None:
    """The kernel alone, of a batch that stays as it is."""
    records, window = batch_of(codec)[HEADER_END:], (NOW_MS, 2**62, 2**62)
    rules = (RECORDS, CODECS.index(codec), NOW_MS, None, True, window, None, 2**28, 2**31 - 9)
    refusal, errors, *_ = benchmark(kernel.validate, records, *rules)
    assert refusal is None and not errors


@EACH_CODEC
@pytest.mark.parametrize("compression_type", ["producer", "lz4"])
def test_batch_validated(benchmark: BenchmarkFixture, codec: str, compression_type: str) -> None:
    """All that stands before the append: header, CRC, records, and the bytes that go into the log."""
    batch, config = batch_of(codec), LogConfig(compression_type=compression_type)
    validated = benchmark(validate, batch, config, 1_000, 3, NOW_MS)
    assert int(validated.batches.count[0]) == RECORDS and validated.batches.base_offset[0] == 1_000
