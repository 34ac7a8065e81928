"""Each bound of a log in use: its start, its cuts, its producer snapshots, its closed files."""

from pathlib import Path

import pytest

from kcore.broker.replicas.producers import Producer
from kcore.storage.log import live_log
from kcore.storage.log.live_log import LiveLog, state_of
from kcore.storage.log.live_segment import LiveSegment
from storage import building
from storage.test_live_log import END, SMALL, STORAGE_ERROR, append, filled, read_all


def snapshots(folder: Path) -> list[int]:
    return sorted(int(path.stem) for path in folder.glob("*.snapshot"))


def refuses(*_: object) -> None:
    raise AssertionError("it is not called")


def test_a_log_moves_over_no_other_folder(tmp_path: Path) -> None:
    log, batches = filled(tmp_path / "t-0")
    (tmp_path / "u-0").mkdir()
    with pytest.raises(STORAGE_ERROR, match="u-0 exists already"):
        log.move_to(tmp_path / "u-0")
    assert log.folder == tmp_path / "t-0" and not [*(tmp_path / "u-0").iterdir()]
    log.move_to(tmp_path / "v-0")
    assert log.folder == tmp_path / "v-0" and read_all(log) == b"".join(batches)
    log.close()


def test_a_closed_log_holds_no_file(tmp_path: Path) -> None:
    log, batches = filled(tmp_path / "t-0")
    assert read_all(log) == b"".join(batches)
    assert any(segment._file >= 0 for segment in log._log.segments)
    log.close()
    assert all(segment._file < 0 for segment in log._log.segments)


def test_the_log_start_is_never_lowered(tmp_path: Path) -> None:
    log, _ = filled(tmp_path / "t-0")
    for offset in (33, 20, 33):
        log.raise_start_offset(offset)
        assert (log.start_offset, log.high_watermark) == (33, 33)
    log.close()


def test_an_empty_log_is_not_written_by_retention(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, _ = filled(tmp_path / "t-0")
    log.high_watermark = 50
    assert log.delete_old(END, None) and log.start_offset == log.end_offset == 50
    monkeypatch.setattr(live_log, "write_atomically", refuses)
    assert not log.delete_old(END, None) and not log.delete_old(None, 0)
    log.abandon()


def test_a_cut_at_the_first_offset_keeps_the_log_s_beginning(tmp_path: Path) -> None:
    """A future log that follows the cut need not begin anew."""
    log, _ = filled(tmp_path / "t-0")
    log.truncate_to(0)
    assert (log.lowest_cut, log.start_offset, log.end_offset) == (0, 0, 0)
    log.truncate_fully_and_start_at(7)
    log.lowest_cut = live_log.NOTHING_CUT
    log.truncate_to(7)
    assert (log.lowest_cut, log.start_offset) == (live_log.NOTHING_CUT, 7), "there was nothing to cut"
    log.truncate_to(6)
    assert (log.lowest_cut, log.start_offset) == (-1, 6)
    log.close()


def test_a_log_that_starts_anew_knows_no_producer(tmp_path: Path) -> None:
    log = LiveLog(tmp_path / "t-0", settings=SMALL)
    for sequence in range(40):
        append(log, building.batch(sequence, producer=(7, 0, sequence)))
    log.close()
    assert snapshots(tmp_path / "t-0")
    log = LiveLog(tmp_path / "t-0", settings=SMALL)
    log.truncate_fully_and_start_at(100)
    assert not log.producers.by_id and snapshots(tmp_path / "t-0") == []
    log.abandon()


def test_the_latest_timestamp_may_be_in_any_segment(tmp_path: Path) -> None:
    log = LiveLog(tmp_path / "t-0", settings=SMALL)
    for offset in range(30):
        append(log, building.batch(offset, [bytes(100)], time_ms=9_000 if offset == 3 else offset))
    assert len(log._log.segments) > 2
    assert log.find_latest_timestamp() == (9_000, 3, 0)
    log.close()


def test_the_latest_timestamp_is_not_below_the_log_start(tmp_path: Path) -> None:
    log = LiveLog(tmp_path / "t-0")
    append(log, building.batch(0, time_ms=9), building.batch(1, time_ms=5))
    assert log.find_latest_timestamp() == (9, 0, 0)
    log.raise_start_offset(1)
    assert log.find_latest_timestamp() is None
    log.close()


def test_a_file_with_another_name_is_no_producer_snapshot(tmp_path: Path) -> None:
    log, _ = filled(tmp_path / "t-0")
    log.close()
    other = tmp_path / "t-0" / "of-a-person.snapshot"
    other.write_bytes(b"mine")
    with LiveLog(tmp_path / "t-0", settings=SMALL) as log:
        log.truncate_fully_and_start_at(7)
    assert other.read_bytes() == b"mine"


def test_nothing_is_replayed_that_a_producer_snapshot_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = LiveLog(tmp_path / "t-0", settings=SMALL)
    for sequence in range(40):
        append(log, building.batch(sequence, producer=(7, 0, sequence)))
    log.close()
    monkeypatch.setattr(LiveSegment, "replay", refuses)
    log = LiveLog(tmp_path / "t-0", settings=SMALL)
    assert log.producers.by_id[7].batches[-1].last_sequence == 39
    log.abandon()


def test_the_newest_readable_producer_snapshot_counts(tmp_path: Path) -> None:
    """A damaged one is deleted, and so is one above the log's end."""
    folder = tmp_path / "t-0"
    log = LiveLog(folder, settings=SMALL)
    for sequence in range(40):
        append(log, building.batch(sequence, producer=(7, 0, sequence)))
    log.close()
    *older, newest = snapshots(folder)
    assert newest == 40 and older
    (folder / f"{41:020}.snapshot").write_bytes((folder / f"{40:020}.snapshot").read_bytes())
    (folder / f"{40:020}.snapshot").write_bytes(b"damaged")
    log = LiveLog(folder, settings=SMALL)
    assert snapshots(folder) == older
    assert log.producers.by_id[7].batches[-1].last_sequence == 39
    log.abandon()


def test_a_producer_without_batches_has_a_state_without_one(tmp_path: Path) -> None:
    state = state_of(7, Producer(3, last_timestamp=5, coordinator_epoch=2, transaction_offset=None))
    assert (state.last_offset, state.first_sequence, state.last_sequence, state.current_txn_first_offset) == (-1,) * 4
    again = live_log._producer_of(state)
    assert (again.epoch, again.coordinator_epoch, again.transaction_offset, [*again.batches]) == (3, 2, None, [])


def test_logs_of_different_ends_are_not_taken_over(tmp_path: Path) -> None:
    with LiveLog(tmp_path / "t-0") as one, LiveLog(tmp_path / "u-0") as other:
        append(one, building.batch(0))
        with pytest.raises(AssertionError):
            other.take_over(one)


def test_a_log_that_takes_over_another_keeps_its_own_start(tmp_path: Path) -> None:
    one, batches = filled(tmp_path / "t-0")
    one.high_watermark = 41
    with LiveLog(tmp_path / "u-0", start_offset=30) as other:
        append(other, *batches[30:])
        other.take_over(one)
        assert (other.start_offset, other.high_watermark, other.epochs.entries) == (30, 41, [(3, 30)])
    one.abandon()
