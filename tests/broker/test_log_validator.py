"""The checks of producers' records: the kernel beside its twin, whole requests, limits."""

import gzip
import random
import subprocess
import sys
import zlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from broker.cluster import Cluster
from kcore._ext import records as kernel
from kcore.broker.replicas.log_validator import (
    LEAST_BUDGET,
    MAX_MESSAGE_BYTES,
    LogConfig,
    RecordValidationException,
    validate,
)
from kcore.broker.replicas.partition import TopicSettings
from kcore.broker.replicas.producing import on_produce
from kcore.protocol_errors import ApiException, Errors
from kcore.schema.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kcore.wire.record_batch import crc32c
from kcore.wire.record_building import CODECS, encode_batches, encode_records
from kcore.wire.records import Record, decode_records
from reference import log_validator as twin

BASE = 1_700_000_000_000
NONE, GZIP = 0, 1


def random_record(random_: random.Random, index: int) -> bytes:
    """A record, sometimes one that is not as it should be."""

    def field(most: int = 30) -> bytes:
        if random_.random() < 0.2:
            return twin.varint_bytes(random_.choice([-1, -1, -7]))
        return twin.put(random_.randbytes(random_.randrange(most)))

    offset = index if random_.random() < 0.95 else random_.randrange(-3, 9)
    body = b"\0" + twin.varint_bytes(random_.choice([0, 5, -9, -BASE - 7, 10**9])) + twin.varint_bytes(offset)
    count = random_.choice([0, 0, 1, 2])
    body += field() + field(200) + twin.varint_bytes(count)
    for _ in range(count):
        key = random_.choice([b"k", "größe".encode(), b"\xff", b"\xe2\x82", b""])
        body += twin.put(key) + field()
    return twin.put(body)


def damaged(random_: random.Random, records: bytes) -> bytes:
    data = bytearray(records)
    place = random_.randrange(len(data))
    match random_.randrange(5):
        case 0:
            data[place] ^= 1 << random_.randrange(8)
        case 1:
            data[place] = random_.choice([0, 1, 0x7F, 0x80, 0xFF])
        case 2:
            del data[place:]
        case 3:
            data[place:place] = random_.choice([b"\x80\x80\x80\x80\x80\x01", b"\x00", random_.randbytes(3)])
        case 4:
            data += random_.randbytes(random_.randrange(1, 5))
    return bytes(data)


@pytest.mark.parametrize("seed", range(20))
def test_the_kernel_and_its_twin_agree(seed: int) -> None:
    random_ = random.Random(seed)
    for _ in range(400):
        count = random_.choice([1, 2, 3, 7])
        data = b"".join(random_record(random_, index) for index in range(count))
        if random_.random() < 0.6:
            data = damaged(random_, data)
        count += random_.choice([0, 0, 0, -1, 1])
        is_kept, is_compressed = random_.random() < 0.5, random_.random() < 0.5
        rules = {
            "base_timestamp": BASE,
            "append_time": random_.choice([None, None, BASE]),
            "is_compacted": random_.random() < 0.2,
            "window": random_.choice([None, (BASE, 10**12, 10**12), (BASE, 2**62, 2**62)]),
            "most_of_record": random_.choice([2**31 - 9, 2**31 - 9, 8, 12, 20]),
        }
        payload = gzip.compress(data) if is_compressed else data
        target = None if is_kept else (NONE, None, 10**6)
        codec = GZIP if is_compressed else NONE
        refusal, errors, first, largest, rebuilt = kernel.validate(
            payload, count, codec, **rules, target=target, budget=2**20
        )
        response = twin.validate(data, count, is_compressed, is_kept, rules)
        assert (refusal and refusal[0]) == response.refusal, (refusal, data.hex(), rules, is_kept, is_compressed, count)
        if refusal is None:
            assert (errors, first, largest) == (response.errors, response.first_timestamp, response.max_timestamp)
            assert rebuilt == response.rebuilt


