"""Bounds of memory: no count without bytes for it, no nesting depth set by the bytes, no trust in an announced size."""

import gc
import gzip
import resource
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import kcore
from kcore.errors import DecodeError
from kcore.schema.cluster_metadata import MetadataRequest, MetadataRequestTopic
from kcore.schema.kinds import Kind
from kcore.types import Uuid
from kcore.wire.codec import decode_from
from kcore.wire.plan import Step, StructPlan, plan
from kcore.wire.record_building import CODECS, encode_records
from kcore.wire.records import Record, decode_records
from wire.test_records import batch_of

DEEPEST = 6  # Structs within structs: no message of Kafka has more.
MOST_BYTES = 1 << 20  # The largest contents of a batch.
# zstd allocates its largest window, 128 MiB, if a frame asks for it, and a sanitizer keeps freed memory.
ROOM = 1 << 30
SIZES = {Kind.BOOL: 1, Kind.INT8: 1, Kind.INT16: 2, Kind.UINT16: 2, Kind.INT32: 4, Kind.UINT32: 4, Kind.INT64: 8}
SIZES |= {Kind.FLOAT64: 8, Kind.UUID: 16}


def least(step: Step) -> int:
    """The fewest bytes that the value can have."""
    if step.struct is not None:
        return 1 if step.nullable else least_struct(step.struct)
    return SIZES.get(step.kind) or (1 if step.compact else 2 if step.kind is Kind.STRING else 4)


def least_struct(struct_plan: StructPlan) -> int:
    return sum(least(field.step) for field in struct_plan.in_line) + struct_plan.flexible


def steps_below(struct_plan: StructPlan, depth: int = 1) -> Iterator[tuple[Step, int]]:
    """Every step of a message, also of elements of arrays, and the depth of its struct."""
    for field in (*struct_plan.in_line, *struct_plan.tagged):
        step: Step | None = field.step
        while step is not None:
            yield step, depth
            if step.struct is not None:
                yield from steps_below(step.struct, depth + 1)
            step = step.element


ALL = [
    (name, version)
    for name, message in kcore.schema.MESSAGES.items()
    for version in range(message.versions.lowest, message.versions.highest + 1)
]


def test_elements_have_bytes_and_nesting_is_the_schema_s() -> None:
    """So the bytes left bound a count, and the schema bounds the recursion."""
    seen = 0
    for name, version in ALL:
        for step, depth in steps_below(plan(kcore.schema.message_class(name), version)):
            assert depth <= DEEPEST, name
            if step.element is not None:
                assert least(step.element) >= 1, (name, version)
                seen += 1
    assert seen > 1_000


@pytest.mark.parametrize("count", [-2, -(2**31), 2**31 - 1, 1 << 20])
def test_first_arrays_whose_counts_lie(count: int) -> None:
    """Every message that begins with an array, or with scalars before one: both views refuse it."""
    refused = 0
    for name, version in ALL:
        message = plan(kcore.schema.message_class(name), version)
        front = b""
        for field in message.in_line:
            if field.step.element is not None:
                compact = field.step.compact
                break
            front += bytes(least(field.step)) if field.step.struct is None else b""
        else:
            continue
        if any(field.step.struct for field in message.in_line):
            continue
        lie = varint(count + 1 & 0xFFFFFFFF) if compact else struct.pack(">i", count)
        for decode in (kcore.decode, kcore.decode_columns):
            with pytest.raises(DecodeError) as error:
                decode(name, version, front + lie + bytes(64))
            assert error.value.offset <= len(front) + len(lie) + 64
        refused += 1
    assert refused > 300


def varint(value: int) -> bytes:
    return bytes([value]) if value < 0x80 else bytes([value & 0x7F | 0x80]) + varint(value >> 7)


def lz4_frames(content_size: int, block: bytes) -> list[bytes]:
    """Frames that announce the content size; one of the 256 header checksums is right."""
    descriptor = b"\x68\x70" + content_size.to_bytes(8, "little")
    return [b"\x04\x22\x4d\x18" + descriptor + bytes([checksum]) + block for checksum in range(256)]


XERIAL = b"\x82SNAPPY\0\0\0\0\1\0\0\0\1"
ZSTD = b"\x28\xb5\x2f\xfd"
ZEROS = bytes(1 << 24)
LIES = {
    "gzip: members that are small one by one": (1, [gzip.compress(bytes(1 << 19)) * 64]),
    "gzip: a size in the trailer": (1, [gzip.compress(b"")[:-4] + b"\xff\xff\xff\xff"]),
    "snappy: a raw block": (2, [b"\xff\xff\xff\xff\x0f" + bytes(60)]),
    "snappy: a framed block": (2, [XERIAL + b"\x7f\xff\xff\xff" + bytes(60)]),
    "snappy: a block of negative length": (2, [XERIAL + b"\xff\xff\xff\xff" + bytes(60)]),
    "snappy: a framed block's content": (2, [XERIAL + b"\0\0\0\x0a" + b"\xff\xff\xff\xff\x0f" + bytes(5)]),
    "lz4: content": (3, lz4_frames(2**63 - 1, b"\0\0\0\0")),
    "lz4: a block": (3, lz4_frames(2**40, b"\xff\xff\xff\x7f" + bytes(60))),
    "lz4: a block as it is": (3, lz4_frames(2**40, b"\xff\xff\xff\xff" + bytes(60))),
    "zstd: content, its own window": (4, [ZSTD + b"\xe0" + (2**62).to_bytes(8, "little") + b"\x03\0\x10\0"]),
    "zstd: content": (4, [ZSTD + b"\xc0\x58" + (2**62).to_bytes(8, "little") + b"\x03\0\x10\0"]),
    "zstd: the largest window": (4, [ZSTD + b"\0\xff" + b"\x03\0\x10\0"]),
    "zstd: the largest window allowed": (4, [ZSTD + b"\0\x88" + b"\x02\0\x10\0" * 40]),
    "zstd: a frame to skip": (4, [b"\x50\x2a\x4d\x18\xff\xff\xff\xff" + bytes(60)]),
}


