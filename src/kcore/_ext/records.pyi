"""Record batches of magic 2, in Rust: CRC-32C, a scanner of batch headers, records as columns, building of batches."""

from collections.abc import Sequence
from typing import final

from _typeshed import ReadableBuffer

@final
class Column:
    """Owns the bytes of the columns that this module's functions return. The bytes are read-only."""

    def __buffer__(self, flags: int, /) -> memoryview: ...

def crc32c(data: ReadableBuffer, value: int = 0) -> int:
    """CRC-32C of a contiguous buffer of bytes, continued from `value`; BufferError for any other buffer."""

def scan(
    data: ReadableBuffer, start: int, limit: int, check_crc: bool, skip: bool
) -> tuple[memoryview, list[int], int, int, tuple[str, int] | None, list[tuple[str, int]]]:
    """The headers of at most `limit` batches from byte `start` on.

    Returns one buffer with 15 columns in native order (names and dtypes: `kcore.wire.record_batch.BATCH_COLUMNS`), the
    start of each column in the buffer, the number of batches, and the byte where reading ended. Then the problem that
    ended it with the position of the wrong field, or None; and the problems of skipped batches.
    """

def decode(
    data: ReadableBuffer, positions: ReadableBuffer, max_bytes: int
) -> tuple[list[memoryview], list[memoryview], memoryview, int, tuple[str, int] | None]:
    """The records of the batches at `positions` (int64); all batches together decompress to at most `max_bytes`.

    Returns the columns of records and of headers (names and dtypes: `kcore.wire.records.RECORD_COLUMNS`,
    `HEADER_COLUMNS`), the decompressed bytes, the number of decoded batches, and the problem that ended it, or None.
    """

def find_time(
    batch: ReadableBuffer, timestamp: int, start_offset: int, budget: int
) -> tuple[tuple[int, int] | None, bool]:
    """Time and offset of a batch's first record from `timestamp` and `start_offset` on, or None; and True.

    None and False if more than `budget` bytes would have to be decompressed. ValueError for an invalid batch. No record
    is kept in memory.
    """

def encode(
    batches: Sequence[ReadableBuffer],
    records: Sequence[ReadableBuffer],
    headers: Sequence[ReadableBuffer],
    buffers: Sequence[ReadableBuffer],
    level: int | None,
) -> bytes:
    """Batches built from 9, 8 and 4 columns of int64 (`kcore.wire.record_building`) over buffers of bytes.

    The position of a span counts the bytes of all buffers before its own. ValueError names the row that cannot be
    written.
    """

def gather(
    buffers: Sequence[ReadableBuffer], offsets: ReadableBuffer, lengths: ReadableBuffer
) -> tuple[memoryview | None, int, memoryview, memoryview]:
    """Copies spans of bytes into the buffers of an Arrow array of type binary or string.

    `offsets` (int64) count the bytes of all `buffers`; `lengths` are int32, and negative for null. Returns the validity
    bitmap (None without nulls), the number of nulls, the offsets (int32), and the values. ValueError for a span outside
    the buffers, with its row, and for 2 GiB of values or more.
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
    most_of_record: int,
) -> tuple[tuple[int, str] | None, list[tuple[int, int, int]], int, int, bytes | None]:
    """Validate one batch's `records`, the bytes after its header, as LogValidator and Kafka's streams do.

    `count`, `codec` (0 to 4) and `base_timestamp` (ms) are fields of the header; `append_time`: its maxTimestamp, if
    its timestamp type is LogAppendTime. `window`: the time now, and how far a record's timestamp may be before and
    after that (ms); None if the topic's timestamp type is LogAppendTime. `target`: codec, level and most bytes of the
    rewritten records; None to leave the records unchanged. `budget`: most bytes to decompress.
    `most_of_record`: most bytes of one compressed record after its length, below 2**31.

    Returns None or the error (0 INVALID_RECORD, 1 UNKNOWN_SERVER_ERROR, 2 MESSAGE_TOO_LARGE) with its reason.
    Then at most 1,000 refused records as (index, reason, timestamp); reasons are 0 no key, 1 timestamp out of the
    window, 2 LogAppendTime set by a producer. Then the first and the largest timestamp, and the rewritten records.
    Unchanged records are not kept in memory; a record to rewrite is, with at most a quarter of `budget`.
    """
