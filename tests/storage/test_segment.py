"""Segments and their indexes are read over a mapping; errors name the position."""

import re
import struct
from pathlib import Path

import numpy as np
import pytest

from kcore.errors import StorageError
from kcore.storage.log.indexes import (
    AbortedTransaction,
    OffsetIndex,
    format_aborted,
    parse_aborted,
)
from kcore.storage.log.partition_folder import Log, partition_of
from kcore.storage.log.segment import Segment
from kcore.wire.record_batch import index_entries, scan_batches
from storage.building import batch, batches, write_log
from storage.samples import KRAFT39, KRAFT43, METADATA_43

BASE = 7
NAME = f"{BASE:020}.log"


def segment_of(folder: Path, data: bytes) -> Segment:
    (folder / NAME).write_bytes(data)
    return Segment(folder / NAME)


@pytest.mark.parametrize(
    ("folder", "end_offset"),
    [(METADATA_43, 384), (KRAFT39, 67), (KRAFT43 / "broker2-a" / "orders-1", 2), (KRAFT43 / "broker2-a" / "jb-1", 0)],
)
def test_segments_of_real_brokers_are_whole(folder: Path, end_offset: int):
    with Log(folder) as log:
        assert log.problems == []
        assert [segment.valid_bytes for segment in log.segments] == [len(segment) for segment in log.segments]
        assert (log.start_offset, log.end_offset) == (0, end_offset)


def test_a_partition_s_folder_tells_its_partition_topic_id_and_epochs():
    with Log(METADATA_43) as log:
        assert str(log.partition) == "__cluster_metadata-0"
        assert str(log.topic_id) == "AAAAAAAAAAAAAAAAAAAAAQ"
        assert log.leader_epochs == [(1, 0), (3, 197)]
    assert partition_of(Path("a-b-12")) == ("a-b", 12)
    assert partition_of(Path("orders-1.0123456789abcdef-delete")) is None


@pytest.mark.parametrize("name", ["7.log", "0000000000000000000x.log", "99999999999999999999.log", NAME + ".deleted"])
def test_what_is_not_named_as_a_segment(name: str, tmp_path: Path):
    (tmp_path / name).touch()
    with pytest.raises(StorageError, match="not named as a segment"):
        Segment(tmp_path / name)


def test_a_folder_without_segments_is_no_log(tmp_path: Path):
    with pytest.raises(StorageError, match="no segment there"):
        Log(tmp_path)


def test_every_torn_tail_is_reported_by_position(tmp_path: Path):
    first, second = batch(BASE), batch(BASE + 1, [b"a", b"b"])
    for size in range(len(first) + 1, len(first + second)):
        with segment_of(tmp_path, (first + second)[:size]) as segment:
            assert [problem.offset for problem in segment.problems] == [len(first)]
            assert "torn" in str(segment.problems[0])
            assert (segment.valid_bytes, segment.end_offset) == (len(first), BASE + 1)


def test_every_flipped_bit_is_reported_by_position(tmp_path: Path):
    whole = [batch(BASE), batch(BASE + 1, [b"a", b"b"]), batch(BASE + 3)]
    begin, end = len(whole[0]), len(whole[0] + whole[1])
    data = b"".join(whole)
    for at in range(begin, end):
        for bit in range(8):
            flipped = bytearray(data)
            flipped[at] ^= 1 << bit
            with segment_of(tmp_path, bytes(flipped)) as segment:
                problems = [problem.offset for problem in segment.problems]
            # Neither the base offset nor the leader epoch is under the CRC: the broker sets them (KIP-98).
            if begin <= at < begin + 8:
                continue
            if begin + 12 <= at < begin + 16:
                assert problems == []
            else:
                assert begin <= problems[0] < end


def test_offsets_that_do_not_rise_are_reported(tmp_path: Path):
    first = batch(BASE, [b"a", b"b"])
    with segment_of(tmp_path, first + batch(BASE + 1)) as segment:
        assert [(problem.message, problem.offset) for problem in segment.problems] == [
            ("a record batch whose offsets do not rise", len(first))
        ]
    with segment_of(tmp_path, batch(BASE - 1)) as segment:
        assert [problem.offset for problem in segment.problems] == [0]


