"""A metadata log on a disk: written, read, cut, snapshots beside it, and opened again."""

import errno
import mmap
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from kcore.errors import DecodeError, RaftLogError, StorageError
from kcore.replication.raft_log import OffsetAndEpoch
from kcore.storage.checkpoints import read_leader_epochs, read_offsets
from kcore.storage.files import OsFileSystem
from kcore.storage.log.partition_folder import Log
from kcore.storage.raft import file_raft_log as raft_log
from kcore.storage.raft.file_raft_log import DiskRaftLog
from raft.batches import WHOLE_SNAPSHOT, batch
from storage import building
from storage.raft_logs import END, FOLDER, SMALL, crashed, files, fill, opened, read_all, snapshot


def test_what_is_written_is_there_after_opening_again(tmp_path: Path) -> None:
    with opened(tmp_path) as log:
        batches = [*fill(log, 20), *fill(log, 10, epoch=4)]
        assert (log.start_offset, log.end_offset, log.last_epoch, log.high_watermark) == (0, 30, 4, 0)
        assert read_all(log) == b"".join(batches)
    assert read_offsets(tmp_path / "recovery-point-offset-checkpoint") == {("__cluster_metadata", 0): 30}
    with Log(tmp_path / FOLDER) as closed:
        assert closed.problems == [] and closed.end_offset == 30
    with opened(tmp_path) as again:
        assert (again.end_offset, again.last_epoch, again.high_watermark) == (30, 4, 0)
        assert read_all(again) == b"".join(batches)
        for offset in range(30):
            assert again.read(offset, 1, END) == batches[offset]
        fill(again, 5, epoch=4)
        assert again.end_offset == 35


def test_a_fetchers_end_is_judged_as_by_the_rules(tmp_path: Path) -> None:
    """`validate_offset_and_epoch` asks the rules but for ends of the last epoch, which it knows to be valid."""
    with opened(tmp_path) as log:
        fill(log, 3)
        fill(log, 6, epoch=3)
        log.update_high_watermark(5)
        snapshot(log, 5, 3)
        for _ in range(2):
            rules = log._rules()
            for offset in range(11):
                for epoch in range(5):
                    judged = log.validate_offset_and_epoch(offset, epoch)
                    assert judged == rules.validate_offset_and_epoch(offset, epoch), (offset, epoch)
            log.delete_before(OffsetAndEpoch(5, 3))
        assert log.start_offset == 5


class Maps(OsFileSystem):
    """Notes how many files were mapped."""

    count = 0

    def map(self, file: int, size: int) -> mmap.mmap | bytes:
        self.count += 1
        return super().map(file, size)


def test_segments_that_were_written_from_their_beginning_on_are_not_scanned_to_be_read(tmp_path: Path) -> None:
    disk = Maps()
    with DiskRaftLog(tmp_path / FOLDER, SMALL, files=disk) as log:
        batches = fill(log, 20)
        before = disk.count
        assert read_all(log) == b"".join(batches)
        assert len(files(tmp_path)) == 3 and disk.count == before
        log.truncate_to_end_offset(OffsetAndEpoch(16, 1))
        assert read_all(log) == b"".join(batches[:16])
        assert disk.count > before


def test_an_empty_log(tmp_path: Path) -> None:
    with opened(tmp_path) as log:
        assert (log.start_offset, log.end_offset, log.last_epoch) == (0, 0, 0)
        assert (log.latest_snapshot, log.earliest_snapshot) == (None, None)
        assert log.read(0, 100, END) == b""
        assert log.validate_offset_and_epoch(0, 0).kind == "VALID"
        assert not log.truncate_to_latest_snapshot()


def test_a_folder_of_another_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="not named as a partition's folder"):
        DiskRaftLog(tmp_path / "metadata")


def test_a_leader_appends_whole_batches_of_its_epoch_that_go_on(tmp_path: Path) -> None:
    with opened(tmp_path) as log:
        two = b"".join(building.batches(2, epoch=3))
        assert log.append_as_leader(two, 3) == (0, 1)
        good = building.batch(2, [b"a", b"b"], epoch=3)
        for wrong, epoch, error in [
            (building.batch(3, epoch=3), 3, RaftLogError),  # a gap
            (building.batch(1, epoch=3), 3, RaftLogError),  # written before
            (building.batch(2, epoch=2), 2, RaftLogError),  # an older epoch
            (good, 4, RaftLogError),  # of another epoch than it says
            (good + building.batch(5, epoch=3), 3, RaftLogError),  # a gap inside
            (b"", 3, RaftLogError),
            (good[:-1], 3, RaftLogError),
            (good[:-1] + b"X", 3, DecodeError),
        ]:
            with pytest.raises(error):
                log.append_as_leader(wrong, epoch)
            assert log.end_offset == 2 and read_all(log) == two
        assert log.append_as_leader(good, 3) == (2, 3)


