"""What a leader makes of a producer's batch before it goes into the log (LogValidator and UnifiedLog of 3.9.1).

Records are not decoded: the base offset and the leader epoch stand outside the CRC.
"""

from struct import Struct
from typing import Final, NamedTuple

import numpy as np

from kcore.broker.log import ReplicaLog
from kcore.broker.transactions import EndMarker, encode_end_marker
from kcore.errors import DecodeError
from kcore.protocol_errors import ApiException, Errors, exception_of
from kcore.wire.record_batch import RecordBatches, scan_batches
from kcore.wire.record_building import CONTROL

MAX_MESSAGE_BYTES: Final = 1_048_588  # max.message.bytes
_BASE_OFFSET: Final = Struct(">q")
_LEADER_EPOCH: Final = Struct(">i")
_LEADER_EPOCH_AT: Final = 12


class Appended(NamedTuple):
    """Where a producer's batch lies."""

    first_offset: int
    last_offset: int


def append_as_leader(
    log: ReplicaLog, data: bytes | memoryview, leader_epoch: int, max_bytes: int, guard: object | None = None
) -> Appended:
    """Appends one batch with the next offsets; of one that is there already, where it lies.

    `guard`: as Producers.check has it. ApiException if it is refused: nothing was appended then.
    """
    batches = _checked(data, max_bytes)
    known = log.producers.duplicate_of(batches)
    if known is not None:
        return Appended(known.first_offset, known.last_offset)
    log.producers.check(batches, guard)
    offset = log.end_offset
    written = bytearray(data)
    _BASE_OFFSET.pack_into(written, 0, offset)
    _LEADER_EPOCH.pack_into(written, _LEADER_EPOCH_AT, leader_epoch)
    data = bytes(written)
    placed = scan_batches(data)
    log.append(data, placed)
    return Appended(offset, int(placed.last_offset[0]))


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
    return Appended(offset, offset)


def append_as_follower(log: ReplicaLog, data: bytes | memoryview) -> int:
    """Appends the whole batches of a leader's answer as they are; how many bytes they have.

    CorruptMessageException for bytes that are none, a CRC that does not match, offsets or epochs that go back.
    """
    batches = scan_batches(data, stop=True)
    if not len(batches):
        if len(data) and batches.problem is not None and batches.problem.offset == 0 and _is_whole(data):
            raise _refused(Errors.CORRUPT_MESSAGE, str(batches.problem))
        return 0  # Only the beginning of a batch that is larger than was asked for.
    if not batches.crc_matches.all():
        raise _refused(Errors.CORRUPT_MESSAGE, "a batch whose CRC does not match")
    floors = np.concatenate([[log.end_offset], batches.last_offset[:-1] + 1])
    if (batches.base_offset < floors).any() or (batches.last_offset_delta < 0).any():
        raise _refused(Errors.CORRUPT_MESSAGE, f"offsets from {batches.base_offset[0]} cannot follow {floors[0] - 1}")
    latest = log.epochs.latest_epoch
    epochs = batches.partition_leader_epoch
    if epochs[0] < (-1 if latest is None else latest) or (np.diff(epochs) < 0).any():
        raise _refused(Errors.CORRUPT_MESSAGE, f"leader epoch {epochs[0]} cannot follow {latest}")
    log.append(bytes(data[: batches.end]), batches)
    return batches.end


def _is_whole(data: bytes | memoryview) -> bool:
    """Whether the first batch's length says that all of it is there."""
    return len(data) >= 12 and 0 <= int.from_bytes(data[8:12], signed=True) <= len(data) - 12


def _checked(data: bytes | memoryview, max_bytes: int) -> RecordBatches:
    try:
        batches = scan_batches(data)
    except DecodeError as error:
        raise _refused(Errors.CORRUPT_MESSAGE, str(error)) from None
    if len(batches) != 1:  # KIP-98: from Produce version 3 on.
        raise _refused(Errors.INVALID_RECORD, f"{len(batches)} batches for one partition, not one")
    if not batches.crc_matches[0]:
        raise _refused(Errors.CORRUPT_MESSAGE, "a batch whose CRC does not match")
    if len(data) > max_bytes:
        raise _refused(Errors.MESSAGE_TOO_LARGE, f"a batch of {len(data)} bytes, more than {max_bytes}")
    if batches.attributes[0] & CONTROL:
        raise _refused(Errors.INVALID_RECORD, "clients write no control batches")
    if batches.count[0] < 1 or batches.last_offset_delta[0] != batches.count[0] - 1:
        raise _refused(Errors.INVALID_RECORD, f"{batches.count[0]} records, last {batches.last_offset_delta[0]}")
    if batches.producer_id[0] >= 0 and batches.base_sequence[0] < 0:
        raise _refused(Errors.INVALID_RECORD, f"sequence {batches.base_sequence[0]} of an idempotent producer")
    return batches


def _refused(error: Errors, why: str) -> ApiException:
    return exception_of(error)(why)
