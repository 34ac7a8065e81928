"""Whole batches behind a hole stay on the disk: the log is not opened, or they are set aside."""

import logging
import random
from pathlib import Path

import pytest

from kcore.errors import StorageError
from kcore.protocol_errors import Errors, exception_of
from kcore.storage.log import holes
from kcore.storage.log.holes import whole_batches
from kcore.storage.log.live_log import LiveLog
from kcore.storage.log.segmented_log import Settings
from kcore.wire.record_batch import scan_batches
from storage import building
from storage.raft_logs import FOLDER, files, fill, opened, read_all

WIDE = Settings(10_000, 200)


def written(folder: Path, count: int, per_segment: int = 100) -> list[bytes]:
    """A metadata log as a process leaves it that keeps no recovery point."""
    folder.mkdir()
    batches = building.batches(count, epoch=1)
    for first in range(0, count, per_segment):
        (folder / f"{first:020}.log").write_bytes(b"".join(batches[first : first + per_segment]))
    return batches


def on_disk(folder: Path) -> dict[int, bytes]:
    """The whole batches in all files of a folder, whatever these are called."""
    found = {}
    for path in folder.iterdir():
        data = path.read_bytes()
        for position, first, _ in whole_batches(data):
            found[first] = data[position : position + int(scan_batches(data, start=position, limit=1).size[0])]
    return found


def lose(path: Path, first: int, last: int, size: int) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: first * size] + data[(last + 1) * size :])


@pytest.mark.parametrize("per_segment", [100, 10])
def test_a_log_with_a_hole_is_not_opened_and_the_missing_offsets_are_named(tmp_path: Path, per_segment: int) -> None:
    folder = tmp_path / FOLDER
    size = len(written(folder, 40, per_segment)[0])
    path = files(tmp_path)[0 if per_segment == 100 else 2]
    first = 22 if per_segment == 100 else 2
    lose(path, first, first + 2, size)
    before = {each.name: each.read_bytes() for each in folder.iterdir()}
    with pytest.raises(
        StorageError, match=rf"{path}: offsets 22 to 24 are missing at position {first * size} .*--set-aside"
    ):
        opened(tmp_path, WIDE)
    assert before.items() <= {each.name: each.read_bytes() for each in folder.iterdir()}.items()


def test_a_segment_that_is_gone_is_a_hole(tmp_path: Path) -> None:
    written(tmp_path / FOLDER, 40, 10)
    files(tmp_path)[1].unlink()
    with pytest.raises(StorageError, match="offsets 10 to 19 are missing"):
        opened(tmp_path, WIDE)
    assert [path.name[18:20] for path in files(tmp_path)] == ["00", "20", "30"]


def test_what_follows_a_hole_is_set_aside_and_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / FOLDER
    batches = written(folder, 40, 10)
    size = len(batches[0])
    lose(files(tmp_path)[1], 3, 3, size)
    before = on_disk(folder)
    with opened(tmp_path, WIDE._replace(set_aside=True)) as log:
        assert (log.end_offset, read_all(log)) == (13, b"".join(batches[:13]))
    assert on_disk(folder) == before
    names = sorted(path.name for path in folder.iterdir() if path.name.endswith(".aside"))
    assert names == [f"{first:020}.log.aside" for first in (10, 20, 30)]
    for path in files(tmp_path)[1:]:
        assert path.name in caplog.text
    assert "offset 13 is missing" in caplog.text


