"""A log that is appended to, read and cut at once, over crashes, kills and disks that are full."""

import os
import random
import resource
import signal
import subprocess
import sys
import textwrap
from collections import OrderedDict
from pathlib import Path
from random import Random

import pytest

from kcore.broker.replicas.appending import append_as_follower
from kcore.protocol_errors import Errors, exception_of
from kcore.storage.checkpoints import TopicPartition, read_leader_epochs
from kcore.storage.log import live_segment
from kcore.storage.log.live_log import LiveLog, Settings
from kcore.storage.log.live_segment import LiveSegment
from kcore.storage.log.log_directory import LogDirectory
from kcore.storage.log.partition_folder import Log
from kcore.types import Uuid
from kcore.wire.record_batch import crc32c, scan_batches
from kcore.wire.record_building import encode_records
from kcore.wire.records import Record
from storage import building

SMALL = Settings(segment_bytes=1500, index_interval_bytes=200)
STORAGE_ERROR = exception_of(Errors.KAFKA_STORAGE_ERROR)
END = 2**62


def append(log: LiveLog, *batches: bytes) -> None:
    data = b"".join(batches)
    log.append(data, scan_batches(data))


def filled(folder: Path, count: int = 50) -> tuple[LiveLog, list[bytes]]:
    """Batches of one record each, in many segments; epoch 3 from offset 20 on."""
    log = LiveLog(folder, settings=SMALL)
    batches = [*building.batches(20), *building.batches(count - 20, first=20, epoch=3)]
    for each in batches:
        append(log, each)
    return log, batches


def read_all(log: LiveLog, offset: int = 0, most: int = 400) -> bytes:
    """Read after read, as a follower would."""
    data = b""
    while piece := log.read(offset, most, END, at_least_one=True):
        data += piece
        offset = int(scan_batches(piece).last_offset[-1]) + 1
    return data


def test_what_is_appended_is_read_from_any_offset(tmp_path: Path) -> None:
    log, batches = filled(tmp_path / "t-0")
    assert (log.start_offset, log.end_offset) == (0, 50)
    assert len([*(tmp_path / "t-0").glob("*.log")]) > 3
    for offset in range(50):
        assert read_all(log, offset) == b"".join(batches[offset:])
    assert log.read(50, 1000, END, at_least_one=True) == b""
    assert log.epochs.entries == [(0, 0), (3, 20)]
    log.close()
    with Log(tmp_path / "t-0") as closed:
        assert closed.problems == [] and closed.end_offset == 50


def test_bounds_of_a_read(tmp_path: Path) -> None:
    log, batches = filled(tmp_path / "t-0")
    size = len(batches[0])
    assert log.read(3, 2 * size, END, at_least_one=True) == b"".join(batches[3:5])
    assert log.read(3, 3 * size - 1, END, at_least_one=True) == b"".join(batches[3:5])
    assert log.read(3, 10_000, 5, at_least_one=True) == b"".join(batches[3:5])
    assert log.read(3, 10_000, 3, at_least_one=True) == b""
    assert log.read(3, size - 1, END, at_least_one=True) == batches[3]
    assert log.read(3, size - 1, END, at_least_one=False) == b""
    assert log.read(3, 0, END, at_least_one=True) == batches[3]


def test_a_batch_is_found_by_any_of_its_offsets(tmp_path: Path) -> None:
    log = LiveLog(tmp_path / "t-0", settings=SMALL)
    first, large = building.batch(0, [b"a"] * 5), building.batch(5, [b"b" * 90_000] * 2)
    append(log, first)
    append(log, large)
    append(log, building.batch(7))
    for offset in range(5):
        assert log.read(offset, 10, END, at_least_one=True) == first
    assert log.read(6, 10, END, at_least_one=True) == large
    assert log.read(6, 10, 6, at_least_one=True) == b"", "its end is not to be read yet"