# The result of Java's `new String(bytes, UTF_8).getBytes(UTF_8)`; a surrogate is one replacement, where Rust has three.
JAVAS = [
    ("6b", "6b"),
    ("c3a9", "c3a9"),
    ("eda080", "efbfbd"),
    ("eda0", "efbfbd"),
    ("e08080", "efbfbdefbfbdefbfbd"),
    ("f0908041", "efbfbd41"),
    ("f4909080", "efbfbdefbfbdefbfbdefbfbd"),
    ("f5808080", "efbfbdefbfbdefbfbdefbfbd"),
    ("c0af", "efbfbdefbfbd"),
    ("82c08ff0edbf", "efbfbdefbfbdefbfbdefbfbdefbfbd"),
    ("eda0ff41f490", "efbfbdefbfbd41efbfbdefbfbd"),
]


@pytest.mark.parametrize(("key", "written"), JAVAS)
def test_a_header_key_is_written_anew_as_java_does(key: str, written: str) -> None:
    before, behind = twin.put(None) * 2 + twin.varint_bytes(1), twin.put(None)
    records = [twin.put(b"\0\0\0" + before + twin.put(bytes.fromhex(each)) + behind) for each in (key, written)]
    answer = kernel.validate(records[0], 1, NONE, BASE, None, False, None, (NONE, None, 1000), 1000, 1000)
    assert answer[4] == records[1]


# Whole requests.


def batch(*values: bytes | None, codec: str = "none", key: bytes | None = b"k", **header: Any) -> bytes:
    rows = [Record(index, BASE, key, value) for index, value in enumerate(values)]
    return encode_records(rows, codec=codec, **header)


def with_crc(data: bytes, change: Callable[[bytearray], None]) -> bytes:
    changed = bytearray(data)
    change(changed)
    changed[8:12] = (len(changed) - 12).to_bytes(4, "big")
    changed[17:21] = crc32c(bytes(changed[21:])).to_bytes(4, "big")
    return bytes(changed)


def payload(data: bytes, codec: str = "none", count: int = 1) -> bytes:
    """A batch whose records are these bytes."""

    def change(changed: bytearray) -> None:
        changed[61:] = data
        changed[21:23] = CODECS.index(codec).to_bytes(2, "big")
        changed[23:27], changed[57:61] = (count - 1).to_bytes(4, "big"), count.to_bytes(4, "big")

    return with_crc(batch(b"x"), change)


def led(partitions: int = 1) -> Cluster:
    """A broker that leads these partitions of t."""
    cluster = Cluster(1)
    cluster.elect(1)
    for index in range(1, partitions):
        cluster.leader_and_isr(1, index=index)
    cluster.perform(1)
    return cluster


def response(
    cluster: Cluster, *batches: bytes | None, version: int = 11, acks: int = 1, transactional_id: str | None = None
) -> list[Any]:
    """The results of one request with a batch for each partition of t."""
    partitions = [PartitionProduceData(index=index, records=data) for index, data in enumerate(batches)]
    topic = TopicProduceData(name="t", partition_data=partitions)
    cluster.requests += 1
    request = ProduceRequest(transactional_id=transactional_id, acks=acks, timeout_ms=10_000, topic_data=[topic])
    on_produce(cluster.brokers[1], cluster.requests, request, 5, cluster.now_ms, version)
    cluster.perform(1)
    return list(cluster.answers[cluster.requests].responses[0].partition_responses)


def errors(cluster: Cluster, *batches: bytes | None, **asked: Any) -> list[Errors]:
    return [Errors(each.error_code) for each in response(cluster, *batches, **asked)]


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (payload(b"garbage" * 9, "zstd"), Errors.UNKNOWN_SERVER_ERROR),
        (payload(b"garbage" * 9, "gzip"), Errors.UNKNOWN_SERVER_ERROR),
        (payload(b"garbage" * 9, "lz4"), Errors.UNKNOWN_SERVER_ERROR),
        (payload(b"garbage" * 9, "snappy"), Errors.UNKNOWN_SERVER_ERROR),
        (payload(b"garbage" * 9), Errors.INVALID_RECORD),
        (payload(b"x", count=2**31 - 1), Errors.INVALID_RECORD),
        (
            batch(b"x", transactional=True, producer_id=1, producer_epoch=0, base_sequence=0),
            Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ),
    ],
)
def test_what_is_inside_a_batch_is_looked_at(data: bytes, error: Errors) -> None:
    cluster = led()
    assert errors(cluster, data) == [error]
    assert cluster.log(1).batches == []


