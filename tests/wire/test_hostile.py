"""Arbitrary bytes: DecodeError or a message, never a crash, never more memory than a few times the bytes."""

import tracemalloc
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

import cases
import kcore
from kcore.errors import DecodeError
from kcore.wire.metadata_frames import decode_metadata_record, encode_metadata_record
from kcore.wire.plan import plan
from reference import wire as slow
from wire.every_kind import EveryKind
from wire.golden import vectors

HEX_DIGITS = 400  # Elements of a small vector.
TWIN_EVERY = 7  # The slow twin reads every seventh of the flipped vectors.


@cache
def chosen() -> list[tuple[str, dict[str, Any]]]:
    """One small vector of every message, each of another version."""
    by_name: dict[str, list[dict[str, Any]]] = {}
    for name, case in sorted(vectors(), key=lambda vector: len(vector[1]["hex"])):
        of_name = by_name.setdefault(name, [])
        if not of_name or len(case["hex"]) <= HEX_DIGITS:
            of_name.append(case)
    return [(name, found[number % len(found)]) for number, (name, found) in enumerate(sorted(by_name.items()))]


def truncations(data: bytes) -> Iterator[bytes]:
    return (data[:end] for end in range(len(data)))


def bit_flips(data: bytes) -> Iterator[bytes]:
    for position in range(len(data)):
        for bit in range(8):
            yield data[:position] + bytes([data[position] ^ 1 << bit]) + data[position + 1 :]


def decode_or_refuse(name: str, version: int, data: bytes) -> Any:
    """The message, after it was encoded again; None if the bytes are refused."""
    try:
        message = kcore.decode(name, version, data)
    except DecodeError as error:
        assert 0 <= error.offset <= len(data)
        return None
    kcore.decode(name, version, kcore.encode(message, version))
    return message


@pytest.mark.recorded
def test_every_truncation() -> None:
    assert {name for name, _ in chosen()} == set(kcore.schema.MESSAGES) or cases.directory != cases.DATA
    for name, case in chosen():
        for data in truncations(bytes.fromhex(case["hex"])):
            assert decode_or_refuse(name, case["version"], data) is None
        whole = bytes.fromhex(case["hex"])
        with pytest.raises(DecodeError, match="left over") as error:
            kcore.decode(name, case["version"], whole + b"\0")
        assert error.value.offset == len(whole)


@pytest.mark.recorded
def test_every_bit_flip() -> None:
    """The codec accepts the same bytes as the slow twin, with the same meaning."""
    for name, case in chosen():
        for number, data in enumerate(bit_flips(bytes.fromhex(case["hex"]))):
            message = decode_or_refuse(name, case["version"], data)
            if number % TWIN_EVERY:
                continue
            try:
                twin = slow.read(data, plan(kcore.schema.message_class(name), case["version"]))
            except DecodeError:
                twin = None
            assert message == twin


@pytest.mark.recorded
def test_no_large_allocation() -> None:
    """A length is never trusted: the peak stays under a small multiple of the bytes."""
    tracemalloc.start()
    try:
        for name, case in chosen()[::10]:
            for data in bit_flips(bytes.fromhex(case["hex"])):
                tracemalloc.reset_peak()
                before = tracemalloc.get_traced_memory()[0]
                decode_or_refuse(name, case["version"], data)
                assert tracemalloc.get_traced_memory()[1] - before < 100 * len(data) + 50_000
    finally:
        tracemalloc.stop()


@pytest.mark.recorded
def test_frames_of_metadata_records() -> None:
    for data in [bytes.fromhex(case["framed"]) for _, case in chosen() if "framed" in case]:
        for cut in truncations(data):
            with pytest.raises(DecodeError) as error:
                decode_metadata_record(cut)
            assert 0 <= error.value.offset <= len(cut)
        for flipped in bit_flips(data):
            try:
                record, version = decode_metadata_record(flipped)
            except DecodeError as refused:
                assert 0 <= refused.offset <= len(flipped)
            else:
                assert decode_metadata_record(encode_metadata_record(record, version)) == (record, version)


HUGE_VARINT = b"\xff\xff\xff\xff\x0f"