@pytest.mark.parametrize("offset", [0, 1, 19, 20, 21, 37, 49])
def test_truncation(tmp_path: Path, offset: int) -> None:
    log, batches = filled(tmp_path / "t-0")
    log.high_watermark = 30
    log.truncate_to(offset)
    assert (log.end_offset, log.high_watermark) == (offset, min(offset, 30))
    assert read_all(log) == b"".join(batches[:offset])
    entries = [entry for entry in [(0, 0), (3, 20)] if entry[1] < offset]
    assert log.epochs.entries == entries
    assert read_leader_epochs(tmp_path / "t-0" / "leader-epoch-checkpoint") == entries
    later = building.batches(5, first=offset, epoch=4)
    for each in later:
        append(log, each)
    assert read_all(log) == b"".join([*batches[:offset], *later])
    log.close()
    with Log(tmp_path / "t-0") as closed:
        assert closed.problems == [] and closed.end_offset == offset + 5


def test_truncation_beyond_the_end_forgets_an_epoch_without_records(tmp_path: Path) -> None:
    log, _ = filled(tmp_path / "t-0")
    log.assign_epoch(9, 50)
    log.truncate_to(60)
    assert log.epochs.entries == [(0, 0), (3, 20)]
    assert log.end_offset == 50


def test_truncation_below_where_the_log_starts_takes_the_start_with_it(tmp_path: Path) -> None:
    """UnifiedLog.truncateTo: the leader has deleted records that this one cuts, and is another one now."""
    log, _ = filled(tmp_path / "t-0")
    log.raise_start_offset(33)
    log.truncate_to(21)
    assert (log.start_offset, log.high_watermark, log.end_offset) == (21, 21, 21)


@pytest.mark.parametrize("high_watermark", [0, 7, 23, 50])
def test_old_segments_go_when_they_are_committed(tmp_path: Path, high_watermark: int) -> None:
    """Whole segments, from the first one on; nothing that followers may lack. A new one takes the last one's place."""
    log, batches = filled(tmp_path / "t-0")
    bases = sorted(int(path.stem) for path in (tmp_path / "t-0").glob("*.log"))
    log.high_watermark = high_watermark
    old_ms = building.TIME_MS + bases[3]  # The records of the first three segments are older.
    assert not log.delete_old(building.TIME_MS, None) and not log.delete_old(None, log.size_bytes)
    wanted = max(base for base in bases[:4] if base <= high_watermark)
    assert log.delete_old(old_ms, None) is (wanted > 0)
    assert log.start_offset == wanted
    log.delete_old(None, len(b"".join(batches[bases[-2] :])))
    by_size = max(base for base in bases[:-1] if base <= high_watermark)
    assert log.start_offset == by_size and log.high_watermark >= log.start_offset
    log.delete_old(END, 0)
    assert log.start_offset == max(base for base in [*bases, 50] if base <= high_watermark)
    assert read_all(log, log.start_offset) == b"".join(batches[log.start_offset :])
    log.close()


def test_a_follower_deletes_the_last_old_segment_whose_end_is_the_leader_s_start(tmp_path: Path) -> None:
    """The leader's start offset may arrive before the follower's own check of retention."""
    folder = tmp_path / "t-0"
    log, _ = filled(folder)
    log.high_watermark = 50
    log.raise_start_offset(50)
    assert len([*folder.glob("*.log")]) == 1
    assert log.delete_old(END, None) and not log.delete_old(END, None)
    assert [path.name for path in folder.glob("*.log")] == [f"{50:020}.log"]
    assert (log.start_offset, log.end_offset) == (50, 50)
    log.close()


def test_the_last_segment_goes_too(tmp_path: Path) -> None:
    """An empty one is left, with the log's end, its epoch and its producers, and is not made again and again."""
    folder = tmp_path / "t-0"
    log, _ = filled(folder)
    append(log, building.batch(50, epoch=3, producer=(7, 0, 0)))
    log.high_watermark = 51
    assert log.delete_old(END, None) and not log.delete_old(END, None) and not log.delete_old(None, 0)
    assert [path.name for path in folder.glob("*.log")] == [f"{51:020}.log"]
    assert (log.start_offset, log.end_offset, log.epochs.entries) == (51, 51, [(3, 51)])
    log.abandon()
    with LiveLog(folder, settings=SMALL) as again:
        assert (again.start_offset, again.end_offset, [*again.producers.by_id]) == (51, 51, [7])
        append(again, building.batch(51, epoch=3, producer=(7, 0, 1)))
        assert read_all(again, 51) and len([*folder.glob("*.log")]) == 1


