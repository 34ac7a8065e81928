"""Tests recovery of a metadata log: states that a crash can leave, and states that it cannot."""

import random
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from kcore.errors import StorageError
from kcore.replication.raft_log import OffsetAndEpoch
from kcore.storage.checkpoints import read_leader_epochs, write_offsets
from kcore.storage.files import FileSystem
from kcore.storage.log import segmented_log
from kcore.storage.log.live_segment import LiveSegment
from kcore.storage.log.segmented_log import SegmentedLog, Settings
from kcore.storage.raft import raft_recovery
from kcore.wire.record_batch import scan_batches
from storage import building
from storage.raft_logs import FOLDER, SMALL, crashed, files, fill, opened, read_all, snapshot

POINTS = "recovery-point-offset-checkpoint"
EPOCHS = "leader-epoch-checkpoint"
ASIDE = SMALL._replace(set_aside=True)


def tail_of(directory: Path, settings: Settings = SMALL) -> tuple[Path, list[bytes]]:
    """A closed log of five batches, and five more behind the recovery point; the last segment, all batches."""
    wide = Settings(segment_bytes=10_000, index_interval_bytes=settings.index_interval_bytes)
    with opened(directory / "origin", wide) as log:
        batches = fill(log, 5)
    log = opened(directory / "origin", wide)
    batches += fill(log, 5)
    crashed(log, directory / "crashed")
    log.close()
    [path] = files(directory / "crashed")
    return path, batches


def test_a_last_batch_torn_anywhere_is_cut_off(tmp_path: Path) -> None:
    """At every byte, and with zeros in its place, as file systems leave them."""
    path, batches = tail_of(tmp_path)
    whole, size = path.read_bytes(), len(batches[-1])
    for lost in range(1, size + 1):
        for torn in (whole[:-lost], whole[:-lost] + bytes(lost)):
            if torn == whole:
                continue  # It ends in a zero of its own.
            path.write_bytes(torn)
            log = opened(tmp_path / "crashed")
            assert log.end_offset == 9
            assert path.stat().st_size == len(whole) - size
            assert read_all(log) == b"".join(batches[:9])
            log.abandon()


