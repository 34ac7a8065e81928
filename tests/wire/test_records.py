"""Records: Kafka's own batches decoded and built again, the slow twin, and invalid bytes."""

import gzip
import random
import struct
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import cases
from kcore._ext import records as kernel
from kcore.errors import DecodeError, EncodeError
from kcore.wire.jsonform import to_json
from kcore.wire.record_batch import crc32c, scan_batches
from kcore.wire.record_building import CODECS, encode_batches, encode_control, encode_records, encode_values
from kcore.wire.records import Record, Records, control_message, decode_records, records_of, values_of
from reference import record_fields as twin

CODEC_NAMES = pytest.mark.parametrize("codec", CODECS)
COMPRESSED = pytest.mark.parametrize("codec", CODECS[1:])
SOME = [
    Record(7, 1000, b"key", b"value", (("h", b"1"), ("größe", None))),
    Record(9, 1003, None, b"v" * 300),
    Record(12, 998, b"", None),
]


def recorded() -> list[tuple[bytes, list[dict[str, Any]]]]:
    return [(bytes.fromhex(case["hex"]), case["batches"]) for case in cases.load("records")]


def hexed(value: bytes | None) -> str | None:
    return None if value is None else value.hex()


def as_recorded(record: Record) -> dict[str, Any]:
    """The record in the form of the recorded files."""
    plain: dict[str, Any] = {"offset": record.offset, "timestamp": record.timestamp, "sequence": record.sequence}
    plain |= {"key": hexed(record.key), "value": hexed(record.value)}
    plain["headers"] = [[name, hexed(value)] for name, value in record.headers]
    if message := control_message(record):
        plain |= {"controlType": record.control, "control": to_json(message, getattr(message, "version", 0))}
    return plain


def header_of(batch: dict[str, Any]) -> dict[str, Any]:
    """The arguments of `encode_records` for a recorded batch."""
    header = {"codec": batch["compression"], "log_append_time": batch["timestampType"] == "LogAppendTime"}
    header |= {"transactional": batch["isTransactional"], "control": batch["isControl"]}
    header |= {"delete_horizon": batch["deleteHorizonMs"] is not None, "base_offset": batch["baseOffset"]}
    header |= {"partition_leader_epoch": batch["partitionLeaderEpoch"], "producer_id": batch["producerId"]}
    header |= {"producer_epoch": batch["producerEpoch"], "base_sequence": batch["baseSequence"]}
    header |= {"base_timestamp": batch["baseTimestamp"], "max_timestamp": batch["maxTimestamp"]}
    return header | {"last_offset_delta": batch["lastOffsetDelta"]}


def with_crc(batch: bytes) -> bytes:
    return batch[:17] + crc32c(batch[21:]).to_bytes(4, "big") + batch[21:]


def batch_of(body: bytes, count: int, attributes: int = 0) -> bytes:
    """A batch with these bytes as records."""
    header = struct.pack(">hiqqqhii", attributes, 0, 0, 0, -1, -1, -1, count)
    return with_crc(struct.pack(">qiibI", 0, 49 + len(body), 0, 2, 0) + header + body)


@pytest.mark.recorded
def test_every_recorded_field() -> None:
    for data, batches in recorded():
        records = decode_records(data)
        assert [as_recorded(record) for record in records] == [
            record for batch in batches for record in batch["records"]
        ]
        assert records.batch.tolist() == [row for row, batch in enumerate(batches) for _ in batch["records"]]
        assert (records.end, records.problem) == (len(data), None)
        assert records.batches.last_offset.tolist() == [batch["lastOffset"] for batch in batches]
        assert records.batches.size.tolist() == [batch["sizeInBytes"] for batch in batches]


@pytest.mark.recorded
def test_records_of_one_batch_are_those_of_its_columns() -> None:
    for data, _ in recorded():
        batches = scan_batches(data)
        for begin, size in zip(batches.position.tolist(), batches.size.tolist(), strict=True):
            one = data[begin : begin + size]
            assert records_of(one) == list(decode_records(one))
            assert values_of(one) == {record.offset: record.value for record in records_of(one)}
    for broken in (batch_of(b"", 1), batch_of(b"more", 0)[:-1]):
        with pytest.raises(DecodeError):
            records_of(broken)
        with pytest.raises(DecodeError):
            values_of(broken)


