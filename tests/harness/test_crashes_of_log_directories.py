"""A broker's log directory after a crash between any two operations: logs, checkpoints, clean shutdowns, moves."""

from pathlib import Path
from typing import Any

import pytest

from harness.crashes import Fate, at_every_crash
from kcore.constants import UNKNOWN_BROKER_EPOCH
from kcore.storage.checkpoints import TopicPartition, read_offsets
from kcore.storage.files import write_atomically
from kcore.storage.log.live_log import LiveLog, Settings
from kcore.storage.log.log_directory import HIGH_WATERMARKS, LogDirectory
from kcore.storage.meta_properties import META_PROPERTIES, MetaProperties, read_meta_properties, write_meta_properties
from kcore.types import Uuid
from kcore.wire.record_batch import scan_batches
from storage import building

KEY, OTHER = TopicPartition("t", 0), TopicPartition("u", 0)
TOPIC_ID = Uuid(b"t" * 16)
SETTINGS = Settings(segment_bytes=200, index_interval_bytes=1)
COUNT = 6  # Records; a segment has two.
MOVED = 3  # Records of a replica that moves.
POWER = (Fate.ALL_LOST, Fate.NAMES_KEPT, Fate.CONTENTS_KEPT)


def _append(log: LiveLog, first: int, count: int, epoch: int = 0) -> None:
    for offset in range(first, first + count):
        producer = (7, 0, offset)
        data = building.batch(offset, [b"%d" % offset], epoch=epoch, producer=producer)
        log.append(data, scan_batches(data))


def _directory(root: Path) -> LogDirectory:
    directory = LogDirectory(root / "d", SETTINGS)
    directory.directory_id = Uuid(b"d" * 16)
    return directory.open()


def _filled(root: Path) -> LogDirectory:
    directory = _directory(root)
    for key in (KEY, OTHER):
        _append(directory.create(key), 0, COUNT)
        directory.assign_topic_id(key, TOPIC_ID)
        directory.logs[key].high_watermark = COUNT
    return directory


def _offsets(log: LiveLog) -> list[int]:
    """The offsets of all batches, read one after the other."""
    found: list[int] = []
    offset = log._log.first_offset
    while data := log.read(offset, 1 << 20, log.end_offset, at_least_one=True):
        batches = scan_batches(data)
        assert batches.crc_matches.all()
        found += batches.base_offset.tolist()
        offset = int(batches.last_offset[-1]) + 1
    return found


def _check_offsets(log: LiveLog) -> None:
    assert log.start_offset <= log.high_watermark <= log.end_offset, "whatever the checkpoints say"


def _check_log(log: LiveLog, least_end: int, most_start: int = 0, most_end: int = COUNT) -> None:
    """No hole, from `most_start` at most to `least_end` at least, and the producers of its batches."""
    offsets = _offsets(log)
    assert least_end <= log.end_offset <= most_end
    assert log._log.first_offset <= most_start
    _check_offsets(log)
    assert offsets == [*range(log._log.first_offset, log.end_offset)], "there is a hole"
    if offsets:
        [producer] = log.producers.by_id.values()
        assert producer.batches[-1].last_offset == log.end_offset - 1
        assert log.epochs.latest_epoch in (0, None)
    _append(log, log.end_offset, 3)
    assert _offsets(log)[-1] == log.end_offset - 1


# Logs.


@pytest.mark.parametrize("cut", [pytest.param(1, marks=pytest.mark.long), 2, 3, 5])
def test_a_log_that_is_cut_is_a_whole_beginning_of_what_it_was(tmp_path: Path, cut: int) -> None:
    def check(root: Path, is_done: bool) -> None:
        log = _directory(root).logs[KEY]
        _check_log(log, least_end=cut, most_end=cut if is_done else COUNT)

    at_every_crash(tmp_path, lambda root: _filled(root).logs[KEY], lambda log: log.truncate_to(cut), check)


@pytest.mark.parametrize("start", [1, pytest.param(4, marks=pytest.mark.long), 6])
def test_a_log_whose_beginning_is_deleted_keeps_its_end(tmp_path: Path, start: int) -> None:
    """Segments go first ones first: in between there are more records, and no hole."""

    def check(root: Path, is_done: bool) -> None:
        log = _directory(root).logs[KEY]
        _check_log(log, least_end=COUNT, most_start=start)

    at_every_crash(
        tmp_path, lambda root: _filled(root).logs[KEY], lambda log: log.raise_start_offset(start), check, least=1
    )


