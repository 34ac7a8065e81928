"""Record batches of magic 2, in Rust: CRC-32C, the scanner of batch headers, records as columns, batches built."""

from collections.abc import Sequence
from typing import final

from _typeshed import ReadableBuffer

@final
class Column:
    """Whose bytes the columns show that the functions here return: nobody changes them."""

    def __buffer__(self, flags: int, /) -> memoryview: ...

def crc32c(data: ReadableBuffer, value: int = 0) -> int:
    """CRC-32C of a contiguous buffer of bytes, continued from `value`; BufferError for any other buffer."""

def scan(
    data: ReadableBuffer, start: int, limit: int, check_crc: bool, skip: bool
) -> tuple[memoryview, list[int], int, int, tuple[str, int] | None, list[tuple[str, int]]]:
    """The headers of at most `limit` batches from byte `start` on.

    Gives one buffer with 15 columns in native order (names and dtypes: `kcore.wire.record_batch.BATCH_COLUMNS`), where
    each begins there, how many batches they have, the offset where reading ended, None or what stopped it with the
    offset of the field that is wrong, and what was skipped.
    """

def decode(
    data: ReadableBuffer, positions: ReadableBuffer, max_bytes: int
) -> tuple[list[memoryview], list[memoryview], memoryview, int, tuple[str, int] | None]:
    """The records of the batches at `positions` (int64), all batches decompressed to at most `max_bytes`.

    Gives the columns of records and of headers (names and dtypes: `kcore.wire.records.RECORD_COLUMNS`,
    `HEADER_COLUMNS`), the decompressed bytes, how many batches were decoded, and None or what stopped it.
    """

def find_time(
    batch: ReadableBuffer, timestamp: int, start_offset: int, budget: int
) -> tuple[tuple[int, int] | None, bool]:
    """Time and offset of the first record of a batch that is not older and not below `start_offset`.

    None and False: more than `budget` bytes would have to be decompressed. ValueError for a batch that cannot be read.
    Nothing of the records is held.
    """

def encode(
    batches: Sequence[ReadableBuffer],
    records: Sequence[ReadableBuffer],
    headers: Sequence[ReadableBuffer],
    buffers: Sequence[ReadableBuffer],
    level: int | None,
) -> bytes:
    """Batches built out of 9, 8 and 4 columns of int64 (`kcore.wire.record_building`) over two buffers of bytes.

    ValueError says which row cannot be written.
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
    """One batch's `records`, the bytes behind its header, as LogValidator and Kafka's decompressing streams take them.

    `count`, `codec` (0 to 4) and `base_timestamp` (ms) are the header's; `append_time`: its maxTimestamp, if its
    timestamp type is LogAppendTime. `window`: now, and how far before and after that a record's time may be (ms); None
    where the topic's own type is LogAppendTime. `target`: the codec, its level and the most bytes of records that are
    written anew; None where they stay as they are. `budget`: bytes that may be decompressed.

    Gives None or what is wrong (0 INVALID_RECORD, 1 UNKNOWN_SERVER_ERROR, 2 MESSAGE_TOO_LARGE; and why), at most 1,000
    records that are refused (place, 0 no key, 1 timestamp out of the window, 2 LogAppendTime set by a producer;
    timestamp), the first and the largest timestamp, and the records written anew. Nothing of records that stay is held;
    of others one at a time, a quarter of `budget` at most.
    """
