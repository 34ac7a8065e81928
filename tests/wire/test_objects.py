"""The object codec agrees with Kafka's own classes, and with the slow twin on any message."""

import copy
import gc
import pickle
import sys
import weakref
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cases
import kcore
from kcore._ext.wire import wire_program
from kcore.schema.kinds import Kind
from kcore.schema.leader_and_isr import LeaderAndIsrPartitionState, LeaderAndIsrTopicState
from kcore.schema.structure import Message
from kcore.types import Uuid
from kcore.wire.codec import encode_parts
from kcore.wire.plan import plan
from reference import wire as slow
from wire.every_kind import EveryKind, Part
from wire.golden import dropped_by_json, vectors
from wire.strategies import messages

VERSIONS = [
    (message, version)
    for message in (*kcore.schema.MESSAGES.values(), EveryKind)
    for version in range(message.versions.lowest, message.versions.highest + 1)
]


@pytest.mark.recorded
def test_every_vector() -> None:
    assert len(vectors()) > 3_000 or cases.directory != cases.DATA
    for name, case in vectors():
        data = bytes.fromhex(case["hex"])
        message = kcore.decode(name, case["version"], data)
        records, tags = dropped_by_json(message)
        assert [record.hex() for record in records] == case.get("records", [])
        assert sorted(tags) == sorted(case.get("unknownTags", []))
        assert kcore.encode(message, case["version"]) == data
        assert slow.read(data, plan(type(message), case["version"])) == message


@given(st.sampled_from(VERSIONS).flatmap(lambda of: st.tuples(st.just(of[1]), messages(plan(*of)))))
def test_any_message_as_the_slow_twin(drawn: tuple[int, Message]) -> None:
    version, message = drawn
    data = kcore.encode(message, version)
    assert data == slow.write(message, plan(type(message), version))
    assert b"".join(encode_parts(message, version)) == data
    assert kcore.decode(type(message), version, data) == message
    assert slow.read(data, plan(type(message), version)) == message
    out = bytearray(len(data) + 1)
    assert kcore.encode(message, version, out) == len(data)
    assert out == data + b"\0"


def test_kinds_are_numbered_as_in_the_schema() -> None:
    assert {kind.name: kind.value for kind in wire_program.Kind} == {kind.name: kind.value for kind in Kind}


def test_names_and_numbers_that_are_other_objects_each_time() -> None:
    """A program is cached by addresses: another message at the address of a freed one must not match."""
    for number in range(300):
        version, name = int(str(1000 + number % 2)) - 1000, "".join(["Response", "Header"])
        assert kcore.decode(name, version, bytes(4 + version)) == kcore.schema.ResponseHeader()
        name = "".join(["Request", "Header"])
        assert kcore.decode(name, version, b"\0" * 8 + b"\0\0" * version) == kcore.schema.RequestHeader()
        with pytest.raises(kcore.UnsupportedVersionError):
            kcore.decode(name, version + 1000, b"")
        with pytest.raises(kcore.UnknownMessageError):
            kcore.decode("".join(["Request", "Feeder"]), version, b"")


def test_any_bytes_like_object() -> None:
    data = bytes(14)
    first = kcore.decode("ControlledShutdownRequest", 2, data[:12])
    for other in (bytearray(12), memoryview(data)[1:13], np.zeros(12, np.uint8)):
        assert kcore.decode(kcore.schema.ControlledShutdownRequest, 2, other) == first
    with pytest.raises(TypeError):
        kcore.decode("ControlledShutdownRequest", 2, "text")  # type: ignore[call-overload]


