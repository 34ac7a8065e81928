"""Tests the contract of every RaftLog, in memory or on disk. A subclass makes the log and inherits all tests."""

from collections.abc import Callable
from typing import Any, TypeAlias

import pytest

import cases
from kcore.errors import DecodeError, RaftLogError
from kcore.raft.log.batches import end_offset_of, split_batches
from kcore.raft.log.raft_log import Appended, RaftLog, SnapshotPiece
from kcore.replication.raft_log import Level, OffsetAndEpoch, ValidOffsetAndEpoch
from raft.batches import append, batch, recorded_log, snapshot

NewLog: TypeAlias = Callable[[Level], RaftLog]  # An empty log, with that release's rule for snapshots.
VERSIONS: list[Level] = ["3.9.1", "4.1.2"]
MANY = 1 << 30


class LogContract:
    """A subclass has a fixture `new_log`, of NewLog."""

    @pytest.fixture
    def log(self, new_log: NewLog) -> RaftLog:
        return new_log("4.1.2")

    # Appended.

    def test_a_new_log_is_empty(self, log: RaftLog) -> None:
        assert (log.start_offset, log.end_offset, log.last_epoch, log.high_watermark) == (0, 0, 0, 0)
        assert (log.earliest_snapshot, log.latest_snapshot) == (None, None)
        assert log.read(0, MANY, 0) == b""

    def test_a_leader_appends_whole_batches(self, log: RaftLog) -> None:
        assert log.append_as_leader(batch(0, 3, 2) + batch(2, 3), 3) == Appended(0, 2)
        assert (log.end_offset, log.last_epoch) == (3, 3)

    @pytest.mark.parametrize(
        ("data", "epoch"),
        [
            (batch(1, 3), 3),  # A gap.
            (batch(0, 3) + batch(2, 3), 3),  # A gap within.
            (batch(0, 2), 3),  # Another epoch than the leader's.
            (batch(0, 3)[:-1], 3),  # Not whole.
            (b"", 3),
        ],
    )
    def test_what_a_leader_may_not_append(self, log: RaftLog, data: bytes, epoch: int) -> None:
        with pytest.raises(RaftLogError):
            log.append_as_leader(data, epoch)
        assert log.end_offset == 0

    def test_a_leader_checks_a_checksum_unless_it_has_split_the_batches(self, log: RaftLog) -> None:
        """The leader skips the CRC of batches that it has just made and split."""
        flipped = bytearray(batch(0, 3))
        flipped[-1] ^= 1
        with pytest.raises(DecodeError, match="damaged"):
            log.append_as_leader(bytes(flipped), 3)
        assert log.end_offset == 0
        data = batch(0, 3, 2) + batch(2, 3)
        assert log.append_as_leader(data, 3, split_batches(data, check_crc=False)) == Appended(0, 2)
        assert log.read(0, MANY, 3) == data

    def test_epochs_never_go_back(self, log: RaftLog) -> None:
        append(log, (3, 1))
        with pytest.raises(RaftLogError, match="epoch 2 cannot follow epoch 3"):
            log.append_as_leader(batch(1, 2), 2)
        with pytest.raises(RaftLogError, match="epoch 2 cannot follow epoch 3"):
            log.append_as_follower(batch(1, 2), 3)
        assert log.end_offset == 1

    def test_a_follower_appends_epochs_as_they_come(self, log: RaftLog) -> None:
        assert log.append_as_follower(batch(0, 1, 2) + batch(2, 3), 5) == Appended(0, 2)
        assert log.end_offset_for_epoch(1) == OffsetAndEpoch(2, 1)
        assert log.append_as_follower(b"", 5) is None

    def test_the_epoch_of_each_record(self, log: RaftLog) -> None:
        append(log, (1, 2), (3, 1), (4, 2))
        assert [log.epoch_at(offset) for offset in range(5)] == [1, 1, 3, 4, 4]
        for offset in (-1, 5):
            with pytest.raises(RaftLogError, match="not in the log"):
                log.epoch_at(offset)
        log.update_high_watermark(5)
        snapshot(log, OffsetAndEpoch(2, 1))
        log.delete_before(OffsetAndEpoch(2, 1))
        assert log.epoch_at(2) == 3
        with pytest.raises(RaftLogError, match="not in the log"):
            log.epoch_at(1)

    def test_a_follower_leaves_a_cut_off_batch_out(self, log: RaftLog) -> None:
        whole = batch(0, 1)
        for size in range(len(whole)):
            assert log.append_as_follower(whole[:size], 1) is None
        assert log.append_as_follower(whole + batch(1, 1)[:-1], 1) == Appended(0, 0)

    def test_a_follower_leaves_batches_of_later_epochs_out(self, log: RaftLog) -> None:
        """KAFKA-18723: records of an epoch that the follower does not know yet are not its leader's."""
        assert log.append_as_follower(batch(0, 2) + batch(1, 3) + batch(2, 2), 2) == Appended(0, 0)
        assert log.append_as_follower(batch(1, 3), 2) is None
        assert log.end_offset == 1

    def test_a_follower_stops_at_a_damaged_batch(self, log: RaftLog) -> None:
        damaged = bytearray(batch(1, 1))
        damaged[-1] ^= 1
        with pytest.raises(DecodeError):
            log.append_as_follower(batch(0, 1) + bytes(damaged) + batch(2, 1), 1)
        assert log.end_offset == 1

    def test_a_follower_may_split_the_batches_itself(self, log: RaftLog) -> None:
        """Batches that the caller has split are appended as usual: up to a later epoch or damage."""
        data = batch(0, 1) + batch(1, 2) + batch(2, 3)
        assert log.append_as_follower(data, 2, split_batches(data)) == Appended(0, 1)
        damaged = bytearray(batch(2, 2) + batch(3, 2))
        damaged[-1] ^= 1
        with pytest.raises(DecodeError):
            log.append_as_follower(bytes(damaged), 2, split_batches(bytes(damaged)))
        assert log.end_offset == 3
        assert log.read(0, 1 << 20, 3) == data[: len(batch(0, 1) + batch(1, 2))] + batch(2, 2)

    def test_a_follower_refuses_a_gap(self, log: RaftLog) -> None:
        append(log, (1, 2))
        for base_offset in (1, 3):
            with pytest.raises(RaftLogError, match="cannot follow the end 2"):
                log.append_as_follower(batch(base_offset, 1), 1)

    # Read.

    def test_where_what_was_read_ends(self, log: RaftLog) -> None:
        append(log, (1, 2), (3, 1), (4, 3))
        ends = [end_offset_of(log.read(offset, max_bytes, 6)) for offset in (0, 2, 3) for max_bytes in (1, MANY)]
        assert ends == [2, 6, 3, 6, 6, 6]

    def test_reads_whole_batches(self, log: RaftLog) -> None:
        append(log, (1, 2), (1, 3), (2, 1))
        first, second, third = batch(0, 1, 2), batch(2, 1, 3), batch(5, 2)
        assert log.read(0, MANY, 6) == first + second + third
        assert log.read(1, MANY, 6) == first + second + third  # From within the first.
        assert log.read(2, MANY, 5) == second
        assert log.read(2, MANY, 4) == b""  # The second is not below that end.
        assert log.read(0, 0, 6) == first  # One at least.
        assert log.read(0, len(first + second) - 1, 6) == first
        assert log.read(0, len(first + second), 6) == first + second
        assert log.read(6, MANY, 6) == b""

    def test_reads_nothing_from_outside(self, log: RaftLog) -> None:
        append(log, (1, 2), (1, 2))
        log.update_high_watermark(2)
        snapshot(log, OffsetAndEpoch(2, 1))
        assert log.delete_before(OffsetAndEpoch(2, 1))
        for offset in (1, 5):
            with pytest.raises(RaftLogError):
                log.read(offset, MANY, 4)

    def test_knows_its_size(self, log: RaftLog) -> None:
        """In bytes: what a limit of them is about."""
        assert log.size_bytes == 0
        append(log, (1, 2), (2, 1))
        assert log.size_bytes == len(batch(0, 1, 2) + batch(2, 2))
        log.truncate_to_end_offset(OffsetAndEpoch(2, 1))
        assert log.size_bytes == len(batch(0, 1, 2))

    # The high watermark.

    def test_the_high_watermark_goes_on_only(self, log: RaftLog) -> None:
        append(log, (1, 3))
        log.update_high_watermark(2)
        assert log.high_watermark == 2
        for offset in (1, 4):
            with pytest.raises(RaftLogError, match="high watermark"):
                log.update_high_watermark(offset)

    # Cut.

    @pytest.mark.parametrize(
        ("end", "cut"),
        [
            ((2, 1), 2),  # Both have epoch 1; the leader's ends earlier.
            ((9, 1), 5),  # This one's ends earlier.
            ((5, 2), 5),  # This one has no epoch 2: its epoch 1 is the largest that both may have.
            ((7, 3), 7),
            ((20, 9), 8),  # Nothing to cut.
            ((2, 0), 2),
            ((0, 0), 0),
        ],
    )
    def test_truncates_to_the_leaders_end(self, log: RaftLog, end: tuple[int, int], cut: int) -> None:
        append(log, (1, 2), (1, 3), (3, 2), (3, 1))
        assert log.truncate_to_end_offset(OffsetAndEpoch(*end)) == cut
        assert log.end_offset == cut
        assert log.last_epoch == (3 if cut > 5 else 1 if cut else 0)

    def test_a_batch_goes_whole(self, log: RaftLog) -> None:
        append(log, (1, 2), (1, 3))
        assert log.truncate_to_end_offset(OffsetAndEpoch(3, 1)) == 2
        assert log.end_offset == 2

    def test_never_cuts_below_the_high_watermark(self, log: RaftLog) -> None:
        append(log, (1, 2), (1, 1))
        log.update_high_watermark(2)
        with pytest.raises(RaftLogError, match="below the high watermark"):
            log.truncate_to_end_offset(OffsetAndEpoch(1, 1))
        assert log.end_offset == 3

    def test_goes_on_where_it_was_cut(self, log: RaftLog) -> None:
        append(log, (1, 2), (2, 2))
        log.truncate_to_end_offset(OffsetAndEpoch(2, 1))
        append(log, (4, 1))
        assert log.read(0, MANY, 3) == batch(0, 1, 2) + batch(2, 4)
        assert log.end_offset_for_epoch(2) == OffsetAndEpoch(2, 1)

    # Snapshots.

    def test_a_snapshot_comes_in_pieces(self, log: RaftLog) -> None:
        append(log, (1, 4))
        end = OffsetAndEpoch(4, 1)
        log.begin_snapshot(end)
        assert log.append_snapshot(end, b"abc") == 3
        assert log.append_snapshot(end, b"defg") == 7
        assert log.snapshot_piece(end, 0, 10) is None  # It is not whole yet.
        assert log.latest_snapshot is None
        log.freeze_snapshot(end)
        assert log.snapshot_piece(end, 0, 10) == SnapshotPiece(b"abcdefg", 7)
        assert log.snapshot_piece(end, 2, 3) == SnapshotPiece(b"cde", 7)
        assert log.snapshot_piece(end, 7, 3) == SnapshotPiece(b"", 7)
        assert (log.earliest_snapshot, log.latest_snapshot) == (end, end)

    def test_a_snapshot_begun_again_is_empty(self, log: RaftLog) -> None:
        end = OffsetAndEpoch(4, 1)
        log.begin_snapshot(end)
        log.append_snapshot(end, b"abc")
        log.begin_snapshot(end)
        assert log.append_snapshot(end, b"d") == 1

    def test_a_snapshot_that_was_begun_is_dropped(self, log: RaftLog) -> None:
        """Only that one; a whole one stays, and one that was never begun is no error."""
        whole, begun = OffsetAndEpoch(4, 2), OffsetAndEpoch(5, 2)
        snapshot(log, whole, b"abc")
        log.begin_snapshot(begun)
        log.append_snapshot(begun, b"defg")
        for end in (begun, begun, whole, OffsetAndEpoch(9, 9)):
            log.drop_snapshot(end)
        assert log.snapshots == [whole]
        log.begin_snapshot(begun)
        assert log.append_snapshot(begun, b"h") == 1

    def test_a_log_that_ends_before_a_snapshot_is_emptied(self, log: RaftLog) -> None:
        append(log, (1, 4))
        snapshot(log, OffsetAndEpoch(2, 1))
        assert not log.truncate_to_latest_snapshot()
        snapshot(log, OffsetAndEpoch(9, 3))
        assert log.truncate_to_latest_snapshot()
        assert (log.start_offset, log.end_offset, log.high_watermark, log.last_epoch) == (9, 9, 9, 3)
        assert log.earliest_snapshot == OffsetAndEpoch(9, 3)
        append(log, (3, 1))
        assert log.read(9, MANY, 10) == batch(9, 3)

    def test_a_log_that_diverges_from_a_snapshot_is_emptied(self, log: RaftLog) -> None:
        append(log, (1, 4))
        snapshot(log, OffsetAndEpoch(3, 2))
        assert log.truncate_to_latest_snapshot()
        assert (log.start_offset, log.end_offset) == (3, 3)

    def test_a_log_of_a_later_epoch_is_emptied_where_it_is_too_short(self, log: RaftLog) -> None:
        """A former leader's; Kafka's process ends there."""
        append(log, (1, 2), (5, 1))
        snapshot(log, OffsetAndEpoch(10, 4))
        assert log.truncate_to_latest_snapshot()
        assert (log.start_offset, log.end_offset, log.last_epoch) == (10, 10, 4)

    def test_a_log_that_goes_on_from_its_snapshot_stays(self, log: RaftLog) -> None:
        append(log, (1, 2), (3, 2))
        log.update_high_watermark(4)
        for end in (OffsetAndEpoch(0, 0), OffsetAndEpoch(2, 1), OffsetAndEpoch(4, 3)):
            snapshot(log, end)
            assert not log.truncate_to_latest_snapshot()
            log.delete_before(end)
            assert not log.truncate_to_latest_snapshot()

    def test_a_log_that_begins_at_a_snapshot_takes_the_batch_that_the_snapshot_ends_in(self, log: RaftLog) -> None:
        snapshot(log, OffsetAndEpoch(3, 2))
        assert log.truncate_to_latest_snapshot()
        for data in (batch(1, 2, 2), batch(4, 2)):  # One that the snapshot holds whole; one behind a gap.
            with pytest.raises(RaftLogError):
                log.append_as_follower(data, 3)
        data = batch(1, 2, 4) + batch(5, 3)
        assert log.append_as_follower(data, 3) == Appended(3, 5)
        assert (log.start_offset, log.end_offset, log.last_epoch, log.epoch_at(3)) == (3, 6, 3, 2)
        assert log.read(3, MANY, 6) == data and log.read(4, 1, 6) == batch(1, 2, 4)
        assert log.validate_offset_and_epoch(5, 2) == ValidOffsetAndEpoch("VALID", OffsetAndEpoch(5, 2))
        with pytest.raises(RaftLogError):
            log.append_as_follower(batch(4, 3, 4), 3)

    def test_a_cut_at_the_snapshot_takes_the_batch_that_the_snapshot_ends_in(self, log: RaftLog) -> None:
        snapshot(log, OffsetAndEpoch(3, 2))
        assert log.truncate_to_latest_snapshot()
        log.append_as_follower(batch(1, 2, 4) + batch(5, 2), 2)
        assert log.truncate_to_end_offset(OffsetAndEpoch(4, 2)) == 3
        assert (log.start_offset, log.end_offset, log.last_epoch) == (3, 3, 2)
        assert log.append_as_follower(batch(3, 4, 2), 4) == Appended(3, 4)
        assert log.read(3, MANY, 5) == batch(3, 4, 2)

    def test_the_start_moves_up_to_a_snapshot_only(self, log: RaftLog) -> None:
        """E8, KAFKA-14238: what is behind the newest snapshot must stay."""
        append(log, (1, 2), (2, 2), (2, 2))
        snapshot(log, OffsetAndEpoch(4, 2))
        with pytest.raises(RaftLogError, match="past the high watermark"):
            log.delete_before(OffsetAndEpoch(4, 2))
        log.update_high_watermark(6)
        assert not log.delete_before(OffsetAndEpoch(6, 2))  # There is no such snapshot.
        assert log.delete_before(OffsetAndEpoch(4, 2))
        assert not log.delete_before(OffsetAndEpoch(4, 2))
        assert (log.start_offset, log.end_offset, log.last_epoch) == (4, 6, 2)
        assert log.read(4, MANY, 6) == batch(4, 2, 2)
        assert log.validate_offset_and_epoch(2, 1) == ValidOffsetAndEpoch("SNAPSHOT", OffsetAndEpoch(4, 2))

    def test_the_start_moves_up_to_the_end(self, log: RaftLog) -> None:
        append(log, (1, 2), (2, 2))
        log.update_high_watermark(4)
        snapshot(log, OffsetAndEpoch(4, 2))
        assert log.delete_before(OffsetAndEpoch(4, 2))
        assert (log.start_offset, log.end_offset, log.last_epoch) == (4, 4, 2)

    def test_older_snapshots_go_with_the_start(self, log: RaftLog) -> None:
        append(log, (1, 2), (1, 2))
        log.update_high_watermark(4)
        snapshot(log, OffsetAndEpoch(2, 1))
        snapshot(log, OffsetAndEpoch(4, 1))
        assert (log.earliest_snapshot, log.latest_snapshot) == (OffsetAndEpoch(2, 1), OffsetAndEpoch(4, 1))
        log.delete_before(OffsetAndEpoch(4, 1))
        assert log.earliest_snapshot == OffsetAndEpoch(4, 1)
        assert log.snapshot_piece(OffsetAndEpoch(2, 1), 0, 10) is None

    def test_snapshots_are_listed_oldest_first(self, log: RaftLog) -> None:
        """The epoch goes first; what was only begun is none."""
        append(log, (1, 9))
        for end in (OffsetAndEpoch(3, 2), OffsetAndEpoch(5, 1), OffsetAndEpoch(4, 1)):
            snapshot(log, end)
        log.begin_snapshot(OffsetAndEpoch(6, 1))
        assert log.snapshots == [OffsetAndEpoch(4, 1), OffsetAndEpoch(5, 1), OffsetAndEpoch(3, 2)]

    @pytest.mark.parametrize("version", VERSIONS)
    def test_which_snapshots_may_be_made(self, new_log: NewLog, version: Level) -> None:
        """E9, KAFKA-14618: a snapshot's id is the offset behind its last record, and that record's epoch."""
        log = new_log(version)
        append(log, (1, 2), (2, 3))
        log.update_high_watermark(4)
        assert log.why_no_snapshot(OffsetAndEpoch(2, 1)) is None
        assert "not in the log" in str(log.why_no_snapshot(OffsetAndEpoch(3, 1)))
        assert "past the high watermark" in str(log.why_no_snapshot(OffsetAndEpoch(5, 2)))
        assert (log.why_no_snapshot(OffsetAndEpoch(3, 2)) is None) == (version == "3.9.1")

    # As Kafka's own log answered.

    @pytest.mark.recorded
    @pytest.mark.parametrize("version", VERSIONS)
    def test_recorded_queries(self, new_log: NewLog, version: Level) -> None:
        for case in wholly_written(version):
            log = new_log(version)
            recorded_log(log, case)
            assert (log.start_offset, log.end_offset) == (case["start_offset"], case["end_offset"])
            assert log.last_epoch == case["last_fetched_epoch"], f"case {case['i']}"
            for query in case["queries"]:
                found = list(log.end_offset_for_epoch(query["epoch"]))
                assert found == query["end_offset_for_epoch"], f"case {case['i']}"
                kind, valid = log.validate_offset_and_epoch(query["offset"], query["epoch"])
                assert (kind, list(valid)) == (query["kind"], query["valid"]), f"case {case['i']}"


def wholly_written(version: str) -> list[dict[str, Any]]:
    """The cases whose last epoch has records: a leader here writes one at once, so that no epoch is without."""
    found = [case for case in cases.load(f"raft_log_{version}") if last_of(case["appends"]) == last_of(case["table"])]
    assert found
    return found


def last_of(rows: list[list[int]]) -> int:
    """The epoch of the last row of appends (offset, epoch, count) with records, or of a table (epoch, offset)."""
    return next((row[1] if len(row) == 3 else row[0] for row in reversed(rows) if len(row) == 2 or row[2]), 0)