def test_a_log_that_begins_anew_is_the_old_one_or_a_beginning_of_it_or_empty(tmp_path: Path) -> None:
    def check(root: Path, is_done: bool) -> None:
        log = _directory(root).logs[KEY]
        offsets = _offsets(log)
        assert offsets == [*range(len(offsets))] and log.end_offset in (len(offsets), 50)
        if is_done:
            assert log.end_offset == log.start_offset == 50 and not log.producers.by_id and not log.epochs.entries
        _append(log, log.end_offset, 1, epoch=9)

    at_every_crash(
        tmp_path,
        lambda root: _filled(root).logs[KEY],
        lambda log: log.truncate_fully_and_start_at(50),
        check,
        (Fate.KILLED, Fate.ALL_LOST),
    )


def test_records_that_were_appended_outlive_a_kill_and_rolled_ones_a_power_cut(tmp_path: Path) -> None:
    def act(log: LiveLog) -> None:
        _append(log, COUNT, 3)

    def check(root: Path, is_done: bool) -> None:
        _check_log(_directory(root).logs[KEY], least_end=COUNT, most_end=COUNT + 3)

    at_every_crash(tmp_path, lambda root: _filled(root).logs[KEY], act, check, (Fate.KILLED, Fate.ALL_LOST))


def test_retention_leaves_a_log_that_can_be_opened(tmp_path: Path) -> None:
    def act(log: LiveLog) -> None:
        assert log.delete_old(building.TIME_MS + 1, None)

    def check(root: Path, is_done: bool) -> None:
        log = _directory(root).logs[KEY]
        assert log.end_offset == COUNT
        _check_log(log, least_end=COUNT, most_start=COUNT)

    at_every_crash(tmp_path, lambda root: _filled(root).logs[KEY], act, check, (Fate.KILLED, Fate.ALL_LOST))


def test_a_deleted_log_is_whole_or_gone(tmp_path: Path) -> None:
    def check(root: Path, is_done: bool) -> None:
        directory = _directory(root)
        if KEY in directory.logs:
            assert not is_done
            _check_log(directory.logs[KEY], least_end=COUNT)
            assert directory.topic_id(KEY) == TOPIC_ID
        assert OTHER in directory.logs
        assert {each.name for each in (root / "d").iterdir()} <= {"t-0", "u-0"}, "what was cut short is ended"

    at_every_crash(tmp_path, _filled, lambda directory: directory.delete(KEY), check, (Fate.KILLED,))


# Files of the directory.


