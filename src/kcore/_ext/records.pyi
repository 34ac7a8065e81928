"""Record batches of magic 2, in Rust: CRC-32C and the scanner of batch headers."""

def crc32c(data: bytes | bytearray | memoryview, value: int = 0) -> int:
    """CRC-32C of a contiguous buffer of bytes, continued from `value`; BufferError for any other buffer."""

def scan(data: bytes | bytearray | memoryview) -> tuple[list[bytes], int, tuple[str, int] | None]:
    """The batch headers from the first byte on.

    Gives 15 columns as bytes in native order (names and dtypes: `kcore.wire.records.BATCH_COLUMNS`), the offset where
    reading ended, and None or what stopped it with the offset of the field that is wrong.
    """
