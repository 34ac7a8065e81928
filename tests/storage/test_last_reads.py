"""Reads of a log that are remembered."""

from pathlib import Path

from kcore.replication.raft_log import OffsetAndEpoch
from kcore.storage.last_reads import MOST_BYTES, MOST_READS, LastReads
from kcore.storage.segmented_log import Settings
from storage.raft_logs import fill, opened


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
