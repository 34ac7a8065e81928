"""Transactions in a partition's log (KIP-98): end markers, open and aborted transactions, the last stable offset.

A transactional producer's batches are in the log like all others. The transaction begins with its first batch there and
ends with an end marker: a control batch that its coordinator has the leader write (WriteTxnMarkers). A read_committed
consumer reads below the last stable offset (LSO), the first record of the oldest transaction that has no marker below
the high watermark, and gets the list of aborted transactions.

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
_VALUE: Final = Struct(">hi")  # Version and coordinator epoch; later versions add fields behind these.
_VERSION: Final = 0
MOST_BYTES: Final = 1024  # Of a control batch; Kafka's have 78.


class EndMarker(NamedTuple):
    """The decision about a transaction, as its coordinator made it."""

    is_commit: bool
    coordinator_epoch: int


class AbortedTransaction(NamedTuple):
    """One aborted transaction, and the last stable offset when it was (Kafka's AbortedTxn)."""

    producer_id: int
    first_offset: int
    last_offset: int  # Of its end marker.
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
    """The end markers in `data` by row of `batches`, which is its scan.

    A control batch without records has lost its marker to compaction; other types of control records are none.
    CorruptRecordException for a control batch that cannot be read, before it is stored; `tolerant`, of what is stored
    already, leaves it out.
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
                Errors.CORRUPT_MESSAGE.raise_for(f"a control batch that cannot be read: {error}")
    return markers


def _end_marker(batch: bytes) -> EndMarker | None:
    record = next(iter(decode_records(batch)))
    _, control_type = _KEY.unpack_from(record.key or b"")
    if control_type not in (ABORT, COMMIT):
        return None
    _, coordinator_epoch = _VALUE.unpack_from(record.value or b"")
    return EndMarker(control_type == COMMIT, coordinator_epoch)


class Transactions:
    """The transactions of one partition that hold back the last stable offset."""

    def __init__(self) -> None:
        self.open: dict[int, int] = {}  # First offset -> producer id; first offsets ascend.
        self._ended: dict[int, int] = {}  # First offset -> offset of the end marker, which may not be committed yet.

    def begin(self, first_offset: int, producer_id: int) -> None:
        """A producer's first batch of a transaction."""
        self.open[first_offset] = producer_id

    def end(self, first_offset: int, marker_offset: int) -> int:
        """Its end marker is in the log. Returns the last stable offset once that is committed (lastStableOffset)."""
        del self.open[first_offset]
        self._ended[first_offset] = marker_offset
        return next(iter(self.open), marker_offset + 1)

    def first_unstable_offset(self, high_watermark: int) -> int | None:
        """The first offset of the oldest transaction without a committed end marker; None if there is none."""
        self._ended = {first: marker for first, marker in self._ended.items() if marker >= high_watermark}
        return min((*self._ended, *([next(iter(self.open))] if self.open else [])), default=None)