def test_what_a_version_lacks() -> None:
    header = kcore.schema.RequestHeader(request_api_key=7, request_api_version=0, correlation_id=1, client_id="dropped")
    assert len(kcore.encode(header, 0)) == 8
    request = kcore.schema.LeaderAndIsrRequest(controller_id=1, controller_epoch=1, is_kraft_controller=True)
    with pytest.raises(kcore.UnsupportedVersionError, match=r"^is_kraft_controller: set, .*: True$"):
        kcore.encode(request, 6)
    in_a_struct = kcore.schema.LeaderAndIsrRequest(
        topic_states=[LeaderAndIsrTopicState(partition_states=[LeaderAndIsrPartitionState(leader_recovery_state=1)])]
    )
    with pytest.raises(kcore.UnsupportedVersionError, match=r"^topic_states\[0\]\.partition_states\[0\]\.leader_reco"):
        kcore.encode(in_a_struct, 5)
    with pytest.raises(kcore.UnsupportedVersionError, match=r"^unknown_tagged_fields: set"):
        kcore.encode(kcore.schema.ResponseHeader(unknown_tagged_fields=[(1, b"")]), 0)
    for version in (-1, 8, 2**70):
        with pytest.raises(kcore.UnsupportedVersionError):
            kcore.encode(request, version)
        with pytest.raises(kcore.UnsupportedVersionError):
            kcore.decode("LeaderAndIsrRequest", version, b"")


def test_null_is_not_empty() -> None:
    """A null array in a version without the field counts as set, as in Kafka's `null != default`."""
    message = EveryKind(tagged_parts=[])
    with pytest.raises(kcore.UnsupportedVersionError, match=r"^tagged_parts"):
        kcore.encode(message, 1)
    assert kcore.decode(EveryKind, 2, kcore.encode(message, 2)).tagged_parts == []


def test_defaults_are_fresh_where_they_can_change() -> None:
    data = kcore.encode(EveryKind(), 0)
    one, other = kcore.decode(EveryKind, 0, data), kcore.decode(EveryKind, 0, data)
    one.tagged_names.append("mine")
    one.tagged_part.name = "mine"
    assert other.tagged_names == [] and other.tagged_part.name == ""
    assert one.parts is not other.parts
    assert (other.moving, other.tagged_int, other.maybe_part) == (5, -1, None)


def test_a_tagged_struct_is_left_out_where_it_has_only_defaults() -> None:
    blank = kcore.encode(EveryKind(), 3)
    assert kcore.encode(EveryKind(tagged_part=Part(unknown_tagged_fields=[])), 3) == blank
    for part in (
        Part(name="x"),
        Part(number=0),
        Part(late=8),
        Part(tagged_text=""),
        Part(unknown_tagged_fields=[(9, b"")]),
    ):
        message = EveryKind(tagged_part=part)
        data = kcore.encode(message, 3)
        assert data == slow.write(message, plan(EveryKind, 3)) != blank
        assert kcore.decode(EveryKind, 3, data).tagged_part.number == part.number


@pytest.mark.parametrize(
    ("field", "value", "why"),
    [
        ("an_int8", 128, "an_int8: out of range: 128"),
        ("an_int64", 2**63, "an_int64: out of range: 9223372036854775808"),
        ("a_uint16", -1, "a_uint16: out of range: -1"),
        ("a_uint32", 2**32, "a_uint32: out of range: 4294967296"),
        ("an_int32", "1", "an_int32: expected an integer: '1'"),
        ("an_int32", True, "an_int32: expected an integer: True"),
        ("an_int32", 1.0, "an_int32: expected an integer: 1.0"),
        ("an_int32", None, "an_int32: expected an integer: None"),
        ("a_bool", 1, "a_bool: expected a bool: 1"),
        ("a_bool", None, "a_bool: not nullable: None"),
        ("a_float64", "1", "a_float64: expected a float: '1'"),
        ("a_float64", 10**400, "a_float64: out of range: 1000"),
        ("a_uuid", b"short", "a_uuid: expected a Uuid of 16 bytes: b'short'"),
        ("a_uuid", None, "a_uuid: not nullable: None"),
        ("a_string", b"bytes", "a_string: expected a str: b'bytes'"),
        ("a_string", "\ud800", "a_string: no UTF-8 for this: '\\ud800'"),
        ("a_string", "x" * 32_768, "a_string: longer than the 32767 bytes that Kafka allows: 'xxx"),
        ("some_bytes", "text", "some_bytes: expected bytes: 'text'"),
        ("part", None, "part: not nullable: None"),
        ("part", EveryKind(), "part: expected another struct: EveryKind"),
        ("part", Part(number=None), "part.number: expected an integer: None"),
        ("shorts", (1, 2, 70_000), "shorts[2]: out of range: 70000"),
        ("shorts", 5, "shorts: expected a list: 5"),
        ("shorts", {1, 2}, "shorts: expected a list: set"),
        ("names", "abc", "names: expected a list: 'abc'"),
        ("parts", [Part(), Part(name=3)], "parts[1].name: expected a str: 3"),
        ("parts", [Part(), None], "parts[1]: not nullable: None"),
        ("tagged_int", "7", "tagged_int: expected an integer: '7'"),
        ("tagged_int", np.zeros(2), "tagged_int: expected an integer: ndarray"),
        ("tagged_part", Part(number="x"), "tagged_part.number: expected an integer: 'x'"),
        ("unknown_tagged_fields", None, "unknown_tagged_fields: expected a list of (tag, bytes): None"),
        ("unknown_tagged_fields", [5], "unknown_tagged_fields[0]: expected (tag, bytes): 5"),
        ("unknown_tagged_fields", [(9, "x")], "unknown_tagged_fields[0]: expected bytes: 'x'"),
        ("unknown_tagged_fields", [(-1, b"")], "unknown_tagged_fields[0]: out of range: -1"),
        ("unknown_tagged_fields", [(2**32, b"")], "unknown_tagged_fields[0]: out of range: 4294967296"),
        ("unknown_tagged_fields", [(4, b"")], "unknown_tagged_fields[0]: the tag of a field that is known: 4"),
        ("unknown_tagged_fields", [(9, b""), (9, b"")], "unknown_tagged_fields[1]: tags must be in ascending order: 9"),
    ],
)
def test_values_that_cannot_be_written(field: str, value: Any, why: str) -> None:
    message = EveryKind()
    setattr(message, field, value)
    for out in (None, bytearray(100)):
        with pytest.raises(kcore.EncodeError) as error:
            kcore.encode(message, 3, out)
        assert str(error.value).startswith(why)


