"""Encodes decisions as batches of the log, and replays these on the state of the active controller.

A decision that must be made as a whole is one batch, or a metadata transaction of several (KIP-868). The state is
changed by the very bytes that go into the log, so that whoever replays the log comes to the same state.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from kcore.controller.kraft.context import ControllerContext
from kcore.controller.kraft.decision import Decision, Versioned, encoded
from kcore.metadata.metadata_version import FEATURE_NAME, RELEASES, MetadataVersion
from kcore.metadata.replay import replay, replay_values
from kcore.metadata.transactions import atomic
from kcore.schema.metadata_records_log import NoOpRecord
from kcore.wire.encoded_records import MAX_BATCH_BYTES, EncodedRecords
from kcore.wire.metadata_frames import decode_metadata_record, encode_metadata_record
from kcore.wire.records import decode_records

FEW: Final = 16  # Up to so many records are replayed one by one: that is faster.
# A transaction's first batch begins with it. Kafka's controllers halt, at each start, where a transaction begins at the
# very offset at which their snapshot ends (OffsetControlManager.replay(BeginTransactionRecord)). A snapshot ends where
# a batch does, so it never ends behind this record.
_NO_OP: Final = EncodedRecords.of([encode_metadata_record(NoOpRecord(), 0)])
BATCH_BYTES: Final = 1 << 20  # A follower replays a batch at once, and serves nothing meanwhile.


@dataclass(frozen=True, slots=True, eq=False)
class Written:
    """The records of a decision; the first stands at `begin`, and `end` is behind the last."""

    begin: int
    end: int
    batches: bytes
    records: EncodedRecords  # Without the NoOpRecord and those that begin and end the transaction.
    is_transaction: bool


def written(context: ControllerContext, decision: Decision, epoch: int, wall_ms: int) -> Written | None:
    """A decision as batches of the leader of `epoch`; None where it has no records.

    LevelError for a decision that is too large for one batch at a level without transactions; UnwritableMetadataError,
    TableError and EncodeError for what records cannot say.
    """
    level = _level_of(context)
    parts = list(encoded(context.image, decision.records, level))
    if not parts:
        return None
    records = parts[0] if len(parts) == 1 else EncodedRecords.joined(parts)
    most = BATCH_BYTES if level.transactions_supported or not decision.is_atomic else MAX_BATCH_BYTES
    framed = atomic(records, level, max_bytes=most) if decision.is_atomic else records
    is_transaction = framed is not records
    if is_transaction:
        framed = EncodedRecords.joined([_NO_OP, framed])
    begin = context.image.end_offset
    batches = b"".join(framed.batches(begin, epoch=epoch, timestamp=wall_ms, max_bytes=most))
    return Written(begin, begin + len(framed), batches, records, is_transaction)


def _level_of(context: ControllerContext) -> MetadataVersion:
    """The level to encode with. Before the first metadata.version every record names its version."""
    if FEATURE_NAME in context.image.features:
        return context.version
    return MetadataVersion.parse(RELEASES[context.config.release].default)


def take_effect(context: ControllerContext, made: Written, decision: Decision, epoch: int, now_ms: int) -> None:
    """The state is that behind the records. TableError, and the state in between, for records that do not fit."""
    image = context.image
    if len(made.records) <= FEW and not made.is_transaction:
        image.begin(made.begin, epoch)
        for offset, value in enumerate(made.records, made.begin):
            context.apply(decode_metadata_record(value)[0], offset, now_ms)
        return
    if made.is_transaction:  # The whole transaction is decided, so its records take effect at once.
        image.begin(made.begin, epoch)
        replay_values(image, made.records, np.arange(made.begin + 2, made.end - 1))
    else:
        replay(image, decode_records(made.batches))
    image.end_offset = made.end
    for each in decision.records:
        if isinstance(each, Versioned):
            context.heartbeats.on_record(each.record, image, now_ms)