def with_times_of_the_producer(records: Records) -> list[Record]:
    """With LogAppendTime, decoded records have the time of the append."""
    base_ms = int(records.batches.base_timestamp[0])
    return [
        replace(record, timestamp=base_ms + delta)
        for record, delta in zip(records, records.timestamp_delta.tolist(), strict=True)
    ]


@pytest.mark.recorded
def test_uncompressed_batches_are_rebuilt_byte_for_byte() -> None:
    rebuilt = 0
    for data, batches in recorded():
        starts = [sum(batch["sizeInBytes"] for batch in batches[:i]) for i in range(len(batches) + 1)]
        again = encode_batches(decode_records(data))
        if all(batch["compression"] == "none" for batch in batches):
            assert again == data
        for row, batch in enumerate(batches):
            if batch["compression"] != "none":
                continue
            one = data[starts[row] : starts[row + 1]]
            assert encode_records(with_times_of_the_producer(decode_records(one)), **header_of(batch)) == one
            rebuilt += 1
    assert rebuilt


@pytest.mark.recorded
@CODEC_NAMES
def test_recorded_records_survive_every_codec(codec: str) -> None:
    for data, batches in recorded():
        records = decode_records(data)
        again = decode_records(encode_batches(records, codec=codec))
        assert list(again) == list(records)
        codecs = [CODECS.index(codec) if batch["records"] else 0 for batch in batches]
        assert (again.batches.attributes & 7).tolist() == codecs, "a batch without records is not compressed"
        assert (again.batches.attributes & ~7).tolist() == [batch["attributes"] & ~7 for batch in batches]


def as_twin(records: Records) -> list[dict[str, Any]]:
    return [
        {
            **{name: getattr(record, name) for name in ("offset", "timestamp", "sequence", "key", "value")},
            "timestamp_delta": int(records.timestamp_delta[row]),
            "headers": [(name.encode("utf-8", "surrogateescape"), value) for name, value in record.headers],
            "control_type": record.control_type,
        }
        for row, record in enumerate(records)
    ]


def assert_like_twin(batch: bytes) -> bool:
    """The twin agrees, also about errors."""
    records = decode_records(batch, check_crc=False, stop=True)
    try:
        expected, problem = twin.records(batch, 0), None
    except twin.Wrong as wrong:
        expected, problem = [], wrong.args
    assert as_twin(records) == expected
    assert (records.problem and (records.problem.message, records.problem.offset)) == problem
    return problem is None


def samples() -> list[bytes]:
    """Uncompressed batches, short and of every kind."""
    keep: dict[str, Any] = {"codec": "none", "base_offset": 5, "partition_leader_epoch": 3}
    control = [Record(5, 9, b"\0\0\0\1", b"\0\0\0\0\0\7")]
    return [
        encode_records(SOME, **keep, producer_id=4, producer_epoch=1, base_sequence=2**31 - 3),
        encode_records(SOME[:1], **keep, log_append_time=True, max_timestamp=5000),
        encode_records(control, **keep, control=True, transactional=True, producer_id=4, producer_epoch=1),
        encode_records([], **keep),
    ]


def test_every_byte_changed_is_read_as_the_twin_reads_it() -> None:
    good = bad = 0
    for batch in samples():
        assert assert_like_twin(batch)
        for place in [21, 22, *range(57, len(batch))]:
            for value in (0, 1, 2, 7, 14, 0x7F, 0x80, 0xFF, batch[place] ^ 1, batch[place] ^ 0x20):
                changed = batch[:place] + bytes([value]) + batch[place + 1 :]
                if changed[22] & 7:
                    continue  # The twin has no codecs.
                if assert_like_twin(changed):
                    good += 1
                else:
                    bad += 1
    assert min(good, bad) > 100