def test_some_faults_refuse_the_partition_and_some_the_whole_request() -> None:
    good, cluster = batch(b"x"), led(5)
    two, old_zstd = batch(b"x") * 2, batch(b"x", codec="zstd")
    assert errors(cluster, good, two, old_zstd, b"", None, version=6) == [
        Errors.NONE,
        Errors.INVALID_RECORD,
        Errors.UNSUPPORTED_COMPRESSION_TYPE,
        Errors.INVALID_RECORD,
        Errors.INVALID_RECORD,
    ]
    assert len(cluster.log(1).batches) == 1
    torn = bytearray(good[:40])
    torn[8:12] = (28).to_bytes(4, "big")
    no_length, long = good[:8] + bytes(4) + good[12:], good[:8] + (2**31 - 1).to_bytes(4, "big") + good[12:]
    assert errors(cluster, good, bytes(torn)) == [Errors.UNKNOWN_SERVER_ERROR] * 2
    assert errors(cluster, good, no_length) == [Errors.CORRUPT_MESSAGE] * 2
    assert errors(cluster, good, long) == [Errors.UNKNOWN_SERVER_ERROR] * 2
    one, other = (
        batch(b"x", transactional=True, producer_id=each, producer_epoch=0, base_sequence=0) for each in (1, 2)
    )
    assert errors(cluster, one, other) == [Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED] * 2
    assert errors(cluster, one, other, transactional_id="x") == [Errors.INVALID_PRODUCER_ID_MAPPING] * 2
    assert len(cluster.log(1).batches) == 1, "what stood before the fault in the request is refused with it"


def test_what_is_sent_to_an_unknown_partition_is_not_looked_at() -> None:
    cluster, two = led(), batch(b"x") * 2
    unknown = TopicProduceData(name="u", partition_data=[PartitionProduceData(index=0, records=two)])
    known = TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=batch(b"x"))])
    on_produce(cluster.brokers[1], 77, ProduceRequest(acks=1, timeout_ms=1, topic_data=[unknown, known]), 0, 0, 9)
    cluster.perform(1)
    codes = [topic.partition_responses[0].error_code for topic in cluster.answers[77].responses]
    assert codes == [Errors.UNKNOWN_TOPIC_OR_PARTITION, Errors.NONE]


def configured(cluster: Cluster, **config: Any) -> Cluster:
    cluster.brokers[1].set_settings("t", TopicSettings(log=LogConfig(**config)), 0)
    return cluster


def test_refused_records_are_reported() -> None:
    cluster = configured(led(), is_compacted=True)
    rows = [Record(0, BASE, b"k", b"v"), Record(1, BASE, None, b"v"), Record(2, BASE, None, b"w")]
    [answer] = response(cluster, encode_records(rows))
    assert answer.error_code == Errors.INVALID_RECORD and cluster.log(1).batches == []
    assert [each.batch_index for each in answer.record_errors] == [1, 2]
    assert "requires a key" in answer.record_errors[0].batch_index_error_message
    configured(cluster, timestamp_after_max_ms=1000)
    [answer] = response(cluster, batch(b"x"))
    assert (answer.error_code, len(answer.record_errors)) == (Errors.INVALID_TIMESTAMP, 1)


def test_at_most_a_thousand_refused_records_are_reported() -> None:
    data = encode_records([Record(index, BASE, None, b"") for index in range(5000)])
    with pytest.raises(RecordValidationException) as refused:
        validate(data, LogConfig(is_compacted=True), 0, 0, BASE)
    assert len(refused.value.record_errors) == 1000


@pytest.mark.parametrize("source", CODECS)
@pytest.mark.parametrize("target", ["producer", "uncompressed", *CODECS[1:]])
def test_a_topics_compression_and_time_of_append(source: str, target: str) -> None:
    cluster = configured(led(), compression_type=target, has_log_append_time=True)
    header = {"producer_id": 5, "producer_epoch": 2, "base_sequence": 0}
    [answer] = response(cluster, batch(b"x" * 3000, None, codec=source, **header))
    assert (answer.error_code, answer.base_offset, answer.log_append_time_ms) == (0, 0, cluster.now_ms)
    [answer] = response(cluster, batch(b"y", codec=source, producer_id=5, producer_epoch=2, base_sequence=2))
    assert answer.base_offset == 2
    records = decode_records(b"".join(cluster.log(1).batches))
    codec = source if target == "producer" else "none" if target == "uncompressed" else target
    assert (records.batches.attributes == CODECS.index(codec) + 8).all()
    assert [each.value for each in records] == [b"x" * 3000, None, b"y"]
    assert records.offset.tolist() == [0, 1, 2] and (records.timestamp == cluster.now_ms).all()
    assert records.sequence.tolist() == [0, 1, 2] and records.batches.producer_epoch.tolist() == [2, 2]