def test_a_follower_takes_what_it_can(tmp_path: Path) -> None:
    with opened(tmp_path) as log:
        one, two, three = building.batches(3, epoch=3)
        other = building.batch(1, [b"of a later leader"], epoch=5)
        assert log.append_as_follower(b"", 3) is None
        assert log.append_as_follower(one[:-1], 3) is None
        assert log.append_as_follower(one + other, 3) == (0, 0)  # KAFKA-18723
        assert log.append_as_follower(other, 3) is None
        for end in (5, 12, 17, 60, len(two) - 1):
            assert log.append_as_follower(two[:end], 3) is None
        assert log.append_as_follower(two + three[:40], 3) == (1, 1)
        broken = bytearray(three)
        broken[-1] ^= 1
        with pytest.raises(DecodeError, match="damaged"):
            log.append_as_follower(bytes(broken), 3)
        with pytest.raises(DecodeError, match="damaged"):
            log.append_as_follower(three + bytes(broken), 3)
        assert log.end_offset == 3
        with pytest.raises(DecodeError):
            log.append_as_follower(building.batch(3, epoch=3) + bytes(70), 3)
        assert log.end_offset == 4
        with pytest.raises(RaftLogError, match="cannot follow the end 4"):
            log.append_as_follower(building.batch(5, epoch=3), 3)
        with pytest.raises(RaftLogError, match="epoch 2 cannot follow epoch 3"):
            log.append_as_follower(building.batch(4, epoch=2), 3)
        assert log.append_as_follower(building.batch(4, epoch=6), 7) == (4, 4)
        assert log.last_epoch == 6


def test_epochs_stay_as_they_are_given(tmp_path: Path) -> None:
    """partitionLeaderEpoch is outside the CRC: nobody else would notice."""
    with opened(tmp_path) as log:
        batch = building.batch(0, epoch=0x01020304)
        log.append_as_follower(batch, 0x01020304)
        assert log.read(0, 1000, END) == batch
        assert read_leader_epochs(tmp_path / FOLDER / "leader-epoch-checkpoint") == [(0x01020304, 0)]


def test_bounds_of_a_read(tmp_path: Path) -> None:
    with opened(tmp_path) as log:
        batches = fill(log, 6)
        size = len(batches[0])
        assert log.read(2, 2 * size, END) == b"".join(batches[2:4])
        assert log.read(2, 2 * size - 1, END) == batches[2]
        assert log.read(2, 1, END) == batches[2]
        assert log.read(2, 10_000, 4) == b"".join(batches[2:4])
        assert log.read(2, 10_000, 2) == b"" == log.read(6, 10_000, END)
        for offset in (-1, 7):
            with pytest.raises(RaftLogError, match="not in the log"):
                log.read(offset, 100, END)


def test_what_was_appended_last_is_read_as_anything_else(tmp_path: Path) -> None:
    """It is kept in memory; bounds hold for it all the same, and a cut ends that."""
    with opened(tmp_path) as log:
        fill(log, 2)
        last = building.batches(3, first=2, epoch=1)
        data = b"".join(last)
        log.append_as_leader(data, 1)
        assert log.read(2, len(data), 5) == log.read(2, len(data), END) == data
        assert log.read(2, len(data) - 1, 5) == log.read(2, 10_000, 4) == b"".join(last[:2])
        assert log.read(3, 10_000, 5) == b"".join(last[1:])
        log.truncate_to_end_offset(OffsetAndEpoch(4, 1))
        assert log.read(2, 10_000, 9) == b"".join(last[:2])
        log.append_as_leader(other := building.batch(4, [b"another"], epoch=2), 2)
        assert log.read(2, 10_000, 9) == b"".join(last[:2]) + other
        log.truncate_to_end_offset(OffsetAndEpoch(2, 1))
        assert log.read(2, 10_000, 9) == b""


