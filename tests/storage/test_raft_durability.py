"""What a raft log promises to be durable is: by a disk that keeps only what was fsynced, names and bytes."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from kcore.raft.replicas import ElectionState, ReplicaKey
from kcore.replication.raft_log import OffsetAndEpoch
from kcore.storage.raft_dir import RaftDirectory
from kcore.storage.raft_format import format_directory
from kcore.storage.raft_log import DiskRaftLog
from storage.raft_logs import FOLDER, SMALL, fill, opened, read_all, snapshot


class Disk:
    """What a power cut would leave of a directory: each file as it was when it or its name was last fsynced."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self._bytes: dict[int, bytes] = {}  # By inode.
        self._names: dict[Path, dict[str, int]] = {}  # By folder.
        self._kept: list[int] = []  # Descriptors, so that no inode is given again.
        monkeypatch.setattr(os, "fsync", self._fsync)

    def _fsync(self, descriptor: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        if not path.is_relative_to(self.root):
            return
        if path.is_dir():
            self._names[path] = {each.name: self._keep(each) for each in path.iterdir() if each.is_file()}
        else:
            self._bytes[self._keep(path)] = path.read_bytes()

    def _keep(self, path: Path) -> int:
        self._kept.append(os.open(path, os.O_RDONLY))
        return path.stat().st_ino

    def cut_power(self, to: Path) -> Path:
        """The directory afterwards."""
        for folder, names in self._names.items():
            target = to / folder.relative_to(self.root)
            target.mkdir(parents=True, exist_ok=True)
            for name, inode in names.items():
                (target / name).write_bytes(self._bytes.get(inode, b""))
        return to

    def close(self) -> None:
        for descriptor in self._kept:
            os.close(descriptor)


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Disk:
    (tmp_path / "disk").mkdir()
    return Disk(tmp_path / "disk", monkeypatch)


@pytest.mark.parametrize("count", [1, 5, 7, 8, 30])
def test_what_was_flushed_is_there_after_a_power_cut(tmp_path: Path, disk: Disk, count: int) -> None:
    log = opened(disk.root)
    batches = fill(log, count)
    log.flush()
    fill(log, 1)
    with opened(disk.cut_power(tmp_path / "after")) as again:
        assert again.end_offset == count and read_all(again) == b"".join(batches)
        assert again.last_epoch == 1
    log.abandon()
    disk.close()


def test_what_was_not_flushed_may_be_gone_and_what_is_left_is_whole(tmp_path: Path, disk: Disk) -> None:
    """At every number of batches over several segments and epochs; nothing is taken for damage."""
    log = opened(disk.root)
    for count in range(1, 25):
        batches = fill(log, 1, epoch=1 + count // 5)
        if count % 3 == 0:
            log.flush()
        after = disk.cut_power(tmp_path / str(count))
        with opened(after) as again:
            assert count // 3 * 3 <= again.end_offset <= count
            assert read_all(again)[: len(batches[0])] == read_all(log)[: len(batches[0])] or again.end_offset == 0
    log.abandon()
    disk.close()


def test_a_cut_and_what_follows_it(tmp_path: Path, disk: Disk) -> None:
    log = opened(disk.root)
    batches = fill(log, 30)
    log.flush()
    log.truncate_to_end_offset(OffsetAndEpoch(10, 1))
    with opened(disk.cut_power(tmp_path / "cut")) as again:
        assert again.end_offset == 10
    batches = [*batches[:10], *fill(log, 10, epoch=2)]
    with opened(disk.cut_power(tmp_path / "more")) as again:
        assert 10 <= again.end_offset <= 20
        assert read_all(again) == b"".join(batches[: again.end_offset])
    log.flush()
    with opened(disk.cut_power(tmp_path / "flushed")) as again:
        assert read_all(again) == b"".join(batches)
    log.abandon()
    disk.close()


def test_a_frozen_snapshot_is_there_and_a_log_that_became_it(tmp_path: Path, disk: Disk) -> None:
    log = opened(disk.root)
    fill(log, 30)
    log.flush()
    snapshot(log, 100, 3, b"all of it")
    steps: list[Callable[[], object]] = [lambda: None, log.truncate_to_latest_snapshot]
    for number, step in enumerate(steps):
        step()
        with opened(disk.cut_power(tmp_path / str(number))) as again:
            assert again.latest_snapshot == OffsetAndEpoch(100, 3)
            assert again.snapshot_piece(OffsetAndEpoch(100, 3), 0, 100) == (b"all of it", 9)
            assert (again.start_offset, again.end_offset) == (100, 100)
    log.abandon()
    disk.close()


def test_a_stored_election_is_there(tmp_path: Path, disk: Disk) -> None:
    format_directory(disk.root, node_id=1, features={"metadata.version": 30})
    directory = RaftDirectory(disk.root)
    log, _ = directory.open()
    for epoch in range(1, 4):
        election = ElectionState(epoch, -1, ReplicaKey(2))
        directory.store_election(election, epoch % 2)
        after, stored = RaftDirectory(disk.cut_power(tmp_path / str(epoch))).open()
        assert stored == election
        after.close()
    log.close()
    disk.close()


def test_a_closed_log_has_nothing_to_recover(tmp_path: Path, disk: Disk) -> None:
    with DiskRaftLog(disk.root / FOLDER, SMALL) as log:
        batches = fill(log, 30)
    with opened(disk.cut_power(tmp_path / "after")) as again:
        assert read_all(again) == b"".join(batches)
    disk.close()