@pytest.mark.parametrize("segment_ms", [None, 9, 10])
def test_segments_roll_by_the_time_of_their_first_batch(tmp_path: Path, segment_ms: int | None) -> None:
    """Against the largest time of what is appended, as Kafka's; also after the log was opened again."""
    folder, settings = tmp_path / "t-0", Settings(segment_ms=segment_ms)
    with LiveLog(folder, settings=settings) as log:
        append(log, building.batch(0, time_ms=1_000))
        append(log, building.batch(1, time_ms=5_00), building.batch(2, time_ms=1_010))
        assert len(log._log.segments) == (2 if segment_ms == 9 else 1)
    with LiveLog(folder, settings=settings) as log:
        append(log, building.batch(3, time_ms=1_011))
        assert len(log._log.segments) == {None: 1, 9: 3, 10: 2}[segment_ms]
        log.set_segment_ms(None)
        append(log, building.batch(4, time_ms=9_000))
        assert len(log._log.segments) == {None: 1, 9: 3, 10: 2}[segment_ms]
    assert (
        sorted(int(path.stem) for path in folder.glob("*.snapshot"))
        == {
            None: [3, 5],
            9: [1, 3, 5],
            10: [3, 5],
        }[segment_ms]
    )


def test_a_segment_without_times_does_not_roll_by_time(tmp_path: Path) -> None:
    with LiveLog(tmp_path / "t-0", settings=Settings(segment_ms=1)) as log:
        append(log, building.batch(0, time_ms=-1))
        append(log, building.batch(1, time_ms=9_000))
        assert len(log._log.segments) == 1


def test_what_is_refused_begins_no_segment(tmp_path: Path) -> None:
    with LiveLog(tmp_path / "t-0", settings=Settings(segment_ms=1)) as log:
        append(log, building.batch(0, epoch=2))
        with pytest.raises(STORAGE_ERROR):
            append(log, building.batch(0, time_ms=END))
        assert len([*(tmp_path / "t-0").glob("*.log")]) == 1


def test_starting_anew(tmp_path: Path) -> None:
    log, _ = filled(tmp_path / "t-0")
    log.truncate_fully_and_start_at(1000)
    assert (log.start_offset, log.end_offset, log.high_watermark) == (1000, 1000, 1000)
    assert log.epochs.entries == []
    append(log, building.batch(1000, epoch=5))
    log.close()
    with LiveLog(tmp_path / "t-0", settings=SMALL) as again:
        assert (again.start_offset, again.end_offset) == (1000, 1001)


def test_a_log_that_starts_in_the_middle_of_a_batch(tmp_path: Path) -> None:
    """As a follower takes it from a leader whose first records were deleted; the start outlives a restart."""
    directory = LogDirectory(tmp_path, SMALL).open()
    log = directory.create(TopicPartition("t", 0))
    log.truncate_fully_and_start_at(1001)
    data = building.batch(1000, [b"a", b"b", b"c"], epoch=5)
    assert append_as_follower(log, data) == len(data)
    assert (log.start_offset, log.high_watermark, log.end_offset) == (1001, 1001, 1003)
    assert log.epochs.entries == [(5, 1001)] and read_all(log, 1001) == data
    directory.checkpoint()
    directory.close()
    again = LogDirectory(tmp_path, SMALL).open()
    log = again.logs[TopicPartition("t", 0)]
    assert (log.start_offset, log.end_offset, read_all(log, 1001)) == (1001, 1003, data)
    again.close()