def test_the_high_watermark_only_rises_and_not_past_the_end(tmp_path: Path) -> None:
    with opened(tmp_path) as log:
        fill(log, 5)
        log.update_high_watermark(3)
        log.update_high_watermark(3)
        for offset in (2, 6):
            with pytest.raises(RaftLogError, match="high watermark"):
                log.update_high_watermark(offset)
        assert log.high_watermark == 3


@pytest.mark.parametrize(
    ("end", "kept"),
    [
        ((15, 0), 15),  # Epoch 0 is of no leader.
        ((99, 0), 30),
        ((15, 1), 15),
        ((99, 1), 20),
        ((25, 4), 25),
        ((99, 4), 30),
        ((5, 3), 20),  # Epoch 1 is the last below 3 here.
        ((99, 9), 30),
    ],
)
def test_truncation(tmp_path: Path, end: tuple[int, int], kept: int) -> None:
    with opened(tmp_path) as log:
        batches = [*fill(log, 20), *fill(log, 10, epoch=4)]
        log.update_high_watermark(12)
        assert log.truncate_to_end_offset(OffsetAndEpoch(*end)) == kept
        assert log.end_offset == kept and read_all(log) == b"".join(batches[:kept])
        entries = [entry for entry in [(1, 0), (4, 20)] if entry[1] < kept]
        assert read_leader_epochs(tmp_path / FOLDER / "leader-epoch-checkpoint") == entries
        with pytest.raises(RaftLogError, match="below the high watermark"):
            log.truncate_to_end_offset(OffsetAndEpoch(11, 1))
        assert log.end_offset == kept
        later = fill(log, 5, epoch=6)
        assert read_all(log) == b"".join([*batches[:kept], *later])
    with opened(tmp_path) as again:
        assert read_all(again) == b"".join([*batches[:kept], *later])


def test_a_batch_is_cut_off_whole(tmp_path: Path) -> None:
    with opened(tmp_path) as log:
        log.append_as_leader(building.batch(0, [b"a"] * 5, epoch=1), 1)
        log.append_as_leader(building.batch(5, [b"a"] * 5, epoch=1), 1)
        log.update_high_watermark(5)
        assert log.truncate_to_end_offset(OffsetAndEpoch(7, 1)) == 5
        log.append_as_leader(building.batch(5, [b"b"] * 5, epoch=2), 2)
        log.update_high_watermark(7)
        with pytest.raises(RaftLogError, match="below the high watermark"):
            log.truncate_to_end_offset(OffsetAndEpoch(8, 2))
        assert log.end_offset == 10


def test_a_cut_below_the_recovery_point_lowers_it_first(tmp_path: Path) -> None:
    with opened(tmp_path) as log:
        fill(log, 30)
    with opened(tmp_path) as log:
        log.truncate_to_end_offset(OffsetAndEpoch(10, 1))
        fill(log, 3, epoch=2)
        copy = crashed(log, tmp_path / "copy")
    assert read_offsets(copy / "recovery-point-offset-checkpoint") == {("__cluster_metadata", 0): 10}
    files(copy)[-1].write_bytes(files(copy)[-1].read_bytes()[:-1])
    with opened(copy) as again:
        assert (again.end_offset, again.last_epoch) == (12, 2)


# Snapshots.


def test_a_snapshot_in_pieces(tmp_path: Path) -> None:
    with opened(tmp_path) as log:
        fill(log, 20)
        log.update_high_watermark(10)
        id = OffsetAndEpoch(10, 1)
        with pytest.raises(RaftLogError, match="was not begun"):
            log.append_snapshot(id, b"a")
        log.begin_snapshot(id)
        assert log.append_snapshot(id, b"dropped") == 7
        log.begin_snapshot(id)
        size, rest = len(WHOLE_SNAPSHOT), WHOLE_SNAPSHOT[3:]
        assert [log.append_snapshot(id, data) for data in (WHOLE_SNAPSHOT[:3], b"", rest)] == [3, 3, size]
        assert log.latest_snapshot is None and log.snapshot_piece(id, 0, 10) is None
        assert [path.name for path in files(tmp_path, [".part"])] == [f"{10:020}-{1:010}.checkpoint.part"]
        log.freeze_snapshot(id)
        assert log.latest_snapshot == log.earliest_snapshot == id and files(tmp_path, [".part"]) == []
        assert log.snapshot_piece(id, 0, 3) == (WHOLE_SNAPSHOT[:3], size)
        assert log.snapshot_piece(id, 3, 1000) == (rest, size)
        assert log.snapshot_piece(id, size, 100) == log.snapshot_piece(id, -1, 100) == (b"", size)
        [path] = files(tmp_path, [".checkpoint"])
        assert path.name == f"{10:020}-{1:010}.checkpoint" and not path.stat().st_mode & stat.S_IWUSR
        with pytest.raises(RaftLogError, match="was not begun"):
            log.freeze_snapshot(id)
        log.begin_snapshot(OffsetAndEpoch(15, 1))
        copy = crashed(log, tmp_path / "copy")
    for directory in (tmp_path, copy):
        with opened(directory) as again:
            assert again.latest_snapshot == id and again.high_watermark == 10
            assert files(directory, [".part"]) == []