@pytest.mark.parametrize("codec", CODECS[1:])
def test_sizes_are_not_believed(codec: str) -> None:
    """In a process with little spare memory: a trusted size would end it."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[2]); from wire import test_bounds as t; t.in_little_room(sys.argv[1])"
    )
    command = [sys.executable, "-c", code, codec, str(Path(__file__).parents[1])]
    done = subprocess.run(command, capture_output=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr


def in_little_room(codec: str) -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + ROOM
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    bomb = encode_records([Record(0, 0, None, ZEROS)], codec=codec)
    for data in (bomb, bomb * 20):
        with pytest.raises(DecodeError, match="max_bytes"):
            decode_records(data, max_bytes=MOST_BYTES)
    for number, bodies in (lie for what, lie in LIES.items() if what.startswith(codec)):
        for body in bodies:
            for count in (1, 2**31 - 1):
                with pytest.raises(DecodeError):
                    decode_records(batch_of(body, count, number), max_bytes=MOST_BYTES)


@pytest.mark.parametrize("tags", [0, 3])
def test_values_are_counted_where_that_is_asked_for(tags: int) -> None:
    """In arrays of structs, of numbers and of texts, within each other, and in unknown tags."""
    unknown = tuple((100 + number, b"") for number in range(tags))
    assignment = {"partitionIndex": 0, "brokerIds": [1, 2, 3]}
    topic = {"name": "t", "numPartitions": 1, "replicationFactor": 1, "assignments": [assignment] * 5, "configs": []}
    body = {"topics": [topic] * 4, "timeoutMs": 1, "validateOnly": False}
    message = kcore.from_json("CreateTopicsRequest", 7, body)
    message.unknown_tagged_fields = unknown
    message.topics[0].unknown_tagged_fields = unknown
    count = 4 + 4 * 5 + 4 * 5 * 3 + 2 * tags
    data = kcore.encode(message, 7)
    assert decode_from("CreateTopicsRequest", 7, data, most_values=count) == (message, len(data))
    for most in (0, 1, 10, count - 1):
        with pytest.raises(DecodeError, match="the message has more values than it may"):
            decode_from("CreateTopicsRequest", 7, data, most_values=most)
    assert decode_from("CreateTopicsRequest", 7, data)[0] == message
    texts = kcore.from_json("FindCoordinatorRequest", 4, {"keyType": 0, "coordinatorKeys": ["", "", ""]})
    assert decode_from("FindCoordinatorRequest", 4, kcore.encode(texts, 4), most_values=3)[0] == texts
    with pytest.raises(DecodeError, match="coordinator_keys: the message has more values than it may"):
        decode_from("FindCoordinatorRequest", 4, kcore.encode(texts, 4), most_values=2)


def topics_of(count: int) -> bytes:
    topics = [MetadataRequestTopic(name="t", topic_id=Uuid(b"i" * 16)) for _ in range(count)]
    return kcore.encode(MetadataRequest(topics=topics), 12)


def test_other_threads_have_turns_while_many_values_are_read_where_that_is_asked_for() -> None:
    data = topics_of(100_000)
    expected = decode_from("MetadataRequest", 12, data)
    turns, found = 0, []

    def read() -> None:
        before = turns
        message = decode_from("MetadataRequest", 12, data, gives_way=True)
        found.append((message, turns - before))

    reader = threading.Thread(target=read)
    reader.start()
    while reader.is_alive():
        turns += 1
    [(message, turns_meanwhile)] = found
    assert message == expected and turns_meanwhile > 0


@pytest.mark.parametrize("cut", [1, 5, 18 * 5_000])
def test_a_message_that_is_cut_off_is_none_where_others_have_turns(cut: int) -> None:
    data = topics_of(10_000)
    with pytest.raises(DecodeError) as one:
        decode_from("MetadataRequest", 12, data[:-cut], gives_way=True)
    with pytest.raises(DecodeError) as other:
        decode_from("MetadataRequest", 12, data[:-cut])
    assert str(one.value) == str(other.value)


def test_the_collector_has_nothing_to_do_with_what_is_read() -> None:
    data = topics_of(3)
    message = kcore.decode("MetadataRequest", 12, data)
    topic = message.topics[0]
    assert not any(map(gc.is_tracked, (message, message.topics, topic, topic.topic_id)))