def test_a_segment_that_overlaps_the_next_is_reported(tmp_path: Path):
    folder = write_log(tmp_path / "t-0", {0: batch(0) + batch(1, [b"a", b"b"]), 2: batch(2)})
    with Log(folder) as log:
        [(path, problem)] = log.problems
        assert path.name == f"{0:020}.log" and "reach into the segment of 2" in problem.message


def test_indexes_read_back_without_the_zeros_that_kafka_made_room_with(tmp_path: Path):
    data = b"".join(batches(300, first=BASE))
    entries = index_entries(scan_batches(data), BASE)
    assert len(entries.offset) > 5 < len(entries.timestamp)
    (tmp_path / f"{BASE:020}.index").write_bytes(entries.offset_index() + bytes(80))
    (tmp_path / f"{BASE:020}.timeindex").write_bytes(entries.time_index() + bytes(120))
    with segment_of(tmp_path, data) as segment:
        assert segment.offset_index is not None and segment.time_index is not None
        assert np.array_equal(segment.offset_index.offsets, entries.offset + BASE)
        assert np.array_equal(segment.offset_index.positions, entries.position)
        assert np.array_equal(segment.time_index.timestamps, entries.timestamp)
        assert np.array_equal(segment.time_index.offsets, entries.timestamp_offset + BASE)


def test_an_index_says_where_to_begin():
    index = OffsetIndex(np.array([10, 20]), np.array([1000, 2000], np.int32))
    assert [index.entry_below(offset) for offset in (9, 10, 19, 20, 99)] == [-1, 0, 0, 1, 1]
    assert [index.entry_before(position) for position in (999, 1000, 2001)] == [-1, 0, 1]


def test_there_may_be_no_index(tmp_path: Path):
    with segment_of(tmp_path, batch(BASE)) as segment:
        assert segment.offset_index is None and segment.time_index is None and segment.aborted == []


@pytest.mark.parametrize(
    ("suffix", "data", "said"),
    [
        ("index", bytes(9), "9 bytes are not a multiple of the 8 bytes of an entry"),
        ("index", struct.pack(">iiii", 5, 100, 5, 200), "entry 1: offset 5 does not rise above 5"),
        ("index", struct.pack(">iiii", 5, 100, 6, 100), "entry 1: position 100 does not rise above 100"),
        ("index", struct.pack(">ii", -5, 100), "entry 0: offset -5 is negative"),
        ("timeindex", bytes(13), "13 bytes are not a multiple of the 12 bytes of an entry"),
        ("timeindex", struct.pack(">qiqi", 9, 1, 8, 2), "entry 1: timestamp 8 does not rise above 9"),
        ("txnindex", bytes(33), "33 bytes are not a multiple of the 34 bytes of an entry"),
        ("txnindex", struct.pack(">hqqqq", 1, 1, 1, 1, 1), "entry 0: version 1, not 0"),
    ],
)
def test_what_is_no_index(suffix: str, data: bytes, said: str, tmp_path: Path):
    path = tmp_path / f"{BASE:020}.{suffix}"
    path.write_bytes(data)
    with segment_of(tmp_path, batch(BASE)) as segment, pytest.raises(StorageError, match=re.escape(f"{path}: {said}")):
        _ = segment.offset_index, segment.time_index, segment.aborted


def test_aborted_transactions_read_back(tmp_path: Path):
    transactions = [AbortedTransaction(1, 7, 9, 7), AbortedTransaction(2, 8, 12, 10)]
    (tmp_path / f"{BASE:020}.txnindex").write_bytes(format_aborted(transactions))
    with segment_of(tmp_path, batch(BASE) + batch(BASE + 1)) as segment:
        assert segment.aborted == transactions
    assert parse_aborted(format_aborted([])) == []
