"""A future log follows the current one: appended to, truncated, deleted from its start, and interrupted."""

from pathlib import Path
from random import Random

import pytest

from kcore.broker.replicas.replication_quota import ALL_REPLICAS, ReplicationQuota
from kcore.errors import StorageError
from kcore.protocol_errors import Errors, exception_of
from kcore.replication.epochs import EpochCache
from kcore.server.broker import replica_moves
from kcore.server.broker.replica_moves import FutureCopy, common_end
from kcore.storage.checkpoints import TopicPartition, write_offsets
from kcore.storage.log.live_log import LiveLog, Settings
from kcore.storage.log.log_directory import LOG_STARTS, LogDirectory
from kcore.types import Uuid
from kcore.wire.record_batch import scan_batches
from seeds import seeds
from server.moving import values_of
from storage import building

TP = TopicPartition("t", 0)
TOPIC = Uuid(b"t" * 16)
SETTINGS = Settings(segment_bytes=1_000, index_interval_bytes=200)


def directory(path: Path) -> LogDirectory:
    made = LogDirectory(path, SETTINGS)
    made.directory_id = Uuid(path.name.encode() * 16)
    return made.open()


class Pair:
    """A current log in a, and its copy in b."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.a, self.b = directory(folder / "a"), directory(folder / "b")
        self.source = self.a.create(TP)
        self.copy: FutureCopy | None = None

    def append(self, count: int = 1, *, epoch: int = 0, records: int = 1) -> None:
        for _ in range(count):
            offset = self.source.end_offset
            data = building.batch(offset, [b"%d.%d" % (epoch, offset)] * records, epoch=epoch)
            self.source.append(data, scan_batches(data))
        self.source.high_watermark = self.source.end_offset

    def begin(self) -> FutureCopy:
        if TP not in self.b.futures:
            self.b.create_future(TP, TOPIC, self.source.start_offset, self.source.segment_bytes)
        self.copy = FutureCopy(TP, self.a, self.b, ReplicationQuota(lambda topic: ALL_REPLICAS))
        self.copy.begin()
        return self.copy

    def catch_up(self) -> LiveLog:
        copy = self.copy or self.begin()
        for _ in range(1_000):
            if copy.step():
                return self.b.futures[TP]
        raise AssertionError("it does not catch up")

    def reopen(self) -> None:
        """As after a kill: what was written is there. The start offset was checkpointed."""
        write_offsets(self.folder / "a" / LOG_STARTS, {TP: self.source.start_offset})
        self.a, self.b = directory(self.folder / "a"), directory(self.folder / "b")
        self.source, self.copy = self.a.logs[TP], None

    def check(self) -> None:
        future = self.b.futures[TP]
        assert (future.start_offset, future.end_offset) == (self.source.start_offset, self.source.end_offset)
        assert values_of(future) == values_of(self.source)
        assert future.high_watermark == self.source.high_watermark

    def promote(self) -> LiveLog:
        future = self.catch_up()
        future.take_over(self.source)
        assert self.b.promote(TP) is future
        self.a.set_aside(TP)
        self.a.delete_replaced(TP)
        return future


@pytest.fixture(autouse=True)
def one_batch_a_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replica_moves, "SLICE_BYTES", 1)


def test_what_the_current_log_truncates_goes_from_the_copy(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    pair.append(30)
    pair.catch_up()
    pair.source.truncate_to(12)
    pair.append(3, epoch=1)
    pair.source.truncate_to(14)
    pair.append(40, epoch=2)
    pair.catch_up()
    pair.check()
    assert pair.b.futures[TP].epochs.entries == [(0, 0), (1, 12), (2, 14)]


def test_a_cut_between_two_starts_is_found_by_the_epochs(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    pair.append(20)
    pair.append(10, epoch=3)
    pair.catch_up()
    pair.source.truncate_to(15)
    pair.append(15, epoch=4)
    pair.reopen()
    copy = pair.begin()
    assert copy.lag == 15
    pair.catch_up()
    pair.check()


def test_the_current_log_starts_in_the_middle_of_a_batch(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    pair.append(10, records=5)
    pair.source.raise_start_offset(23)
    pair.catch_up()
    pair.check()
    assert pair.b.futures[TP].start_offset == 23


def test_records_are_deleted_faster_than_copied(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    pair.append(50)
    copy = pair.begin()
    for _ in range(5):
        assert not copy.step()
    pair.source.raise_start_offset(40)
    pair.catch_up()
    pair.check()
    pair.source.truncate_fully_and_start_at(7)
    pair.append(2, epoch=5)
    pair.catch_up()
    pair.check()


def test_what_no_record_tells_is_taken_over(tmp_path: Path) -> None:
    """A leader epoch that began without a record, and a producer whose records are deleted."""
    pair = Pair(tmp_path)
    data = building.batch(0, [b"0"], producer=(9, 1, 41))
    pair.source.append(data, scan_batches(data))
    pair.append(30)
    pair.source.raise_start_offset(20)
    pair.source.assign_epoch(6, pair.source.end_offset)
    wanted = values_of(pair.source)
    log = pair.promote()
    assert log.folder == tmp_path / "b" / "t-0" and not (tmp_path / "a" / "t-0").exists()
    assert not [*tmp_path.glob("*/*-delete")]
    assert log.epochs.entries == [(0, 20), (6, 31)] and values_of(log) == wanted
    again = LiveLog(log.folder, settings=SETTINGS)
    assert again.producers.by_id[9].batches[-1].last_sequence == 41
    again.raise_start_offset(20)
    assert values_of(again) == wanted
    data = building.batch(31, [b"more"] * 3, epoch=6)
    log.append(data, scan_batches(data))
    log.truncate_to(25)
    log.close()
    assert {each.parent for each in tmp_path.rglob("*.log")} == {log.folder}


def test_a_broken_batch_is_not_copied(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    pair.append(3)
    copy = pair.begin()
    assert not copy.step()
    [segment] = (tmp_path / "a" / "t-0").glob("*.log")
    whole = segment.read_bytes()
    segment.write_bytes(whole[:-1] + b"?")
    assert not copy.step()
    with pytest.raises(StorageError, match="the batch at offset 2 is missing or corrupt"):
        copy.step()
    assert copy.lag == 1
    segment.write_bytes(whole)
    pair.catch_up()
    pair.check()


def test_whose_disk_it_is_that_fails(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    pair.append(30)
    copy = pair.begin()
    copy.step()
    [folder] = (tmp_path / "b").glob("*-future")
    folder.rename(tmp_path / "elsewhere")
    with pytest.raises(exception_of(Errors.KAFKA_STORAGE_ERROR)):
        while not copy.step():
            pass
    assert copy.at is pair.b
    (tmp_path / "elsewhere").rename(folder)
    copy = pair.begin()
    for path in (tmp_path / "a" / "t-0").glob("*.log"):
        path.unlink()
        path.mkdir()
    with pytest.raises(exception_of(Errors.KAFKA_STORAGE_ERROR)):
        while not copy.step():
            pass
    assert copy.at is pair.a


def test_two_future_logs_of_one_replica_in_a_directory(tmp_path: Path) -> None:
    """As Kafka refuses them (LogManager.loadLog): the operator is to delete one."""
    pair = Pair(tmp_path)
    pair.begin()
    [folder] = (tmp_path / "b").glob("*-future")
    (folder.parent / f"t-0.{'0' * 32}-future").mkdir()
    with pytest.raises(exception_of(Errors.KAFKA_STORAGE_ERROR), match="of the same replica: delete one"):
        directory(tmp_path / "b")


def test_in_zookeeper_mode_future_logs_are_left_alone(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    pair.append(2)
    pair.catch_up()
    found = LogDirectory(tmp_path / "b", SETTINGS).open()
    assert found.futures == {} and found.logs == {}
    assert [*(tmp_path / "b").glob("*-future")]


@pytest.mark.parametrize("seed", seeds(10, 30))
def test_whatever_happens_to_the_current_log_the_copy_becomes_the_same(tmp_path: Path, seed: int) -> None:
    dice, pair, epoch = Random(seed), Pair(tmp_path), 0
    pair.append(5)
    for _ in range(150):
        what = dice.randrange(10)
        start, end = pair.source.start_offset, pair.source.end_offset
        if what < 3:
            pair.append(dice.randint(1, 4), epoch=epoch, records=dice.randint(1, 3))
        elif what == 3 and end > start:
            pair.source.truncate_to(dice.randint(start, end))
            epoch += 1
        elif what == 4:
            epoch += 1
            pair.source.assign_epoch(epoch, end)
        elif what == 5:
            pair.source.raise_start_offset(dice.randint(start, max(start, end - 1)))
        elif what == 6 and dice.random() < 0.2:
            pair.source.truncate_fully_and_start_at(end + dice.randint(0, 5))
            epoch += 1
        elif what == 7 and dice.random() < 0.3:
            pair.reopen()
        else:
            copy = pair.copy or pair.begin()
            for _ in range(dice.randint(1, 5)):
                copy.step()
    pair.source.high_watermark = pair.source.end_offset
    pair.catch_up()
    pair.check()
    wanted, epochs = values_of(pair.source), EpochCache(pair.source.epochs.entries)
    log = pair.promote()
    assert values_of(log) == wanted
    assert log.epochs.entries == epochs.entries
    again = LiveLog(log.folder, settings=SETTINGS)
    again.raise_start_offset(log.start_offset)
    assert values_of(again) == wanted


def test_the_common_end_of_two_logs(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    pair.append(10)
    pair.append(10, epoch=2)
    future = pair.catch_up()
    assert common_end(pair.source, future) == 20
    pair.source.truncate_to(8)
    assert common_end(pair.source, future) == 8
    pair.append(4, epoch=3)
    assert common_end(pair.source, future) == 8
    future.truncate_fully_and_start_at(0)
    assert common_end(pair.source, future) == -1
