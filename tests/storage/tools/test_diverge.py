"""Where two replicas differ: every change is found at its offset, however the segments are cut."""

import gzip
import struct
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from kcore.errors import StorageError
from kcore.replication.epochs import EpochCache
from kcore.storage.checkpoints import TopicPartition
from kcore.storage.log.log_writer import LogWriter, write_indexes
from kcore.storage.tools.diverge import READS, Divergence, diverge, epochs_part
from kcore.storage.tools.diverge_dirs import diverge_log_dirs, partitions_in
from kcore.wire.log_formats import decode_run, scan_log
from kcore.wire.record_building import encode_records
from kcore.wire.records import decode_records
from seeds import seeds
from storage.building import batch, batches, write_log
from storage.samples import KRAFT43, METADATA_43, OLD_FORMATS
from wire.test_message_sets import GZIP, message

COUNT = 60


def cut(made: list[bytes], random: Random, first: int = 0) -> dict[int, bytes]:
    """The batches as segments, cut anywhere between them."""
    cuts = sorted(random.sample(range(1, len(made)), random.randrange(4)))
    return {first + begin: b"".join(made[begin:end]) for begin, end in pairwise([0, *cuts, len(made)])}


def replica(folder: Path, made: list[bytes], random: Random, indexed: bool, first: int = 0) -> Path:
    write_log(folder, cut(made, random, first))
    if indexed:
        for path in sorted(folder.iterdir()):
            write_indexes(path, 300)
    return folder


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("seed", seeds(6, 12))
def test_equal_replicas_however_cut(seed: int, read: str, tmp_path: Path):
    random = Random(seed)
    folders = [replica(tmp_path / name, batches(COUNT), random, indexed=seed % 2 == 0) for name in "ab"]
    found = diverge(*folders, read=read)
    assert (found.offset, found.reason, found.detail, found.places) == (None, "same", "", None)
    sizes = sum(path.stat().st_size for folder in folders for path in folder.glob("*.log"))
    assert found.bytes_read >= sizes if read == "bytes" else found.bytes_read > 0


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("seed", seeds(12, 30))
def test_one_batch_differs(seed: int, read: str, tmp_path: Path):
    random = Random(seed)
    made, at = batches(COUNT), random.randrange(COUNT)
    other = [*made]
    other[at] = batch(at, [random.choice([b"x", b"other".ljust(len(made[at]) - 70, b"!")])])
    sides = [made, other] if random.random() < 0.5 else [other, made]
    folders = [
        replica(tmp_path / name, side, random, indexed=seed % 2 == 0) for name, side in zip("ab", sides, strict=True)
    ]
    found = diverge(*folders, read=read)
    assert (found.offset, found.reason) == (at, "batch")
    assert found.places is not None
    for place, side in zip(found.places, sides, strict=True):
        assert place.path.read_bytes()[place.position :].startswith(side[at])


@pytest.mark.parametrize("seed", range(20))
def test_one_byte_differs_anywhere(seed: int, tmp_path: Path):
    random = Random(seed)
    made = batches(COUNT)
    data = bytearray(b"".join(made))
    where = random.randrange(len(data))
    data[where] ^= 1 << random.randrange(8)
    a = replica(tmp_path / "a", made, random, indexed=seed % 2 == 0)
    b = write_log(tmp_path / "b", {0: bytes(data)})
    begins = [sum(map(len, made[:k])) for k in range(COUNT + 1)]
    at = next(k for k in range(COUNT) if begins[k] <= where < begins[k + 1])
    found = diverge(a, b)
    assert found.reason in ("batch", "end")
    if where - begins[at] >= 8:  # Otherwise the base offset differs.
        assert found.offset == at
        # The leader epoch alone is not under the CRC; a broken length or magic makes it no batch at all.
        if not 12 <= where - begins[at] < 16:
            assert "second" in found.detail


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("kept", [1, 30, 59])
def test_one_log_ends_first(kept: int, read: str, tmp_path: Path):
    whole = replica(tmp_path / "a", batches(COUNT), Random(kept), indexed=True)
    short = replica(tmp_path / "b", [*batches(kept), b""], Random(kept), indexed=False)
    found = diverge(whole, short, read=read)
    assert (found.offset, found.reason, found.detail) == (kept, "end", "the second log ends first")
    assert diverge(short, whole, read=read).detail == "the first log ends first"


