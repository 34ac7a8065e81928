"""The raft log's rules against KafkaMetadataLog of both versions: every query, and the snapshots it refused."""

import re
from typing import Any

import pytest

import cases
from kcore.replication.epochs import EpochCache
from kcore.replication.raft_log import OffsetAndEpoch, RaftLog

VERSIONS = ["3.9.1", "4.1.2"]


def end(pair: list[int] | None) -> OffsetAndEpoch | None:
    return None if pair is None else OffsetAndEpoch(*pair)


def raft_log(case: dict[str, Any]) -> RaftLog:
    snapshots = end(case["earliest_snapshot"]), end(case["latest_snapshot"])
    return RaftLog(EpochCache(map(tuple, case["table"])), case["start_offset"], case["end_offset"], *snapshots)


def uncut_log(case: dict[str, Any]) -> RaftLog:
    """The log before any snapshot removed its beginning."""
    cache, log_end = EpochCache(), 0
    for _, epoch, count in case["appends"]:  # No records: a leader took over.
        cache.assign(epoch, log_end)
        log_end += count
    return RaftLog(cache, 0, log_end)


@pytest.mark.recorded
@pytest.mark.parametrize("version", VERSIONS)
def test_epochs_follow_from_the_appends(version: str) -> None:
    for case in cases.load(f"raft_log_{version}"):
        log = uncut_log(case)
        log.cache.truncate_from_start(case["start_offset"])
        assert log.end_offset == case["end_offset"]
        assert [list(entry) for entry in log.cache.entries] == case["table"], f"case {case['i']}"


@pytest.mark.recorded
@pytest.mark.parametrize("version", VERSIONS)
def test_queries(version: str) -> None:
    for case in cases.load(f"raft_log_{version}"):
        log = raft_log(case)
        assert log.last_fetched_epoch == case["last_fetched_epoch"], f"case {case['i']}"
        for query in case["queries"]:
            assert query["error"] is None
            assert list(log.end_offset_for_epoch(query["epoch"])) == query["end_offset_for_epoch"], f"case {case['i']}"
            kind, valid = log.validate_offset_and_epoch(query["offset"], query["epoch"])
            assert (kind, list(valid)) == (query["kind"], query["valid"]), f"case {case['i']}"


@pytest.mark.recorded
@pytest.mark.parametrize("version", VERSIONS)
def test_snapshots_that_kafka_refused(version: str) -> None:
    """The recorded text names the requested snapshot, before the log was cut; its epoch follows from the log."""
    for case in cases.load(f"raft_log_{version}"):
        if case["snapshot_error"] is None:
            continue
        log, numbers = uncut_log(case), [int(number) for number in re.findall(r"\d+", case["snapshot_error"])]
        batch_starts = [offset for offset, _, count in case["appends"] if count]
        if "high-watermark" in case["snapshot_error"]:
            snapshot, high_watermark = OffsetAndEpoch(*numbers[:2]), numbers[2]
            expected = f"past the high watermark {high_watermark}"
        else:
            snapshot = OffsetAndEpoch(numbers[0], log.cache.epoch_for_offset(numbers[0] - 1) or 0)
            high_watermark, expected = log.end_offset, f"within the batch that begins at {numbers[1]}"
        why = log.why_no_snapshot(snapshot, high_watermark, batch_starts, version)
        assert why is not None and why.endswith(expected), f"case {case['i']}"


@pytest.mark.recorded
@pytest.mark.parametrize("version", VERSIONS)
def test_snapshots_that_kafka_made(version: str) -> None:
    for case in cases.load(f"raft_log_{version}"):
        log, batch_starts = uncut_log(case), [offset for offset, _, count in case["appends"] if count]
        for snapshot in (end(case["earliest_snapshot"]), end(case["latest_snapshot"])):
            if snapshot is not None:
                assert log.why_no_snapshot(snapshot, log.end_offset, batch_starts, version) is None, f"case {case['i']}"
