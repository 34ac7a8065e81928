"""metadata.log.segment.ms: when a metadata log begins another segment because of its age."""

from pathlib import Path

from kcore.storage.log.segmented_log import Settings
from storage import building
from storage.raft_logs import opened


def test_a_segment_that_is_too_old_gets_no_more_batches(tmp_path: Path) -> None:
    """metadata.log.segment.ms: by the timestamp of the segment's first batch and of what is appended."""
    with opened(tmp_path, Settings(segment_ms=1_000)) as log:
        for timestamp in (10_000, 10_500, 11_000, 11_001, 11_500, 50_000):
            log.append_as_leader(building.batch(log.end_offset, [b"a"], epoch=1, time_ms=timestamp), 1)
        assert sorted(int(path.stem) for path in log.folder.glob("*.log")) == [0, 3, 5]
    with opened(tmp_path, Settings(segment_ms=1_000)) as log:  # The age is read from the file.
        log.append_as_leader(building.batch(log.end_offset, [b"a"], epoch=1, time_ms=50_900), 1)
        log.append_as_leader(building.batch(log.end_offset, [b"a"], epoch=1, time_ms=51_001), 1)
        assert sorted(int(path.stem) for path in log.folder.glob("*.log")) == [0, 3, 5, 7]
    with opened(tmp_path, Settings()) as log:
        log.append_as_leader(building.batch(log.end_offset, [b"a"], epoch=1, time_ms=10**12), 1)
        assert len([*log.folder.glob("*.log")]) == 4
