"""The raft log's rules at their edges; the recorded answers are in test_raft_log_recorded.py."""

import pytest

from kcore.errors import TableError
from kcore.replication.epochs import EpochCache
from kcore.replication.raft_log import OffsetAndEpoch, RaftLog, ValidOffsetAndEpoch

SNAPSHOT = OffsetAndEpoch(10, 2)
LOG = RaftLog(EpochCache([(3, 10), (5, 20)]), 10, 30, SNAPSHOT, SNAPSHOT)


@pytest.mark.parametrize(
    ("offset", "epoch", "kind", "end"),
    [
        (9, 2, "SNAPSHOT", (10, 2)),  # Before the log.
        (10, 3, "SNAPSHOT", (10, 2)),  # At its start, but not from the snapshot.
        (15, 1, "SNAPSHOT", (10, 2)),  # For an epoch before the snapshot.
        (10, 2, "VALID", (10, 2)),  # At the end of the snapshot.
        (20, 3, "VALID", (20, 3)),
        (21, 3, "DIVERGING", (20, 3)),
        (25, 4, "DIVERGING", (20, 3)),
        (30, 5, "VALID", (30, 5)),
        (31, 6, "DIVERGING", (30, 5)),
    ],
)
def test_validate(offset: int, epoch: int, kind: str, end: tuple[int, int]) -> None:
    assert LOG.validate_offset_and_epoch(offset, epoch) == ValidOffsetAndEpoch(kind, OffsetAndEpoch(*end))


def test_a_log_that_is_but_a_snapshot() -> None:
    log = RaftLog(EpochCache(), 10, 10, SNAPSHOT, SNAPSHOT)
    assert log.last_fetched_epoch == 2
    assert log.end_offset_for_epoch(7) == (10, 2)
    assert RaftLog(EpochCache(), 0, 0).last_fetched_epoch == 0


def test_a_log_without_epochs_past_its_snapshot() -> None:
    with pytest.raises(TableError, match="must start and end at its snapshot"):
        _ = RaftLog(EpochCache(), 10, 11, SNAPSHOT, SNAPSHOT).last_fetched_epoch


@pytest.mark.parametrize(("start", "end"), [(-1, 0), (2, 1)])
def test_a_log_that_cannot_be(start: int, end: int) -> None:
    with pytest.raises(TableError, match="cannot start"):
        RaftLog(EpochCache(), start, end)


def test_a_latest_snapshot_without_an_earliest() -> None:
    with pytest.raises(TableError, match="earliest and a latest"):
        RaftLog(EpochCache(), 0, 0, latest_snapshot=SNAPSHOT)


@pytest.mark.parametrize(
    ("snapshot", "old", "new"),
    [
        ((9, 1), None, None),
        ((26, 5), "past the high watermark", "past the high watermark"),
        ((21, 3), "not in the log", "not in the log"),
        ((22, 5), None, "within the batch that begins at 20"),
        ((24, 5), None, None),
        ((25, 5), None, None),  # The high watermark may be within a batch.
    ],
)
def test_new_snapshots(snapshot: tuple[int, int], old: str | None, new: str | None) -> None:
    for level, expected in (("3.9.1", old), ("4.1.2", new)):
        why = LOG.why_no_snapshot(OffsetAndEpoch(*snapshot), 25, [10, 20, 24], level)
        assert (why is None) if expected is None else (why is not None and expected in why)