def test_files_that_are_set_aside_twice_replace_none(tmp_path: Path) -> None:
    folder = tmp_path / FOLDER
    for _ in range(2):
        if folder.is_dir():
            path = folder / f"{0:020}.log"
            path.write_bytes(b"".join(building.batch(k, [b"again"], epoch=1) for k in range(9)))
        else:
            written(folder, 9)
        path = files(tmp_path)[0]
        lose(path, 3, 3, len(path.read_bytes()) // 9)
        opened(tmp_path, WIDE._replace(set_aside=True)).abandon()
    assert {each.name for each in folder.iterdir()} >= {f"{0:020}.log.aside", f"{0:020}.log.aside2"}


def test_every_byte_that_recovery_cuts_is_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / FOLDER
    size = len(written(folder, 10)[0])
    [path] = files(tmp_path)
    path.write_bytes(path.read_bytes()[:-7])
    (folder / f"{10:020}.log").write_bytes(b"junk")
    with caplog.at_level(logging.WARNING):
        opened(tmp_path, WIDE).abandon()
    lines = [record.getMessage() for record in caplog.records]
    assert (
        f"{folder / f'{10:020}.log'}: cut from byte 0 to 4, from offset 10 on: it follows the end of {path.name}"
        in lines
    )
    assert any(f"{path}: cut from byte {9 * size} to {10 * size - 7}, from offset 9 on: " in line for line in lines)


@pytest.mark.parametrize("change", ["swap", "repeat", "later first"])
def test_batches_out_of_order_are_a_hole(tmp_path: Path, change: str) -> None:
    batches = written(tmp_path / FOLDER, 8)
    order = {"swap": [0, 1, 2, 4, 3, 5, 6, 7], "repeat": [0, 1, 2, 3, 3, 4, 5, 6, 7], "later first": [0, 7, 1, 2, 3]}
    [path] = files(tmp_path)
    path.write_bytes(b"".join(batches[k] for k in order[change]))
    before = path.read_bytes()
    with pytest.raises(StorageError, match="whole batches from offset"):
        opened(tmp_path, WIDE)
    assert path.read_bytes() == before


def data_log(folder: Path, count: int) -> list[bytes]:
    batches = building.batches(count, epoch=1)
    with LiveLog(folder) as log:
        for batch in batches:
            log.append(batch, scan_batches(batch))
    return batches


def harmed(path: Path, size: int) -> bytes:
    data = bytearray(path.read_bytes())
    data[3 * size + 100] ^= 1
    path.write_bytes(data)
    return bytes(data)


def test_a_broker_sets_aside_or_refuses_what_follows_a_damaged_batch(tmp_path: Path) -> None:
    size = len(data_log(tmp_path / "t-0", 8)[0])
    path = tmp_path / "t-0" / f"{0:020}.log"
    broken = harmed(path, size)
    with pytest.raises(exception_of(Errors.KAFKA_STORAGE_ERROR), match="offset 3 is missing"):
        LiveLog(tmp_path / "t-0")
    assert path.read_bytes() == broken
    with LiveLog(tmp_path / "t-0", settings=Settings(set_aside=True)) as log:
        assert log.end_offset == 3
    assert path.read_bytes() + path.with_name(f"{path.name}.aside").read_bytes() == broken


def test_compacted_logs_of_data_have_gaps(tmp_path: Path) -> None:
    size = len(data_log(tmp_path / "t-0", 8)[0])
    lose(tmp_path / "t-0" / f"{0:020}.log", 3, 5, size)
    with LiveLog(tmp_path / "t-0") as log:
        assert log.end_offset == 8 and not list((tmp_path / "t-0").glob("*.aside"))


def test_a_read_never_goes_past_damage_of_an_older_segment(tmp_path: Path) -> None:
    """Its length field: what follows in the segment cannot be found by reading on."""
    batches = [building.batch(k, [b"x" * 100], epoch=1) for k in range(30)]
    settings = Settings(2_000, 200)
    with opened(tmp_path, settings) as log:
        for batch in batches:
            log.append_as_leader(batch, 1)
    path = files(tmp_path)[1]
    first, data = int(path.stem), bytearray(path.read_bytes())
    for byte in (8, 11, 16):
        broken = bytearray(data)
        broken[2 * len(batches[0]) + byte] ^= 0x41
        path.write_bytes(broken)
        log = opened(tmp_path, settings)
        for offset in range(first + 2, int(files(tmp_path)[2].stem)):
            try:
                assert b"".join(batches).find(log.read(offset, 10_000, 30)) == len(batches[0]) * offset
                assert offset > first + 2
            except StorageError as error:
                assert str(path) in str(error)
        log.abandon()


def test_whole_batches_are_found_behind_any_damage() -> None:
    """As a slow search finds them, that tries every byte."""
    dice = random.Random(35)
    batches = [building.batch(k, [bytes(dice.randrange(256) for _ in range(dice.randrange(80)))]) for k in range(30)]
    for _ in range(40):
        data = bytearray(b"".join(dice.sample(batches, 6)))
        for _ in range(dice.randrange(4)):
            at = dice.randrange(len(data))
            data[at : at + dice.randrange(3)] = dice.randbytes(dice.randrange(3))
        found, at = [], 0
        while at < len(data):
            one = scan_batches(bytes(data[at:]), limit=1, stop=True)
            if len(one) and one.crc_matches[0] and one.base_offset[0] >= 0 and one.last_offset_delta[0] >= 0:
                found.append((at, int(one.base_offset[0]), int(one.last_offset[0])))
                at += int(one.size[0])
            else:
                at += 1
        assert [*whole_batches(bytes(data))] == found


def test_a_search_goes_on_over_many_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holes, "_WINDOW", 64)
    data = b"".join(building.batch(k, [b"x" * 90 * k]) for k in range(9))
    assert [first for _, first, _ in whole_batches(b"\2" * 500 + data)] == [*range(9)]


def test_a_damaged_batch_that_the_index_ends_with_leaves_those_before_it(tmp_path: Path) -> None:
    """The last index entry of a log that was closed names the batch that is damaged since."""
    with opened(tmp_path, WIDE) as log:
        batches = fill(log, 9)
        entries = scan_batches(b"".join(batches))
    log = opened(tmp_path, WIDE)
    fill(log, 3)
    log.abandon()
    [path] = files(tmp_path)
    at = int.from_bytes(path.with_suffix(".index").read_bytes()[-4:])
    row = entries.position.tolist().index(at)
    broken = bytearray(path.read_bytes())
    broken[at + 70] ^= 1
    path.write_bytes(broken)
    with opened(tmp_path, WIDE._replace(set_aside=True)) as log:
        assert (log.end_offset, read_all(log)) == (row, b"".join(batches[:row]))