def test_timestamps(tmp_path: Path) -> None:
    log, _ = filled(tmp_path / "t-0")
    found = log.find_timestamp(building.TIME_MS + 30)
    assert found is not None and found == (building.TIME_MS + 30, 30, 3)
    assert log.find_timestamp(building.TIME_MS + 50) is None
    assert log.find_latest_timestamp() == (building.TIME_MS + 49, 49, 3)
    log.raise_start_offset(33)
    assert log.find_timestamp(building.TIME_MS + 30) == (building.TIME_MS + 33, 33, 3)


def test_a_time_is_searched_in_a_batch_that_cannot_be_decoded(tmp_path: Path) -> None:
    """Kafka does not compare a compressed record's length with its fields, so that a leader takes such a batch."""
    log, _ = filled(tmp_path / "t-0")
    rows = [Record(50, building.TIME_MS + 99, b"k", b"v")]
    data = bytearray(encode_records(rows, codec="zstd", partition_leader_epoch=3))
    at = data.index(b"\x02k\x02v") - 4
    data[at] += 2  # The length of the record, which zstd holds as it is.
    data[17:21] = crc32c(bytes(data[21:])).to_bytes(4, "big")
    append(log, bytes(data))
    assert log.end_offset == 51
    assert log.find_timestamp(building.TIME_MS + 98) == (building.TIME_MS + 99, 50, 3)
    assert log.find_timestamp(building.TIME_MS + 30) is not None


def test_a_time_is_searched_in_a_batch_whose_records_are_none(tmp_path: Path) -> None:
    """Only a follower takes such a batch: it does not look at records."""
    log, _ = filled(tmp_path / "t-0")
    data = bytearray(
        encode_records([Record(50, building.TIME_MS + 99, b"k", b"v")], codec="zstd", partition_leader_epoch=3)
    )
    data[61:] = bytes(len(data) - 61)
    data[17:21] = crc32c(bytes(data[21:])).to_bytes(4, "big")
    append(log, bytes(data))
    with pytest.raises(exception_of(Errors.INVALID_RECORD)):
        log.find_timestamp(building.TIME_MS + 98)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_time_is_found_as_in_the_decoded_records(tmp_path: Path, codec: str) -> None:
    dice = Random(codec)
    times = [building.TIME_MS + dice.randrange(50) for _ in range(60)]
    data = bytes(encode_records([Record(k, time, b"k", b"v" * k) for k, time in enumerate(times)], codec=codec))
    log = LiveLog(tmp_path / "t-0")
    append(log, data)
    for time in range(building.TIME_MS - 1, building.TIME_MS + 52):
        offset = next((k for k, each in enumerate(times) if each >= time), None)
        expected = None if offset is None else (times[offset], offset, -1)
        assert log.find_timestamp(time) == expected


def test_a_batch_that_is_far_more_than_its_bytes_is_not_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A search by time in this batch yields its first record, so that the log decompresses few bytes."""
    monkeypatch.setattr(live_segment, "LEAST_DECOMPRESSED", 120_000)
    log, _ = filled(tmp_path / "t-0")
    rows = [Record(50 + k, building.TIME_MS + 100 + k, None, bytes(50_000)) for k in range(5)]
    append(log, bytes(encode_records(rows, codec="gzip", partition_leader_epoch=3)))
    assert log.find_timestamp(building.TIME_MS + 101) == (building.TIME_MS + 101, 51, 3)
    assert log.find_timestamp(building.TIME_MS + 104) == (building.TIME_MS + 104, 50, 3)
    log.raise_start_offset(52)
    assert log.find_timestamp(building.TIME_MS + 104) == (building.TIME_MS + 104, 52, 3)
    rows = [Record(55 + k, building.TIME_MS + 200 + k, None, Random(k).randbytes(50_000)) for k in range(5)]
    append(log, bytes(encode_records(rows, codec="gzip", partition_leader_epoch=3)))
    assert log.find_timestamp(building.TIME_MS + 204) == (building.TIME_MS + 204, 59, 3), "it has as many bytes"


def test_so_many_segments_are_open_for_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients may read any segment: descriptors must be left for the log that is written."""
    monkeypatch.setattr(live_segment, "MOST_OPEN", 4)
    monkeypatch.setattr(live_segment, "_OPEN", OrderedDict[LiveSegment, None]())  # Without those of other tests.
    before = len(os.listdir("/proc/self/fd"))
    with LiveLog(tmp_path / "t-0", settings=Settings(segment_bytes=100)) as log:
        data = [building.batch(k, [bytes(50)]) for k in range(20)]
        for each in data:
            append(log, each)
        assert len(log._log.segments) == 20
        for _ in range(2):
            assert [log.read(k, 1, 20, at_least_one=True) for k in range(20)] == data
        for k in (0, 1, 2, 0, 3, 4):
            log.read(k, 1, 20, at_least_one=True)
        assert log._log.segments[0]._file >= 0 > log._log.segments[1]._file, "the one that was read longest ago goes"
        assert len(live_segment._OPEN) == 4
        assert len(os.listdir("/proc/self/fd")) <= before + 4 + 1, "the segment that is written to is the last one"