def test_what_is_no_message() -> None:
    for wrong in (5, None, Part(), object):
        with pytest.raises(kcore.EncodeError):
            kcore.encode(wrong, 0)
    with pytest.raises(kcore.UnknownMessageError):
        kcore.decode("Nothing", 0, b"")
    message = EveryKind()
    del message.an_int32
    with pytest.raises(kcore.EncodeError, match=r"^an_int32: expected an integer: None"):
        kcore.encode(message, 3)


def test_integers_of_numpy() -> None:
    message = EveryKind(an_int8=np.int8(-3), shorts=tuple(np.arange(3, dtype=np.int16)), a_uint32=np.uint32(2**32 - 1))
    again = kcore.decode(EveryKind, 3, kcore.encode(message, 3))
    assert (again.an_int8, again.shorts, again.a_uint32) == (-3, [0, 1, 2], 2**32 - 1)


def test_out_too_small() -> None:
    message = EveryKind(names=["name"] * 100)
    data = kcore.encode(message, 3)
    for room in (0, 1, 50, len(data) - 1):
        out = bytearray(room)
        with pytest.raises(kcore.EncodeError, match="out has no room"):
            kcore.encode(message, 3, memoryview(out))
    with pytest.raises(BufferError):
        kcore.encode(message, 3, data)  # Not writable.


class Changes:
    """An index that changes the message while it is written."""

    def __init__(self, change: Any) -> None:
        self.change = change

    def __index__(self) -> int:
        self.change()
        return 1


