"""Old snapshots go and the log below those that stay, by size and by age (KIP-630, KafkaRaftLog.maybeClean)."""

from typing import Any

import pytest

from kcore.raft import snapshots
from kcore.raft.log.cleaning import INTERVAL_MS
from kcore.raft.node import RaftNode
from kcore.replication.raft_log import OffsetAndEpoch
from raft.batches import snapshot
from raft.nodes import leader, log_of, started
from raft.replication import flush, take, write_snapshot

NO_LIMIT = {"metadata_max_retention_bytes": -1, "metadata_max_retention_ms": -1}
NEVER = 1 << 60


def with_snapshots(*timestamps: int, **limits: int) -> RaftNode:
    """One that leads alone since its start, with a snapshot behind every third record of its log."""
    settings: Any = {"voters": (1,), **NO_LIMIT, **limits}
    node, effects = started(**settings)
    flush(node, effects, 0)
    for k, timestamp in enumerate(timestamps, 1):
        while node.log.end_offset < 3 * k:
            flush(node, take(node, [b"x" * 10], 1000)[1], 1000)
        assert write_snapshot(node, OffsetAndEpoch(3 * k, 1), [b"state" * 10], timestamp, 1000)
    return node


def ends(node: RaftNode) -> list[int]:
    return [end.offset for end in node.log.snapshots]


def cleaned(node: RaftNode, at_ms: int = NEVER) -> list[int]:
    """Where the snapshots end that stay; the log begins at the first."""
    node.on_timer(at_ms)
    assert node.log.start_offset in (0, ends(node)[0])
    return ends(node)


def test_without_limits_all_stays() -> None:
    node = with_snapshots(1000, 2000, 3000)
    assert cleaned(node) == [3, 6, 9]
    assert node.log.start_offset == 0


@pytest.mark.parametrize(
    ("most_ms", "stay"), [(0, [12]), (499, [9, 12]), (500, [6, 9, 12]), (1500, [3, 6, 9, 12]), (NEVER, [3, 6, 9, 12])]
)
def test_what_is_older_goes(most_ms: int, stay: list[int]) -> None:
    """By the last record that a snapshot contains, not by when it was written; the newest stays however old it is."""
    now_ms = 1000 + INTERVAL_MS
    node = with_snapshots(now_ms - 1500, now_ms - 500, now_ms - 499, now_ms - 498, metadata_max_retention_ms=most_ms)
    assert cleaned(node, now_ms) == stay
    assert node.log.start_offset == (stay[0] if len(stay) < 4 else 0)


def test_an_old_one_behind_a_younger_one_stays() -> None:
    """Oldest first, and no further than the first that is young enough."""
    node = with_snapshots(NEVER, 0, 0, metadata_max_retention_ms=1000)
    assert cleaned(node) == [3, 6, 9]


def test_what_is_too_much_goes() -> None:
    """Log and snapshots together, as long as they are more than the limit."""
    node = with_snapshots(0, 0, 0)
    one = node.log.snapshot_piece(OffsetAndEpoch(3, 1), 0, 0)
    assert one is not None
    whole = node.log.size_bytes + 3 * one.size
    for limit, stay in [(whole, [3, 6, 9]), (whole - 1, [6, 9]), (0, [9])]:
        assert cleaned(with_snapshots(0, 0, 0, metadata_max_retention_bytes=limit)) == stay


def test_the_log_below_counts_as_it_goes() -> None:
    """The first snapshot, and the log below the second, are enough."""
    node = with_snapshots(0, 0, 0)
    size = node.log.size_bytes
    snapshots.delete_before(node, OffsetAndEpoch(6, 1))
    two = node.log.snapshot_piece(OffsetAndEpoch(6, 1), 0, 0)
    assert two is not None and node.log.size_bytes < size
    limit = node.log.size_bytes + 2 * two.size
    assert cleaned(with_snapshots(0, 0, 0, metadata_max_retention_bytes=limit)) == [6, 9]


def test_what_stays_can_be_read() -> None:
    node = with_snapshots(0, 0, metadata_max_retention_bytes=0)
    take(node, [b"y"], 1000)
    end = node.log.end_offset
    assert cleaned(node) == [6]
    assert node.log.read(6, 1 << 20, end) and node.log.end_offset == end
    assert node.log.validate_offset_and_epoch(2, 1) == ("SNAPSHOT", OffsetAndEpoch(6, 1))


@pytest.mark.covers("E8")
def test_one_snapshot_alone_is_never_cleaned() -> None:
    """E8: the log goes only up to a snapshot that stays."""
    node = with_snapshots(0, metadata_max_retention_bytes=0, metadata_max_retention_ms=0)
    assert cleaned(node) == [3]
    assert node.log.start_offset == 0


@pytest.mark.covers("E8")
def test_nothing_goes_for_a_snapshot_past_the_high_watermark() -> None:
    """E8, KAFKA-14238: who has not seen it committed could not read on from there. It is no fault, either."""
    log = log_of(1, 1, 1, 1)
    log.update_high_watermark(2)
    for offset in (1, 2, 3):
        snapshot(log, OffsetAndEpoch(offset, 1))
    node, _ = leader(log=log, metadata_max_retention_bytes=0)
    node.on_timer(1000 + INTERVAL_MS)
    assert (ends(node), log.start_offset) == ([2, 3], 2)


def test_an_unreadable_snapshot_has_no_age() -> None:
    node = with_snapshots(0, 0, metadata_max_retention_ms=0)
    snapshot(node.log, OffsetAndEpoch(3, 1), b"torn")
    assert cleaned(node) == [3, 6]


def test_voters_go_with_the_log() -> None:
    node = with_snapshots(0, 0, metadata_max_retention_bytes=0)
    node.voter_history.kraft_versions.add(1, 1)
    node.voter_history.kraft_versions.add(4, 1)
    cleaned(node)
    assert node.voter_history.kraft_versions.offsets == [4]


def test_it_is_looked_at_once_a_minute() -> None:
    """By its own timer, the first time a minute after the start (RaftMetadataLogCleanerManager)."""
    node = with_snapshots(0, 0, metadata_max_retention_bytes=0, fetch_timeout_ms=1_000_000)
    assert node.next_deadline_ms == INTERVAL_MS
    assert cleaned(node, INTERVAL_MS - 1) == [3, 6]
    assert cleaned(node, INTERVAL_MS) == [6]
    assert node.next_deadline_ms == 2 * INTERVAL_MS
    flush(node, take(node, [b"x"], INTERVAL_MS)[1], INTERVAL_MS)
    assert write_snapshot(node, OffsetAndEpoch(7, 1), [], 0, INTERVAL_MS)
    assert cleaned(node, 2 * INTERVAL_MS - 1) == [6, 7]
    assert cleaned(node, 2 * INTERVAL_MS) == [7]