def test_segments_have_a_share_of_the_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (800, 1_000))
    assert live_segment.most_open() == 100


@pytest.mark.parametrize("lost", [1, 30, 100])
def test_a_torn_end_is_cut_off(tmp_path: Path, lost: int) -> None:
    log, batches = filled(tmp_path / "t-0")
    log.abandon()
    last = max((tmp_path / "t-0").glob("*.log"))
    if last.stat().st_size < lost:
        pytest.fail("the last segment is too small for this")
    with last.open("r+b") as file:
        file.truncate(last.stat().st_size - lost)
    with LiveLog(tmp_path / "t-0", settings=SMALL) as again:
        assert again.end_offset == 49
        append(again, batches[49])
        assert read_all(again) == b"".join(batches)


KILLED = """
import sys
from pathlib import Path
from storage import building
from kcore.storage.log.live_log import LiveLog, Settings
from kcore.wire.record_batch import scan_batches

log = LiveLog(Path(sys.argv[1]), settings=Settings(1500, 200))
if log.end_offset > 10:
    log.truncate_to(log.end_offset - 3)
print("from", log.end_offset, flush=True)
while True:
    data = building.batch(log.end_offset, [b"%d" % log.end_offset * 20] * 2, epoch=0)
    log.append(data, scan_batches(data))
    print(log.end_offset, flush=True)
"""


def test_kill_9_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    seed = random.Random(6)
    folder = tmp_path / "t-0"
    acknowledged = 0
    for _ in range(8):
        command = [sys.executable, "-c", textwrap.dedent(KILLED), str(folder)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[1])
        assert process.stdout is not None
        begin = process.stdout.readline()
        assert int(begin.split()[1]) == max(acknowledged - 3, 0) // 2 * 2 or acknowledged <= 10
        for _ in range(seed.randrange(1, 60)):
            acknowledged = int(process.stdout.readline())
        process.send_signal(signal.SIGKILL)
        for line in process.stdout.read().split():
            acknowledged = int(line)
        process.wait()
        with LiveLog(folder, settings=SMALL) as log:
            assert log.end_offset >= acknowledged
            acknowledged = log.end_offset
            batches = scan_batches(read_all(log))
            assert batches.crc_matches.all()
            assert [*batches.base_offset] == [*range(0, acknowledged, 2)]


FULL = """
import resource, sys
from pathlib import Path
from storage import building
from kcore.broker.replicas.appending import append_as_follower
from kcore.protocol_errors import KafkaStorageException
from kcore.storage.log.live_log import LiveLog
from kcore.wire.record_batch import scan_batches

log = LiveLog(Path(sys.argv[1]))
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    while True:
        data = building.batch(log.end_offset)
        log.append(data, scan_batches(data))
        print(log.end_offset, flush=True)
except KafkaStorageException as error:
    print("failed", flush=True)
    log.abandon()
"""


def test_a_disk_that_takes_no_more(tmp_path: Path) -> None:
    """A half-written batch that the full disk refused is removed; earlier batches stay."""
    command = [sys.executable, "-c", textwrap.dedent(FULL), str(tmp_path / "t-0")]
    said = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[1], check=True).stdout
    *acknowledged, failed = said.split()
    assert failed == "failed" and len(acknowledged) == 1000 // len(building.batch(0))
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 1000
    with Log(tmp_path / "t-0") as log:
        assert log.problems == [] and log.end_offset == len(acknowledged)


