"""Encodes decisions as batches of the log, and replays the batches on the active controller's state.

An atomic decision is one batch, or a metadata transaction of several batches (KIP-868). The controller applies exactly
the bytes that go into the log, so that every node that replays the log gets the same state.
"""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from kcore.controller.kraft.brokers.heartbeats import OF_BROKERS
from kcore.controller.kraft.decision import Decision, Records, Versioned, encoded
from kcore.controller.kraft.departures import SNAPSHOT_ENDS
from kcore.controller.kraft.kraft_context import ControllerContext
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.image.replay import replaying, replaying_values
from kcore.metadata.image.transactions import atomic
from kcore.metadata.metadata_version import FEATURE_NAME, VERSIONS_BY_RELEASE, MetadataVersion
from kcore.raft.log.batches import split_batches
from kcore.schema.metadata_records_log import NoOpRecord
from kcore.wire.encoded_records import MAX_BATCH_BYTES, EncodedRecords
from kcore.wire.metadata_frames import decode_metadata_record, encode_metadata_record
from kcore.wire.records import decode_records

FEW: Final = 16  # Up to this number of records, replaying one by one is faster than replaying a batch.
# The first batch of a transaction begins with this record, so that no snapshot ends where the transaction begins: a
# snapshot ends only at the end of a batch. Kafka's controllers halt at each start if a transaction begins at the offset
# where their snapshot ends (OffsetControlManager.replay(BeginTransactionRecord)).
_NO_OP: Final = EncodedRecords.of([encode_metadata_record(NoOpRecord(), 0)])
APPLIED_AT_ONCE: Final = 2_048  # Most records of a decision that are applied in one part.
BATCH_BYTES: Final = 1 << 20  # Most bytes of a batch: a follower answers no request while it replays a batch.


@dataclass(frozen=True, slots=True, eq=False)
class Written:
    """The records of a decision as batches, from the offset `begin` to the offset `end`, exclusive."""

    begin: int
    end: int
    batches: bytes
    records: EncodedRecords  # Without the NoOpRecord and the records that begin and end the transaction.
    is_transaction: bool
    framing: int  # The number of records in the batches before the decision's first record.


def encoding(context: ControllerContext, decision: Decision) -> Iterator[EncodedRecords]:
    """The encoded values of a decision's records, in parts.

    UnwritableMetadataError, TableError and EncodeError for values that records cannot express.
    """
    return encoded(context.image, decision.records, _level_of(context))


def written(
    context: ControllerContext, decision: Decision, parts: Sequence[EncodedRecords], epoch: int, wall_ms: int
) -> Generator[None, None, Written | None]:
    """A decision as batches of the leader of `epoch`, made in parts; None if the decision has no records.

    `parts`: all parts of `encoding`. LevelError if an atomic decision does not fit one batch and the metadata.version
    does not support transactions.
    """
    level = _level_of(context)
    if not parts:
        return None
    records = parts[0] if len(parts) == 1 else EncodedRecords.joined(parts)
    if len(records) > APPLIED_AT_ONCE:
        yield
    most = BATCH_BYTES if level.transactions_supported or not decision.is_atomic else MAX_BATCH_BYTES
    framed = atomic(records, level, max_bytes=most) if decision.is_atomic else records
    is_transaction = framed is not records
    if is_transaction:
        yield
    framing = int(is_transaction)
    if is_transaction and SNAPSHOT_ENDS not in context.config.kafka_way:
        framed, framing = EncodedRecords.joined([_NO_OP, framed]), 2
    begin, batches = context.image.end_offset, list[bytearray]()
    for batch in framed.batches(begin, epoch=epoch, timestamp=wall_ms, max_bytes=most):
        if batches:
            yield
        batches.append(batch)
    return Written(begin, begin + len(framed), b"".join(batches), records, is_transaction, framing)


def in_groups(records: Sequence[Records]) -> Iterator[list[Records]]:
    """The records of a decision in groups; the controller writes each group like a separate decision."""
    group: list[Records] = []
    for each in records:
        group.append(each)
        if is_long(group):
            yield group
            group = []
    if group:
        yield group


def _level_of(context: ControllerContext) -> MetadataVersion:
    """The metadata.version for encoding; the release's default while the log has none.

    The bootstrap records name their own versions.
    """
    if FEATURE_NAME in context.image.features:
        return context.version
    return MetadataVersion.parse(VERSIONS_BY_RELEASE[context.config.node.release].default)


def is_long(records: Sequence[Records]) -> bool:
    """True if a decision is encoded and applied in several parts."""
    if len(records) > APPLIED_AT_ONCE:  # Each has a record at least.
        return True
    return sum(1 if isinstance(each, Versioned) else len(each) for each in records) > APPLIED_AT_ONCE


def taking_effect(
    context: ControllerContext, made: Written, decision: Decision, epoch: int, now_ms: int
) -> Generator[None, None, None]:
    """Apply the records in parts. Decisions and reads must not use the state between the parts.

    TableError for records that do not fit the state; the state then has some parts of the decision.
    """
    image = context.image
    if len(made.records) <= FEW and not made.is_transaction:
        image.begin(made.begin, epoch)
        for offset, value in enumerate(made.records, made.begin):
            context.apply(decode_metadata_record(value)[0], offset, now_ms)
        return
    batches = split_batches(made.batches, check_crc=False)[0]
    if made.is_transaction or len(batches) == 1:
        yield from _replay_together(image, made, epoch)
    else:
        for place, batch in enumerate(batches):
            if place:
                yield
            yield from replaying(image, decode_records(batch.data))
    image.end_offset = made.end
    for place, each in enumerate(decision.records, 1):
        if place % APPLIED_AT_ONCE == 0:
            yield
        if isinstance(each, Versioned) and type(each.record) in OF_BROKERS:
            context.heartbeats.on_record(each.record, image, now_ms)


def _replay_together(image: ClusterImage, made: Written, epoch: int) -> Generator[None, None, None]:
    """Apply the records of one batch or one transaction as one change, because a batch or transaction is atomic."""
    image.begin(made.begin, epoch)
    count, records = len(made.records), made.records
    first_offset = made.begin + made.framing
    for first in range(0, count, APPLIED_AT_ONCE):
        if first:
            yield
        last = min(first + APPLIED_AT_ONCE, count)
        part = EncodedRecords(records.values, records.offsets[first : last + 1])
        yield from replaying_values(image, part, np.arange(first, last) + first_offset)