def test_a_segment_of_no_offset(tmp_path: Path):
    folders = [write_log(tmp_path / name, {0: batch(0), 10**20 - 1: b""}) for name in "ab"]
    with pytest.raises(StorageError, match="not named as a segment"):
        diverge(*folders)


@pytest.mark.parametrize("read", ["bytes", "headers"])
def test_a_torn_tail_is_no_record(read: str, tmp_path: Path):
    made = batches(10)
    whole = write_log(tmp_path / "a", {0: b"".join(made)})
    torn = write_log(tmp_path / "b", {0: b"".join(made)[:-20]})
    also_torn = write_log(tmp_path / "c", {0: b"".join(made)[:-30]})
    found = diverge(whole, torn, read=read)
    assert (found.offset, found.reason) == (9, "end")
    assert found.detail == f"the second log ends first; the second log has {len(made[9]) - 20} bytes that are no batch"
    both = diverge(torn, also_torn, read=read)
    assert (both.offset, both.reason) == (None, "same")
    assert "the first log has" in both.detail and "the second log has" in both.detail


@pytest.mark.parametrize("indexed", [True, False])
@pytest.mark.parametrize("first", [1, 17, 59])
def test_replicas_are_compared_from_where_both_begin(first: int, indexed: bool, tmp_path: Path):
    made = batches(COUNT)
    a = replica(tmp_path / "a", made, Random(1), indexed)
    b = replica(tmp_path / "b", [*made[first:], b""], Random(2), indexed, first)
    assert diverge(a, b).reason == "same"
    changed = [*made[first:-1], batch(COUNT - 1, [b"new"])]
    c = replica(tmp_path / "c", [*changed, b""], Random(3), indexed, first)
    assert diverge(c, a).offset == COUNT - 1


def test_logs_that_never_met(tmp_path: Path):
    a = write_log(tmp_path / "a", {0: b"".join(batches(5))})
    b = write_log(tmp_path / "b", {9: batch(9)})
    assert (diverge(a, b).offset, diverge(a, b).reason) == (9, "end")


@pytest.mark.parametrize("read", ["bytes", "headers"])
def test_the_first_other_record_of_a_batch(read: str, tmp_path: Path):
    values = [b"a", b"b", b"c"]
    first = write_log(tmp_path / "a", {0: batch(0) + batch(1, values)})
    others = {
        "value": (batch(1, [b"a", b"x", b"c"]), 2),
        "shorter": (batch(1, values[:2]), 3),
        "longer": (batch(1, [*values, b"d"]), 4),
        "time": (batch(1, values, time_ms=5), 1),
        "key": (batch(1, values, key=b"k"), 1),
        "epoch": (batch(1, [b"a", b"b", b"x"], epoch=1), 1),
        "codec": (encode_records(decode_records(batch(1, values)), codec="gzip", partition_leader_epoch=0), 1),
    }
    for name, (other, offset) in others.items():
        second = write_log(tmp_path / name, {0: batch(0) + other})
        assert (diverge(first, second, read=read).offset, name) == (offset, name)
        assert (diverge(second, first, read=read).offset, name) == (offset, name)


def test_many_headers(tmp_path: Path):
    made = batches(40_000, size=1)
    other = [*made[:-3], batch(39_997, [b"!"]), *made[-2:]]
    a, b = (write_log(tmp_path / name, {0: b"".join(side)}) for name, side in (("a", made), ("b", other)))
    assert diverge(a, b, read="headers").offset == 39_997
    assert diverge(a, a, read="headers").reason == "same"


def test_a_base_offset_that_only_one_has(tmp_path: Path):
    a = write_log(tmp_path / "a", {0: batch(0) + batch(1) + batch(5)})
    b = write_log(tmp_path / "b", {0: batch(0) + batch(3) + batch(5)})
    found = diverge(a, b)
    assert (found.offset, found.reason, found.detail) == (1, "batch", "base offsets 1 and 3")