def test_random_bodies_are_read_as_the_twin_reads_them() -> None:
    dice = random.Random(5)
    for _ in range(3000):
        body = bytes(dice.choice((0, 1, 2, 4, 12, 14, 0x7E, 0x80, 0xFF)) for _ in range(dice.randrange(30)))
        assert_like_twin(batch_of(body, dice.randrange(4), dice.choice((0, 0x20))))


def test_mutants_never_do_worse_than_an_error() -> None:
    dice = random.Random(6)
    seeds = [encode_batches(decode_records(data), codec=codec) for data, _ in recorded()[::9] for codec in CODECS]
    seeds += samples()
    position = np.zeros(1, np.int64).data
    good = bad = 0
    for turn in range(200_000):
        seed = seeds[turn % len(seeds)]
        mutant = bytearray(seed[: dice.randrange(1, len(seed))] if turn % 10 == 0 else seed)
        for _ in range(dice.randrange(1, 4)):
            mutant[dice.randrange(len(mutant))] = dice.randrange(256)
        columns, _, decompressed, batches, problem = kernel.decode(mutant, position, 100_000)
        assert len(decompressed) <= 100_000
        assert (batches == 0) == (problem is not None)
        assert batches or len(columns[0]) == 0
        good, bad = good + batches, bad + (1 - batches)
    assert min(good, bad) > 10_000


@pytest.mark.parametrize(
    ("what", "body", "count"),
    [
        ("negative count", b"", -1),
        ("more records than bytes", b"", 1),
        ("more records than bytes", bytes(6), 1),
        ("more records than bytes", bytes(13), 2**31 - 1),
        ("behind a batch's last record", bytes([12, 0, 0, 0, 1, 1, 0, 0]), 1),
        ("record of negative length", bytes([1, 0, 0, 0, 1, 1, 0]), 1),
        ("length beyond the bytes", bytes([14, 0, 0, 0, 1, 1, 0]), 1),
        ("record shorter than its fields", bytes([0, 0, 0, 0, 1, 1, 0]), 1),
        ("record longer than its fields", bytes([14, 0, 0, 0, 1, 1, 0, 0]), 1),
        ("varint that the bytes end in", bytes([10, 0, 0, 0, 1, 1, 0]), 1),
        ("varint too long", bytes([0x80] * 5 + [0, 0]), 1),
        ("varint too long", bytes([0x80] * 4 + [0x90, 0, 0]), 1),
        ("varint too long", bytes([30, 0, *[0x80] * 9, 0x82, 0, 1, 1, 0, 0]), 1),
        ("negative number of headers", bytes([12, 0, 0, 0, 1, 1, 1]), 1),
        ("header without a key", bytes([16, 0, 0, 0, 1, 1, 2, 1, 1]), 1),
        ("varint that the bytes end in", bytes([20, 0, 0, 0, 1, 1, 0xFE, 0xFF, 0xFF, 0xFF, 0x0F]), 1),
    ],
)
def test_false_lengths_are_errors(what: str, body: bytes, count: int) -> None:
    for attributes, data in ((0, body), (1, gzip.compress(body))):
        with pytest.raises(DecodeError, match=what) as raised:
            decode_records(batch_of(data, count, attributes))
        assert raised.value.offset in ((0, 57) if attributes else range(57, 62 + len(body)))


def test_bits_beyond_a_varints_field_are_dropped() -> None:
    """ByteUtils.readVarint and readVarlong drop these bits, so a broker accepts such records."""
    timestamp_delta, offset_delta = [0x84, *[0x80] * 8, 0x7E], [0x82, 0x80, 0x80, 0x80, 0x70]
    body = bytes([38, 0, *timestamp_delta, *offset_delta, 1, 1, 0])
    for data in (batch_of(body, 1), batch_of(gzip.compress(body), 1, attributes=1)):
        records = decode_records(data)
        assert (records.timestamp_delta.tolist(), records.offset.tolist()) == ([2], [1])
    assert_like_twin(batch_of(body, 1))


