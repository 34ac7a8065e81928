"""Where the batches of a metadata log are in its files: who reads them there reads what `read` gives."""

import os
from pathlib import Path

from kcore.replication.raft_log import OffsetAndEpoch
from kcore.storage.log.segmented_log import Place
from kcore.storage.raft.file_raft_log import DiskRaftLog
from storage.raft_logs import fill, opened, read_all, snapshot


def pieces(log: DiskRaftLog, since: Place) -> bytes:
    found = b""
    for (base_offset, position), count in log.written_since(since):
        file = log.open_segment(base_offset)
        try:
            data = os.pread(file, count, position)
        finally:
            os.close(file)
        assert len(data) == count, "all announced records are in the file"
        found += data
    return found


def test_what_was_appended_since_is_in_the_files_at_once(tmp_path: Path) -> None:
    with opened(tmp_path) as log:
        place, appended = log.place_of(0), b""
        for _ in range(25):
            batches = b"".join(fill(log, 3))
            written = log.written_since(place)
            assert pieces(log, place) == batches
            appended += batches
            begin, count = written[-1]
            place = Place(begin.base_offset, begin.position + count)
            assert log.written_since(place) == []
        assert appended == read_all(log) and len(log._log.segments) > 5


def test_the_place_of_any_offset_also_after_opening_again(tmp_path: Path) -> None:
    with opened(tmp_path) as log:
        batches = fill(log, 30)
    with opened(tmp_path) as log:
        for offset in range(31):
            assert pieces(log, log.place_of(offset)) == b"".join(batches[offset:])


def test_a_segment_that_is_deleted_is_there_for_who_has_opened_it(tmp_path: Path) -> None:
    with opened(tmp_path) as log:
        batches = fill(log, 30)
        file = log.open_segment(0)
        log.update_high_watermark(30)
        snapshot(log, 29, 1)
        assert log.delete_before(OffsetAndEpoch(29, 1)) and log._log.first_offset > 0
        assert os.pread(file, len(batches[0]), 0) == batches[0]
        os.close(file)
