"""Invalid bytes: every truncation and every flipped bit is a DecodeError or another valid message."""

import tracemalloc

import numpy as np
import pytest

import kcore
from kcore import DecodeError, KcoreError
from kcore.schema import message_class
from kcore.wire.plan import plan
from reference.columns import write
from wire.columns.test_columns import leader_and_isr
from wire.golden import vectors

CASES = 200
WHOLE_CHECK_EVERY = 17  # Every seventeenth flip is also written and read back.


def outcome(decode: object, name: str, version: int, data: bytes) -> bool:
    """Whether the bytes are a message; anything but a DecodeError fails the test."""
    try:
        decode(name, version, data)  # type: ignore[operator]
    except DecodeError as error:
        assert 0 <= error.offset <= len(data)
        return False
    return True


def check(name: str, version: int, data: bytes) -> None:
    """Both views accept or both refuse; accepted messages are written and read back as the same."""
    taken = outcome(kcore.decode_columns, name, version, data)
    assert taken == outcome(kcore.decode, name, version, data)
    if taken:
        again = kcore.encode_columns(kcore.decode_columns(name, version, data), version)
        assert kcore.encode_columns(kcore.decode_columns(name, version, again), version) == again
        assert again == kcore.encode(kcore.decode(name, version, data), version)


def flip(data: bytes, bit: int) -> bytes:
    flipped = bytearray(data)
    flipped[bit // 8] ^= 1 << bit % 8
    return bytes(flipped)


@pytest.mark.recorded
def test_every_truncation_and_flipped_bit() -> None:
    small = [(name, case["version"], bytes.fromhex(case["hex"])) for name, case in vectors() if len(case["hex"]) <= 600]
    chosen = small[:: max(1, len(small) // CASES)][:CASES]
    assert len(chosen) == CASES
    for name, version, data in chosen:
        for size in range(len(data)):
            assert not outcome(kcore.decode_columns, name, version, data[:size])
        for bit in range(len(data) * 8):
            flipped = flip(data, bit)
            if bit % WHOLE_CHECK_EVERY:
                taken = outcome(kcore.decode_columns, name, version, flipped)
                assert taken == outcome(kcore.decode, name, version, flipped)
            else:
                check(name, version, flipped)


@pytest.mark.parametrize("version", [1, 2, 7])
def test_many_records_cut_or_flipped(version: int) -> None:
    """Runs of equal layout, and of others, that end in the middle of a record."""
    rng = np.random.default_rng(5)
    for isr in (3, rng.integers(0, 6, 60)):
        data = kcore.encode_columns(leader_and_isr(2, 30, isr), version)
        for size in range(len(data)):
            assert not outcome(kcore.decode_columns, "LeaderAndIsrRequest", version, data[:size])
        for bit in rng.integers(0, len(data) * 8, 400):
            check("LeaderAndIsrRequest", version, flip(data, int(bit)))


HUGE = {
    "a count that the bytes cannot hold": (2, bytes(16) + b"\x7f\xff\xff\xff" + bytes(40)),
    "a length that the bytes cannot hold": (2, bytes(16) + b"\0\0\0\1" + b"\x7f\xff" + bytes(40)),
    "a compact count of 32 bits": (7, bytes(18) + b"\xff\xff\xff\xff\x0f" + bytes(40)),
    "a varint of more than 32 bits": (7, bytes(18) + b"\xff\xff\xff\xff\x1f" + bytes(40)),
    "a varint of six bytes": (7, bytes(18) + b"\x80\x80\x80\x80\x80\x01" + bytes(40)),
    "a null array": (2, bytes(16) + b"\xff\xff\xff\xff" + bytes(40)),
    "as many tags as 32 bits count": (7, bytes(18) + b"\1\1" + b"\xff\xff\xff\xff\x0f"),
}


@pytest.mark.parametrize("what", HUGE)
def test_lengths_are_not_believed(what: str) -> None:
    version, data = HUGE[what]
    with pytest.raises(DecodeError):
        kcore.decode_columns("LeaderAndIsrRequest", version, data)
    tracemalloc.start()
    with pytest.raises(DecodeError):
        kcore.decode_columns("LeaderAndIsrRequest", version, data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100_000


def test_bytes_left_over() -> None:
    data = kcore.encode_columns(leader_and_isr(1, 1, 3), 7)
    with pytest.raises(DecodeError, match="left over") as caught:
        kcore.decode_columns("LeaderAndIsrRequest", 7, data + b"\0")
    assert caught.value.offset == len(data)


TEXTS = [
    b"\xc0\x80",
    b"\xe0\x9f\x80",
    b"\xf0\x8f\x80\x80",
    b"\xed\xa0\x80",
    b"\xf4\x90\x80\x80",
    b"\xe2\x82",
    b"\x80",
    b"\xf8\x88\x80\x80\x80",
    b"a" * 9 + b"\xff",
]


@pytest.mark.parametrize("text", TEXTS)
def test_strings_must_be_utf8(text: bytes) -> None:
    data = b"\0\4\0\1\0\0\0\7" + len(text).to_bytes(2) + text
    with pytest.raises(DecodeError, match="not UTF-8"):
        kcore.decode_columns("RequestHeader", 1, data)
    # The same among many strings, which are checked a run at a time.
    names = b"".join(len(t).to_bytes(2) + t + bytes(4) for t in [b"x" * len(text)] * 20 + [text])
    with pytest.raises(KcoreError, match="not UTF-8"):
        kcore.decode_columns("ControlledShutdownResponse", 1, b"\0\0" + (21).to_bytes(4) + names)


def test_strings_that_are_utf8() -> None:
    for text in ("", "a", "12345678", "1234567é", "é" * 9, "\ud7ff\ue000\uffff", "\U00010000\U0010ffff", "日本語" * 5):
        data = text.encode()
        header = kcore.decode_columns("RequestHeader", 1, b"\0\4\0\1\0\0\0\7" + len(data).to_bytes(2) + data)
        assert header.client_id == text


HEADER = b"\0\4\0\4\0\0\0\7\xff\xff"  # RequestHeader version 2 up to its tags


@pytest.mark.parametrize("tags", [b"\2\3\0\3\0", b"\2\3\0\2\0", b"\1\x81\x80\x80\x80\x10\0", b"\1\3\2\0"])
def test_tags_that_repeat_descend_overflow_or_run_out(tags: bytes) -> None:
    assert kcore.decode_columns("RequestHeader", 2, HEADER + b"\2\3\0\4\0").unknown_tags
    with pytest.raises(DecodeError):
        kcore.decode_columns("RequestHeader", 2, HEADER + tags)


def test_strings_are_as_long_as_kafka_allows() -> None:
    row = {"error_code": 0, "remaining_partitions": [{"topic_name": "x" * 32767, "partition_index": 1}]}
    compact = plan(message_class("ControlledShutdownResponse"), 3)
    kcore.decode_columns("ControlledShutdownResponse", 3, write(compact, row))
    row["remaining_partitions"] = [{"topic_name": "x" * 32768, "partition_index": 1}]
    with pytest.raises(DecodeError, match="length"):
        kcore.decode_columns("ControlledShutdownResponse", 3, write(compact, row))