def test_a_bit_that_flipped_in_the_tail_ends_the_log_there(tmp_path: Path) -> None:
    path, batches = tail_of(tmp_path)
    whole, size = path.read_bytes(), len(batches[0])
    dice, aside = random.Random(1), path.with_name(f"{path.name}.aside")
    for at in [*range(7 * size, 7 * size + 61), *dice.sample(range(5 * size, 10 * size), 60)]:
        broken = bytearray(whole)
        broken[at] ^= 1 << dice.randrange(8)
        path.write_bytes(broken)
        log = opened(tmp_path / "crashed", ASIDE)
        # All of a batch is in its CRC, or says how it follows the one before, but for an epoch that rose: a leader's
        # epoch is right if the next batch agrees, and of the last one nobody can say.
        is_epoch = 12 <= at % size < 16
        expected = {at // size, at // size + 1} if is_epoch else {at // size}
        assert log.end_offset in expected, at
        assert read_all(log) == bytes(broken[: log.end_offset * size])
        log.abandon()
        assert log.end_offset >= 9 or path.read_bytes() + aside.read_bytes() == broken, "whole batches stay on the disk"
        aside.unlink(missing_ok=True)


def test_few_batches_are_looked_at_as_many_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One by one, or as columns: the same is left, and the same is known of it."""
    path, batches = tail_of(tmp_path)
    whole, size, dice = path.read_bytes(), len(batches[0]), random.Random(3)
    for turn in range(80):
        broken = bytearray(whole)
        if turn % 2:
            del broken[dice.randrange(5 * size, len(whole)) :]
        elif turn:
            broken[dice.randrange(5 * size, len(whole))] ^= 1 << dice.randrange(8)
        path.write_bytes(broken)
        found = []
        for few_bytes in (1 << 12, -1):
            monkeypatch.setattr(raft_recovery, "FEW_BYTES", few_bytes)
            again = tmp_path / f"{turn} {few_bytes}"
            shutil.copytree(tmp_path / "crashed", again)
            log = opened(again, ASIDE)
            last = log._log.segments[-1]
            learnt = last._offsets, last._positions, last._size, last._end_offset, last._max_timestamp
            found.append((read_all(log), log._log.epochs.entries, learnt))
            log.abandon()
        assert found[0] == found[1], turn


@pytest.mark.parametrize("damage", ["bit", "cut", "zeros"])
def test_damage_below_the_recovery_point_is_an_error(tmp_path: Path, damage: str) -> None:
    path, batches = tail_of(tmp_path)
    whole, size = path.read_bytes(), len(batches[0])
    broken = bytearray(whole)
    if damage == "bit":
        broken[5 * size - 3] ^= 4
    elif damage == "zeros":
        broken[4 * size :] = bytes(6 * size)
    else:
        del broken[5 * size - 1 :]
    path.write_bytes(broken)
    with pytest.raises(StorageError, match=f"{path}.* position {4 * size}.* up to offset 5"):
        opened(tmp_path / "crashed")
    assert path.read_bytes() == broken, "nothing is cut off"


@pytest.mark.parametrize("end", [29, 22, 14, 8, 7, 1, 0])
def test_a_log_that_another_process_has_cut(tmp_path: Path, end: int, caplog: pytest.LogCaptureFixture) -> None:
    """A real controller keeps no recovery point: a log that ends whole below it is taken as it is (LogLoader)."""
    with opened(tmp_path) as log:
        batches = fill(log, 30)
    cutting = SegmentedLog(tmp_path / FOLDER, SMALL)
    cutting.truncate_to(end)
    cutting.close()
    cutting.let_go()
    with opened(tmp_path) as log:
        assert (log.end_offset, read_all(log)) == (end, b"".join(batches[:end]))
        assert "not at 30: cut elsewhere" in caplog.text
        fill(log, 2, epoch=2)
        copy = crashed(log, tmp_path / "copy")
        expected = read_all(log)
    last = files(copy)[-1]
    last.write_bytes(last.read_bytes()[:-1])  # Was never flushed: that may be, though the log was longer once.
    with opened(copy) as log:
        assert (log.end_offset, log.last_epoch) == (end + 1, 2)
        assert expected.startswith(read_all(log))


def test_damage_that_opening_does_not_look_for_is_found_by_reading(tmp_path: Path) -> None:
    with opened(tmp_path, Settings(10_000, 200)) as log:
        batches = fill(log, 30)
    [path] = files(tmp_path)
    size = len(batches[0])
    for byte in (3 * size + 8, 3 * size + 11, 3 * size + 16, 3 * size + 100):
        broken = bytearray(b"".join(batches))
        broken[byte] ^= 0x81
        path.write_bytes(broken)
        log = opened(tmp_path, Settings(10_000, 200))
        assert log.read(2, 1, 30) == batches[2]
        with pytest.raises(StorageError, match=str(path)):
            log.read(3, 10_000, 30)
        log.abandon()


def test_a_segment_that_is_gone_is_an_error(tmp_path: Path) -> None:
    with opened(tmp_path) as log:
        fill(log, 30)
    second = files(tmp_path)[1]
    second.rename(tmp_path / "kept")
    with pytest.raises(StorageError, match="was on the disk up to offset 30"):
        opened(tmp_path)
    for path in files(tmp_path):
        path.unlink()
    with pytest.raises(StorageError, match="no segment, but the log was there up to 30"):
        opened(tmp_path)


def test_what_follows_the_batches_of_an_older_segment_is_an_error(tmp_path: Path) -> None:
    with opened(tmp_path) as log:
        batches = fill(log, 30)
    path = files(tmp_path)[1]
    whole = path.read_bytes()
    for more in (b"junk", building.batch(14, epoch=1)):
        path.write_bytes(whole + more)
        with pytest.raises(StorageError, match=f"{path}.* up to offset 30"):
            opened(tmp_path)
        assert path.read_bytes() == whole + more
    path.write_bytes(whole)
    with opened(tmp_path) as log:
        assert read_all(log) == b"".join(batches)


def test_an_index_is_not_believed_about_what_is_behind_the_recovery_point(tmp_path: Path) -> None:
    """A power cut may bring back one that a truncation had removed."""
    wide = Settings(10_000, 200)
    batches = [building.batch(k, [b"x" * 100], epoch=1) for k in range(20)]  # All of one time.
    with opened(tmp_path, wide) as log:
        log.append_as_leader(b"".join(batches), 1)
    [path] = files(tmp_path)
    broken = bytearray(path.read_bytes())
    broken[7 * len(batches[0]) + 80] ^= 1
    path.write_bytes(broken)
    write_offsets(tmp_path / POINTS, {("__cluster_metadata", 0): 5})
    with pytest.raises(StorageError, match="offset 7 is missing at position"):
        opened(tmp_path, wide)
    with opened(tmp_path, wide._replace(set_aside=True)) as log:
        assert log.end_offset == 7 and read_all(log) == b"".join(batches[:7])


def test_a_tail_over_many_segments_ends_at_its_first_damage(tmp_path: Path) -> None:
    log = opened(tmp_path / "a")
    batches = fill(log, 50)
    copy = crashed(log, tmp_path / "b")
    log.close()
    write_offsets(copy / POINTS, {("__cluster_metadata", 0): 9})
    third = files(copy)[2]
    broken = bytearray(third.read_bytes())
    broken[len(batches[0]) * 2 + 70] ^= 1
    third.write_bytes(broken)
    behind = files(copy)[3:]
    with opened(copy, ASIDE) as again:
        assert again.end_offset == int(third.stem) + 2
        assert read_all(again) == b"".join(batches[: again.end_offset])
        assert files(copy)[-1] == third
        assert all(path.with_name(f"{path.name}.aside").stat().st_size for path in [third, *behind])
        fill(again, 9)
    with opened(copy) as again:
        assert again.end_offset == int(third.stem) + 11


def test_only_what_is_behind_the_recovery_point_is_scanned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That is what keeps the recovery of a large log short."""
    wide = Settings(20_000, 200)
    with opened(tmp_path, wide) as log:
        batches = fill(log, 500)
    assert len(files(tmp_path)) > 3
    log = opened(tmp_path, wide)
    batches += fill(log, 4)
    log.abandon()
    scanned = 0
    real = scan_batches

    def counting(*args: object, **options: object) -> object:
        nonlocal scanned
        found = real(*args, **options)  # type: ignore[arg-type]
        scanned += len(found)
        return found

    monkeypatch.setattr(raft_recovery, "scan_batches", counting)
    with opened(tmp_path, wide) as again:
        assert again.end_offset == 504
    assert scanned < 40
    with opened(tmp_path, wide) as again:
        assert read_all(again) == b"".join(batches)


# Files that can be rebuilt.


def remove(path: Path) -> None:
    path.unlink()


def empty(path: Path) -> None:
    path.write_bytes(b"")


def tear(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-3])


