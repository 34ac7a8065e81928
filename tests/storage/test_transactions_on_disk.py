"""Transactions in a log on a disk: what a restart, a kill, a cut and a lost file leave of them."""

import os
import random
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from kcore.broker.replicas.transactions import EndMarker, encode_end_marker
from kcore.storage.log.live_log import LiveLog, Settings
from kcore.storage.log.segment import Segment
from kcore.wire.record_batch import TRANSACTIONAL, scan_batches
from storage import building

SMALL = Settings(segment_bytes=1500, index_interval_bytes=200)


@dataclass
class History:
    """A reference model: one entry per written batch, with slow versions of the log's queries."""

    batches: list[tuple[int, int, str]] = field(default_factory=list)  # Offset, producer id, "data" or how it ended.

    def write(self, log: LiveLog, producer_id: int, kind: str) -> None:
        offset = log.end_offset
        if kind == "data":
            sequence = sum(each[1:] == (producer_id, "data") for each in self.batches)
            producer = (producer_id, 0, sequence)
            data = building.batch(offset, [b"v" * 60], attributes=TRANSACTIONAL, producer=producer)
        else:
            marker = EndMarker(kind == "commit", 1)
            data = encode_end_marker(marker, producer_id, 0, offset=offset, leader_epoch=0, timestamp_ms=1)
        log.append(data, scan_batches(data))
        self.batches.append((offset, producer_id, kind))

    def cut(self, offset: int) -> None:
        self.batches = [each for each in self.batches if each[0] < offset]

    def transactions(self) -> list[tuple[int, int, int | None, str]]:
        """Producer, first offset, offset of the end (None: open), how it ended."""
        found, open_since = [], dict[int, int]()
        for offset, producer_id, kind in self.batches:
            if kind == "data":
                open_since.setdefault(producer_id, offset)
            elif producer_id in open_since:
                found.append((producer_id, open_since.pop(producer_id), offset, kind))
        return [*found, *((each, first, None, "") for each, first in open_since.items())]

    def aborted(self, offset: int, end_offset: int) -> set[tuple[int, int, int]]:
        return {
            (producer_id, first, end)
            for producer_id, first, end, kind in self.transactions()
            if end is not None and kind == "abort" and end >= offset and first < end_offset
        }

    def stable(self, high_watermark: int) -> int:
        firsts = [each[1] for each in self.transactions() if each[2] is None or each[2] >= high_watermark]
        return min([high_watermark, *firsts])

    def check(self, log: LiveLog) -> None:
        end = log.end_offset
        for offset in range(end + 1):
            for end_offset in (offset, offset + 1, offset + 7, end):
                aborted = log.aborted_transactions(offset, end_offset)
                found = sorted((each.producer_id, each.first_offset, each.last_offset) for each in aborted)
                if end_offset > offset:
                    assert found == sorted(self.aborted(offset, end_offset)), (offset, end_offset)
        assert log.producers.last_stable_offset(end, 0) == self.stable(end)
        open_here = {each: p.transaction_offset for each, p in log.producers.by_id.items()}
        wanted_open = {each[0]: each[1] for each in self.transactions() if each[2] is None}
        assert {each: first for each, first in open_here.items() if first is not None} == wanted_open


def filled(folder: Path, seed: int, count: int = 60) -> tuple[LiveLog, History]:
    log, history, dice = LiveLog(folder, settings=SMALL), History(), random.Random(seed)
    for _ in range(count):
        history.write(log, dice.randrange(4), dice.choice(["data", "data", "commit", "abort"]))
    return log, history


def test_aborted_transactions_are_found_over_all_segments(tmp_path: Path) -> None:
    log, history = filled(tmp_path / "t-0", 1)
    assert len(log._log.segments) > 3 and history.aborted(0, 60)
    history.check(log)


