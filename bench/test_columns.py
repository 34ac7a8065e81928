"""The column view at 1,000 topics x 100 partitions, beside a memcpy of the same bytes."""

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import kcore
from kcore.wire import Columns, Rows, Strings, Vectors

TOPICS, EACH = 1000, 100
VERSIONS = {"LeaderAndIsrRequest": (7, 2, 1), "UpdateMetadataRequest": (8, 5, 4)}
REQUESTS = [
    pytest.param(name, version, shape, id=f"{name}-v{version}-{shape}")
    for name, versions in VERSIONS.items()
    for version in versions
    for shape in ("uniform", "mixed")
]


def request_columns(name: str, shape: str) -> Columns:
    """RF 3 and ISR 3, or (`mixed`) ISRs of 1 to 3 brokers at random."""
    rng = np.random.default_rng(1)
    n = TOPICS * EACH

    def vectors(lengths: object) -> Vectors:
        offsets = np.concatenate([[0], np.cumsum(np.broadcast_to(lengths, n))]).astype(np.int32)
        return Vectors(offsets, rng.integers(0, 100, int(offsets[-1])).astype(np.int32))

    numbers = {
        field: rng.integers(0, 100, n).astype(np.int32) for field in ("controller_epoch", "leader", "leader_epoch")
    }
    partitions = Rows(
        np.arange(0, n + 1, EACH, dtype=np.int32),
        partition_index=np.tile(np.arange(EACH, dtype=np.int32), TOPICS),
        isr=vectors(3 if shape == "uniform" else rng.integers(1, 4, n)),
        replicas=vectors(3),
        **numbers,
    )
    names = Strings.of(f"topic-{k:06d}" for k in range(TOPICS))
    topics = Rows(np.array([0, TOPICS], np.int32), topic_name=names, partition_states=partitions)
    return Columns(name, controller_id=1, controller_epoch=3, broker_epoch=77, topic_states=topics)


@pytest.mark.parametrize(("name", "version", "shape"), REQUESTS)
def test_decode(benchmark: BenchmarkFixture, name: str, version: int, shape: str) -> None:
    data = kcore.encode_columns(request_columns(name, shape), version)
    columns = benchmark(kcore.decode_columns, name, version, data)
    assert kcore.encode_columns(columns, version) == data


@pytest.mark.parametrize(("name", "version", "shape"), REQUESTS)
def test_encode_into_a_buffer(benchmark: BenchmarkFixture, name: str, version: int, shape: str) -> None:
    data = kcore.encode_columns(request_columns(name, shape), version)
    columns, out = kcore.decode_columns(name, version, data), bytearray(len(data))
    benchmark(kcore.encode_columns, columns, version, out)
    assert out == data


@pytest.mark.parametrize(("name", "version", "shape"), REQUESTS)
def test_encode_fresh(benchmark: BenchmarkFixture, name: str, version: int, shape: str) -> None:
    data = kcore.encode_columns(request_columns(name, shape), version)
    columns = kcore.decode_columns(name, version, data)
    assert benchmark(kcore.encode_columns, columns, version) == data


@pytest.mark.parametrize(("name", "version", "shape"), REQUESTS)
def test_memcpy(benchmark: BenchmarkFixture, name: str, version: int, shape: str) -> None:
    data = np.frombuffer(kcore.encode_columns(request_columns(name, shape), version), np.uint8)
    out = np.empty_like(data)
    benchmark(np.copyto, out, data)
    assert (out == data).all()


def test_fanout_to_a_further_broker(benchmark: BenchmarkFixture) -> None:
    fanout = kcore.wire.encode_fanout(request_columns("UpdateMetadataRequest", "uniform"), 8, "controller")
    head, tail = benchmark(fanout.buffers, 5, 1)
    assert tail.obj is fanout.body and head


def test_fanout_in_one_piece(benchmark: BenchmarkFixture) -> None:
    fanout = kcore.wire.encode_fanout(request_columns("UpdateMetadataRequest", "uniform"), 8)
    assert len(benchmark(fanout.bytes_for, 5)) == len(fanout.body)
