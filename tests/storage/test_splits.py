"""Borders between parts of a segment: each begins a batch, whatever the index says."""

import struct
from itertools import pairwise
from pathlib import Path

import pytest

from kcore.storage.tools import splits
from kcore.storage.tools.splits import Border, borders
from kcore.wire.record_batch import index_entries, scan_batches
from storage.building import batch, batches

SIZE = 1000
COUNT = 100


@pytest.fixture
def segment(tmp_path: Path) -> Path:
    """A hundred batches of 171 bytes with offsets from 50 on, without an index."""
    found = tmp_path / "t-0" / f"{50:020}.log"
    found.parent.mkdir()
    found.write_bytes(b"".join(batches(COUNT, first=50)))
    return found


def write_index(segment: Path, interval: int) -> None:
    entries = index_entries(scan_batches(segment.read_bytes()), 50, interval)
    segment.with_suffix(".index").write_bytes(entries.offset_index())


def positions(segment: Path) -> list[int]:
    found = scan_batches(segment.read_bytes())
    return found.position.tolist()


def check(segment: Path, found: list[Border]) -> None:
    """Parts of at most SIZE bytes, and not many more than needed."""
    begins = scan_batches(segment.read_bytes())
    offsets = dict(zip(begins.position.tolist(), begins.base_offset.tolist(), strict=True))
    assert all(offsets[each.position] == each.base_offset for each in found)
    places = [0, *(each.position for each in found), segment.stat().st_size]
    sizes = [end - begin for begin, end in pairwise(places)]
    assert max(sizes) <= SIZE and min(sizes[:-1]) > SIZE // 2


def test_without_an_index_headers_are_read(segment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check(segment, borders(segment, SIZE))
    monkeypatch.setattr(splits, "_AT_ONCE", 2)
    check(segment, borders(segment, SIZE))


@pytest.mark.parametrize("interval", [0, 300, 4000])
def test_the_index_is_used_where_it_has_entries(segment: Path, interval: int) -> None:
    write_index(segment, interval)
    check(segment, borders(segment, SIZE))


def test_with_a_dense_index_no_headers_are_read(segment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_index(segment, 0)
    monkeypatch.setattr(splits, "_by_headers", lambda *_: pytest.fail("headers are read"))
    check(segment, borders(segment, SIZE))


def test_a_damaged_index_makes_no_border_inside_a_batch(segment: Path) -> None:
    wrong = [(each, place + 7) for each, place in enumerate(positions(segment)) if place]
    early = [(0, place) for place in positions(segment)[6:7]]  # This entry's batch has later offsets.
    for entries in (wrong, early, [(5, 2**31 - 1)], [(7, 900), (6, 800)]):
        segment.with_suffix(".index").write_bytes(b"".join(struct.pack(">ii", *each) for each in entries))
        check(segment, borders(segment, SIZE))
    segment.with_suffix(".index").write_bytes(b"torn")
    check(segment, borders(segment, SIZE))


def test_small_and_empty_files_have_no_border(segment: Path) -> None:
    assert borders(segment, segment.stat().st_size) == []
    segment.write_bytes(b"")
    assert borders(segment, SIZE) == []


def test_a_batch_larger_than_a_part_is_a_part_of_its_own(segment: Path) -> None:
    small, large = batch(50), batch(51, [b"x" * 5000])
    segment.write_bytes(small + large + batch(52) + batch(53))
    assert borders(segment, SIZE) == [Border(len(small), 51), Border(len(small + large), 52)]
    segment.write_bytes(large + small)
    assert borders(segment, SIZE)[:1] == [Border(len(large), 50)]


def test_no_border_stands_behind_damage_that_headers_cannot_pass(segment: Path) -> None:
    data = segment.read_bytes()
    segment.write_bytes(data[:1500] + b"\xff" * 3000 + data[4500:])
    found = borders(segment, SIZE)
    assert found and all(each.position < 1500 for each in found)