def test_empty_logs_are_the_same(tmp_path: Path):
    a, b = (write_log(tmp_path / name, {7: b""}) for name in "ab")
    assert diverge(a, b).reason == "same"


def test_bits_that_rotted_are_seen_in_bytes_alone(tmp_path: Path):
    made = batches(10)
    rotten = bytearray(made[4])
    rotten[-3] ^= 1
    a = write_log(tmp_path / "a", {0: b"".join(made)})
    b = write_log(tmp_path / "b", {0: b"".join([*made[:4], bytes(rotten), *made[5:]])})
    assert diverge(a, b, read="headers").reason == "same"
    found = diverge(a, b)
    assert (found.offset, found.reason, found.detail) == (4, "batch", "the second one's CRC does not match")


def test_each_way_reads_less_than_the_one_before(tmp_path: Path):
    made = [*batches(40, size=2000), *batches(20, first=40, size=2000, epoch=1)]
    other = [*made[:-1], batch(59, [b"late"], epoch=1)]
    epochs = [(0, 0), (1, 40)]
    a = write_log(tmp_path / "a", {0: b"".join(made)}, epochs)
    b = write_log(tmp_path / "b", {0: b"".join(other)}, epochs)
    write_indexes(a / f"{0:020}.log")
    write_indexes(b / f"{0:020}.log")
    found = [diverge(a, b, read=read) for read in READS]
    assert {each.offset for each in found} == {59}
    assert found[0].bytes_read > 2 * sum(map(len, made[:-1]))
    assert found[0].bytes_read > 5 * found[1].bytes_read > found[2].bytes_read


def test_epochs_that_part_tell_where(tmp_path: Path):
    common = batches(10)
    a = write_log(tmp_path / "a", {0: b"".join([*common, *batches(5, first=10, epoch=1)])}, [(0, 0), (1, 10)])
    b = write_log(
        tmp_path / "b",
        {0: b"".join([*common, *batches(3, first=10), *batches(5, first=13, epoch=2)])},
        [(0, 0), (2, 13)],
    )
    for read in READS:
        found = diverge(a, b, read=read)
        assert (found.offset, found.epoch_offset, found.reason) == (10, 10, "batch")


@pytest.mark.parametrize(
    ("a", "b", "start", "expected"),
    [
        ([(0, 0), (1, 5)], [(0, 0), (1, 5)], 0, None),
        ([(0, 0), (1, 5)], [(0, 0), (1, 6)], 0, 5),
        ([(0, 0), (1, 5)], [(0, 0)], 0, 5),
        ([(0, 0), (1, 5)], [(1, 5)], 5, None),
        ([(0, 0), (1, 5)], [(1, 7)], 7, None),
        ([(0, 0), (3, 5)], [(1, 7)], 7, 7),
        ([(0, 0), (1, 5), (2, 8)], [(0, 0), (2, 5), (3, 8)], 0, 5),
        ([], [(0, 0)], 0, None),
    ],
)
def test_where_epochs_part(a: list[tuple[int, int]], b: list[tuple[int, int]], start: int, expected: int | None):
    assert epochs_part(EpochCache(a), EpochCache(b), start) == expected
    assert epochs_part(EpochCache(b), EpochCache(a), start) == expected


@pytest.mark.parametrize("first", [0, 20])
def test_an_index_that_leads_astray_costs_time_alone(first: int, tmp_path: Path):
    made = batches(COUNT)
    a = replica(tmp_path / "a", made, Random(5), indexed=True)
    b = write_log(tmp_path / "b", {first: b"".join([*made[first:50], batch(50, [b"x"])])})
    for index in a.glob("*.index"):
        data = bytearray(index.read_bytes())
        data[7::8] = bytes(byte ^ 1 for byte in data[7::8])
        index.write_bytes(data)
    (b / f"{first:020}.index").write_bytes(b"no index")
    assert diverge(a, b).offset == 50


