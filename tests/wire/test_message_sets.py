"""Message sets of magic 0 and 1: as Kafka 3.9.1 reads its own and kafka-python's, bounds, and invalid bytes."""

import gzip
import mmap
import pickle
import random
import struct
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import cases
from kcore.errors import ArgumentError, DecodeError
from kcore.wire.legacy_codecs import TOO_LARGE, gunzip, unlz4, unsnap, xxh32
from kcore.wire.message_sets import UNKNOWN_COUNT, decode_message_sets, is_message, scan_message_sets
from kcore.wire.record_batch import scan_batches
from kcore.wire.record_building import encode_records
from kcore.wire.records import Records, decode_records

GZIP, SNAPPY, LZ4 = 1, 2, 3


def recorded() -> dict[str, dict[str, Any]]:
    return {case["kind"]: case for case in cases.load("message-sets-3.9.1")}


def data_of(kind: str) -> bytes:
    return bytes.fromhex(recorded()[kind]["hex"])


def hexed(value: bytes | None) -> str | None:
    return None if value is None else value.hex()


def plain(records: Records) -> list[dict[str, Any]]:
    """The records in the form of the recorded file."""
    return [
        {"offset": each.offset, "timestamp": each.timestamp, "key": hexed(each.key), "value": hexed(each.value)}
        for each in records
    ]


def message(offset: int, value: bytes | None, *, magic: int = 1, codec: int = 0, time: int = 5) -> bytes:
    body = struct.pack(">bb", magic, codec) + (struct.pack(">q", time) if magic else b"")
    body += struct.pack(">ii", -1, -1 if value is None else len(value)) + (value or b"")
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body


@pytest.mark.recorded
def test_what_kafka_reads() -> None:
    for kind, case in recorded().items():
        records = decode_message_sets(bytes.fromhex(case["hex"]), stop=True)
        assert plain(records) == [record for batch in case["batches"] for record in batch["records"]], kind
        columns = {
            **{"baseOffset": "base_offset", "lastOffset": "last_offset", "magic": "magic", "crc": "crc"},
            **{"maxTimestamp": "max_timestamp", "sizeInBytes": "size"},
        }
        for name, column in columns.items():
            found = getattr(records.batches, column).tolist()
            assert found == [batch[name] for batch in case["batches"]], (kind, name)
        assert records.batches.count.tolist() == [len(batch["records"]) for batch in case["batches"]], kind
        is_append_time = [bool(each & 8) for each in records.batches.attributes.tolist()]
        assert is_append_time == [batch["timestampType"] == "LogAppendTime" for batch in case["batches"]], kind


@pytest.mark.recorded
def test_what_kafka_refuses() -> None:
    refused = 0
    for kind, case in recorded().items():
        data = bytes.fromhex(case["hex"])
        if case["error"] is None and "torn message" not in kind:  # Kafka ends before a torn message without an error.
            assert decode_message_sets(data).problem is None
            continue
        with pytest.raises(DecodeError) as raised:
            decode_message_sets(data)
        stopped = decode_message_sets(data, stop=True)
        assert repr(stopped.problem) == repr(raised.value) and stopped.end <= raised.value.offset < len(data)
        refused += 1
    assert refused == 17


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("nested", "a compressed message inside a compressed message"),
        ("no inner message", "a compressed message without messages inside"),
        ("null value", "a compressed message without a value"),
        ("zstd", "a compressed message of the unknown codec 4"),
        ("wrapper offset below the last inner one", "with the offset 1, below its last message's 2"),
        ("gzip that is cut", "a gzip stream that ends early"),
        ("lz4 of old Kafka's checksum in magic 1", "an lz4 frame whose header has a wrong checksum"),
        ("wrong crc", "a message whose CRC does not match"),
        ("value beyond the message", "a message shorter than its fields"),
        ("magic 0, magic 1 and a torn message", "a torn record batch"),
    ],
)
@pytest.mark.recorded
def test_the_error_names_the_cause(kind: str, said: str) -> None:
    with pytest.raises(DecodeError, match=said):
        decode_message_sets(data_of(kind))


