"""A node deletes whole segments and snapshots of its log on a disk; a kill -9 at any step loses nothing."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kcore.raft.log.cleaning import INTERVAL_MS
from kcore.raft.log.control_records import last_contained_log_timestamp
from kcore.replication.raft_log import OffsetAndEpoch
from kcore.storage.raft.file_raft_log import DiskRaftLog
from kcore.storage.raft.snapshot import SnapshotId, read_snapshot
from raft.batches import snapshot_batches
from raft.nodes import raft_node
from storage.raft_logs import FOLDER, files, fill, opened, read_all

ENDS = [10, 20, 30, 40]
SAMPLE = Path(__file__).parents[2] / "data/samples/kraft43/controller-3003" / FOLDER


def filled(directory: Path) -> tuple[DiskRaftLog, list[bytes]]:
    """Fifty batches of one record, all committed, and four snapshots, each ten records and seconds after the other."""
    log = opened(directory)
    batches = fill(log, 50)
    log.flush()
    log.update_high_watermark(50)
    for end in ENDS:
        at = OffsetAndEpoch(end, 1)
        log.begin_snapshot(at)
        for batch in snapshot_batches(1, [b"state"], 1000 * end, 0, None, 0):
            log.append_snapshot(at, batch)
        log.freeze_snapshot(at)
    return log, batches


def clean(log: DiskRaftLog, now_ms: int = 1 << 60, **limits: Any) -> list[int]:
    """As a node does it a minute after its start; where the snapshots end that are left."""
    node = raft_node(9, log=log, **{"metadata_max_retention_bytes": -1, "metadata_max_retention_ms": -1, **limits})
    node.start(None, now_ms - INTERVAL_MS)
    node.on_timer(now_ms)
    return [end.offset for end in log.snapshots]


def test_segments_and_snapshots_go_by_age(tmp_path: Path) -> None:
    log, batches = filled(tmp_path)
    with log:
        segments = files(tmp_path)
        assert clean(log, 30_001, metadata_max_retention_ms=10_000) == [30, 40]
        gone = [path for path in segments if not path.exists()]
        assert gone and gone == segments[: len(gone)], "the oldest ones"
        assert (log.start_offset, read_all(log)) == (30, b"".join(batches[30:]))
        assert len(files(tmp_path, [".checkpoint", ".deleted"])) == 2
    with opened(tmp_path) as again:
        assert [end.offset for end in again.snapshots] == [30, 40]
        assert int(files(tmp_path)[0].stem) == again.start_offset <= 30


def test_segments_and_snapshots_go_by_size(tmp_path: Path) -> None:
    """Segments count whole, as they go whole."""
    log, _ = filled(tmp_path)
    with log:
        size = sum(path.stat().st_size for path in files(tmp_path))
        assert log.size_bytes == size
        assert clean(log, metadata_max_retention_bytes=size) == [20, 30, 40]
        assert log.size_bytes == sum(path.stat().st_size for path in files(tmp_path)) < size
        assert clean(log, metadata_max_retention_bytes=0) == [40]


def test_a_kill_9_at_any_step_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each name that goes is a step: the directory as it is then is a log that begins where a snapshot helps."""
    log, batches = filled(tmp_path / "log")
    copies: list[Path] = []

    def stepping(step: Callable[..., None]) -> Callable[..., None]:
        def copied_before(*args: Any, **options: Any) -> None:
            copies.append(tmp_path / f"copy {len(copies)}")
            shutil.copytree(tmp_path / "log", copies[-1])
            step(*args, **options)

        return copied_before

    with monkeypatch.context() as patched:
        for name in ("unlink", "replace"):
            patched.setattr(os, name, stepping(getattr(os, name)))
        assert clean(log, metadata_max_retention_bytes=0) == [40]
    log.abandon()
    assert len(copies) > 10
    for copy in [*copies, tmp_path / "log"]:
        with opened(copy) as again:
            assert again.latest_snapshot == OffsetAndEpoch(40, 1)
            assert again.end_offset == 50 and read_all(again) == b"".join(batches[again.start_offset :])
            assert again.earliest_snapshot is not None and again.earliest_snapshot.offset >= again.start_offset
            assert not files(copy, [".deleted"])


def test_a_snapshot_of_kafkas_tells_its_age(tmp_path: Path) -> None:
    """As the tool that formats a directory wrote it."""
    shutil.copytree(SAMPLE, tmp_path / FOLDER)
    with DiskRaftLog(tmp_path / FOLDER) as log:
        [first] = log.snapshots
        expected = read_snapshot(SAMPLE / SnapshotId(*first).file_name).header.last_contained_log_timestamp
        assert last_contained_log_timestamp(log, first) == expected