def test_control_records_need_a_type() -> None:
    for key in (None, b"\0\0\0", b"\x80\0\0\0"):
        with pytest.raises(DecodeError, match="control record"):
            decode_records(encode_records([Record(0, 0, key, b"")], control=True))
    [record] = decode_records(encode_records([Record(0, 0, b"\0\7\x01\x02", b"")], control=True))
    assert (record.control_type, record.control, control_message(record)) == (0x102, "UNKNOWN(258)", None)
    [record] = decode_records(encode_records([Record(0, 0, b"\0\0\0\1", b"\0\0\0\0\0\x09more")], control=True))
    assert (record.control, to_json(control_message(record), 0)) == ("COMMIT", {"coordinatorEpoch": 9})  # type: ignore[arg-type]
    assert (SOME[0].control, control_message(SOME[0])) == (None, None)


@COMPRESSED
def test_a_batch_without_records_is_not_compressed(codec: str) -> None:
    """DefaultRecordBatch.writeEmptyHeader; Kafka's streaming reader refuses an empty stream."""
    empty = encode_records([], base_offset=5, last_offset_delta=3, transactional=True)
    assert encode_batches(decode_records(empty), codec=codec) == empty
    assert encode_records([], base_offset=5, last_offset_delta=3, transactional=True, codec=codec) == empty
    both = decode_records(empty + encode_records(SOME))
    again = decode_records(encode_batches(both, codec=codec))
    assert again.batches.attributes.tolist() == [0x10, CODECS.index(codec)] and list(again) == list(both)


@COMPRESSED
def test_a_batch_without_records_is_read_whatever_it_holds(codec: str) -> None:
    """DefaultRecordBatch.iterator looks at the count first."""
    for payload in (b"", b"no stream", gzip.compress(b"")):
        empty = batch_of(payload, 0, attributes=CODECS.index(codec))
        records = decode_records(empty + batch_of(payload, 0) + encode_records(SOME))
        assert list(records) == SOME and records.batches.count.tolist() == [0, 0, len(SOME)]
        assert encode_batches(decode_records(empty)) == batch_of(b"", 0)


def test_times_before_the_append_are_kept_by_columns_alone() -> None:
    """A batch of a topic with LogAppendTime has the producer's times as deltas, which Record does not expose."""
    rows = [replace(record, timestamp=1000 + 7 * record.offset) for record in SOME]
    batch = encode_records(rows, log_append_time=True, base_timestamp=1000, max_timestamp=5000)
    records = decode_records(batch)
    assert records.timestamp_delta.tolist() == [49, 63, 84] and records.timestamp.tolist() == [5000] * 3
    assert encode_batches(records) == batch
    again = encode_records(records, log_append_time=True, base_timestamp=1000, max_timestamp=5000)
    assert again != batch and list(decode_records(again)) == list(records)


@COMPRESSED
def test_bombs_are_bounded(codec: str) -> None:
    bomb = encode_records([Record(0, 0, None, bytes(10_000_000))], codec=codec)
    assert len(bomb) < 1_000_000
    with pytest.raises(DecodeError, match="max_bytes") as raised:
        decode_records(bomb, max_bytes=9_999_999)
    assert raised.value.offset == 0
    assert len(decode_records(bomb, max_bytes=10_000_100)) == 1
    with pytest.raises(DecodeError, match="max_bytes") as raised:
        decode_records(bomb + bomb, max_bytes=15_000_000)  # All together.
    assert raised.value.offset == len(bomb)