@pytest.mark.recorded
def test_a_wrong_crc_is_marked_or_ignored() -> None:
    data = data_of("wrong crc")
    assert scan_message_sets(data).crc_matches.tolist() == [False]
    assert [each.value for each in decode_message_sets(data, check_crc=False)] == [b"w"]


@pytest.mark.recorded
def test_a_problem_keeps_no_view_of_the_data(tmp_path: Path) -> None:
    torn = tmp_path / "torn"
    torn.write_bytes(message(0, b"value")[:-1])
    with torn.open("rb") as file:
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    found = scan_message_sets(data, stop=True)
    assert found.problem is not None
    data.close()  # BufferError if a view still exists.


def test_a_scan_decompresses_nothing() -> None:
    batches = scan_message_sets(data_of("kafka 1 lz4 CreateTime"))
    assert (batches.base_offset.tolist(), batches.last_offset.tolist()) == ([109], [109])
    assert batches.count.tolist() == [UNKNOWN_COUNT]
    assert decode_message_sets(data_of("kafka 1 lz4 CreateTime"), batches).batches.base_offset.tolist() == [100]


@pytest.mark.recorded
def test_start_limit_and_chosen_messages() -> None:
    data = data_of("kafka 1 none CreateTime")
    whole = scan_message_sets(data)
    second = int(whole.position[1])
    assert scan_message_sets(data, start=second, limit=2) == replace(
        whole.take(slice(1, 3)), end=int(whole.position[3])
    )
    assert plain(decode_message_sets(data, whole.take(slice(1, 3)))) == plain(decode_message_sets(data))[1:3]
    with pytest.raises(ArgumentError):
        scan_message_sets(data, start=-1)


@pytest.mark.recorded
def test_arrow_pickles_and_batches_of_magic_2_have_the_same_records() -> None:
    for kind in ("kafka 0 gzip", "kafka 1 snappy LogAppendTime", "kafka 1 none CreateTime", "kafka-python 1 lz4"):
        records = decode_message_sets(data_of(kind))
        rows = records.to_arrow().to_pylist()
        names = ("offset", "timestamp", "key", "value")
        assert [tuple(row[name] for name in names) for row in rows] == [
            tuple(getattr(each, name) for name in names) for each in records
        ]
        assert {(row["sequence"], row["controlType"], row["partitionLeaderEpoch"]) for row in rows} == {(-1, None, -1)}
        assert pa.table(records).equals(records.to_arrow())
        assert pickle.loads(pickle.dumps(records)) == records
        assert not records.is_control.any()
        again = decode_records(encode_records(list(records)))
        assert plain(again) == plain(records) and scan_batches(encode_records(list(records))).magic.tolist() == [2]


@pytest.mark.recorded
@pytest.mark.parametrize("kind", ["kafka 1 gzip CreateTime", "kafka 0 snappy large", "kafka 1 lz4 CreateTime large"])
def test_the_decompressed_bytes_are_bounded(kind: str) -> None:
    data = data_of(kind.replace(" CreateTime large", " large"))
    size = len(decode_message_sets(data).decompressed)
    assert decode_message_sets(data, max_bytes=size).problem is None
    with pytest.raises(DecodeError, match=TOO_LARGE):
        decode_message_sets(data, max_bytes=size - 1)
    with pytest.raises(DecodeError, match=TOO_LARGE):  # The limit is that of all messages together.
        decode_message_sets(data * 2, max_bytes=2 * size - 1)


def test_a_small_message_that_decompresses_to_much() -> None:
    bomb = message(9, gzip.compress(bytes(5_000_000)), codec=GZIP)
    with pytest.raises(DecodeError, match=TOO_LARGE):
        decode_message_sets(bomb, max_bytes=1_000_000)
    with pytest.raises(ValueError, match=TOO_LARGE):
        unlz4(b"\x04\x22\x4d\x18\x60\x70\x73" + b"\x04\1\0\0" + b"\x1f\1\1\0" + b"\xff" * 255 + b"\0", 1000,
              check_header=False)  # fmt: skip
    for stated in (100, 1 << 31):
        block = bytearray()
        while stated > 0x7F:
            block.append(stated & 0x7F | 0x80)
            stated >>= 7
        with pytest.raises(ValueError, match="cannot be that large"):
            unsnap(bytes([*block, stated, 0, 1]), 1 << 40)


