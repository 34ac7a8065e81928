"""Producer snapshots: their bytes field by field, as Kafka's dump shows them, and what is wrong with them."""

import struct
from pathlib import Path

import pytest

from kcore.errors import StorageError
from kcore.storage.log.producer_snapshot import ProducerState, format_producers, parse_producers
from kcore.storage.tools.dump import Detail, dump_lines
from kcore.storage.tools.dump_beside import beside_rows
from reference.crc32c import crc32c

PRODUCERS = [
    ProducerState(7, 2, 41, 1000, 3, 1_795_248_000_000, 5, 998),
    ProducerState(8, 0, 1, 1004, 3, 1_795_248_000_001, 0, -1),  # Its sequences went round.
    ProducerState(2**62, 9, -1, -1, 0, -1, -1, -1),
]
BODY = struct.pack(">i", 3) + b"".join(struct.pack(">qhiqiqiq", *producer) for producer in PRODUCERS)
DATA = struct.pack(">hI", 1, crc32c(BODY)) + BODY


def test_bytes_are_kafkas() -> None:
    assert parse_producers(DATA) == PRODUCERS
    assert format_producers(PRODUCERS) == DATA
    assert parse_producers(format_producers([])) == []


def test_it_is_shown_as_kafka_shows_it(tmp_path: Path) -> None:
    path = tmp_path / f"{1005:020}.snapshot"
    path.write_bytes(DATA)
    assert list(dump_lines(path, Detail())) == [
        "producerId: 7 producerEpoch: 2 coordinatorEpoch: 5 currentTxnFirstOffset: OptionalLong[998] "
        "lastTimestamp: 1795248000000 firstSequence: 38 lastSequence: 41 lastOffset: 1000 offsetDelta: 3 "
        "timestamp: 1795248000000",
        "producerId: 8 producerEpoch: 0 coordinatorEpoch: 0 currentTxnFirstOffset: OptionalLong.empty "
        "lastTimestamp: 1795248000001 firstSequence: 2147483646 lastSequence: 1 lastOffset: 1004 offsetDelta: 3 "
        "timestamp: 1795248000001",
        "producerId: 4611686018427387904 producerEpoch: 9 coordinatorEpoch: -1 "
        "currentTxnFirstOffset: OptionalLong.empty lastTimestamp: -1",
    ]
    assert [row["currentTxnFirstOffset"] for row in beside_rows(path)] == [998, None, None]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "0 bytes are no producer snapshot"),
        (DATA[:9], "9 bytes are no producer snapshot"),
        (b"\0\2" + DATA[2:], "version 2, not 1"),
        (DATA[:-1] + b"\0", "the CRC is 0x"),
        (DATA[:-1], "the CRC is 0x"),
        (struct.pack(">hIi", 1, crc32c(b"\xff" * 4), -1), "-1 entries are promised, 0 bytes follow"),
        (struct.pack(">hIi", 1, crc32c(b"\x7f\xff\xff\xff"), 2**31 - 1), "2147483647 entries are promised"),
        (struct.pack(">hIi", 1, crc32c(bytes(4) + b"x"), 0) + b"x", "0 entries are promised, 1 bytes follow"),
    ],
)
def test_what_is_no_snapshot(data: bytes, why: str, tmp_path: Path) -> None:
    path = tmp_path / f"{0:020}.snapshot"
    path.write_bytes(data)
    with pytest.raises(StorageError) as error:
        list(dump_lines(path, Detail()))
    assert str(error.value).startswith(f"{path}: {why}")


def test_every_flipped_bit_is_seen() -> None:
    for bit in range(len(DATA) * 8):
        flipped = bytearray(DATA)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(StorageError):
            parse_producers(bytes(flipped))