@pytest.mark.parametrize(
    ("name", "version", "data", "why", "offset"),
    [
        ("ResponseHeader", 0, b"\0\0\0", "correlation_id: the bytes end inside a value", 0),
        ("ResponseHeader", 1, bytes(4), "the bytes end inside a varint", 4),
        ("ResponseHeader", 1, bytes(4) + b"\xff\xff\xff\xff\x1f", "a varint is longer than 32 bits", 9),
        ("ResponseHeader", 1, bytes(4) + b"\x80" * 5, "a varint is longer than 32 bits", 9),
        ("ResponseHeader", 1, bytes(4) + HUGE_VARINT, "the bytes end inside a varint", 9),
        ("ResponseHeader", 1, bytes(4) + b"\x01\x05\x03ab", "a tagged field is longer than the bytes left", 7),
        ("ResponseHeader", 1, bytes(4) + b"\x02\x05\x00\x05\x00", "tags are not in ascending order", 8),
        ("RequestHeader", 1, bytes(8) + b"\x7f\xff", "client_id: a length is greater than", 8),
        ("RequestHeader", 1, bytes(8) + b"\0\1\xff", "client_id: a string is not UTF-8", 10),
        ("UpdateMetadataRequest", 8, bytes(17) + b"\1\1\1\0\2aa", "type: a tagged field is shorter", 23),
        ("UpdateMetadataRequest", 8, bytes(17) + b"\1\1\1\0\0", "type: the bytes end inside a value", 22),
        ("UpdateMetadataRequest", 8, bytes(17) + b"\0", "topic_states: null, but not nullable", 18),
        ("UpdateMetadataRequest", 8, bytes(17) + HUGE_VARINT + bytes(99), "topic_states: an array's count", 17),
        ("UpdateMetadataRequest", 5, bytes(16) + b"\x7f\xff\xff\xff" + bytes(99), "topic_states: an array's count", 16),
        (
            "StopReplicaRequest", 3, bytes(16) + b"\3\2a\1\0\2\xff\1\0\0",
            "topic_states[1].topic_name: a string is not UTF-8", 22,
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_and_where(name: str, version: int, data: bytes, why: str, offset: int) -> None:
    with pytest.raises(DecodeError) as error:
        kcore.decode(name, version, data)
    assert error.value.message.startswith(why)
    assert error.value.offset == offset


def test_many_unknown_tags_take_linear_time() -> None:
    """Unknown tags are appended to a list: growing a tuple would copy 100,000 fields 100,000 times."""
    count = 100_000
    tags = b"".join(slow.write_varint(tag) + b"\0" for tag in range(count))
    message = kcore.decode("ResponseHeader", 1, bytes(4) + slow.write_varint(count) + tags)
    assert message.unknown_tagged_fields == tuple((tag, b"") for tag in range(count))


@pytest.mark.parametrize("tag", [2**31 - 1, 2**31, 2**32 - 1])
def test_tags_beyond_an_int32_are_written_as_they_were_read(tag: int) -> None:
    """A tag is an unsigned varint; both views keep it."""
    data = bytes(4) + b"\1" + slow.write_varint(tag) + b"\1x"
    message = kcore.decode("ResponseHeader", 1, data)
    assert message.unknown_tagged_fields == ((tag, b"x"),)
    assert kcore.encode(message, 1) == data
    assert kcore.encode_columns(kcore.decode_columns("ResponseHeader", 1, data), 1) == data


def test_flips_of_every_kind() -> None:
    message = EveryKind(
        names=["a", "b"], numbers=[1], tagged_int=9, tagged_names=["x"], maybe_part=None, some_bytes=None
    )
    for version in range(4):
        target = message if version == 3 else EveryKind(names=["a", "b"], numbers=[1])
        data = kcore.encode(target, version)
        for changed in (*truncations(data), *bit_flips(data)):
            try:
                twin = slow.read(changed, plan(EveryKind, version))
            except DecodeError:
                twin = None
            try:
                ours = kcore.decode(EveryKind, version, changed)
            except DecodeError:
                ours = None
            assert ours == twin or repr(ours) == repr(twin)  # A NaN is not equal to itself.
