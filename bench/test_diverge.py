"""Two replicas that differ in one late batch, and two log directories of small partitions, against reading the files.

Issue figures: `pytest bench/test_diverge.py --benchmark-enable --replica-mib 1024 --folders 10000`.
"""

from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from kcore.storage.log.log_writer import write_indexes
from kcore.storage.tools.diverge import READS, diverge
from kcore.storage.tools.diverge_dirs import diverge_log_dirs
from kcore.wire.record_building import encode_records
from kcore.wire.records import Record

SEGMENT_BYTES = 2**29
RECORDS, BATCHES = 136, 1_000  # A batch has some 16 KiB; so many are made at once.
LATE = 0.98
CHUNK = 2**20


@pytest.fixture(scope="module")
def replicas(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, int]:
    """Their folders, and the offset at which they differ."""
    folders = [tmp_path_factory.mktemp(name) for name in "ab"]
    size = request.config.getoption("--replica-mib") * 2**20
    written = offset = parted = 0
    while written < size:
        path_a, path_b = (folder / f"{offset:020}.log" for folder in folders)
        begin = written
        with path_a.open("wb") as file_a, path_b.open("wb") as file_b:
            while written < size and written - begin < SEGMENT_BYTES:
                batch = batch_of(offset, b"v")
                file_a.write(batch)
                if not parted and written > size * LATE:
                    parted, batch = offset, batch_of(offset, b"w")
                written += file_b.write(batch)
                offset += RECORDS
        write_indexes(path_a)
        write_indexes(path_b)
    return folders[0], folders[1], parted


def batch_of(offset: int, value: bytes) -> bytes:
    return encode_records([Record(offset + k, 1_700_000_000_000, None, value * 110) for k in range(RECORDS)])


@pytest.fixture(scope="module")
def log_dirs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Every hundredth partition differs."""
    folders = [tmp_path_factory.mktemp(name) for name in ("dir-a", "dir-b")]
    for number in range(request.config.getoption("--folders")):
        for folder in folders:
            value = b"w" if number % 100 == 0 and folder == folders[1] else b"v"
            place = folder / f"topic-{number}"
            place.mkdir()
            (place / f"{0:020}.log").write_bytes(encode_records([Record(0, 0, None, value * 500)]))
            (place / "leader-epoch-checkpoint").write_text(f"0\n2\n0 0\n{number + 1} 1\n")
    return folders[0], folders[1]


def read_all(folder: Path) -> int:
    """Every file of the folder, and how many bytes that is."""
    buffer, total = bytearray(CHUNK), 0
    for path in sorted(folder.rglob("*.log")):
        with path.open("rb", buffering=0) as file:
            while got := file.readinto(buffer):
                total += got
    return total


@pytest.mark.parametrize("read", READS)
def test_two_replicas(benchmark: BenchmarkFixture, replicas: tuple[Path, Path, int], read: str) -> None:
    found = benchmark(diverge, *replicas[:2], read=read)
    assert found.offset == replicas[2]
    benchmark.extra_info["bytes_read"] = found.bytes_read


def test_reading_both(benchmark: BenchmarkFixture, replicas: tuple[Path, Path, int]) -> None:
    """The cost of reading the bytes without comparing them."""
    assert benchmark(lambda: read_all(replicas[0]) + read_all(replicas[1])) > 0


@pytest.mark.parametrize("threads", [1, None], ids=["one-thread", "a-thread-a-core"])
def test_two_log_dirs(benchmark: BenchmarkFixture, log_dirs: tuple[Path, Path], threads: int | None) -> None:
    found = benchmark(diverge_log_dirs, *log_dirs, threads=threads)
    assert sum(each.reason != "same" for each in found.values()) == -(-len(found) // 100)


def test_reading_both_log_dirs(benchmark: BenchmarkFixture, log_dirs: tuple[Path, Path]) -> None:
    assert benchmark(lambda: read_all(log_dirs[0]) + read_all(log_dirs[1])) > 0
