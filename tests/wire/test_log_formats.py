"""Logs with batches of every magic: one row for each batch and message, in any part of the log."""

from dataclasses import replace

import pytest

from kcore.errors import DecodeError
from kcore.wire.log_formats import decode_run, runs_of, scan_log
from kcore.wire.record_batch import RecordBatches, scan_batches
from kcore.wire.records import Record
from storage.building import batch
from storage.samples import OLD_FORMATS
from wire.test_message_sets import message

OLD = [message(at, b"v", magic=at % 2) for at in range(4)]
NEW = [batch(at) for at in range(10, 14)]


def newer(magic: int = 3) -> bytes:
    made = bytearray(batch(20))
    made[16] = magic
    return bytes(made)


MIXED = [OLD[0], NEW[0], NEW[1], OLD[1], OLD[2], NEW[2], OLD[3]]
DATA = b"".join(MIXED)


def records_of(data: bytes, batches: RecordBatches, most_bytes: int = 1 << 30) -> list[Record]:
    return [record for run in runs_of(batches, most_bytes) for record in decode_run(data, run)]


def test_each_batch_and_message_is_a_row() -> None:
    found = scan_log(DATA)
    assert found.base_offset.tolist() == [0, 10, 11, 1, 2, 12, 3] and found.magic.tolist() == [0, 2, 2, 1, 0, 2, 1]
    assert found.size.tolist() == [len(each) for each in MIXED] and found.crc_matches.all()
    assert (found.end, found.problem, found.skipped) == (len(DATA), None, ())
    for most_bytes in (1, 100, 1 << 20):
        assert [each.offset for each in records_of(DATA, found, most_bytes)] == [0, 10, 11, 1, 2, 12, 3]


def test_a_log_of_magic_2_is_scanned_as_before() -> None:
    data = b"".join(NEW)
    for bytes_ in (data, data[:-1], data + newer(), b""):
        assert scan_log(bytes_, stop=True) == scan_batches(bytes_, stop=True)


def test_start_and_limit() -> None:
    whole = scan_log(DATA)
    ends = [*whole.position.tolist()[1:], len(DATA)]
    for first in range(len(MIXED)):
        for count in range(len(MIXED) - first + 1):
            end = ends[first + count - 1] if count else int(whole.position[first])
            part = scan_log(DATA, start=int(whole.position[first]), limit=count)
            assert part == replace(whole.take(slice(first, first + count)), end=end), (first, count)


def test_a_torn_end_and_other_bytes() -> None:
    for cut in range(1, len(DATA)):
        found = scan_log(DATA[:cut], stop=True)
        whole = sum(end <= cut for end in [sum(map(len, MIXED[: at + 1])) for at in range(len(MIXED))])
        assert len(found) == whole and found.end == sum(map(len, MIXED[:whole]))
        assert (found.problem is None) == (found.end == cut)
        if found.problem:
            assert found.problem.message == "a torn record batch"
    with pytest.raises(DecodeError, match="magic is not 2"):
        scan_log(DATA + bytes(50))


def test_batches_of_an_unknown_magic_are_skipped() -> None:
    data = b"".join((OLD[0], newer(), newer(255), OLD[1], NEW[0], newer()))
    with pytest.raises(DecodeError, match="magic is not 2"):
        scan_log(data)
    found = scan_log(data, skip=True)
    assert found.base_offset.tolist() == [0, 1, 10] and found.end == len(data)
    places = [len(OLD[0]), len(OLD[0]) + len(newer()), len(data) - len(newer())]
    assert [each.offset - 16 for each in found.skipped] == places
    torn = scan_log(data[:-1], skip=True, stop=True)
    assert torn.problem and torn.end == places[2] and len(torn.skipped) == 2


@pytest.mark.recorded
def test_the_recorded_segment() -> None:
    data = (OLD_FORMATS / "orders-0" / f"{100:020}.log").read_bytes()
    batches = scan_log(data)
    assert batches.magic.tolist() == [0] * 7 + [1] * 8 + [2] and batches.crc_matches.all()
    offsets = [each.offset for each in records_of(data, batches)]
    assert offsets == sorted(set(offsets)) and len(offsets) == 32
