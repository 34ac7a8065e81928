"""Tests a raft log's durability on a disk that keeps only fsynced names and bytes."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from kcore.raft.membership.replicas import ElectionState, ReplicaKey
from kcore.raft.node import RaftNode
from kcore.raft.raft_config import RaftConfig
from kcore.replication.raft_log import OffsetAndEpoch
from kcore.storage.raft.file_raft_log import DiskRaftLog
from kcore.storage.raft.raft_dir import RaftDirectory
from kcore.storage.raft.raft_format import format_directory
from kcore.types import ZERO_UUID
from raft.batches import WHOLE_SNAPSHOT
from storage.raft_logs import FOLDER, SMALL, files, fill, opened, read_all, snapshot


class Disk:
    """A directory after a power cut: each file as of the last fsync of the file or its name."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self._bytes: dict[int, bytes] = {}  # By inode.
        self._names: dict[Path, dict[str, int]] = {}  # By folder.
        self._kept: list[int] = []  # Descriptors, so that no inode is given again.
        self.watch(monkeypatch)

    def watch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Sees every fsync from here on."""
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
    snapshot(log, 100, 3)
    steps: list[Callable[[], object]] = [lambda: None, log.truncate_to_latest_snapshot]
    for number, step in enumerate(steps):
        step()
        with opened(disk.cut_power(tmp_path / str(number))) as again:
            assert again.latest_snapshot == OffsetAndEpoch(100, 3)
            assert again.snapshot_piece(OffsetAndEpoch(100, 3), 0, 1000) == (WHOLE_SNAPSHOT, len(WHOLE_SNAPSHOT))
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


# Unflushed writes of a killed process: the operating system has the bytes, the disk does not.


def config() -> RaftConfig:
    return RaftConfig(None, 1, ZERO_UUID, {}, lambda below: 0)


@pytest.mark.parametrize("count", [1, 7, 8, 30])
def test_what_a_restart_finds_and_counts_is_there_after_a_power_cut(tmp_path: Path, disk: Disk, count: int) -> None:
    """The first Fetch tells the leader of it, and the leader counts it."""
    log = opened(disk.root)
    batches = fill(log, count)
    log.abandon()
    again = opened(disk.root)
    node = RaftNode(config(), again)
    assert node.flushed_end_offset == again.end_offset == count
    with opened(disk.cut_power(tmp_path / "after")) as after:
        assert read_all(after) == b"".join(batches)
    again.abandon()
    disk.close()


def test_segments_of_a_process_that_keeps_no_recovery_point(tmp_path: Path, disk: Disk) -> None:
    """Kafka's controllers flush a segment some time after they have begun the next one."""
    with opened(tmp_path / "kafka") as log:
        batches = fill(log, 30)
    (tmp_path / "kafka" / "recovery-point-offset-checkpoint").unlink()
    shutil.copytree(tmp_path / "kafka", disk.root, dirs_exist_ok=True)
    again = opened(disk.root)
    assert again.end_offset == 30
    with opened(disk.cut_power(tmp_path / "after")) as after:
        assert read_all(after) == b"".join(batches)
    again.abandon()
    disk.close()


def test_only_what_may_not_be_on_the_disk_is_flushed(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large log starts as fast as a small one: its older segments are on the disk."""
    log = opened(disk.root)
    fill(log, 30)
    log.abandon()
    flushed: list[str] = []
    fsync = os.fsync

    def seen(descriptor: int) -> None:
        flushed.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")).name)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", seen)
    again = opened(disk.root)
    segments = [path.name for path in files(disk.root)]
    assert len(segments) > 2
    assert [name for name in flushed if name.endswith(".log")] == segments[-1:]
    again.abandon()
    disk.close()


def test_a_snapshot_that_got_its_name_last_is_there_before_the_log_gives_way(tmp_path: Path, disk: Disk) -> None:
    """The process was killed between the rename and the fsync of the folder."""
    log = opened(disk.root)
    fill(log, 30)
    log.flush()
    end = OffsetAndEpoch(100, 3)
    log.begin_snapshot(end)
    log.append_snapshot(end, WHOLE_SNAPSHOT)
    (part,) = files(disk.root, [".part"])
    synced = os.open(part, os.O_RDONLY)
    os.fsync(synced)
    os.close(synced)
    part.rename(part.with_suffix(""))
    log.abandon()
    again = opened(disk.root)
    assert (again.start_offset, again.end_offset) == (100, 100)
    with opened(disk.cut_power(tmp_path / "after")) as after:
        assert (after.latest_snapshot, after.end_offset) == (end, 100)
    again.abandon()
    disk.close()


def test_an_election_that_got_its_name_last_is_there(
    tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The node that starts goes by it, and does not store it again."""
    format_directory(disk.root, node_id=1, features={"metadata.version": 30})
    directory = RaftDirectory(disk.root)
    log, _ = directory.open()
    fill(log, 1)
    log.close()
    log, _ = directory.open()  # From here on there is nothing to recover, and so nothing else to write.
    directory.store_election(ElectionState(1), 1)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("kcore.storage.files.sync_folder", killed)
    with pytest.raises(KeyboardInterrupt):
        directory.store_election(ElectionState(2, -1, ReplicaKey(3)), 1)
    monkeypatch.undo()
    disk.watch(monkeypatch)
    log.abandon()
    log, election = RaftDirectory(disk.root).open()
    assert election == ElectionState(2, -1, ReplicaKey(3))
    after, stored = RaftDirectory(disk.cut_power(tmp_path / "after")).open()
    assert stored == election
    after.close()
    log.abandon()
    disk.close()
