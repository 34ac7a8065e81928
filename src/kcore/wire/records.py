"""Record batches of magic 2 (KIP-98): CRC-32C, and batch headers as columns. Records stay as they are."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kcore._ext import records
from kcore.errors import DecodeError
from kcore.types import Bools, Int8s, Int16s, Int32s, Int64s

crc32c = records.crc32c

# In the kernel's order. Fields are those of Kafka's DefaultRecordBatch; `position` is ours: where the batch starts.
BATCH_COLUMNS: tuple[tuple[str, type[np.generic]], ...] = (
    ("position", np.int64),
    ("base_offset", np.int64),
    ("batch_length", np.int32),
    ("partition_leader_epoch", np.int32),
    ("magic", np.int8),
    ("crc", np.uint32),
    ("attributes", np.int16),
    ("last_offset_delta", np.int32),
    ("base_timestamp", np.int64),
    ("max_timestamp", np.int64),
    ("producer_id", np.int64),
    ("producer_epoch", np.int16),
    ("base_sequence", np.int32),
    ("count", np.int32),
    ("crc_matches", np.bool_),
)


@dataclass(frozen=True, slots=True, eq=False)
class RecordBatches:
    """Headers of record batches, a column a field, an element a batch; read-only arrays."""

    position: Int64s  # bytes from the start of the buffer
    base_offset: Int64s
    batch_length: Int32s  # bytes, counted after the field itself
    partition_leader_epoch: Int32s  # outside the CRC
    magic: Int8s
    crc: npt.NDArray[np.uint32]  # as stored
    attributes: Int16s
    last_offset_delta: Int32s
    base_timestamp: Int64s  # milliseconds
    max_timestamp: Int64s  # milliseconds
    producer_id: Int64s
    producer_epoch: Int16s
    base_sequence: Int32s
    count: Int32s  # records
    crc_matches: Bools
    end: int  # offset of the first byte that belongs to none of the batches
    problem: DecodeError | None  # what stands at `end`, if it is not the end of the bytes

    def __len__(self) -> int:
        return len(self.position)


def scan_batches(data: bytes | bytearray | memoryview, *, stop: bool = False) -> RecordBatches:
    """The headers of all record batches in a contiguous buffer of bytes: a segment, or a records field.

    Nothing is decompressed. A CRC that does not match is told in `crc_matches`. DecodeError with its offset if a batch
    is torn, of another magic or shorter than its header; with `stop`, reading ends there and `problem` has the error.
    """
    columns, end, found = records.scan(data)
    problem = DecodeError(*found) if found else None
    if problem and not stop:
        raise problem
    arrays = {name: np.frombuffer(column, dtype) for (name, dtype), column in zip(BATCH_COLUMNS, columns, strict=True)}
    return RecordBatches(**arrays, end=end, problem=problem)