def test_a_message_that_changes_under_the_writer() -> None:
    message = EveryKind()
    message.numbers = [1, Changes(lambda: message.numbers.clear()), 3]
    with pytest.raises(kcore.EncodeError, match=r"^numbers: changed while it was written"):
        kcore.encode(message, 3)
    message.numbers = [Changes(lambda: setattr(message, "numbers", [])), 2]
    assert kcore.decode(EveryKind, 3, kcore.encode(message, 3)).numbers == [1, 2]
    message.parts = [Part(number=Changes(lambda: message.parts.clear()))]
    kcore.encode(message, 3)
    message.an_int8 = Changes(lambda: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        kcore.encode(message, 3)


def test_decoded_messages_are_ordinary_objects() -> None:
    message = kcore.decode(EveryKind, 3, kcore.encode(EveryKind(parts=[Part(name="a")], a_uuid=Uuid(b"u" * 16)), 3))
    assert copy.deepcopy(message) == message
    assert pickle.loads(pickle.dumps(message)) == message
    assert hash(message.a_uuid) == hash(Uuid(b"u" * 16)) and type(message.a_uuid) is Uuid
    message.parts.append(Part(name="b"))
    assert kcore.decode(EveryKind, 3, kcore.encode(message, 3)) == message


class Value:
    """A value whose lifetime is observed."""


class OnesOwn(Part):
    """A user's subclass, which has more than slots."""

    __slots__ = ("__dict__", "__weakref__")


def test_instances_are_freed_whole() -> None:
    data = kcore.encode(EveryKind(), 3)  # From here on the codec knows the classes.
    types = (EveryKind, Part, OnesOwn)
    gc.collect()  # Garbage of other tests.
    counts = [sys.getrefcount(type_) for type_ in types]
    for _ in range(100):
        kcore.decode(EveryKind, 3, data)
        EveryKind()
        values = [Value() for _ in range(4)]
        watched = [weakref.ref(value) for value in values]
        part, own = Part(name=values[0], unknown_tagged_fields=values[1]), OnesOwn(name=values[2])
        own.added = values[3]
        watched.append(weakref.ref(own))
        del part, own, values
        assert [watcher() for watcher in watched] == [None] * 5
    assert [sys.getrefcount(type_) for type_ in types] == counts


def test_a_long_chain_is_freed() -> None:
    kcore.encode(EveryKind(), 3)
    chain = Part()
    for _ in range(200_000):
        chain = Part(name=chain)
    del chain


def test_freed_instances_are_used_again_with_nothing_of_before() -> None:
    data = kcore.encode(EveryKind(parts=[Part(name=str(i)) for i in range(200)]), 3)
    first = kcore.decode(EveryKind, 3, data)
    text = repr(first)
    del first
    parts = [Part(name="other") for _ in range(100)]
    assert repr(kcore.decode(EveryKind, 3, data)) == text
    assert all(part == Part(name="other") for part in parts)
    with pytest.raises(kcore.DecodeError):
        kcore.decode(EveryKind, 3, data[:-50])  # Freed halfway, with empty slots.
    assert repr(kcore.decode(EveryKind, 3, data)) == text


def test_cycles_through_a_message_are_collected() -> None:
    part = Part()
    part.name = [part]
    value = Value()
    part.number = value
    watcher = weakref.ref(value)
    del part, value
    gc.collect()
    assert watcher() is None


def test_the_collector_is_left_as_it_was() -> None:
    for collecting in (gc.disable, gc.enable):
        collecting()
        before = gc.isenabled()
        kcore.decode("ResponseHeader", 0, bytes(4))
        with pytest.raises(kcore.DecodeError):
            kcore.decode("ResponseHeader", 0, bytes(3))
        assert gc.isenabled() == before


@pytest.mark.parametrize("wrap", [bytes, bytearray, memoryview])
def test_a_message_out_of_a_frame(wrap: Any) -> None:
    """The header ends where the body begins; bytes behind the body are ignored, and offsets count from the frame."""
    header = kcore.schema.RequestHeader(request_api_key=52, request_api_version=1, correlation_id=7, client_id="c")
    body = kcore.schema.VoteRequest(cluster_id="k")
    frame = wrap(kcore.encode(header, 2) + kcore.encode(body, 1) + b"rest")
    found, at = kcore.wire.decode_from("RequestHeader", 2, frame)
    assert (found, at) == (header, len(kcore.encode(header, 2)))
    assert kcore.wire.decode_from(kcore.schema.VoteRequest, 1, frame, at) == (body, len(frame) - 4)
    with pytest.raises(kcore.DecodeError) as raised:
        kcore.wire.decode_from("VoteRequest", 1, frame[: at + 3], at)
    assert raised.value.offset >= at
    for outside in (-1, len(frame) + 1):
        with pytest.raises(kcore.DecodeError, match=f"there are only {len(frame)} bytes"):
            kcore.wire.decode_from("VoteRequest", 1, frame, outside)
    with pytest.raises(kcore.DecodeError):
        kcore.wire.decode_from("VoteRequest", 1, frame, len(frame))