def test_offsets_beyond_int64_are_refused() -> None:
    inner = message(0, b"a") + message(2**63 - 1, b"b") + message(1, b"c")
    assert decode_message_sets(message(1, gzip.compress(inner), codec=GZIP)).problem is None
    for outer, said in ((2**63 - 1, "too far"), (2**40, "too far")):
        with pytest.raises(DecodeError, match=said):
            decode_message_sets(message(outer, gzip.compress(inner), codec=GZIP))


def test_times_far_apart_wrap_as_in_java() -> None:
    inner = message(0, b"a", time=-(2**63)) + message(1, b"b", time=2**63 - 1)
    records = decode_message_sets(message(1, gzip.compress(inner), codec=GZIP, time=2**63 - 1))
    assert records.timestamp.tolist() == [-(2**63), 2**63 - 1] and records.timestamp_delta.tolist() == [1, 0]


def test_bytes_that_are_no_message() -> None:
    good = message(0, b"v")
    assert is_message(good) and is_message(b"x" + good, 1) and is_message(message(0, b"", magic=0))
    for wrong in (
        struct.pack(">q", -1) + good[8:],
        good[:8] + struct.pack(">i", 21) + good[12:],
        good[:16] + b"\2" + good[17:],
        good[:17] + b"\x10" + good[18:],
        good[:17],
        bytes(40),
        b"",
    ):
        assert not is_message(wrong)
        if wrong:
            with pytest.raises(DecodeError):
                scan_message_sets(wrong)
    assert len(scan_message_sets(b"")) == 0


@pytest.mark.recorded
def test_damaged_wrappers_are_read_or_refused() -> None:
    """Cuts and flips in the compressed bytes, under a right CRC: the same outcome each time, and no other exception."""
    dice = random.Random(42)
    kinds = (
        "kafka 0 gzip",
        "kafka 1 gzip CreateTime",
        "kafka 0 snappy",
        "kafka 1 snappy CreateTime",
        "kafka 1 lz4 CreateTime",
    )
    read = refused = 0
    for kind in (*kinds, "lz4 with block checksums", "snappy without xerial's framing"):
        data = data_of(kind)
        for _ in range(60):
            mutant = bytearray(data)
            for _ in range(dice.randrange(1, 3)):
                mutant[dice.randrange(18, len(mutant))] ^= 1 << dice.randrange(8)
            cut = len(mutant) - dice.choice((0, 0, 0, dice.randrange(len(mutant) - 40)))
            body = bytes(mutant[16:cut])
            case = data[:8] + struct.pack(">iI", len(body) + 4, zlib.crc32(body)) + body
            records = decode_message_sets(case, stop=True, max_bytes=1 << 20)
            read, refused = read + (records.problem is None), refused + (records.problem is not None)
            assert sum(len(each.value or b"") for each in records) <= 1 << 20
    assert read > 20 and refused > 200


def test_xxh32() -> None:
    """The values of xxHash's own implementation."""
    for data, value in (
        (b"", 0x02CC5D05),
        (b"a", 0x550D7456),
        (b"abc", 0x32D153FF),
        (b"Nobody inspects the spammish repetition", 0xE2293B2F),
    ):
        assert xxh32(data) == value


def test_many_members_of_gzip() -> None:
    assert gunzip(gzip.compress(b"ab") * 300 + b"no member", 600) == b"ab" * 300
    with pytest.raises(ValueError, match=TOO_LARGE):
        gunzip(gzip.compress(b"ab") * 300, 599)
    with pytest.raises(ValueError, match="not a gzip stream"):
        gunzip(b"no member", 10)