def lie(path: Path) -> None:
    """An index of other batches."""
    data = bytearray(path.read_bytes())
    data[-1] ^= 8
    path.write_bytes(data)


@pytest.mark.parametrize("harm", [remove, tear, lie])
@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("crash", [False, True])
def test_indexes_are_built_again(tmp_path: Path, harm: Callable[[Path], None], suffix: str, crash: bool) -> None:
    log = opened(tmp_path / "a")
    batches = fill(log, 50)
    copy = crashed(log, tmp_path / "b")
    log.close()
    directory = copy if crash else tmp_path / "a"
    right = {path.name: path.read_bytes() for path in files(directory, [".index", ".timeindex"])}
    for path in files(directory, [suffix]):
        if path.read_bytes() and (harm is not lie or suffix == ".index"):
            harm(path)
    with opened(directory) as again:
        assert again.end_offset == 50 and read_all(again) == b"".join(batches)
    built = {path.name: path.read_bytes() for path in files(directory, [".index", ".timeindex"])}
    assert right.items() <= built.items() and len(built) == 2 * len(files(directory))


@pytest.mark.parametrize("harm", [remove, empty, tear, lambda path: path.write_text("0\n1\n1 0\n")])
def test_epochs_are_found_again(tmp_path: Path, harm: Callable[[Path], None]) -> None:
    with opened(tmp_path) as log:
        for epoch, count in ((1, 10), (3, 12), (9, 1), (10, 5)):
            fill(log, count, epoch)
        entries = [(1, 0), (3, 10), (9, 22), (10, 23)]
        assert log.validate_offset_and_epoch(20, 3).kind == "VALID"
    path = tmp_path / FOLDER / EPOCHS
    assert read_leader_epochs(path) == entries
    harm(path)
    with opened(tmp_path) as again:
        assert read_leader_epochs(path) == entries and again.last_epoch == 10