def test_what_is_no_replica(tmp_path: Path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(StorageError, match="no segment there"):
        diverge(tmp_path / "empty", METADATA_43)
    with pytest.raises(FileNotFoundError):
        diverge(tmp_path / "nowhere", METADATA_43)
    with pytest.raises(StorageError, match="is not one of bytes, headers, epochs"):
        diverge(METADATA_43, METADATA_43, read="all")


def test_real_folders(tmp_path: Path):
    assert diverge(METADATA_43, METADATA_43).reason == "same"
    assert partitions_in(KRAFT43 / "broker2-a") == {
        TopicPartition("jb", 1): KRAFT43 / "broker2-a" / "jb-1",
        TopicPartition("orders", 1): KRAFT43 / "broker2-a" / "orders-1",
        TopicPartition("orders", 2): KRAFT43 / "broker2-a" / "orders-2",
    }
    found = diverge_log_dirs(KRAFT43 / "broker2-a", KRAFT43 / "broker2-b")
    assert [str(partition) for partition in found] == ["jb-0", "jb-1", "jb-2", "orders-0", "orders-1", "orders-2"]
    assert {each.reason for each in found.values()} == {"missing"}


def test_whole_log_directories(tmp_path: Path):
    changed = {("t", 3): 1, ("u", 7): 0}
    for side in "ab":
        for topic in "tu":
            for partition in range(10):
                at = changed.get((topic, partition)) if side == "b" else None
                made = [batch(0), batch(1)] if at is None else [batch(k, [b"!" if k == at else b"v"]) for k in (0, 1)]
                with LogWriter(tmp_path / side / f"{topic}-{partition}") as writer:
                    writer.append(b"".join(made))
    write_log(tmp_path / "a" / "only-0", {5: batch(5)})
    found = diverge_log_dirs(tmp_path / "a", tmp_path / "b")
    assert list(found) == sorted(found) and len(found) == 21
    assert {key: each.offset for key, each in found.items() if each.reason == "batch"} == changed
    assert found[TopicPartition("only", 0)] == Divergence(5, "missing", "the second log directory lacks it")
    some = diverge_log_dirs(tmp_path / "a", tmp_path / "b", partitions=[TopicPartition("u", 7)])
    assert list(some.items()) == [(("u", 7), found[TopicPartition("u", 7)])]
    with pytest.raises(StorageError, match="neither log directory holds x-0"):
        diverge_log_dirs(tmp_path / "a", tmp_path / "b", partitions=[TopicPartition("x", 0)])


def old_log(end: int, changed: int | None = None) -> list[bytes]:
    """Messages of magic 0 and 1 up to offset `end`. Every third message is compressed and has three records.

    The record at `changed` has another value of the same length.
    """
    made: list[bytes] = []
    at = 0
    while at < end:
        magic, offsets = len(made) % 2, range(at, at + 3 if len(made) % 3 == 2 else at + 1)
        values = [b"changed" if offset == changed else b"value %d" % (offset % 10) for offset in offsets]
        if len(offsets) == 1:
            made.append(message(at, values[0], magic=magic))
        else:
            places = range(3) if magic else offsets  # Relative in magic 1.
            inner = b"".join(message(*each, magic=magic) for each in zip(places, values, strict=True))
            made.append(message(offsets[-1], gzip.compress(inner, mtime=0), magic=magic, codec=GZIP))
        at = offsets[-1] + 1
    return made


@pytest.mark.parametrize("read", READS)
def test_messages_of_magic_0_and_1_are_compared_record_by_record(read: str, tmp_path: Path) -> None:
    newer = batches(5, first=40)
    first = write_log(tmp_path / "a", cut([*old_log(40), *newer], Random(1)))
    assert diverge(first, write_log(tmp_path / "b", {0: b"".join([*old_log(40), *newer])}), read=read).reason == "same"
    for changed in range(20):
        made = [*old_log(40, changed), *newer]
        second = write_log(tmp_path / f"{changed}", cut(made, Random(changed)))
        for found in (diverge(first, second, read=read), diverge(second, first, read=read)):
            assert (found.offset, found.reason, found.detail) == (changed, "batch", "")


@pytest.mark.parametrize("read", READS)
def test_the_end_of_a_log_of_magic_0_and_1(read: str, tmp_path: Path) -> None:
    made = old_log(40)
    whole = write_log(tmp_path / "a", {0: b"".join(made)})
    kept = made[:8]  # The next message has the records of the offsets 12 to 14.
    found = diverge(whole, write_log(tmp_path / "b", {0: b"".join(kept)}), read=read)
    assert (found.offset, found.reason, found.detail) == (12, "end", "the second log ends first")
    torn = diverge(whole, write_log(tmp_path / "c", {0: b"".join(made[:9])[:-20]}), read=read)
    rest = len(made[8]) - 20
    assert (torn.offset, torn.detail) == (
        12,
        f"the second log ends first; the second log has {rest} bytes that are no batch",
    )


def test_compressed_messages_of_other_lengths_and_damaged_ones(tmp_path: Path) -> None:
    three, two = (
        old_log(5)[2],
        message(
            3, gzip.compress(message(2, b"value 2", magic=0) + message(3, b"value 3", magic=0)), magic=0, codec=GZIP
        ),
    )
    a, b = (write_log(tmp_path / name, {2: data}) for name, data in (("a", three), ("b", two)))
    found = diverge(a, b)
    assert (found.offset, found.reason, found.detail) == (4, "batch", "")
    assert diverge(b, a).offset == 4
    damaged = write_log(tmp_path / "c", {2: three[:-1] + b"!"})
    found = diverge(a, damaged)
    assert (found.offset, found.detail) == (2, "the second one's CRC does not match")
    other = write_log(tmp_path / "d", {2: batch(2, [b"value 2", b"value 3", b"value 4"])})
    assert (diverge(a, other).offset, diverge(a, other).reason) == (2, "batch")


def test_an_index_of_old_messages_is_used(tmp_path: Path) -> None:
    made, other = old_log(400), old_log(400, changed=390)
    a, b = (write_log(tmp_path / name, {0: b"".join(side)}) for name, side in (("a", made), ("b", other)))
    slow = diverge(a, b)
    place, entries = 0, b""
    for number, each in enumerate(made):
        if number % 8 == 0:
            entries += struct.pack(">ii", int.from_bytes(each[:8]), place)  # Its last offset, and its place.
        place += len(each)
    for folder in (a, b):
        (folder / f"{0:020}.index").write_bytes(entries)
    fast = diverge(a, b)
    assert (fast.offset, slow.offset) == (390, 390)
    assert fast.bytes_read - len(entries) < slow.bytes_read


def test_recorded_segments_of_old_formats(tmp_path: Path) -> None:
    [segment] = OLD_FORMATS.rglob("*.log")
    data = segment.read_bytes()
    base_offset, found = int(segment.stem), scan_log(data)
    a = write_log(tmp_path / "a", {base_offset: data})
    assert [diverge(a, a, read=read).reason for read in READS] == ["same"] * 3
    for row, position in enumerate(found.position.tolist()):
        b = write_log(tmp_path / f"{row}", {base_offset: data[:position]})
        first = decode_run(data, found.take(slice(row, row + 1))).batches.base_offset[0]
        assert (diverge(a, b).offset, diverge(a, b).reason) == (first, "end")


@pytest.mark.parametrize("read", READS)
def test_old_messages_are_compared_from_where_both_replicas_begin(read: str, tmp_path: Path) -> None:
    made = old_log(40)
    a = write_log(tmp_path / "a", {0: b"".join(made)})
    later = made[5:]  # From offset 7 on, where a compressed message begins.
    b = write_log(tmp_path / "b", {7: b"".join(later)})
    assert diverge(a, b, read=read).reason == diverge(b, a, read=read).reason == "same"
    c = write_log(tmp_path / "c", {7: b"".join(old_log(40, changed=9)[5:])})
    assert (diverge(a, c, read=read).offset, diverge(c, a, read=read).offset) == (9, 9)
