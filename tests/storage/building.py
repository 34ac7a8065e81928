"""Record batches made field by field, and logs of them: for tests, next to nothing of kcore is used."""

import struct
from collections.abc import Sequence
from pathlib import Path

from kcore.wire.records import crc32c

TIME_MS = 1_795_248_000_000


def varint(value: int) -> bytes:
    """Zigzag, seven bits a byte."""
    rest, encoded = (value << 1) ^ (value >> 63), b""
    while rest > 0x7F:
        encoded += bytes([rest & 0x7F | 0x80])
        rest >>= 7
    return encoded + bytes([rest])


def record(delta: int, value: bytes, key: bytes | None = None) -> bytes:
    keyed = varint(-1) if key is None else varint(len(key)) + key
    body = b"\0" + varint(0) + varint(delta) + keyed + varint(len(value)) + value + varint(0)
    return varint(len(body)) + body


def batch(
    base_offset: int,
    values: Sequence[bytes] = (b"v",),
    *,
    epoch: int = 0,
    time_ms: int = TIME_MS,
    attributes: int = 0,
    key: bytes | None = None,
    producer: tuple[int, int, int] = (-1, -1, -1),
) -> bytes:
    """One uncompressed batch of magic 2; every record has the same time and key. `producer`: id, epoch, sequence."""
    records = b"".join(record(delta, value, key) for delta, value in enumerate(values))
    fields = (attributes, len(values) - 1, time_ms, time_ms, *producer, len(values))
    checked = struct.pack(">hiqqqhii", *fields) + records
    inner = struct.pack(">ibI", epoch, 2, crc32c(checked)) + checked
    return struct.pack(">qi", base_offset, len(inner)) + inner


def batches(count: int, *, first: int = 0, size: int = 100, epoch: int = 0) -> list[bytes]:
    """`count` batches of one record each, every one different."""
    return [
        batch(first + k, [(b"%d " % (first + k)).ljust(size, b".")], epoch=epoch, time_ms=TIME_MS + first + k)
        for k in range(count)
    ]


def write_log(folder: Path, segments: dict[int, bytes], epochs: Sequence[tuple[int, int]] = ()) -> Path:
    """A partition's folder with these segments, no indexes, and a leader-epoch-checkpoint if there are epochs."""
    folder.mkdir(parents=True)
    for base_offset, data in segments.items():
        (folder / f"{base_offset:020}.log").write_bytes(data)
    if epochs:
        lines = ["0", str(len(epochs)), *(f"{epoch} {start}" for epoch, start in epochs)]
        (folder / "leader-epoch-checkpoint").write_text("".join(f"{line}\n" for line in lines))
    return folder