def test_a_snapshot_that_is_given_up_leaves_no_file_and_no_descriptor(tmp_path: Path) -> None:
    with opened(tmp_path) as log:
        before = os.listdir("/proc/self/fd")
        for offset in range(10, 60):
            id = OffsetAndEpoch(offset, 1)
            log.begin_snapshot(id)
            log.append_snapshot(id, b"abc")
            log.drop_snapshot(id)
        assert files(tmp_path, [".part"]) == []
        assert len(os.listdir("/proc/self/fd")) == len(before)
        with pytest.raises(RaftLogError, match="was not begun"):
            log.append_snapshot(id, b"a")


def test_which_snapshots_may_be_made(tmp_path: Path) -> None:
    with opened(tmp_path) as log:
        fill(log, 4)
        log.append_as_leader(building.batch(4, [b"a"] * 4, epoch=1), 1)
        fill(log, 2)
        log.update_high_watermark(9)
        assert log.why_no_snapshot(OffsetAndEpoch(4, 1)) is None
        assert log.why_no_snapshot(OffsetAndEpoch(9, 1)) is None
        for offset, epoch, why in [(10, 1, "past the high"), (5, 1, "begins at 4"), (4, 2, "not in the log")]:
            said = log.why_no_snapshot(OffsetAndEpoch(offset, epoch))
            assert said is not None and why in said


@pytest.mark.covers("E8")
def test_the_log_start_moves_to_a_snapshot_alone(tmp_path: Path) -> None:
    with opened(tmp_path) as log:
        batches = fill(log, 40)
        segments = len(files(tmp_path))
        log.update_high_watermark(30)
        for offset in (10, 20, 35):
            snapshot(log, offset, 1)
        assert not log.delete_before(OffsetAndEpoch(15, 1))
        with pytest.raises(RaftLogError, match="past the high watermark"):
            log.delete_before(OffsetAndEpoch(35, 1))
        assert (log.start_offset, len(files(tmp_path))) == (0, segments)
        assert log.delete_before(OffsetAndEpoch(20, 1)) and not log.delete_before(OffsetAndEpoch(20, 1))
        assert (log.start_offset, log.earliest_snapshot) == (20, OffsetAndEpoch(20, 1))
        assert log.snapshot_piece(OffsetAndEpoch(10, 1), 0, 1) is None
        assert len(files(tmp_path)) < segments and len(files(tmp_path, [".checkpoint", ".deleted"])) == 2
        assert read_all(log) == b"".join(batches[20:])
        with pytest.raises(RaftLogError, match="not in the log"):
            log.read(19, 100, END)
        assert log.validate_offset_and_epoch(19, 1) == ("SNAPSHOT", OffsetAndEpoch(35, 1))
        fill(log, 1)
    with opened(tmp_path) as again:
        first = int(files(tmp_path)[0].stem)
        assert 7 < first <= 20 and again.start_offset == first  # As with Kafka, the segment's: all of it is there.
        assert again.earliest_snapshot == OffsetAndEpoch(20, 1)
        assert read_all(again)[: len(b"".join(batches[first:]))] == b"".join(batches[first:])