def test_an_epoch_that_has_no_record_is_forgotten(tmp_path: Path) -> None:
    """It is written before its first record is."""
    with opened(tmp_path) as log:
        fill(log, 3)
    (tmp_path / FOLDER / EPOCHS).write_text("0\n2\n1 0\n7 3\n")
    with opened(tmp_path) as again:
        assert again.last_epoch == 1
    assert read_leader_epochs(tmp_path / FOLDER / EPOCHS) == [(1, 0)]


@pytest.mark.parametrize("count", [0, 3, 40])
def test_a_segment_knows_from_its_recovery_what_it_would_find_itself(tmp_path: Path, count: int) -> None:
    """With indexes that are believed, and with batches behind them; of a log that goes on, too."""
    with opened(tmp_path / "log") as log:
        fill(log, count)
    with opened(tmp_path / "log") as log:
        assert log._log.segments[-1]._size >= 0  # Nobody has asked for it yet.
        for _ in range(2):
            known = log._log.segments[-1]
            itself = LiveSegment(known.path, SMALL.index_interval_bytes, indexed=True)
            ends = [(each.size, each.end_offset, each.max_timestamp) for each in (known, itself)]
            assert ends[0] == ends[1] and known.size == known.path.stat().st_size
            fill(log, 2)


def test_what_a_crash_left_unfinished_is_removed(tmp_path: Path) -> None:
    with opened(tmp_path) as log:
        fill(log, 3)
    folder = tmp_path / FOLDER
    names = [
        *(f"{9:020}-{1:010}.checkpoint{suffix}" for suffix in (".part", ".deleted")),
        *(f"{0:020}.log.deleted", "quorum-state.tmp", f"{9:020}-{1:010}-8723894723.checkpoint.part"),
    ]
    for name in names:
        (folder / name).write_bytes(b"half")
    with opened(tmp_path) as again:
        assert again.end_offset == 3 and again.latest_snapshot is None
    assert not {path.name for path in folder.iterdir()} & {*names}


