"""Files of other logs or of another time in a folder: they are refused, or what gives way to them is kept."""

import logging
from pathlib import Path

import pytest

from kcore.errors import StorageError
from kcore.raft.control_records import snapshot_batches
from kcore.replication.raft_log import OffsetAndEpoch
from kcore.storage.metadata_log import load_metadata
from storage.raft_logs import FOLDER, fill, opened, snapshot


def whole(epoch: int) -> bytes:
    return b"".join(snapshot_batches(epoch, [], 0, 0, None, 0))


def add_snapshot(directory: Path, offset: int, epoch: int) -> None:
    (directory / FOLDER / f"{offset:020}-{epoch:010}.checkpoint").write_bytes(whole(epoch))


def metadata_log(directory: Path) -> Path:
    """A log of 40 records, epoch 3 from offset 20 on, with snapshot 20-1."""
    with opened(directory) as log:
        fill(log, 20)
        fill(log, 20, epoch=3)
        log.update_high_watermark(40)
        snapshot(log, 20, 1, whole(1))
    return directory


def contents(directory: Path, pattern: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (directory / FOLDER).glob(pattern)}


@pytest.mark.parametrize("foreign", [(20, 2), (15, 3), (4, 9)])
def test_snapshots_that_cannot_be_of_one_log_are_refused(foreign: tuple[int, int], tmp_path: Path) -> None:
    directory = metadata_log(tmp_path)
    before = contents(directory, "*.log")
    add_snapshot(directory, *foreign)
    with pytest.raises(StorageError, match=r"20-0000000001.checkpoint and 0.* cannot be of one log: move away"):
        opened(directory)
    assert contents(directory, "*.log") == before
    with pytest.raises(StorageError, match="cannot be of one log"):
        load_metadata(directory / FOLDER)
    assert "cannot be of one log" in load_metadata(directory / FOLDER, stop=True).problem


@pytest.mark.parametrize("foreign", [(100, 3), (4000, 1), (30, 2), (30, 9)])
def test_a_log_that_gives_way_to_a_snapshot_at_the_start_is_kept(
    foreign: tuple[int, int], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    directory = metadata_log(tmp_path)
    before = contents(directory, "*.log") | contents(directory, "*-0000000001.checkpoint")
    add_snapshot(directory, *foreign)
    with caplog.at_level(logging.WARNING), opened(directory) as log:
        assert (log.latest_snapshot, log.end_offset) == (OffsetAndEpoch(*foreign), foreign[0])
    [line] = [each.getMessage() for each in caplog.records]
    assert f"the log up to offset 40 gives way to snapshot {foreign[0]}-{foreign[1]}" in line
    kept = {name.removesuffix(".aside"): data for name, data in contents(directory, "*.aside").items()}
    assert kept == before


def test_a_snapshot_that_is_damaged_again_does_not_replace_the_first(tmp_path: Path) -> None:
    directory = metadata_log(tmp_path)
    path = directory / FOLDER / f"{20:020}-{1:010}.checkpoint"
    for data in (b"first", b"second"):
        path.unlink(missing_ok=True)
        path.write_bytes(data)
        opened(directory).close()
    assert {*contents(directory, "*.damaged*").values()} == {b"first", b"second"}