def test_producers_outlive_the_process_and_a_truncation(tmp_path: Path) -> None:
    log = LiveLog(tmp_path / "t-0", settings=SMALL)
    for sequence in range(40):
        append(log, building.batch(sequence, producer=(7, 0, sequence)))
    assert [each.last_sequence for each in log.producers.by_id[7].batches] == [35, 36, 37, 38, 39]
    log.truncate_to(30)
    assert log.producers.by_id[7].batches[-1].last_sequence == 29
    log.abandon()
    again = LiveLog(tmp_path / "t-0", settings=SMALL)
    assert again.producers.by_id[7].batches[-1].last_offset == 29
    again.close()
    with LiveLog(tmp_path / "t-0", settings=SMALL) as closed:
        assert [*closed.producers.by_id[7].batches] == [(29, 29, 29, 29, building.TIME_MS)]


def test_a_snapshot_of_what_was_cut_off_is_not_believed(tmp_path: Path) -> None:
    with LiveLog(tmp_path / "t-0") as log:
        append(log, building.batch(0, producer=(7, 0, 0)), building.batch(1, producer=(7, 0, 1)))
    path = tmp_path / "t-0" / f"{0:020}.log"
    path.write_bytes(path.read_bytes()[:-5])
    with LiveLog(tmp_path / "t-0") as log:
        assert log.producers.by_id[7].batches[-1].last_sequence == 0
        append(log, building.batch(1, producer=(8, 0, 0)))
        log.abandon()
    with LiveLog(tmp_path / "t-0") as log:
        assert log.producers.by_id[7].batches[-1].last_sequence == 0
        assert log.producers.by_id[8].batches[-1].last_sequence == 0


@pytest.mark.covers("article startReplica 1", "article startReplica 2", "article stopReplica 2.2")
@pytest.mark.covers("article stopReplica 2.3")
def test_a_directory(tmp_path: Path) -> None:
    key, gone, topic_id = TopicPartition("t", 0), TopicPartition("u", 3), Uuid(b"t" * 16)
    directory = LogDirectory(tmp_path / "logs").open()
    directory.claim(1, "cluster")
    append(directory.create(key), *building.batches(5))
    directory.assign_topic_id(key, topic_id)
    directory.create(key).high_watermark = 4
    directory.create(gone)
    directory.delete(gone)
    directory.close()
    again = LogDirectory(tmp_path / "logs").open()
    again.claim(1, "cluster")
    assert [*again.logs] == [key] and again.topic_id(key) == topic_id
    assert (again.logs[key].high_watermark, again.logs[key].end_offset) == (4, 5)
    assert sorted(path.name for path in (tmp_path / "logs").iterdir() if path.is_dir()) == ["t-0"]
    for other in [(2, "cluster"), (1, "another")]:
        with pytest.raises(ValueError, match=r"broker\.id is 1, not 2|cluster\.id is cluster, not another"):
            again.claim(*other)
    assert again.fail("the disk is gone") == [key]
    again.close()


def test_a_high_watermark_beyond_a_torn_end_is_lowered(tmp_path: Path) -> None:
    key = TopicPartition("t", 0)
    directory = LogDirectory(tmp_path).open()
    append(directory.create(key), *building.batches(5))
    directory.create(key).high_watermark = 5
    directory.close()
    path = tmp_path / "t-0" / f"{0:020}.log"
    path.write_bytes(path.read_bytes()[:-1])
    again = LogDirectory(tmp_path).open()
    assert (again.logs[key].high_watermark, again.logs[key].end_offset) == (4, 4)
    again.close()


def test_a_disk_that_fails_is_kafkas_storage_error(tmp_path: Path) -> None:
    (tmp_path / "t-0").write_bytes(b"no folder")
    with pytest.raises(STORAGE_ERROR):
        LiveLog(tmp_path / "t-0")
