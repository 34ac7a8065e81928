"""Record batches: Kafka's own bytes, the slow twins, and invalid bytes."""

import random
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cases
from kcore.errors import DecodeError
from kcore.wire.record_batch import BATCH_COLUMNS, RecordBatches, crc32c, index_entries, scan_batches, steps_of
from kcore.wire.record_building import encode_records
from kcore.wire.records import Record
from reference import crc32c as crc_twin
from reference import records as twin


def rows(batches: RecordBatches) -> list[dict[str, Any]]:
    columns = [getattr(batches, name).tolist() for name, _ in BATCH_COLUMNS]
    names = [name for name, _ in BATCH_COLUMNS]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def assert_like_twin(data: bytes) -> None:
    headers, end, problem = twin.scan(data)
    batches = scan_batches(data, stop=True)
    assert rows(batches) == headers
    assert batches.end == end
    assert (batches.problem and (batches.problem.message, batches.problem.offset)) == problem
    if problem:
        with pytest.raises(DecodeError) as raised:
            scan_batches(data)
        assert raised.value.offset == problem[1]


def recorded() -> list[tuple[bytes, list[dict[str, Any]]]]:
    return [(bytes.fromhex(case["hex"]), case["batches"]) for case in cases.load("records")]


def small_samples() -> list[bytes]:
    """The shortest recorded buffer of one batch, and of several."""
    single = [data for data, batches in recorded() if len(batches) == 1]
    several = [data for data, batches in recorded() if len(batches) > 1]
    return [min(single, key=len), min(several, key=len)]


@pytest.mark.recorded
def test_headers_are_kafkas() -> None:
    kafkas_name = {"base_offset": "baseOffset", "batch_length": "batchLength", "magic": "magic", "crc": "crc"}
    kafkas_name |= {"partition_leader_epoch": "partitionLeaderEpoch", "attributes": "attributes", "count": "count"}
    kafkas_name |= {"last_offset_delta": "lastOffsetDelta", "base_timestamp": "baseTimestamp"}
    kafkas_name |= {"max_timestamp": "maxTimestamp", "producer_id": "producerId", "producer_epoch": "producerEpoch"}
    kafkas_name |= {"base_sequence": "baseSequence"}
    assert {name for name, _ in BATCH_COLUMNS} - set(kafkas_name) == {"position", "crc_matches"}
    for data, expected in recorded():
        batches = scan_batches(data)
        assert batches.end == len(data)
        assert batches.crc_matches.all()
        sizes = [batch["sizeInBytes"] for batch in expected]
        assert batches.position.tolist() == [sum(sizes[:i]) for i in range(len(sizes))]
        for ours, kafkas in kafkas_name.items():
            assert getattr(batches, ours).tolist() == [batch[kafkas] for batch in expected]


@pytest.mark.recorded
def test_scan_is_its_twin_on_recorded_bytes() -> None:
    for data, _ in recorded():
        assert_like_twin(data)


def test_all_in_one_buffer() -> None:
    data = b"".join(data for data, _ in recorded())
    batches = scan_batches(data)
    assert len(batches) == sum(len(expected) for _, expected in recorded())
    assert batches.end == len(data)


def test_more_batches_than_the_first_ones_promise() -> None:
    large, small = encode_records([Record(0, 1, None, bytes(2000))]), encode_records([Record(0, 2)])
    data = b"".join([*[large] * 150, *[small] * 1500, *[large] * 20, *[small] * 3000])
    assert_like_twin(data)
    for limit in (127, 128, 129, 150, 400, 2000):
        assert rows(scan_batches(data, limit=limit)) == rows(scan_batches(data).take(slice(limit)))


def test_every_truncation() -> None:
    for data in small_samples():
        for length in range(len(data)):
            assert_like_twin(data[:length])


