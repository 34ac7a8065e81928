"""One segment in use: what it remembers of its batches, and the bounds of its reads, cuts and searches."""

import resource
from pathlib import Path

import pytest

from kcore.broker.replicas.producers import Producers
from kcore.errors import StorageError
from kcore.raft.log.batches import split_batches
from kcore.storage.files import OsFileSystem
from kcore.storage.log import live_segment
from kcore.storage.log.live_log import LiveLog, Settings
from kcore.storage.log.live_segment import FEW_BYTES, LiveSegment
from kcore.wire.record_batch import NO_TIMESTAMP, RecordBatches, scan_batches
from storage import building

INTERVAL = 400  # Bytes: two batches, and a part of the third one.
END = 2**62
BATCHES = building.batches(12)


class Disk(OsFileSystem):
    """Notes the reads and the syncs."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[tuple[int, int]] = []
        self.syncs = 0

    def pread(self, file: int, size: int, position: int) -> bytes:
        self.reads.append((position, size))
        return super().pread(file, size, position)

    def fsync(self, file: int) -> None:
        self.syncs += 1
        super().fsync(file)


def segment_of(folder: Path, *batches: bytes, files: OsFileSystem | None = None) -> LiveSegment:
    path = folder / f"{0:020}.log"
    path.write_bytes(b"".join(batches))
    return LiveSegment(path, INTERVAL, files=files or OsFileSystem())


def read(segment: LiveSegment, offset: int, most: int, end: int = END, *, one: bool = True) -> bytes:
    return segment.read(offset, most, end, at_least_one=one)


@pytest.mark.parametrize("is_few", [False, True])
def test_a_segment_keeps_a_position_every_interval(tmp_path: Path, is_few: bool) -> None:
    """Batches that are scanned and batches that are written are remembered alike."""
    segment, position = segment_of(tmp_path), 0
    for batch in BATCHES:
        with segment.path.open("ab") as file:
            file.write(batch)
        if is_few:
            segment.wrote(split_batches(batch)[0], position)
        else:
            segment.appended(scan_batches(batch), position)
        position += len(batch)
    scanned = LiveSegment(segment.path, INTERVAL)
    assert scanned.end_offset == segment.end_offset == 12 and scanned.size == segment.size == position
    assert scanned._positions == segment._positions and scanned._offsets == segment._offsets
    gaps = [after - before for before, after in zip(segment._positions, segment._positions[1:], strict=False)]
    assert len(gaps) > 2 and all(INTERVAL < gap <= INTERVAL + len(BATCHES[-1]) for gap in gaps)


@pytest.mark.parametrize("is_few", [False, True])
def test_the_largest_timestamp_is_not_that_of_the_last_batch(tmp_path: Path, is_few: bool) -> None:
    early, late = building.batch(1, time_ms=5), building.batch(0, time_ms=9)
    segment = segment_of(tmp_path)
    for position, batch in ((0, late), (len(late), early)):
        with segment.path.open("ab") as file:
            file.write(batch)
        if is_few:
            segment.wrote(split_batches(batch)[0], position)
        else:
            segment.appended(scan_batches(batch), position)
    assert segment.max_timestamp == 9 and segment.first_timestamp == 9


@pytest.mark.parametrize("is_few", [False, True])
def test_batches_behind_an_unscanned_end_are_not_noted(tmp_path: Path, is_few: bool) -> None:
    segment = segment_of(tmp_path, *BATCHES)
    position = len(b"".join(BATCHES[:-1]))
    if is_few:
        segment.wrote(split_batches(BATCHES[-1])[0], position)
    else:
        segment.appended(scan_batches(BATCHES[-1]), position)
    assert segment._size < 0
    assert segment.position_of(0) == 0
    assert (segment.size, segment.end_offset) == (position + len(BATCHES[-1]), 12)


def test_an_empty_segment_has_no_first_timestamp(tmp_path: Path) -> None:
    segment = segment_of(tmp_path)
    assert (segment.first_timestamp, segment.max_timestamp, segment.size) == (NO_TIMESTAMP, NO_TIMESTAMP, 0)
    assert read(segment, 0, 1_000) == b"" and segment.position_of(0) == 0


def test_a_position_behind_the_last_record_is_the_end(tmp_path: Path) -> None:
    segment = segment_of(tmp_path, *BATCHES)
    ends = [len(b"".join(BATCHES[:count])) for count in range(13)]
    assert [segment.position_of(offset) for offset in range(14)] == [*ends, ends[-1]]


def test_a_cut_forgets_what_was_known(tmp_path: Path) -> None:
    """The positions, the ends of reads, and the timestamps; a cut of nothing changes no file."""
    disk = Disk()
    segment = segment_of(tmp_path, *BATCHES, files=disk)
    for offset in range(12):
        assert read(segment, offset, 1) == BATCHES[offset] and len(segment._read_to) == min(
            offset, live_segment.READERS
        )
        assert read(segment, offset, len(BATCHES[offset])) == BATCHES[offset]
    assert segment.first_timestamp == building.TIME_MS
    segment.cut(12)
    assert (disk.syncs, segment.size) == (0, len(b"".join(BATCHES)))
    segment.cut(7)
    assert disk.syncs == 1 and segment.path.stat().st_size == len(b"".join(BATCHES[:7]))
    assert (segment.end_offset, segment.max_timestamp) == (7, building.TIME_MS + 6)
    assert not segment._read_to and max(segment._positions) < segment.size
    assert all(read(segment, offset, 1) == BATCHES[offset] for offset in range(7))
    segment.cut(0)
    assert (segment.first_timestamp, segment.max_timestamp, segment._positions) == (NO_TIMESTAMP, NO_TIMESTAMP, [])


def test_reads_of_few_bytes_end_as_reads_of_many_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For each beginning, end and size; header by header and by columns."""
    size = len(BATCHES[0])
    limits = [0, 1, size - 1, size, size + 1, 2 * size, 3 * size - 1, 10 * size]
    cases = [(offset, most, end, one) for offset in range(13) for most in limits for end in range(14) for one in (0, 1)]
    segment = segment_of(tmp_path, *BATCHES)
    few = [segment.read(*case[:3], at_least_one=bool(case[3])) for case in cases]
    monkeypatch.setattr(live_segment, "FEW_BYTES", -1)
    assert few == [segment.read(*case[:3], at_least_one=bool(case[3])) for case in cases]
    for (offset, most, end, one), found in zip(cases, few, strict=True):
        count = max(min(most // size, min(end, 12) - offset), 0) if offset < 12 else 0
        count = max(count, 1) if one and offset < min(end, 12) else count
        whole = b"".join(BATCHES[offset : offset + count])
        assert found == whole, (offset, most, end, one)


def test_a_read_takes_one_read_of_the_file(tmp_path: Path) -> None:
    """A large read takes the wanted bytes and an interval; a small one takes a page, and goes header by header."""
    disk, large = Disk(), building.batches(12, size=FEW_BYTES)
    segment, size = segment_of(tmp_path, *large, files=disk), len(large[0])
    assert segment.end_offset == 12
    disk.reads.clear()
    assert read(segment, 3, 2 * size) == b"".join(large[3:5])
    assert disk.reads == [(3 * size, INTERVAL + 2 * size)]
    segment, size = segment_of(tmp_path, *building.batches(48), files=disk), len(BATCHES[0])
    assert segment.end_offset == 48
    disk.reads.clear()
    assert read(segment, 3, size) == BATCHES[3]
    assert disk.reads == [(3 * size, FEW_BYTES)]


def test_readers_of_few_batches_go_on_where_they_ended(tmp_path: Path) -> None:
    disk = Disk()
    segment = segment_of(tmp_path, *BATCHES, files=disk)
    ends = [len(b"".join(BATCHES[:count])) for count in range(13)]
    for offset in (4, 5, 6):
        read(segment, offset, len(BATCHES[offset]))
    assert [segment._entry_before(offset) for offset in (5, 6, 7)] == [ends[5], ends[6], ends[7]]
    assert segment._entry_before(4) <= ends[4]
    assert segment._entry_before(11) == max(each for each in (*segment._positions, ends[7]) if each <= ends[11])


@pytest.mark.parametrize("few_bytes", [FEW_BYTES, -1])
def test_a_read_begins_with_the_batch_that_reaches_its_offset(
    tmp_path: Path, few_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_segment, "FEW_BYTES", few_bytes)
    batches = [building.batch(first, [b"a", b"b", b"c"]) for first in range(0, 12, 3)]
    segment = segment_of(tmp_path, *batches)
    for offset in range(12):
        assert read(segment, offset, 10_000) == b"".join(batches[offset // 3 :])


@pytest.mark.parametrize("indexed", [False, True])
def test_trusted_indexes_spare_the_scan(tmp_path: Path, indexed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without one of the two indexes the whole segment is scanned."""
    with LiveLog(tmp_path / "t-0", settings=Settings(index_interval_bytes=INTERVAL)) as log:
        for offset in range(12):
            data = building.batch(offset, [bytes(100)], time_ms=9_000 if offset == 1 else offset)
            log.append(data, scan_batches(data))
    [path] = (tmp_path / "t-0").glob("*.log")
    starts: list[int] = []
    real = live_segment.scan_batches

    def noted(data: bytes, *, start: int = 0, check_crc: bool, stop: bool) -> RecordBatches:
        starts.append(start)
        return real(data, start=start, check_crc=check_crc, stop=stop)

    monkeypatch.setattr(live_segment, "scan_batches", noted)
    for is_there in (True, False):
        if not is_there:
            path.with_suffix(".timeindex").unlink()
        starts.clear()
        segment = LiveSegment(path, INTERVAL, indexed=indexed)
        assert (segment.end_offset, segment.max_timestamp) == (12, 9_000)
        assert [start > 0 for start in starts] == [indexed and is_there]


def test_bytes_that_are_no_batch_have_no_size(tmp_path: Path) -> None:
    segment = segment_of(tmp_path, *BATCHES)
    assert segment.size
    with pytest.raises(StorageError, match="no batch at position 7"):
        segment._size_of(bytes(12), 7)
    with pytest.raises(StorageError, match="reaches past the end"):
        segment._bytes(segment.size, 1)
    with segment.path.open("r+b") as file:
        file.seek(len(BATCHES[0]) + 8)
        file.write((48).to_bytes(4, "big"))  # One byte less than a header has behind its length.
    assert read(segment, 0, 10_000) == BATCHES[0]
    with pytest.raises(StorageError, match="no batch at position"):
        read(segment, 2, 1)


def test_a_replay_begins_at_its_offset(tmp_path: Path) -> None:
    batches = [building.batch(offset, producer=(offset, 0, 0)) for offset in range(4)]
    segment = segment_of(tmp_path, *batches)
    for begin in range(5):
        producers = Producers()
        assert segment.replay(begin, producers) == []
        assert sorted(producers.by_id) == [*range(begin, 4)]


def test_a_time_is_searched_only_where_it_may_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    segment = segment_of(tmp_path, *BATCHES)
    assert segment.max_timestamp == building.TIME_MS + 11
    found = segment.find_timestamp(building.TIME_MS + 11, 0)
    assert found == (building.TIME_MS + 11, 11, 0)
    assert segment.find_timestamp(building.TIME_MS, 5) == (building.TIME_MS + 5, 5, 0)

    def refuses(*_: object) -> None:
        raise AssertionError("the segment is read")

    monkeypatch.setattr(live_segment, "Segment", refuses)
    assert segment.find_timestamp(building.TIME_MS + 12, 0) is None
    assert segment.find_timestamp(NO_TIMESTAMP, 0) is None


def test_batches_before_the_log_start_are_not_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[bytes] = []
    real = live_segment._found_in

    def noted(batch: bytes, timestamp_ms: int, start_offset: int) -> object:
        looked_at.append(bytes(batch))
        return real(batch, timestamp_ms, start_offset)

    monkeypatch.setattr(live_segment, "_found_in", noted)
    segment = segment_of(tmp_path, *BATCHES)
    assert segment.find_timestamp(building.TIME_MS, 5) == (building.TIME_MS + 5, 5, 0)
    assert looked_at == [BATCHES[5]]


def test_a_batch_below_the_base_offset_is_damage(tmp_path: Path) -> None:
    path = tmp_path / f"{5:020}.log"
    path.write_bytes(b"".join(BATCHES[4:8]))
    segment = LiveSegment(path, INTERVAL)
    assert (segment.size, segment.end_offset, segment.damaged_at) == (0, 5, 0)


def test_a_batch_out_of_order_is_damage_and_of_two_copies_the_first_counts(tmp_path: Path) -> None:
    whole = len(b"".join(BATCHES[:3]))
    for order, count in (((0, 1, 2, 2, 3), 3), ((0, 1, 2, 1, 3), 2), ((0, 1, 3, 2), 2), ((0, 1, 2), 3)):
        segment = segment_of(tmp_path, *(BATCHES[each] for each in order))
        assert segment.end_offset == count, order
        assert segment.damaged_at == (-1 if order == (0, 1, 2) else len(b"".join(BATCHES[:count]))), order
    assert segment.size == whole


def test_only_files_of_the_real_file_system_count_as_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A simulated disk has no descriptors."""
    path = tmp_path / f"{0:020}.log"
    path.write_bytes(b"".join(BATCHES))
    real, other = LiveSegment(path, INTERVAL), LiveSegment(path, INTERVAL, files=Disk())
    for each in (real, other):
        assert read(each, 0, 1) == BATCHES[0]
    assert real in live_segment._OPEN and other not in live_segment._OPEN
    real.close()
    other.close()
    assert real not in live_segment._OPEN
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert live_segment.most_open() == live_segment.MOST_OPEN
    monkeypatch.setattr(resource, "getrlimit", lambda _: (10**9, 10**9))
    assert live_segment.most_open() == live_segment.MOST_OPEN