def test_a_log_becomes_the_snapshot_that_it_is_behind(tmp_path: Path) -> None:
    with opened(tmp_path) as log:
        fill(log, 10)
        log.update_high_watermark(5)
        snapshot(log, 5, 1)
        assert not log.truncate_to_latest_snapshot()
        snapshot(log, 100, 3)
        copy = crashed(log, tmp_path / "copy")
        assert log.truncate_to_latest_snapshot()
    for directory in (tmp_path, copy):
        with opened(directory) as again:
            assert (again.start_offset, again.end_offset, again.high_watermark) == (100, 100, 100)
            assert (again.last_epoch, again.earliest_snapshot) == (3, OffsetAndEpoch(100, 3))
            assert again.append_as_follower(building.batch(100, epoch=3), 3) == (100, 100)
        with opened(directory) as again:
            assert (again.start_offset, again.end_offset, again.last_epoch) == (100, 101, 3)


def test_a_log_that_diverges_from_a_snapshot_becomes_it(tmp_path: Path) -> None:
    with opened(tmp_path) as log:
        fill(log, 10)
        snapshot(log, 7, 3)
        assert log.truncate_to_latest_snapshot()
        assert (log.start_offset, log.end_offset, log.last_epoch) == (7, 7, 3)


def test_no_snapshot_for_what_is_not_in_the_log(tmp_path: Path) -> None:
    with opened(tmp_path) as log:
        fill(log, 10)
        snapshot(log, 100, 3)
        log.truncate_to_latest_snapshot()
        fill(log, 3, epoch=3)
    [path] = files(tmp_path, [".checkpoint"])
    path.unlink()
    with pytest.raises(StorageError, match="no snapshot there or later"):
        opened(tmp_path)


# One owner.


def test_a_directory_is_held_by_one_process(tmp_path: Path) -> None:
    """Two that vote out of one directory would vote twice."""
    command = [sys.executable, "-c", OPENS, str(tmp_path)]

    def other() -> str:
        done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[2], check=True)
        return done.stdout.strip()

    with opened(tmp_path):
        assert other() == f"{tmp_path}: another process uses it"
    assert other() == "opened"
    opened(tmp_path).abandon()
    assert other() == "opened"


OPENS = """
import sys
from pathlib import Path
from kcore.errors import StorageError
from storage.raft_logs import opened
try:
    opened(Path(sys.argv[1]))
    print("opened")
except StorageError as error:
    print(error)
"""


# Disks that fail.


def test_a_flush_that_failed_is_not_believed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(descriptor: int) -> None:
        raise OSError(errno.EIO, "I/O error")

    log = opened(tmp_path)
    fill(log, 3)
    log.flush()
    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", fail)
        with pytest.raises(StorageError, match="I/O error"):
            log.flush()
    for call in (log.flush, lambda: fill(log, 1)):
        with pytest.raises(StorageError, match="I/O error"):
            call()
    log.close()


def test_a_disk_that_is_full_once_a_batch_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A recovery point that stays behind costs time at the next opening, no more."""

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    log = opened(tmp_path)
    with monkeypatch.context() as full:
        full.setattr(raft_log, "write_offsets", refuse)
        batches = fill(log, 30)
    assert len(files(tmp_path)) > 3 and log.end_offset == 30
    log.flush()
    log.abandon()
    with opened(tmp_path) as again:
        assert read_all(again) == b"".join(batches)


def test_flushing_beside_appending(tmp_path: Path) -> None:
    """A flush in another thread never meets a file that a roll has closed."""
    log = opened(tmp_path)
    failed: list[BaseException] = []
    is_done = threading.Event()

    def flush() -> None:
        try:
            while not is_done.is_set():
                log.flush()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=flush) for _ in range(2)]
    for thread in threads:
        thread.start()
    batches = fill(log, 300)
    is_done.set()
    for thread in threads:
        thread.join()
    assert failed == []
    log.close()
    with opened(tmp_path, SMALL) as again:
        assert read_all(again) == b"".join(batches)


def test_a_log_that_begins_within_a_batch_is_opened_again(tmp_path: Path) -> None:
    """Whole, and after a crash between the new beginning and the batch."""
    for is_crashed in (False, True):
        directory = tmp_path / str(is_crashed)
        log = opened(directory)
        snapshot(log, 3, 2)
        assert log.truncate_to_latest_snapshot()
        log.append_as_follower(batch(1, 2, 4), 2)
        if is_crashed:
            log.flush()
            log.abandon()
            [path] = files(directory)
            path.write_bytes(b"")
        else:
            log.close()
        with opened(directory) as again:
            assert (again.end_offset, again.last_epoch) == (3 if is_crashed else 5, 2)
            assert again.read(3, 1000, 5) == (b"" if is_crashed else batch(1, 2, 4))