def test_a_snappy_block_that_lies_about_its_size() -> None:
    for block in (b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\x7f" + bytes(50)):
        with pytest.raises(DecodeError, match="cannot be that large"):
            decode_records(batch_of(block, 1, attributes=2))


@pytest.mark.parametrize("attributes", [5, 6, 7])
def test_unknown_codecs(attributes: int) -> None:
    with pytest.raises(DecodeError, match="compression type"):
        decode_records(batch_of(bytes(10), 1, attributes))


def test_snappy_is_framed_and_read_raw_too() -> None:
    records = [Record(offset, 0, None, bytes(1000)) for offset in range(100)]
    framed = encode_records(records, codec="snappy")
    assert framed[61:77] == b"\x82SNAPPY\0\0\0\0\1\0\0\0\1"
    literal = encode_records(SOME[:1])[61:]
    raw = bytes([len(literal), len(literal) - 1 << 2]) + literal  # One literal of up to 60 bytes.
    assert [record.key for record in decode_records(batch_of(raw, 1, attributes=2))] == [b"key"]
    stream = framed[:61] + framed[61:77] + framed[61:]  # One stream behind another, the first of no blocks.
    stream = with_crc(stream[:8] + (len(stream) - 12).to_bytes(4, "big") + stream[12:])
    assert list(decode_records(stream)) == records
    for end in (65, 76, 78, 90):
        torn = with_crc(framed[:8] + (end - 12).to_bytes(4, "big") + framed[12:end])
        with pytest.raises(DecodeError):
            decode_records(torn)


def test_lz4_frames_are_as_kafka_writes_them() -> None:
    batch = encode_records([Record(0, 0, None, bytes(200_000))], codec="lz4")
    # Version 1, independent blocks, no checksums, no size; blocks of 64 KiB; the checksum of those two bytes.
    assert batch[61:68] == bytes.fromhex("04224d18604082")
    assert batch[-4:] == bytes(4)


def test_levels() -> None:
    records = [Record(offset, 0, None, random.Random(offset % 7).randbytes(90) + bytes(10)) for offset in range(500)]
    for codec, low, high in (("gzip", 1, 9), ("zstd", -5, 19)):
        fast, small = (encode_records(records, codec=codec, level=level) for level in (low, high))
        assert list(decode_records(fast)) == list(decode_records(small)) == records
        assert len(small) < len(fast)
    for codec, wrong in (("gzip", 10), ("zstd", 23), ("lz4", 1), ("none", 1)):
        with pytest.raises(EncodeError, match="level"):
            encode_records(records, codec=codec, level=wrong)
    with pytest.raises(EncodeError, match="level"):
        encode_batches(decode_records(fast), level=3)


def test_stop_gives_what_stands_before() -> None:
    good, codecs = encode_records(SOME), [encode_records(SOME, codec=codec) for codec in CODECS]
    data = b"".join(codecs)
    for row in range(len(CODECS)):
        start = sum(len(batch) for batch in codecs[:row])
        torn = bytearray(data)
        torn[start + 60] += 1  # The count.
        records = decode_records(torn, stop=True)
        assert (list(records), records.end) == (SOME * row, start)
        assert records.problem is not None
        assert (records.problem.message, records.problem.offset) == (
            "a record batch whose CRC does not match",
            start + 17,
        )
        records = decode_records(torn, stop=True, check_crc=False)
        assert (list(records), records.end, len(records.batches)) == (SOME * row, start, row)
        assert encode_batches(records, codec="none") == good * row
        with pytest.raises(DecodeError, match="CRC"):
            decode_records(torn)
        whole = scan_batches(torn)
        assert list(decode_records(torn, whole.take(whole.crc_matches))) == SOME * (len(CODECS) - 1)
    records = decode_records(data + good[:-1], stop=True)
    assert (list(records), records.end) == (SOME * len(CODECS), len(data))
    assert records.problem is not None


def test_keys_and_values_stay_where_they_are() -> None:
    data = encode_records(SOME) + encode_records(SOME, codec="zstd")
    records = decode_records(data)
    assert records.value_offset[0] == data.index(b"value")
    assert records.value_offset[3] == len(data) + bytes(records.decompressed).index(b"value")
    assert [records.span(*span) for span in zip(records.key_offset, records.key_length, strict=True)] == [
        *(b"key", None, b""),
        *(b"key", None, b""),
    ]
    for column in (records.offset, records.key_offset, records.header_end):
        assert not column.flags.writeable


def test_what_no_batch_can_carry() -> None:
    for record in (Record(2**31, 0), Record(2**63, 0), Record(0, 2**70)):
        with pytest.raises(EncodeError):
            encode_records([record], base_offset=0)
    for field, value in {
        "producer_epoch": 2**15,
        "base_sequence": 2**31,
        "partition_leader_epoch": -(2**31) - 1,
    }.items():
        with pytest.raises(EncodeError, match="range"):
            encode_records(SOME, **{field: value})  # type: ignore[arg-type]
    with pytest.raises(EncodeError, match="base_offset"):
        encode_records([])
    with pytest.raises(EncodeError, match="none of"):
        encode_records(SOME, codec="brotli")
    with pytest.raises(EncodeError, match="bytes or None"):
        encode_records([Record(0, 0, "key")])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "spans", [(-1, 1), (3, 1), (0, 4), (2**62, 2**62)], ids=["before", "behind", "too long", "overflow"]
)
def test_the_kernel_reads_no_span_outside(spans: tuple[int, int]) -> None:
    batches = [np.zeros(1, np.int64).data] * 9
    row = (0, 0, 0, *spans, 0, -1, 0)
    columns = [np.array([value], np.int64).data for value in row]
    none = [np.empty(0, np.int64).data] * 4
    with pytest.raises(ValueError, match="span"):
        kernel.encode(batches, columns, none, (b"ab", b"c"), None)
    columns[7] = np.array([1], np.int64).data
    columns[4] = np.array([-1], np.int64).data
    with pytest.raises(ValueError, match="headers"):
        kernel.encode(batches, columns, none, (b"ab", b"c"), None)
    columns[0] = np.array([1], np.int64).data
    with pytest.raises(ValueError, match="a record of an unknown batch"):
        kernel.encode(batches, columns, none, (b"ab", b"c"), None)


