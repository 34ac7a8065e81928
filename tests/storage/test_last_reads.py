"""Reads of a log: what was read is remembered, and where a read ended."""

from pathlib import Path

import pytest

from kcore.replication.raft_log import OffsetAndEpoch
from kcore.storage.files import OsFileSystem
from kcore.storage.log.last_reads import MOST_BYTES, MOST_READS, LastReads
from kcore.storage.log.segmented_log import Settings
from kcore.storage.raft.file_raft_log import DiskRaftLog
from storage.raft_logs import END, FOLDER, SMALL, fill, opened


@pytest.mark.parametrize("count", [1, 7, 12])
def test_what_was_appended_last_is_read_from_memory_as_from_the_disk(tmp_path: Path, count: int) -> None:
    """With each beginning, end and size; segments have seven batches."""
    disk = Reads()
    with DiskRaftLog(tmp_path / FOLDER, SMALL, files=disk) as log:
        batches = fill(log, count)
        size = len(batches[0])
        disk.positions.clear()
        assert log.read(count - 1, size, count) == batches[-1]
        assert disk.positions == []
        found = every_read(log, count, size)
    with opened(tmp_path) as log:
        assert found == every_read(log, count, size)


def every_read(log: DiskRaftLog, end: int, size: int) -> list[bytes]:
    """All reads of a log that ends at `end`, with batches of about `size` bytes."""
    limits = [1, size - 1, *(size * whole + 8 for whole in range(1, 10)), 1 << 20]
    return [
        log.read(offset, limit, up_to) for offset in range(end) for up_to in range(offset, end + 1) for limit in limits
    ]


def test_what_was_appended_and_cut_off_is_forgotten(tmp_path: Path) -> None:
    with opened(tmp_path) as log:
        batches = fill(log, 5)
        log.truncate_to_end_offset(OffsetAndEpoch(3, 1))
        later = fill(log, 2, epoch=2)
        assert log.read(2, 1 << 20, 5) == b"".join([batches[2], *later])


def test_what_is_remembered_of_reads_is_bounded() -> None:
    reads, piece = LastReads(), bytes(MOST_BYTES // 4)
    for offset in range(1_000):
        reads.put(offset, 1, 1, piece if offset % 2 else b"a few")
        assert reads._bytes == sum(map(len, reads._reads.values())) <= MOST_BYTES
        assert reads.get(offset, 1, 1) is not None and len(reads._reads) <= MOST_READS
    reads.put(1_000, 1, 1, bytes(MOST_BYTES + 1))
    assert reads.get(1_000, 1, 1) is None and reads.get(999, 1, 1) is piece


def test_a_read_is_done_once_for_all_followers(tmp_path: Path) -> None:
    """Until what was read is cut off: then others may be there."""
    with opened(tmp_path, Settings(1 << 20)) as log:
        batches = fill(log, 20)
        before = log.read(5, 1 << 20, 20)
        assert before == b"".join(batches[5:]) and log.read(5, 1 << 20, 20) is before
        assert log.read(5, 1 << 20, 10) == b"".join(batches[5:10]) and log.read(5, 1, 20) == batches[5]
        log.truncate_to_end_offset(OffsetAndEpoch(10, 1))
        later = fill(log, 10, epoch=2)
        assert log.read(5, 1 << 20, 20) == b"".join([*batches[5:10], *later])


class Reads(OsFileSystem):
    """Notes where files were read from."""

    def __init__(self) -> None:
        super().__init__()
        self.positions: list[int] = []

    def pread(self, file: int, size: int, position: int) -> bytes:
        self.positions.append(position)
        return super().pread(file, size, position)


def test_a_read_goes_on_where_the_last_one_ended(tmp_path: Path) -> None:
    disk = Reads()
    with opened(tmp_path, Settings(1 << 20)) as log:
        batches = fill(log, 12)
    with DiskRaftLog(tmp_path / FOLDER, files=disk) as log:
        ends = [sum(map(len, batches[: count + 1])) for count in range(12)]
        assert log.read(2, ends[4] - ends[1], END) == b"".join(batches[2:5])
        disk.positions.clear()
        assert log.read(5, len(batches[5]), END) == batches[5]
        assert log.read(7, len(batches[7]), 8) == batches[7]
        assert disk.positions == [ends[4], ends[5]]
        disk.positions.clear()  # So does a reader that is behind another.
        assert log.read(6, len(batches[6]), END) == batches[6]
        assert log.read(8, len(batches[8]), END) == batches[8]
        assert log.read(7, len(batches[7]), END) == batches[7]
        assert disk.positions == [ends[5], ends[7], ends[6]]
        assert log.read(3, len(batches[3]), END) == batches[3]  # From before it, too; and from behind a cut.
        log.truncate_to_end_offset(OffsetAndEpoch(7, 1))
        again = fill(log, 3, epoch=2)
        assert log.read(7, 1 << 20, END) == b"".join(again)
        for offset, batch in enumerate([*batches[:7], *again]):
            assert log.read(offset, 1, END) == batch