@pytest.mark.parametrize("removed", range(8))
def test_a_crash_while_a_log_becomes_a_snapshot(tmp_path: Path, removed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments go one by one, the last first: whatever is left of them, the snapshot is the log."""
    with opened(tmp_path / "a") as log:
        fill(log, 50)
    log = opened(tmp_path / "a")
    snapshot(log, 200, 7)
    paths = files(tmp_path / "a")
    real = segmented_log.remove_segment

    def crash(path: Path, system: FileSystem) -> None:
        if path in paths[: len(paths) - removed]:
            raise RuntimeError("crash")
        real(path, system)

    with monkeypatch.context() as crashing:
        crashing.setattr(segmented_log, "remove_segment", crash)
        if removed < len(paths):
            with pytest.raises(RuntimeError, match="crash"):
                log.truncate_to_latest_snapshot()
            assert files(tmp_path / "a") == paths[: len(paths) - removed]
        else:
            assert log.truncate_to_latest_snapshot()
    log.abandon()
    with opened(tmp_path / "a") as again:
        assert (again.start_offset, again.end_offset, again.last_epoch) == (200, 200, 7)


def test_a_crash_while_the_log_start_moves(tmp_path: Path) -> None:
    with opened(tmp_path / "a") as log:
        batches = fill(log, 50)
        log.update_high_watermark(50)
        snapshot(log, 40, 1)
        copy = crashed(log, tmp_path / "b")
    for gone in range(5):
        shutil.copytree(copy, tmp_path / "c")
        for path in files(tmp_path / "c")[:gone]:
            path.unlink()
        with opened(tmp_path / "c") as again:
            assert read_all(again) == b"".join(batches[again.start_offset :])
            assert again.validate_offset_and_epoch(45, 1).kind == "VALID"
        shutil.rmtree(tmp_path / "c")


# Processes that die.

APPENDS = """
import os, sys
from pathlib import Path
from storage import building
from storage.raft_logs import opened, snapshot
from kcore.replication.raft_log import OffsetAndEpoch

log = opened(Path(sys.argv[1]))
epoch = log.last_epoch + 1
if log.end_offset > 20 and epoch % 3 == 0:
    log.truncate_to_end_offset(OffsetAndEpoch(max(log.high_watermark, log.end_offset - 9), epoch))
print("from", log.end_offset, flush=True)
while True:
    first = log.end_offset
    log.append_as_leader(building.batch(first, [b"%d" % first * 20] * 2, epoch=epoch), epoch)
    if first % 6 == 0:
        log.flush()
        os.write(1, b"%d\\n" % log.end_offset)
    if first % 50 == 0 and first:
        log.update_high_watermark(first)
        snapshot(log, first, log.end_offset_for_epoch(epoch).epoch)
        log.delete_before(log.latest_snapshot)
"""


@pytest.mark.long
def test_kill_9_loses_nothing_that_was_flushed(tmp_path: Path) -> None:
    dice = random.Random(595)
    flushed = 0
    for _ in range(10):
        command = [sys.executable, "-c", textwrap.dedent(APPENDS), str(tmp_path)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2])
        assert process.stdout is not None
        begin = int(process.stdout.readline().split()[1])
        assert begin >= flushed - 9
        for _ in range(dice.randrange(1, 40)):
            flushed = int(process.stdout.readline())
        process.kill()
        for line in process.stdout.read().split():
            flushed = int(line)
        process.wait()
        log = opened(tmp_path)
        assert log.end_offset >= flushed
        flushed = log.end_offset
        batches = scan_batches(read_all(log))
        assert batches.crc_matches.all()
        assert [*batches.base_offset] == [*range(log.start_offset, flushed, 2)]
        log.abandon()


FULL = """
import resource, sys
from pathlib import Path
from kcore.errors import StorageError
from storage.raft_logs import fill, opened

log = opened(Path(sys.argv[1]))
fill(log, 3)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
try:
    fill(log, 100)
except StorageError as error:
    print(log.end_offset, error)
try:
    fill(log, 100, epoch=7)
except StorageError as error:
    assert log.last_epoch == 1
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
fill(log, 1)
log.flush()
print(log.end_offset)
"""


def test_a_full_disk_is_logged_and_leaves_the_log_whole(tmp_path: Path) -> None:
    command = [sys.executable, "-c", textwrap.dedent(FULL), str(tmp_path)]
    said = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[2], check=True).stdout
    notice, after = said.splitlines()
    fits = 1000 // len(building.batches(1)[0])
    assert notice.startswith(f"{fits} {tmp_path / FOLDER}: ") and "File too large" in notice
    assert int(after) == fits + 1
    with opened(tmp_path) as log:
        assert log.end_offset == fits + 1
        assert [*scan_batches(read_all(log)).base_offset] == [*range(fits + 1)]


@pytest.mark.parametrize("offset", [3, 10])  # In the log's first segment of all, and in a later one.
def test_a_log_cut_at_the_snapshot_that_it_began_at_knows_its_epoch(tmp_path: Path, offset: int) -> None:
    """It begins with the whole segment when it is opened again, and so must its epochs."""
    log, at = opened(tmp_path), OffsetAndEpoch(offset, 2)
    fill(log, offset - 1, epoch=1)
    fill(log, 20, epoch=2)
    log.update_high_watermark(offset)
    snapshot(log, *at)
    assert log.delete_before(at) and log.start_offset == offset
    log.close()
    with opened(tmp_path) as again:
        assert again.start_offset < offset and again.epoch_at(again.start_offset) == 1
        again.truncate_to_end_offset(OffsetAndEpoch(offset, 0))
        assert (again.end_offset, again.last_epoch, again.end_offset_for_epoch(2)) == (offset, 2, at)