@pytest.mark.parametrize("count", [1, 2, 57, 58, 200])
@pytest.mark.parametrize("size", [0, 1, 56, 57, 58, 64, 300])
@pytest.mark.parametrize(("base_offset", "timestamp", "epoch"), [(0, 0, 0), (2**62, 2**62, 2**31 - 1), (7, 2**41, 5)])
def test_values_alone_are_built_as_their_records_are(
    count: int, size: int, base_offset: int, timestamp: int, epoch: int
) -> None:
    values = [bytes([k % 256]) * (size if k % 3 else 5) for k in range(count)]
    rows = [Record(base_offset + k, timestamp, None, value) for k, value in enumerate(values)]
    fields = {"base_offset": base_offset, "timestamp": timestamp, "partition_leader_epoch": epoch}
    assert encode_values(values, **fields) == encode_records(rows, partition_leader_epoch=epoch)


@pytest.mark.parametrize("size", [0, 1, 52, 53, 63, 64, 8_191, 8_192, 100_000])
@pytest.mark.parametrize(("base_offset", "timestamp", "epoch"), [(0, 0, 0), (2**62, 2**62, 2**31 - 1), (7, -1, -1)])
def test_control_records_are_built_as_their_records_are(
    size: int, base_offset: int, timestamp: int, epoch: int
) -> None:
    for count in (1, 2, 70):
        pairs = [(bytes([0, 0, 0, k]), bytes([k]) * (size + k)) for k in range(count)]
        rows = [Record(base_offset + k, timestamp, *pair) for k, pair in enumerate(pairs)]
        built = encode_control(pairs, base_offset=base_offset, timestamp=timestamp, partition_leader_epoch=epoch)
        assert built == encode_records(rows, control=True, partition_leader_epoch=epoch)


@pytest.mark.parametrize("field", ["base_offset", "timestamp", "partition_leader_epoch"])
def test_values_alone_in_no_batch_are_refused(field: str) -> None:
    fields = {"base_offset": 0, "timestamp": 0, "partition_leader_epoch": 0} | {field: 2**63}
    with pytest.raises(EncodeError):
        encode_values([b"a"], **fields)
