"""MemoryLog: the contract of all raft logs, and what a crash leaves of it."""

import pytest

from kcore.raft.log.memory_log import MemoryLog
from kcore.replication.raft_log import OffsetAndEpoch
from raft.batches import append, snapshot
from raft.log_contract import LogContract, NewLog


class TestMemoryLog(LogContract):
    @pytest.fixture
    def new_log(self) -> NewLog:
        return MemoryLog


@pytest.mark.parametrize(("survivors", "end_offset", "epoch"), [(0, 3, 1), (1, 5, 2), (9, 6, 2)])
def test_a_crash_takes_what_was_not_flushed(survivors: int, end_offset: int, epoch: int) -> None:
    log = MemoryLog()
    append(log, (1, 2), (1, 1))
    log.update_high_watermark(2)
    log.flush()
    append(log, (2, 2), (2, 1))
    left = log.crash(survivors)
    assert (left.end_offset, left.flushed_end, left.last_epoch, left.high_watermark) == (
        end_offset,
        end_offset,
        epoch,
        0,
    )
    assert log.end_offset == 6
    append(left, (4, 1))
    assert len(log.batches) == 4  # They share nothing that changes.


def test_a_crash_takes_snapshots_that_are_not_whole() -> None:
    log = MemoryLog()
    append(log, (1, 2), (1, 2))
    log.update_high_watermark(2)
    log.flush()
    snapshot(log, OffsetAndEpoch(2, 1))
    log.delete_before(OffsetAndEpoch(2, 1))
    log.begin_snapshot(OffsetAndEpoch(4, 1))
    left = log.crash()
    assert left.snapshots == [OffsetAndEpoch(2, 1)]
    assert (left.start_offset, left.high_watermark, left.end_offset) == (2, 2, 4)
    with pytest.raises(KeyError):
        left.append_snapshot(OffsetAndEpoch(4, 1), b"")


def test_a_cut_is_flushed_no_further_than_its_end() -> None:
    log = MemoryLog()
    append(log, (1, 2), (2, 2))
    log.flush()
    log.truncate_to_end_offset(OffsetAndEpoch(2, 1))
    append(log, (3, 1))
    assert (log.flushed_end, log.crash().end_offset) == (2, 2)


def test_a_snapshot_past_what_a_crash_left_takes_its_place() -> None:
    log = MemoryLog()
    append(log, (1, 2), (1, 2))
    log.update_high_watermark(4)
    snapshot(log, OffsetAndEpoch(4, 1))
    left = log.crash()
    assert (left.start_offset, left.end_offset, left.last_epoch) == (4, 4, 1)
