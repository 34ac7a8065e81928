"""Appends to a replica's log: a producer's batch to a leader's log, a leader's batches to a follower's log.

Source: UnifiedLog.append of 3.9.1.
"""

from typing import NamedTuple

import numpy as np

from kcore.broker.replicas.log import ReplicaLog
from kcore.broker.replicas.log_validator import Bytes, CheckedRecords, LogConfig, validate
from kcore.broker.replicas.transactions import EndMarker, encode_end_marker
from kcore.protocol_errors import Errors
from kcore.wire.record_batch import NO_TIMESTAMP, scan_batches


class Appended(NamedTuple):
    """The offsets and the time of a producer's batch in the log."""

    first_offset: int
    last_offset: int
    log_append_time_ms: int  # -1 if the topic keeps the producer's timestamps.


def append_as_leader(
    log: ReplicaLog,
    data: Bytes,
    leader_epoch: int,
    config: LogConfig,
    date_ms: int,
    guard: object | None = None,
    prechecked: CheckedRecords | None = None,
) -> Appended:
    """Appends a batch that passed `check_headers`; for a duplicate, returns the result of the original append.

    `date_ms`: the time in ms since 1970. `guard`: see Producers.check. `prechecked`: see `validate`. For a refused
    batch, raises ApiException, and appends nothing.
    """
    offset = log.end_offset
    validated = validate(data, config, offset, leader_epoch, date_ms, prechecked)
    known = log.producers.duplicate_of(validated.batches)
    if known is not None:
        return Appended(known.first_offset, known.last_offset, known.timestamp)
    log.producers.check(validated.batches, guard, is_new_log=offset == 0)
    log.append(validated.data, validated.batches)
    return Appended(offset, int(validated.batches.last_offset[0]), validated.log_append_time_ms)


def append_end_marker(
    log: ReplicaLog, marker: EndMarker, producer_id: int, producer_epoch: int, leader_epoch: int, timestamp_ms: int
) -> Appended:
    """Appends the end marker of a transaction as a control batch.

    For a late marker, raises InvalidProducerEpochException or TransactionCoordinatorFencedException, and appends
    nothing.
    """
    log.producers.check_marker(producer_id, producer_epoch, marker.coordinator_epoch)
    offset = log.end_offset
    placed = {"offset": offset, "leader_epoch": leader_epoch, "timestamp_ms": timestamp_ms}
    data = encode_end_marker(marker, producer_id, producer_epoch, **placed)
    log.append(data, scan_batches(data))
    return Appended(offset, offset, NO_TIMESTAMP)


def append_as_follower(log: ReplicaLog, data: Bytes) -> int:
    """Appends the complete batches of a leader's answer unchanged. Returns their size in bytes.

    After DeleteRecords the leader's log may start in the middle of a batch. A follower's empty log then appends the
    whole batch, and keeps the leader's start offset (Partition.appendRecordsToFollowerOrFutureReplica).
    Raises CorruptMessageException for malformed batches, a wrong CRC, and decreasing offsets or epochs.
    """
    batches = scan_batches(data, stop=True)
    if not len(batches):
        if len(data) and batches.problem is not None and batches.problem.offset == 0 and _is_whole(data):
            Errors.CORRUPT_MESSAGE.raise_for(str(batches.problem))
        return 0  # The data is only the beginning of a batch, which is larger than the requested size.
    if not batches.crc_matches.all():
        Errors.CORRUPT_MESSAGE.raise_for("a batch whose CRC does not match")
    first_offset, start_offset = int(batches.base_offset[0]), log.start_offset
    is_cut = 0 <= first_offset < start_offset == log.end_offset <= int(batches.last_offset[0])
    floors = np.concatenate([[first_offset if is_cut else log.end_offset], batches.last_offset[:-1] + 1])
    if (batches.base_offset < floors).any() or (batches.last_offset_delta < 0).any():
        Errors.CORRUPT_MESSAGE.raise_for(f"offsets from {batches.base_offset[0]} cannot follow {floors[0] - 1}")
    latest = log.epochs.latest_epoch
    epochs = batches.partition_leader_epoch
    if epochs[0] < (-1 if latest is None else latest) or (np.diff(epochs) < 0).any():
        Errors.CORRUPT_MESSAGE.raise_for(f"leader epoch {epochs[0]} cannot follow {latest}")
    if is_cut:
        log.truncate_fully_and_start_at(first_offset)
    log.append(bytes(data[: batches.end]), batches)
    log.raise_start_offset(start_offset)
    return batches.end


def _is_whole(data: Bytes) -> bool:
    """Whether the data has all bytes of the first batch, by the batch's length field."""
    return len(data) >= 12 and 0 <= int.from_bytes(data[8:12], signed=True) <= len(data) - 12