def test_every_bit_flip() -> None:
    for data in small_samples():
        for bit in range(8 * len(data)):
            flipped = bytearray(data)
            flipped[bit // 8] ^= 1 << bit % 8
            assert_like_twin(bytes(flipped))


def test_a_flipped_bit_is_a_crc_mismatch() -> None:
    data, _ = recorded()[0]
    for place in (21, 60, len(data) - 1):
        flipped = bytearray(data)
        flipped[place] ^= 1
        assert not scan_batches(flipped).crc_matches[0]
    flipped = bytearray(data)
    flipped[12] ^= 1  # The broker sets partitionLeaderEpoch: it is outside the CRC.
    assert scan_batches(flipped).crc_matches[0]


@pytest.mark.parametrize("batch_length", [-(2**31), -13, -12, -1, 0, 48, 49, 2**31 - 1])
def test_lengths_at_the_bounds(batch_length: int) -> None:
    data, _ = recorded()[0]
    assert_like_twin(data + data[:8] + batch_length.to_bytes(4, "big", signed=True) + data[12:])


def test_zeros_after_the_last_batch() -> None:
    data, _ = recorded()[0]  # A segment preallocated and not yet full.
    with pytest.raises(DecodeError, match="magic") as raised:
        scan_batches(data + bytes(100))
    assert raised.value.offset == len(data) + 16
    batches = scan_batches(data + bytes(100), stop=True)
    assert (len(batches), batches.end) == (1, len(data))


def test_no_bytes_no_batches() -> None:
    batches = scan_batches(b"")
    assert (len(batches), batches.end, batches.problem) == (0, 0, None)


def test_reading_from_a_place_and_up_to_a_number() -> None:
    data = b"".join(data for data, _ in recorded())
    whole = scan_batches(data)
    for start, limit in ((0, 0), (0, 1), (3, 5), (len(whole) - 2, 9), (len(whole), 1)):
        place = whole.position.tolist()[start] if start < len(whole) else len(data)
        part = scan_batches(data, start=place, limit=limit)
        assert rows(part) == rows(whole)[start : start + limit] == rows(whole.take(slice(start, start + limit)))
        assert part.end == [*whole.position.tolist(), len(data)][min(start + limit, len(whole))]
    assert (len(scan_batches(data, start=len(data) + 1)), scan_batches(data, start=2**62).end) == (0, 2**62)


def test_crcs_may_be_left_alone() -> None:
    data, _ = recorded()[0]
    flipped = data[:-1] + bytes([data[-1] ^ 1])
    assert rows(scan_batches(data, check_crc=False)) == rows(scan_batches(flipped))


def test_other_magics_are_skipped_if_asked() -> None:
    data, _ = recorded()[0]
    old = data[:8] + (22).to_bytes(4, "big") + data[12:16] + b"" + bytes(17)
    batches = scan_batches(data + old + old + data, skip=True)
    assert batches.position.tolist() == [0, len(data) + 68]
    assert [(each.message, each.offset - len(data)) for each in batches.skipped] == [
        ("a record batch whose magic is not 2", 16),
        ("a record batch whose magic is not 2", 50),
    ]
    # Up to the magic byte: the shortest batch with a known format.
    least = old[:8] + (5).to_bytes(4, "big") + old[12:17]
    assert scan_batches(least + data, skip=True).position.tolist() == [len(least)]
    for length in (-1, 4, 23):  # Before the magic byte, and beyond the bytes.
        wrong = old[:8] + length.to_bytes(4, "big", signed=True) + old[12:]
        batches = scan_batches(data + wrong, skip=True, stop=True)
        assert (len(batches), batches.end, batches.skipped) == (1, len(data), ())
        assert batches.problem is not None
        assert batches.problem.offset == len(data) + 16
    # Magic 2 without room for a header: its length is not trusted.
    short = data[:8] + (48).to_bytes(4, "big") + data[12:]
    assert scan_batches(short, skip=True, stop=True).end == 0


def segment(seed: int, base_offset: int) -> bytes:
    """Batches of all sizes; timestamps that are missing, rise and fall."""
    dice = random.Random(seed)
    batches = []
    for _ in range(dice.randrange(60)):
        timestamp = dice.choice((-1, dice.randrange(50), base_offset))
        record = Record(base_offset, timestamp, None, bytes(dice.choice((0, 100, 5000))))
        batches.append(encode_records([record], last_offset_delta=dice.randrange(3)))
        base_offset += 3
    return b"".join(batches)


@pytest.mark.parametrize("interval", [0, 1, 69, 500, 4096, 10**6])
@pytest.mark.parametrize("closed", [True, False])
def test_index_entries_are_their_twin(interval: int, closed: bool) -> None:
    for seed in range(40):
        batches = scan_batches(segment(seed, base_offset=1000))
        entries = index_entries(batches, 990, interval, closed=closed)
        index, timeindex = twin.index_entries(rows(batches), 990, interval, closed)
        assert list(zip(entries.offset.tolist(), entries.position.tolist(), strict=True)) == index
        assert list(zip(entries.timestamp.tolist(), entries.timestamp_offset.tolist(), strict=True)) == timeindex
        assert entries.offset_index() == b"".join(struct.pack(">ii", *entry) for entry in index)
        assert entries.time_index() == b"".join(struct.pack(">qi", *entry) for entry in timeindex)


@pytest.mark.parametrize("values", [[], [3], [3, 3, 9, 4]])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_steps_are_differences_with_what_comes_before(values: list[int], dtype: type[Any]) -> None:
    column = np.array(values, dtype)
    assert steps_of(column, -1).tolist() == np.diff(column, prepend=-1).tolist()
    assert column.tolist() == values


def test_index_entries_of_offsets_that_do_not_fit() -> None:
    batch = encode_records([Record(5, 0)])
    assert index_entries(scan_batches(batch), 5 - (2**31 - 1)).timestamp_offset.tolist() == [2**31 - 1]
    for base_offset in (6, 5 - 2**31):
        with pytest.raises(DecodeError, match="segment"):
            index_entries(scan_batches(batch), base_offset)
    with pytest.raises(DecodeError, match="segment") as raised:
        index_entries(scan_batches(batch + batch), 0)
    assert raised.value.offset == len(batch)


@given(st.binary(max_size=200), st.integers(0, 2**32 - 1))
def test_crc32c_is_its_twin(data: bytes, value: int) -> None:
    assert crc32c(data, value) == crc_twin.crc32c(data, value)


def test_crc32c_of_every_length_and_beginning() -> None:
    data = random.Random(12).randbytes(330)
    for start in range(8):
        for end in range(start, len(data)):
            assert crc32c(data[start:end], start) == crc_twin.crc32c(data[start:end], start)


def test_crc32c_of_known_bytes() -> None:
    # RFC 3720, appendix B.4.
    assert crc32c(bytes(32)) == 0x8A9136AA
    assert crc32c(b"\xff" * 32) == 0x62A8AB43
    assert crc32c(bytes(range(32))) == 0x46DD794E
    assert crc32c(bytes(range(31, -1, -1))) == 0x113FDB5C


def test_crc32c_of_long_and_shifted_bytes() -> None:
    data = random.Random(11).randbytes(20_000)  # Long enough for the wide paths of the instruction set.
    for start in range(9):
        assert crc32c(memoryview(data)[start:]) == crc_twin.crc32c(data[start:])
    assert crc32c(data[7_777:], crc32c(data[:7_777])) == crc32c(data)


def test_buffers_of_all_kinds() -> None:
    data, _ = recorded()[0]
    for buffer in (bytearray(data), memoryview(data), np.frombuffer(data, np.uint8).data):
        assert rows(scan_batches(buffer)) == rows(scan_batches(data))
    with pytest.raises(BufferError):
        scan_batches(memoryview(data)[::2])
    assert rows(scan_batches(np.frombuffer(data * 8, np.int64).data)) == rows(scan_batches(data * 8))