def test_the_clean_shutdown_file_says_that_all_is_on_the_disk(tmp_path: Path) -> None:
    def check(root: Path, is_done: bool) -> None:
        directory = _directory(root)
        for log in directory.logs.values():
            _check_offsets(log)
        is_clean = directory.take_clean_shutdown() == 9
        assert is_clean or not is_done
        for key in (KEY, OTHER) if is_clean else ():
            assert directory.logs[key].high_watermark == COUNT // 2, "the checkpoint comes before"
            _check_log(directory.logs[key], least_end=COUNT // 2)

    def prepare(root: Path) -> LogDirectory:
        (root / "d").mkdir()
        return _directory(root)

    def act(directory: LogDirectory) -> None:
        for key in (KEY, OTHER):
            _append(directory.create(key), 0, COUNT // 2)
            directory.logs[key].high_watermark = COUNT // 2
        directory.close(9)

    at_every_crash(tmp_path, prepare, act, check, (Fate.KILLED, Fate.ALL_LOST))


def test_the_clean_shutdown_file_counts_once(tmp_path: Path) -> None:
    """A broker that crashes behind its start was not shut down cleanly, however soon that is."""

    def prepare(root: Path) -> LogDirectory:
        _filled(root).close(9)
        return _directory(root)

    def act(directory: LogDirectory) -> None:
        assert directory.take_clean_shutdown() == 9
        _append(directory.logs[KEY], COUNT, 1)

    def check(root: Path, is_done: bool) -> None:
        again = _directory(root).take_clean_shutdown()
        assert again == UNKNOWN_BROKER_EPOCH or not is_done

    at_every_crash(tmp_path, prepare, act, check, (Fate.KILLED,))


@pytest.mark.parametrize("starts", [0, 2])
def test_a_checkpoint_is_the_old_one_or_the_new_one(tmp_path: Path, starts: int) -> None:
    def prepare(root: Path) -> LogDirectory:
        directory = _filled(root)
        directory.logs[KEY].high_watermark = 3
        directory.checkpoint()
        directory.logs[KEY].high_watermark = COUNT
        directory.logs[KEY].raise_start_offset(starts)
        return directory

    def check(root: Path, is_done: bool) -> None:
        offsets = read_offsets(root / "d" / HIGH_WATERMARKS)
        assert offsets[KEY] in (3, COUNT) and offsets[OTHER] == COUNT
        directory = _directory(root)
        assert directory.logs[KEY].high_watermark >= 3
        if is_done:
            assert offsets[KEY] == COUNT and directory.logs[KEY].start_offset == starts

    at_every_crash(tmp_path, prepare, lambda directory: directory.checkpoint(), check)


def test_small_files_are_the_old_or_the_new_ones(tmp_path: Path) -> None:
    old, new = (MetaProperties(1, "a cluster", 1, Uuid(bytes([each]) * 16)) for each in (1, 2))

    def prepare(root: Path) -> Path:
        path = root / META_PROPERTIES
        write_meta_properties(path, old)
        return path

    def check(root: Path, is_done: bool) -> None:
        found = read_meta_properties(root / META_PROPERTIES)
        assert found == new or (found == old and not is_done)

    at_every_crash(tmp_path, prepare, lambda path: write_meta_properties(path, new), check)


def test_a_file_that_is_new_has_a_durable_name(tmp_path: Path) -> None:
    def check(root: Path, is_done: bool) -> None:
        names = {each.name for each in root.iterdir()} - {"f.tmp"}
        assert names == {"f"} if is_done else names <= {"f"}
        assert not names or (root / "f").read_bytes() == b"data"

    at_every_crash(tmp_path, lambda root: root / "f", lambda path: write_atomically(path, b"data"), check)


# Replicas that move between directories.


class Two:
    """The source has the log, the target a copy that has caught up."""

    def __init__(self, root: Path) -> None:
        self.source, self.target = (LogDirectory(root / each, SETTINGS) for each in "st")
        for each, number in ((self.source, b"s"), (self.target, b"t")):
            each.directory_id = Uuid(number * 16)
            each.open()

    def copy(self) -> None:
        """Begins as a future log, catches up, and takes the place of the current one."""
        log = self.source.logs[KEY]
        future = self.target.create_future(KEY, TOPIC_ID, 0, SETTINGS.segment_bytes)
        _append(future, 0, MOVED)
        future.take_over(log)
        self.target.promote(KEY)
        self.source.set_aside(KEY)
        self.source.delete_replaced(KEY)


def _two(root: Path) -> Two:
    two = Two(root)
    _append(two.source.create(KEY), 0, MOVED)
    two.source.assign_topic_id(KEY, TOPIC_ID)
    return two


def test_a_replica_that_moves_is_whole_in_one_of_its_directories(tmp_path: Path) -> None:
    def check(root: Path, is_done: bool) -> None:
        two = Two(root)
        there = [each for each in (two.source, two.target) if KEY in each.logs]
        assert there, "neither directory has it"
        for each in there:
            _check_log(each.logs[KEY], least_end=MOVED, most_end=MOVED)
            assert each.topic_id(KEY) == TOPIC_ID
        if is_done:
            assert there == [two.target] and not two.target.futures

    operations = at_every_crash(tmp_path, _two, lambda two: two.copy(), check, (Fate.KILLED, Fate.ALL_LOST))
    names = [each for each in operations if each.startswith("rename")]
    assert len(names) == 2, "the copy gets its name before the source loses it"


def test_a_future_log_that_was_begun_says_of_which_topic_it_is_or_goes(tmp_path: Path) -> None:
    def check(root: Path, is_done: bool) -> None:
        two = Two(root)
        _check_log(two.source.logs[KEY], least_end=MOVED, most_end=MOVED)
        if KEY in two.target.futures:
            assert two.target.future_topic_id(KEY) in (TOPIC_ID, Uuid())
            two.target.delete_future(KEY)
        again = two.target.create_future(KEY, TOPIC_ID, 0, 200)
        assert again.end_offset == 0 and two.target.future_topic_id(KEY) == TOPIC_ID

    def act(two: Any) -> None:
        two.target.create_future(KEY, TOPIC_ID, 0, SETTINGS.segment_bytes)

    at_every_crash(tmp_path, _two, act, check, (Fate.KILLED, *POWER))
