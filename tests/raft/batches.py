"""Batches for raft logs, and the logs of recorded cases."""

from collections.abc import Iterable, Iterator
from typing import Any

from kcore.raft.log.accumulator import Accumulator
from kcore.raft.log.control_records import snapshot_footer, snapshot_header
from kcore.raft.log.raft_log import RaftLog
from kcore.raft.membership.voters import VoterSet
from kcore.replication.raft_log import OffsetAndEpoch
from kcore.wire.record_building import encode_records
from kcore.wire.records import Record


def batch(base_offset: int, epoch: int, count: int = 1, value: bytes = b"v") -> bytes:
    """One batch of `count` records."""
    rows = [Record(base_offset + k, 1000, None, value) for k in range(count)]
    return encode_records(rows, partition_leader_epoch=epoch)


def append(log: RaftLog, *runs: tuple[int, int]) -> None:
    """A batch for each (epoch, count)."""
    for epoch, count in runs:
        log.append_as_leader(batch(log.end_offset, epoch, count), epoch)


def snapshot_batches(
    epoch: int,
    values: Iterable[bytes],
    last_contained_log_timestamp: int,
    kraft_version: int,
    voters: VoterSet | None,
    now_ms: int,
) -> Iterator[bytes]:
    """The batches of a whole snapshot that no running node writes: header, records, footer."""
    header, count = snapshot_header(epoch, last_contained_log_timestamp, kraft_version, voters, now_ms)
    yield header
    filling = Accumulator(count)
    for value in values:
        if not filling.has_room([value]):
            yield filling.drain(epoch).data
        filling.add([value], now_ms, 0)
    if filling.records:
        yield filling.drain(epoch).data
    yield snapshot_footer(epoch, filling.next_offset, now_ms)


WHOLE_SNAPSHOT = b"".join(snapshot_batches(1, [], 0, 0, None, 0))
"""The bytes of a snapshot of nothing: a log on a disk is not opened with another one."""


def snapshot(log: RaftLog, end: OffsetAndEpoch, data: bytes = WHOLE_SNAPSHOT) -> None:
    """A whole one."""
    log.begin_snapshot(end)
    log.append_snapshot(end, data)
    log.freeze_snapshot(end)


def recorded_log(log: RaftLog, case: dict[str, Any]) -> None:
    """Does to an empty log what was done to Kafka's in a case of `raft_log_*`."""
    append(log, *((epoch, count) for _, epoch, count in case["appends"] if count))
    log.update_high_watermark(log.end_offset)
    ends = [OffsetAndEpoch(*case[name]) for name in ("earliest_snapshot", "latest_snapshot") if case[name]]
    for end in dict.fromkeys(ends):
        snapshot(log, end)
    if case["start_offset"]:
        log.delete_before(ends[0])