def test_a_batch_that_grows_beyond_the_topics_limit() -> None:
    data = batch(b"x" * 5000, codec="zstd")
    assert len(data) < 200
    assert validate(data, LogConfig(max_message_bytes=200), 0, 0, BASE).data[61:] == data[61:]
    with pytest.raises(ApiException) as refused:
        validate(data, LogConfig(max_message_bytes=200, compression_type="uncompressed"), 0, 0, BASE)
    assert refused.value.error is Errors.MESSAGE_TOO_LARGE


BOMB = """
import sys
from kcore.broker.replicas.log_validator import LogConfig, validate
from kcore.protocol_errors import ApiException
from kcore.measure.workloads.memory import process_peak
data = sys.stdin.buffer.read()
first = process_peak()
for compression in ("producer", "zstd"):
    try:
        validate(data, LogConfig(compression_type=compression), 0, 0, 0)
    except ApiException as error:
        print(error.error.name, (process_peak() - first) >> 20)
"""


def test_a_bomb_takes_little_memory_and_is_refused() -> None:
    """300 MiB in 300 KiB: a batch that is kept is never decompressed whole, a rebuilt one is a record at a time."""
    size = LEAST_BUDGET + 2**25
    body = b"\0\0\0" + twin.varint_bytes(-1) + twin.varint_bytes(size)
    deflate = zlib.compressobj(6, zlib.DEFLATED, 31)
    parts = [deflate.compress(twin.varint_bytes(len(body) + size + 1) + body)]
    parts += [deflate.compress(bytes(2**20)) for _ in range(size >> 20)]
    data = payload(b"".join([*parts, deflate.compress(b"\0"), deflate.flush()]), "gzip")
    assert len(data) < MAX_MESSAGE_BYTES
    done = subprocess.run([sys.executable, "-c", BOMB], input=data, capture_output=True, check=True)
    refused = [line.split() for line in done.stdout.decode().splitlines()]
    assert [error for error, _ in refused] == ["MESSAGE_TOO_LARGE"] * 2
    kept, anew = [int(mib) for _, mib in refused]
    assert kept < 8 and anew <= LEAST_BUDGET // 2**20


@pytest.mark.parametrize("compression", ["producer", "zstd"])
@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_a_record_of_a_compressed_batch_has_a_limit_of_its_own(codec: str, compression: str) -> None:
    """DefaultRecord.readFrom and readPartiallyFrom of 4.4.0: InvalidRecordException; plain records have no limit."""
    rows = [Record(0, BASE, None, bytes(100)), Record(1, BASE, None, bytes(101))]
    data = encode_batches(decode_records(encode_records(rows, codec=codec)))
    largest = 5 + 2 + 101  # Attributes, deltas, no key, no headers; two bytes of the value's length; the value.
    for most, error in ((largest, Errors.NONE), (largest - 1, Errors.INVALID_RECORD)):
        cluster = configured(led(), compression_type=compression, max_decompressed_message_bytes=most)
        assert errors(cluster, data) == [error if codec != "none" else Errors.NONE]


def test_offsets_of_compressed_records_count_from_0() -> None:
    """Kafka would build the batch anew, and has not kept its records (PartialDefaultRecord)."""
    for codec, error in (("none", Errors.NONE), ("lz4", Errors.UNKNOWN_SERVER_ERROR)):
        rows = [Record(0, BASE, b"k", b"v"), Record(2, BASE, b"k", b"v")]
        records = decode_records(encode_records(rows, codec=codec))
        batches = replace(records.batches, last_offset_delta=np.array([1], np.int32))
        data = encode_batches(replace(records, batches=batches))
        cluster = led()
        assert errors(cluster, data) == [error]
    assert errors(configured(led(), compression_type="zstd"), data) == [Errors.NONE]
