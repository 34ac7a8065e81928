"""A metadata log on a disk: batches appended and flushed, against bare writes and fsyncs; recovered after a crash.

Issue figure, a 1 GB log in under 1 s: `pytest bench/test_raft_log.py --benchmark-enable --log-mib 1024`.
"""

import os
import shutil
from itertools import count
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from kcore.replication.raft_log import OffsetAndEpoch
from kcore.storage.raft.file_raft_log import RECOVERY_POINTS, DiskRaftLog
from kcore.wire.record_building import encode_records
from kcore.wire.records import Record

FOLDER = "__cluster_metadata-0"
RECORDS = 136  # A batch has some 16 KiB.
FLUSHES = 50
SNAPSHOT_AT = 0.95
PIECE = 1 << 20


def batch_of(offset: int, records: int = RECORDS) -> bytes:
    rows = [Record(offset + k, 1_700_000_000_000, None, b"v" * 110) for k in range(records)]
    return encode_records(rows, partition_leader_epoch=1)


@pytest.mark.parametrize("records", [1, RECORDS])
def test_append_and_flush(benchmark: BenchmarkFixture, tmp_path: Path, records: int) -> None:
    log = DiskRaftLog(tmp_path / FOLDER)
    end_offset = 0

    def batches() -> tuple[tuple[list[bytes]], dict[str, object]]:
        return ([batch_of(log.end_offset + k * records, records) for k in range(FLUSHES)],), {}

    def run(made: list[bytes]) -> None:
        nonlocal end_offset
        for batch in made:
            end_offset = log.append_as_leader(batch, 1).last_offset + 1
            log.flush()

    benchmark.pedantic(run, setup=batches, rounds=10, warmup_rounds=1)
    log.close()
    assert end_offset == log.end_offset > 0


@pytest.mark.parametrize("records", [1, RECORDS])
def test_bare_writes_and_fsyncs(benchmark: BenchmarkFixture, tmp_path: Path, records: int) -> None:
    """The share of the disk and of the system calls."""
    batch = batch_of(0, records)
    with (tmp_path / "bare").open("ab", buffering=0) as file:

        def run() -> None:
            for _ in range(FLUSHES):
                file.write(batch)
                os.fsync(file.fileno())

        benchmark.pedantic(run, rounds=10, warmup_rounds=1)
    assert (tmp_path / "bare").stat().st_size == 11 * FLUSHES * len(batch) or benchmark.disabled


@pytest.fixture(scope="module")
def crashed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a log that was not closed, with a snapshot near its end."""
    directory = tmp_path_factory.mktemp("crashed")
    size = request.config.getoption("--log-mib") << 20
    log = DiskRaftLog(directory / FOLDER)
    written = 0
    while written < size:
        written += len(batch := batch_of(log.end_offset))
        log.append_as_leader(batch, 1)
        if log.latest_snapshot is None and written > size * SNAPSHOT_AT:
            write_snapshot(log, OffsetAndEpoch(log.end_offset, 1), size // 20)
    log.flush()
    log.abandon()
    return directory


def write_snapshot(log: DiskRaftLog, end: OffsetAndEpoch, size: int) -> None:
    log.begin_snapshot(end)
    while log.append_snapshot(end, bytes(PIECE)) < size:
        pass
    log.freeze_snapshot(end)


def opened(directory: Path) -> int:
    log = DiskRaftLog(directory / FOLDER)
    log.abandon()
    return log.end_offset


def test_recovery(benchmark: BenchmarkFixture, crashed: Path) -> None:
    assert benchmark.pedantic(opened, (crashed,), rounds=5, warmup_rounds=1) > 0


def test_recovery_of_all_of_it(benchmark: BenchmarkFixture, crashed: Path, tmp_path: Path) -> None:
    """As Kafka recovers a metadata log: without a recovery point."""
    numbers = count()

    def copy() -> tuple[tuple[Path], dict[str, object]]:
        directory = tmp_path / str(next(numbers))
        shutil.copytree(crashed, directory, copy_function=os.link)
        (directory / RECOVERY_POINTS).unlink(missing_ok=True)
        for path in directory.rglob("*index"):
            path.unlink()
        return (directory,), {}

    assert benchmark.pedantic(opened, setup=copy, rounds=3) == opened(crashed)
