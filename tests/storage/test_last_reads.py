"""Reads of a log that are remembered."""

from kcore.storage.last_reads import MOST_BYTES, MOST_READS, LastReads


def test_what_is_remembered_of_reads_is_bounded() -> None:
    reads, piece = LastReads(), bytes(MOST_BYTES // 4)
    for offset in range(1_000):
        reads.put(offset, 1, 1, piece if offset % 2 else b"a few")
        assert reads._bytes == sum(map(len, reads._reads.values())) <= MOST_BYTES
        assert reads.get(offset, 1, 1) is not None and len(reads._reads) <= MOST_READS
    reads.put(1_000, 1, 1, bytes(MOST_BYTES + 1))
    assert reads.get(1_000, 1, 1) is None and reads.get(999, 1, 1) is piece