@pytest.mark.parametrize("ending", ["closed", "killed", "killed after a close"])
@pytest.mark.parametrize("seed", range(6))
def test_a_restart_knows_them(tmp_path: Path, ending: str, seed: int) -> None:
    folder = tmp_path / "t-0"
    log, history = filled(folder, seed)
    if ending == "killed":
        log.abandon()
    else:
        log.close()
    if ending == "killed after a close":
        log = LiveLog(folder, settings=SMALL)
        for kind in ("data", "abort", "data"):
            history.write(log, 1, kind)
        log.abandon()
    log = LiveLog(folder, settings=SMALL)
    history.check(log)
    for kind in ("data", "abort"):
        history.write(log, 2, kind)
    history.check(log)


@pytest.mark.parametrize("closed_before", [False, True])
@pytest.mark.parametrize("offset", [0, 1, 17, 18, 33, 45, *range(46, 60)])
def test_a_cut_log_knows_what_is_left(tmp_path: Path, offset: int, *, closed_before: bool) -> None:
    """A snapshot in the middle of the segment that is cut: what lies below it is not replayed, and stays indexed."""
    folder = tmp_path / "t-0"
    log, history = filled(folder, 9, 46)  # Its last segment begins at 39, and three transactions end in it.
    if closed_before:
        log.close()
        log = LiveLog(folder, settings=SMALL)
    dice = random.Random(8)
    for _ in range(14):
        history.write(log, dice.randrange(4), dice.choice(["data", "commit", "abort"]))
    log.truncate_to(offset)
    history.cut(offset)
    history.check(log)
    for kind in ("data", "abort"):
        history.write(log, 3, kind)
    history.check(log)
    log.abandon()
    history.check(LiveLog(folder, settings=SMALL))


@pytest.mark.parametrize("broken", ["torn", "gone with the snapshots", "nonsense"])
def test_an_index_that_a_power_cut_broke_is_made_anew(tmp_path: Path, broken: str) -> None:
    folder = tmp_path / "t-0"
    log, history = filled(folder, 3)
    log.close()
    indexes = sorted(folder.glob("*.txnindex"))
    assert len(indexes) > 1
    if broken == "torn":
        os.truncate(indexes[0], indexes[0].stat().st_size - 5)
    elif broken == "nonsense":
        indexes[1].write_bytes(b"\xff" * 34)
    else:
        for path in (*indexes, *folder.glob("*.snapshot")):
            path.unlink()
    history.check(LiveLog(folder, settings=SMALL))


def test_what_is_deleted_from_the_start_takes_its_files_with_it(tmp_path: Path) -> None:
    folder = tmp_path / "t-0"
    log, history = filled(folder, 5)
    log.high_watermark = 60
    log.raise_start_offset(40)
    assert (log.start_offset, min(int(each.stem) for each in folder.glob("*.log"))) == (40, log._log.first_offset)
    assert log._log.first_offset > 0
    assert min(int(each.stem) for each in folder.glob("*.snapshot")) >= log._log.first_offset
    bases = {each.stem for each in folder.glob("*.log")}
    assert {each.stem for each in folder.glob("*.txnindex")} <= bases
    found = {each.first_offset for each in log.aborted_transactions(40, 60)}
    assert found == {first for _, first, end in history.aborted(40, 60) if end >= 40}
    log.truncate_to(50)
    history.cut(50)
    log.close()
    log = LiveLog(folder, settings=SMALL)
    assert log.start_offset == log._log.first_offset, "the rest is in the checkpoint of the log directory"
    assert log.producers.last_stable_offset(50, 0) == history.stable(50)


def test_kafka_s_files_are_beside_each_segment(tmp_path: Path) -> None:
    """The index of a segment has the transactions whose end markers lie in it, with the last stable offset then."""
    log, history = filled(tmp_path / "t-0", 2)
    log.close()
    every = [each for path in sorted((tmp_path / "t-0").glob("*.log")) for each in Segment(path).aborted]
    assert {each[:3] for each in every} == history.aborted(0, 60)
    for path in (tmp_path / "t-0").glob("*.log"):
        segment = Segment(path)
        assert all(segment.base_offset <= each.last_offset < segment.end_offset for each in segment.aborted)
    for each in every:
        open_then = [
            first
            for producer, first, end, _ in history.transactions()
            if first < each.last_offset and (end is None or end > each.last_offset) and producer != each.producer_id
        ]
        assert each.last_stable_offset == min(open_then, default=each.last_offset + 1)
