"""Prints message sets for MessageSets.java: those of kafka-python, and sets with an irregular wrapper.

It needs the packages kafka-python, lz4, python-snappy and xxhash, which kcore itself does not need.
"""

import gzip
import random
import struct
import zlib

import lz4.block
import lz4.frame
import snappy
import xxhash
from kafka.codec import lz4_encode_old_kafka, snappy_encode
from kafka.record.legacy_records import LegacyRecordBatchBuilder

CODECS = ("none", "gzip", "snappy", "lz4")
LZ4 = bytes.fromhex("04224d18")


def message(offset: int, magic: int, attributes: int, key: bytes | None, value: bytes | None, time: int = 5) -> bytes:
    body = struct.pack(">bb", magic, attributes) + (struct.pack(">q", time) if magic else b"")
    for each in (key, value):
        body += struct.pack(">i", -1 if each is None else len(each)) + (each or b"")
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body


def with_crc(data: bytes) -> bytes:
    return data[:12] + struct.pack(">I", zlib.crc32(data[16:])) + data[16:]


def of_kafka_python(magic: int, codec: int) -> bytes:
    builder = LegacyRecordBatchBuilder(magic=magic, compression_type=codec, batch_size=1 << 20)
    dice = random.Random(41)
    for at in range(5):
        key = None if at % 2 else dice.randbytes(7)
        value = None if at == 3 else b"value %d " % at * (100 * at + 1)
        assert builder.append(at, 1_600_000_000_000 + at if magic else None, key, value)
    return bytes(builder.build())


def lz4_frame(flags: int, body: bytes, size: bytes = b"", checksum: int | None = None) -> bytes:
    head = bytes([flags, 0x40]) + size
    right = xxhash.xxh32_intdigest(head) >> 8 & 0xFF
    return LZ4 + head + bytes([right if checksum is None else checksum]) + body


def irregular() -> dict[str, bytes]:
    inner = [message(at, 1, 0, None, b"v%d" % at, 10 + at) for at in range(3)]
    both = b"".join(inner)
    block = lz4.block.compress(both, store_size=False)
    sized, stored = struct.pack("<I", len(block)) + block, struct.pack("<I", len(both) | 1 << 31) + both
    end, packed = bytes(4), gzip.compress(both)
    raw = snappy.compress(both)
    old = b"".join(message(40 + at, 0, 0, b"k", b"v") for at in range(3))
    framed = snappy_encode(both)
    return {
        "wrapper offset 0 of librdkafka": message(0, 1, 1, None, packed),
        "wrapper offset below the last inner one": message(1, 1, 1, None, packed),
        "wrapper with a key": message(9, 1, 1, b"key", packed),
        "log append time of the wrapper": message(9, 1, 9, None, packed, 77),
        "no inner message": message(9, 1, 1, None, gzip.compress(b"")),
        "null value": message(9, 1, 1, None, None),
        "nested": message(9, 1, 1, None, gzip.compress(message(9, 1, 1, None, packed))),
        "torn inner message": message(9, 1, 1, None, gzip.compress(both + inner[0][:20])),
        "inner size of 13": message(9, 1, 1, None, gzip.compress(both + struct.pack(">qi", 3, 13) + bytes(13))),
        "inner magic 0 in magic 1": message(9, 1, 1, None, gzip.compress(both + message(3, 0, 0, b"k", b"v"))),
        "inner magic 1 in magic 0": message(42, 0, 1, None, gzip.compress(old + message(43, 1, 0, b"k", b"v", 9))),
        "absolute offsets in magic 0": message(42, 0, 1, None, gzip.compress(old)),
        "zstd": message(9, 1, 4, None, packed),
        "codec 5": message(9, 1, 5, None, packed),
        "gzip of two members": message(9, 1, 1, None, gzip.compress(inner[0]) + gzip.compress(inner[1])),
        "gzip that is cut": message(9, 1, 1, None, packed[:-12]),
        "gzip of a wrong crc": message(9, 1, 1, None, packed[:-8] + b"\1\2\3\4" + packed[-4:]),
        "snappy without xerial's framing": message(9, 1, 2, None, raw),
        "snappy of two streams": message(9, 1, 2, None, framed + framed),
        "snappy that is cut": message(9, 1, 2, None, framed[:-3]),
        "lz4 of old Kafka's checksum in magic 0": message(42, 0, 3, None, bytes(lz4_encode_old_kafka(old))),
        "lz4 of old Kafka's checksum in magic 1": message(9, 1, 3, None, bytes(lz4_encode_old_kafka(both))),
        "lz4 with a wrong checksum in magic 0": message(9, 0, 3, None, lz4_frame(0x60, sized + end, b"", 1)),
        "lz4 with block checksums": message(
            9, 1, 3, None, lz4_frame(0x70, sized + struct.pack("<I", xxhash.xxh32_intdigest(block)) + end)
        ),
        "lz4 with wrong block checksums": message(9, 1, 3, None, lz4_frame(0x70, sized + b"abcd" + end)),
        "lz4 with its size": message(9, 1, 3, None, lz4_frame(0x68, sized + end, struct.pack("<Q", len(both)))),
        "lz4 with a stored block": message(9, 1, 3, None, lz4_frame(0x60, stored + end)),
        "lz4 with a content checksum": message(9, 1, 3, None, lz4_frame(0x64, sized + end + b"abcd")),
        "lz4 without an end": message(9, 1, 3, None, lz4_frame(0x60, sized)),
        "lz4 of dependent blocks": message(9, 1, 3, None, lz4_frame(0x40, sized + end)),
        "lz4 of two frames": message(9, 1, 3, None, lz4_frame(0x60, sized + end) * 2),
        "negative sizes": with_crc(message(9, 1, 0, None, None)[:-8] + struct.pack(">ii", -3, -4)),
        "value beyond the message": with_crc(message(9, 1, 0, None, b"v")[:-5] + b"\0\0\0\2v"),
        "bytes behind the value": with_crc(message(9, 1, 0, None, b"v")[:-5] + b"\0\0\0\0v"),
        "wrong crc": message(9, 1, 0, b"k", b"v")[:-1] + b"w",
        "time of -1": message(9, 1, 0, b"k", b"v", -1),
        "magic 0, magic 1 and a torn message": message(9, 0, 0, b"k", b"v") + both + inner[0][:-1],
    }


def main() -> None:
    for magic in (0, 1):
        for codec, name in enumerate(CODECS):
            print(f"kafka-python {magic} {name}", of_kafka_python(magic, codec).hex())
    for name, data in irregular().items():
        print(name, data.hex())


if __name__ == "__main__":
    main()
