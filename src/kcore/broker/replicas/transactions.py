"""Transactions in a partition's log (KIP-98): end markers, open and aborted transactions, the last stable offset.

A transaction in a log begins with its first batch. It ends with an end marker, a control batch that the leader writes
when the transaction's coordinator sends WriteTxnMarkers. The last stable offset (LSO) is the first offset of the oldest
transaction without a committed marker, or the high watermark. A read_committed consumer reads only below the LSO, and
gets the list of aborted transactions.

Source: EndTransactionMarker, TxnMetadata and ProducerStateManager of 3.9.1.
"""

from struct import Struct
from struct import error as StructError
from typing import TYPE_CHECKING, Final, NamedTuple

from kcore.errors import DecodeError
from kcore.protocol_errors import Errors
from kcore.wire.record_batch import CODEC_MASK, CONTROL, RecordBatches
from kcore.wire.record_building import encode_records
from kcore.wire.records import Record, decode_records

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer as Buffer  # collections.abc.Buffer, from Python 3.12 on.

ABORT: Final = 0  # ControlRecordType
COMMIT: Final = 1
_KEY: Final = Struct(">hh")  # Version and control type.
_VALUE: Final = Struct(">hi")  # Version and coordinator epoch; later versions have further fields after these.
_VERSION: Final = 0
MOST_BYTES: Final = 1024  # The size limit of a control batch; Kafka's control batches have 78 bytes.


class EndMarker(NamedTuple):
    """The coordinator's decision about a transaction, which an end marker stores."""

    is_commit: bool
    coordinator_epoch: int


class AbortedTransaction(NamedTuple):
    """An aborted transaction, and the last stable offset after its end marker (Kafka's AbortedTxn)."""

    producer_id: int
    first_offset: int
    last_offset: int  # The offset of its end marker.
    last_stable_offset: int


def encode_end_marker(
    marker: EndMarker, producer_id: int, producer_epoch: int, *, offset: int, leader_epoch: int, timestamp_ms: int
) -> bytes:
    """The control batch of a marker (MemoryRecords.withEndTransactionMarker)."""
    key = _KEY.pack(_VERSION, COMMIT if marker.is_commit else ABORT)
    value = _VALUE.pack(_VERSION, marker.coordinator_epoch)
    return encode_records(
        [Record(offset, timestamp_ms, key, value)],
        transactional=True,
        control=True,
        partition_leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
    )


def end_markers(data: "Buffer", batches: RecordBatches, *, tolerant: bool = False) -> dict[int, EndMarker]:
    """The end markers in `data`, by row of `batches`, the result of scanning `data`.

    Ignores other control records, and control batches whose marker was removed by compaction. For a control batch that
    cannot be decoded, raises CorruptRecordException; with `tolerant`, for stored batches, ignores it.
    """
    markers = {}
    for row in (batches.attributes & CONTROL).nonzero()[0].tolist():
        if batches.count[row] == 0:
            continue
        begin, size = int(batches.position[row]), int(batches.size[row])
        try:
            if size > MOST_BYTES or batches.attributes[row] & CODEC_MASK:
                raise DecodeError(f"{size} bytes, attributes {batches.attributes[row]}", begin)
            marker = _end_marker(bytes(memoryview(data)[begin : begin + size]))
            if marker is not None:
                markers[row] = marker
        except (DecodeError, StructError, StopIteration) as error:
            if not tolerant:
                Errors.CORRUPT_MESSAGE.raise_for(f"a control batch cannot be decoded: {error}")
    return markers


def _end_marker(batch: bytes) -> EndMarker | None:
    record = next(iter(decode_records(batch)))
    _, control_type = _KEY.unpack_from(record.key or b"")
    if control_type not in (ABORT, COMMIT):
        return None
    _, coordinator_epoch = _VALUE.unpack_from(record.value or b"")
    return EndMarker(control_type == COMMIT, coordinator_epoch)


class Transactions:
    """The transactions of one partition that are open, or whose end marker is not committed."""

    def __init__(self) -> None:
        self.open: dict[int, int] = {}  # First offset -> producer id; first offsets ascend.
        self._ended: dict[int, int] = {}  # First offset -> offset of the end marker, until the marker is committed.

    def begin(self, first_offset: int, producer_id: int) -> None:
        """Adds an open transaction; `first_offset` is the offset of its first batch."""
        self.open[first_offset] = producer_id

    def end(self, first_offset: int, marker_offset: int) -> int:
        """Ends a transaction. Returns the last stable offset once the marker is committed (lastStableOffset)."""
        del self.open[first_offset]
        self._ended[first_offset] = marker_offset
        return next(iter(self.open), marker_offset + 1)

    def first_unstable_offset(self, high_watermark: int) -> int | None:
        """The first offset of the oldest transaction without a committed end marker; None if there is none."""
        self._ended = {first: marker for first, marker in self._ended.items() if marker >= high_watermark}
        return min((*self._ended, *([next(iter(self.open))] if self.open else [])), default=None)
