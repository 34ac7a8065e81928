"""Appends to a replica's log: a producer's batch to the leader's, a leader's batches to a follower's.

Source: UnifiedLog.append of 3.9.1.
"""

from typing import NamedTuple

import numpy as np

from kcore.broker.replicas.log import ReplicaLog
from kcore.broker.replicas.log_validator import Bytes, CheckedRecords, LogConfig, validate
from kcore.broker.replicas.transactions import EndMarker, encode_end_marker
from kcore.protocol_errors import ApiException, Errors, exception_of
from kcore.wire.record_batch import NO_TIMESTAMP, scan_batches


class Appended(NamedTuple):
    """The place of a producer's batch in the log."""

    first_offset: int
    last_offset: int
    log_append_time_ms: int  # -1 where the topic keeps the producer's times.


def append_as_leader(
    log: ReplicaLog,
    data: Bytes,
    leader_epoch: int,
    config: LogConfig,
    date_ms: int,
    guard: object | None = None,
    ahead: CheckedRecords | None = None,
) -> Appended:
    """Appends the batch that `first_look` found, with the next offsets; for a duplicate, the place of the first.

    `date_ms` is the time of day; `guard` as Producers.check has it, `ahead` as `validate` does. ApiException if it is
    refused: nothing was appended then.
    """
    offset = log.end_offset
    validated = validate(data, config, offset, leader_epoch, date_ms, ahead)
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

    InvalidProducerEpochException or TransactionCoordinatorFencedException if it comes too late: nothing was appended.
    """
    log.producers.check_marker(producer_id, producer_epoch, marker.coordinator_epoch)
    offset = log.end_offset
    placed = {"offset": offset, "leader_epoch": leader_epoch, "timestamp_ms": timestamp_ms}
    data = encode_end_marker(marker, producer_id, producer_epoch, **placed)
    log.append(data, scan_batches(data))
    return Appended(offset, offset, NO_TIMESTAMP)


def append_as_follower(log: ReplicaLog, data: Bytes) -> int:
    """Appends the whole batches of a leader's answer as they are; how many bytes they have.

    The leader's log may start in the middle of its first batch, since records were deleted. An empty log takes that
    batch, too, and starts where it started (Partition.appendRecordsToFollowerOrFutureReplica).
    CorruptMessageException for bytes that are none, a CRC that does not match, offsets or epochs that go back.
    """
    batches = scan_batches(data, stop=True)
    if not len(batches):
        if len(data) and batches.problem is not None and batches.problem.offset == 0 and _is_whole(data):
            raise _refused(Errors.CORRUPT_MESSAGE, str(batches.problem))
        return 0  # Only the beginning of a batch that is larger than was asked for.
    if not batches.crc_matches.all():
        raise _refused(Errors.CORRUPT_MESSAGE, "a batch whose CRC does not match")
    first_offset, start_offset = int(batches.base_offset[0]), log.start_offset
    is_cut = 0 <= first_offset < start_offset == log.end_offset <= int(batches.last_offset[0])
    floors = np.concatenate([[first_offset if is_cut else log.end_offset], batches.last_offset[:-1] + 1])
    if (batches.base_offset < floors).any() or (batches.last_offset_delta < 0).any():
        raise _refused(Errors.CORRUPT_MESSAGE, f"offsets from {batches.base_offset[0]} cannot follow {floors[0] - 1}")
    latest = log.epochs.latest_epoch
    epochs = batches.partition_leader_epoch
    if epochs[0] < (-1 if latest is None else latest) or (np.diff(epochs) < 0).any():
        raise _refused(Errors.CORRUPT_MESSAGE, f"leader epoch {epochs[0]} cannot follow {latest}")
    if is_cut:
        log.truncate_fully_and_start_at(first_offset)
    log.append(bytes(data[: batches.end]), batches)
    log.raise_start_offset(start_offset)
    return batches.end


def _is_whole(data: Bytes) -> bool:
    """Whether the first batch is complete by its length."""
    return len(data) >= 12 and 0 <= int.from_bytes(data[8:12], signed=True) <= len(data) - 12


def _refused(error: Errors, why: str) -> ApiException:
    return exception_of(error)(why)
