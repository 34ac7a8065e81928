"""Record batches of magic 2, in Rust: CRC-32C, a scanner of batch headers, records as columns, building of batches."""

from collections.abc import Sequence
from typing import final

from _typeshed import ReadableBuffer

@final
class Column:
    """Owns the bytes of the columns that the functions here return: nobody may change them."""

    def __buffer__(self, flags: int, /) -> memoryview: ...

def crc32c(data: ReadableBuffer, value: int = 0) -> int:
    """CRC-32C of a contiguous buffer of bytes, continued from `value`; BufferError for any other buffer."""

def scan(
    data: ReadableBuffer, start: int, limit: int, check_crc: bool, skip: bool
) -> tuple[memoryview, list[int], int, int, tuple[str, int] | None, list[tuple[str, int]]]:
    """The headers of at most `limit` batches from byte `start` on.

    Returns one buffer with 15 columns in native order (names and dtypes: `kcore.wire.record_batch.BATCH_COLUMNS`), the
    begin of each column there, the number of batches, and the offset where reading ended. Then None or the problem that
    stopped it with the offset of the wrong field, and what was skipped.
    """

def decode(
    data: ReadableBuffer, positions: ReadableBuffer, max_bytes: int
) -> tuple[list[memoryview], list[memoryview], memoryview, int, tuple[str, int] | None]:
    """The records of the batches at `positions` (int64); all batches together decompress to at most `max_bytes`.

    Returns the columns of records and of headers (names and dtypes: `kcore.wire.records.RECORD_COLUMNS`,
    `HEADER_COLUMNS`), the decompressed bytes, the number of decoded batches, and None or the problem that stopped it.
    """

def find_time(
    batch: ReadableBuffer, timestamp: int, start_offset: int, budget: int
) -> tuple[tuple[int, int] | None, bool]:
    """Time and offset of the first record of a batch that is not older and not below `start_offset`.

    None and False: more than `budget` bytes would have to be decompressed. ValueError for an invalid batch. No record
    is kept in memory.
    """

def encode(
    batches: Sequence[ReadableBuffer],
    records: Sequence[ReadableBuffer],
    headers: Sequence[ReadableBuffer],
    buffers: Sequence[ReadableBuffer],
    level: int | None,
) -> bytes:
    """Batches built from 9, 8 and 4 columns of int64 (`kcore.wire.record_building`) over two buffers of bytes.
    ValueError names the row that cannot be written.
    """

def validate(
    records: ReadableBuffer,
    count: int,
    codec: int,
    base_timestamp: int,
    append_time: int | None,
    is_compacted: bool,
    window: tuple[int, int, int] | None,
    target: tuple[int, int | None, int] | None,
    budget: int,
) -> tuple[tuple[int, str] | None, list[tuple[int, int, int]], int, int, bytes | None]:
    """Validate one batch's `records`, the bytes after its header, as LogValidator and Kafka's streams do.

    `count`, `codec` (0 to 4) and `base_timestamp` (ms) are the header's; `append_time`: its maxTimestamp, if its
    timestamp type is LogAppendTime. `window`: now, and how far before and after that a record's time may be (ms); None
    if the topic's own type is LogAppendTime. `target`: the codec, its level and the most bytes of the rewritten
    records; None if they stay as they are. `budget`: bytes that may be decompressed.

    Returns None or the error (0 INVALID_RECORD, 1 UNKNOWN_SERVER_ERROR, 2 MESSAGE_TOO_LARGE; and why).
    Then at most 1,000 refused records as (place, reason, timestamp); reasons are 0 no key, 1 timestamp out of the
    window, 2 LogAppendTime set by a producer. Then the first and the largest timestamp, and the rewritten records.
    Records that stay are not kept in memory; rewritten ones are kept one at a time, a quarter of `budget` at most.
    """
