"""The column view: any message, both shapes of KIP-380, byte for byte as the object view."""

import copy
import pickle
from collections.abc import Iterable, Iterator
from itertools import chain, combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import kcore
from kcore import DecodeError, EncodeError, UnsupportedVersionError
from kcore.schema import (
    LeaderAndIsrRequest,
    RequestHeader,
    StopReplicaRequest,
    UpdateMetadataRequest,
    message_class,
)
from kcore.schema.structure import Message, Struct
from kcore.wire import Columns, Rows, Strings, Vectors
from kcore.wire.plan import plan
from reference.columns import root_row, write
from wire.column_messages import EveryKind, structs
from wire.golden import vectors

SLOW = settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
GROUPED = (LeaderAndIsrRequest, UpdateMetadataRequest, StopReplicaRequest)


def powerset(names: Iterable[str]) -> Iterator[tuple[str, ...]]:
    names = list(names)
    return chain.from_iterable(combinations(names, k) for k in range(len(names) + 1))


def grouped(message: type[Message], row: dict[str, Any]) -> dict[str, Any]:
    """A message's row with topics, from any shape."""
    row = dict(row)
    if message is StopReplicaRequest and "topics" in row:
        row["topic_states"] = [
            {"topic_name": t["name"], "partition_states": [{"partition_index": k} for k in t["partition_indexes"]]}
            | {k: t[k] for k in ("unknown",) if k in t}
            for t in row.pop("topics")
        ]
    for name in ("ungrouped_partition_states", "ungrouped_partitions"):
        if name in row:
            row["topic_states"] = topics_of(row.pop(name))
    return row


def topics_of(partitions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    topics: list[dict[str, Any]] = []
    for partition in partitions:
        rest = {name: value for name, value in partition.items() if name != "topic_name"}
        if not topics or topics[-1]["topic_name"] != partition["topic_name"]:
            topics.append({"topic_name": partition["topic_name"], "partition_states": []})
        topics[-1]["partition_states"].append(rest)
    return topics


def plain_rows(columns: Columns, like: dict[str, Any]) -> dict[str, Any]:
    """The columns as one row, with the fields that `like` has."""
    found: dict[str, Any] = trim(root_row(columns), like)
    return found


def trim(value: Any, like: Any) -> Any:
    if isinstance(like, dict):
        return {name: trim(value[name], like[name]) for name in like} | {
            name: data for name, data in value.items() if name == "unknown"
        }
    if isinstance(like, list) and isinstance(value, list) and len(like) == len(value):
        return [trim(v, one) for v, one in zip(value, like, strict=True)]
    return value


def check(message: type[Message], version: int, row: dict[str, Any]) -> None:
    data = write(plan(message, version), row)
    columns = kcore.decode_columns(message, version, data)
    assert kcore.encode_columns(columns, version) == data
    expected = grouped(message, row)
    assert plain_rows(columns, expected) == expected


@pytest.mark.recorded
def test_every_vector() -> None:
    for name, case in vectors():
        data = bytes.fromhex(case["hex"])
        columns = kcore.decode_columns(name, case["version"], data)
        assert kcore.encode_columns(columns, case["version"]) == data
        out = bytearray(b"\xee" * (len(data) + 3))
        assert kcore.encode_columns(columns, case["version"], out) == len(data)
        assert out == data + b"\xee" * 3


@pytest.mark.recorded
def test_columns_hold_what_the_objects_hold() -> None:
    for name, case in vectors():
        data = bytes.fromhex(case["hex"])
        message, version = kcore.decode(name, case["version"], data), case["version"]
        expected = grouped(type(message), object_row(message, plan(type(message), version)))
        columns = kcore.decode_columns(name, version, data)
        assert plain_rows(columns, expected) == expected


def object_row(value: Any, wire_plan: Any) -> Any:
    """An object of the object view as a plain row of the fields that its version has."""
    row = {}
    for step in (*wire_plan.in_line, *wire_plan.tagged):
        row[step.field.name] = plain_value(getattr(value, step.field.name), step.step)
    if value.unknown_tagged_fields:
        row["unknown"] = list(value.unknown_tagged_fields)
    return row


def plain_value(value: Any, step: Any) -> Any:
    if isinstance(value, list):
        return [plain_value(element, step.element) for element in value]
    if isinstance(value, Struct):
        return object_row(value, step.struct)
    return bytes(value) if isinstance(value, bytes | memoryview) else value


@pytest.mark.parametrize("version", [0, 1, 2])
@given(data=st.data())
@SLOW
def test_every_kind_of_field(version: int, data: st.DataObject) -> None:
    check(EveryKind, version, data.draw(structs(plan(EveryKind, version))))


@pytest.mark.parametrize(
    ("message", "version"), [(m, v) for m in GROUPED for v in range(m.versions.highest + 1)], ids=str
)
@given(data=st.data())
@settings(SLOW, max_examples=5)
def test_requests_of_random_layouts(message: type[Message], version: int, data: st.DataObject) -> None:
    check(message, version, data.draw(structs(plan(message, version))))


NOTHING: dict[str, Any] = {name: [] for name in ("items", "points", "nests", "matrix", "words", "wides")} | {
    "number": 1,
    "text": None,
    "blob": b"",
}


@pytest.mark.parametrize("count", [2, 33, 34, 41, 65])
def test_runs_with_unknown_tags(count: int) -> None:
    points = [{"x": k, "y": k, "unknown": [(7, b"new")]} for k in range(count)]
    check(EveryKind, 2, NOTHING | {"points": points})
    check(EveryKind, 2, NOTHING | {"points": [{"x": 1, "y": 2}] * 40 + points + [{"x": 1, "y": 2}] * 40})


@pytest.mark.parametrize("field", "abcdefghij")
@pytest.mark.parametrize("place", [0, 20, 39, 79])
def test_one_vector_of_many_differs(field: str, place: int) -> None:
    rows = [{name: [1] for name in "abcdefghij"} for _ in range(80)]
    rows[place][field] = [2, 3]
    check(EveryKind, 2, NOTHING | {"wides": rows})


ITEM = {"flag": True, "name": "a", "small": 1, "id": bytes(16), "blob": b"", "count": 1, "flags": [True]}
NEST: dict[str, Any] = {"point": {"x": 1, "y": 2}, "maybe": None, "names": [], "title": None, "points": None}
TAGS: dict[str, tuple[Any, Any]] = {  # Two values of a Nest: the default, which is not sent, and another one.
    "ratio": (0.5, 2.0),
    "label": ("", "a"),
    "spot": ({"x": 0, "y": 7}, {"x": 1, "y": 7}),
    "items": ([], [ITEM | {"numbers": [3], "wide": []}]),
    "gone": (None, [1]),
    "corner": (None, {"x": 0, "y": 7}),
}


@pytest.mark.parametrize("sent", list(powerset(TAGS)), ids="+".join)
def test_runs_with_any_of_the_tags(sent: tuple[str, ...]) -> None:
    nest = NEST | {name: TAGS[name][name in sent] for name in TAGS}
    check(EveryKind, 2, NOTHING | {"nests": [nest] * 12})
    for name in TAGS:
        other = nest | {name: TAGS[name][name not in sent]}
        check(EveryKind, 2, NOTHING | {"nests": [nest] * 12 + [other] * 12})


def leader_and_isr(topics: int, each: int, isr: Any, seed: int = 1) -> Columns:
    """A request of `topics` x `each` partitions; `isr` is the length of every ISR, or of each."""
    rng = np.random.default_rng(seed)
    n = topics * each

    def numbers(high: int = 2**31 - 1) -> Any:
        return rng.integers(-high, high, n).astype(np.int32)

    def vectors(lengths: Any) -> Vectors:
        offsets = np.concatenate([[0], np.cumsum(np.broadcast_to(lengths, n))]).astype(np.int32)
        return Vectors(offsets, rng.integers(0, 1000, int(offsets[-1])).astype(np.int32))

    partitions = Rows(
        np.arange(0, n + 1, each, dtype=np.int32),
        partition_index=numbers(),
        controller_epoch=numbers(),
        leader=numbers(),
        leader_epoch=numbers(),
        isr=vectors(isr),
        partition_epoch=numbers(),
        replicas=vectors(3),
        is_new=rng.integers(0, 2, n).astype(np.bool_),
    )
    topic_states = Rows(
        np.array([0, topics], np.int32),
        topic_name=Strings.of(f"topic-{k}" for k in range(topics)),
        partition_states=partitions,
    )
    return Columns(
        LeaderAndIsrRequest, controller_id=5, controller_epoch=9, broker_epoch=2**40, topic_states=topic_states
    )


LAYOUTS = {
    "uniform": lambda rng, n: 3,
    "mixed": lambda rng, n: rng.integers(0, 7, n),
    "one differs": lambda rng, n: np.where(np.arange(n) == n // 2, 2, 3),
    "two differ, their sum does not": lambda rng, n: 3 - (np.arange(n) == n // 2) + (np.arange(n) == n // 2 + 5),
    "halves": lambda rng, n: np.where(np.arange(n) < n // 2, 1, 4),
    "some long": lambda rng, n: np.where(rng.random(n) < 0.05, 130, 3),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("version", range(8))
def test_many_partitions(layout: str, version: int) -> None:
    columns = leader_and_isr(3, 301, LAYOUTS[layout](np.random.default_rng(3), 903))
    data = kcore.encode_columns(columns, version)
    message = kcore.decode("LeaderAndIsrRequest", version, data)
    assert kcore.encode(message, version) == data
    back = kcore.decode_columns("LeaderAndIsrRequest", version, data)
    assert kcore.encode_columns(back, version) == data
    row = grouped(LeaderAndIsrRequest, object_row(message, plan(LeaderAndIsrRequest, version)))
    assert plain_rows(back, row) == row


def test_both_shapes_are_the_same_columns() -> None:
    columns = leader_and_isr(4, 25, 3)
    old, new = kcore.encode_columns(columns, 1), kcore.encode_columns(columns, 7)
    from_old, from_new = (kcore.decode_columns(LeaderAndIsrRequest, v, d) for v, d in ((1, old), (7, new)))
    assert kcore.encode_columns(from_new, 1) == old
    # Version 1 has no broker epoch: version 7 gets Kafka's default.
    assert kcore.encode_columns(from_old, 7)[17:] == new[17:]
    assert from_old.broker_epoch == -1
    assert from_old.topic_states.topic_name.tolist() == [f"topic-{k}" for k in range(4)]
    assert (from_old.topic_states.partition_states.row_offsets == [0, 25, 50, 75, 100]).all()


def test_stop_replica_in_all_shapes() -> None:
    partitions = Rows(np.array([0, 2, 2, 3], np.int32), partition_index=np.array([4, 5, 6], np.int32))
    topics = Rows(np.array([0, 3], np.int32), topic_name=Strings.of(["a", "empty", "b"]), partition_states=partitions)
    columns = Columns(StopReplicaRequest, controller_id=1, broker_epoch=7, topic_states=topics)
    for version in range(5):
        again = kcore.decode_columns("StopReplicaRequest", version, kcore.encode_columns(columns, version))
        assert again.topic_states.partition_states.partition_index.tolist() == [4, 5, 6]
        # Version 0 cannot carry a topic without partitions.
        assert again.topic_states.topic_name.tolist() == (["a", "b"] if version == 0 else ["a", "empty", "b"])


def test_values_of_the_message_itself() -> None:
    columns = leader_and_isr(1, 2, 3)
    assert (columns.controller_id, columns.broker_epoch, columns.is_kraft_controller) == (5, 2**40, False)
    assert columns.topic_states.partition_states.controller_epoch.dtype == np.int32
    assert len(columns.topic_states) == 1 and len(columns.topic_states.partition_states) == 2
    assert columns.topic_states.partition_states.adding_replicas[1].tolist() == []
    assert columns.topic_states.topic_id.shape == (1, 16)
    assert len(columns.live_leaders) == 0
    assert "partition_epoch" in dir(columns.topic_states.partition_states)
    header = kcore.decode_columns(RequestHeader, 1, b"\0\4\0\1\0\0\0\7\0\2ab")
    assert (header.correlation_id, header.client_id) == (7, "ab")
    assert kcore.decode_columns(RequestHeader, 1, b"\0\4\0\1\0\0\0\7\xff\xff").client_id is None
    with pytest.raises(AttributeError, match="no field leaders"):
        _ = columns.leaders


def test_memory_is_in_one_piece_and_small() -> None:
    columns = kcore.decode_columns(LeaderAndIsrRequest, 7, kcore.encode_columns(leader_and_isr(100, 100, 3), 7))
    partitions = columns.topic_states.partition_states
    arena = partitions.leader.base
    assert all(array.base is arena for array in (partitions.partition_index, partitions.isr.values))
    assert arena.nbytes < 66 * len(partitions) + 40 * 4096


def test_versions_that_lack_a_field() -> None:
    columns = leader_and_isr(2, 2, 3)
    partitions = columns.topic_states.partition_states
    partitions._columns["leader_recovery_state"] = np.zeros(4, np.int8)
    assert kcore.encode_columns(columns, 5)  # The default may be dropped.
    partitions.leader_recovery_state[3] = 1
    assert kcore.encode_columns(columns, 6)
    with pytest.raises(UnsupportedVersionError, match="leader_recovery_state"):
        kcore.encode_columns(columns, 5)
    with pytest.raises(UnsupportedVersionError, match="leader_recovery_state"):
        kcore.encode_columns(columns, 1)
    with pytest.raises(UnsupportedVersionError, match="versions 0-7, not 8"):
        kcore.decode_columns("LeaderAndIsrRequest", 8, b"")
    with pytest.raises(UnsupportedVersionError, match="type"):
        kcore.encode_columns(Columns("LeaderAndIsrRequest", type=1), 4)


STOP = {"controller_id": 1, "broker_epoch": 7}


def stop_replica(names: Any = None, **partition: Any) -> Columns:
    columns = {"partition_index": np.arange(2, dtype=np.int32)} | partition
    partitions = Rows(columns.pop("row_offsets", np.array([0, 2], np.int32)), **columns)
    names = Strings.of(["a"]) if names is None else names
    return Columns(
        StopReplicaRequest,
        topic_states=Rows(np.array([0, 1], np.int32), topic_name=names, partition_states=partitions),
        **STOP,
    )


BROKEN = {
    "wrong dtype": lambda: stop_replica(partition_index=np.arange(2)),
    "wrong length": lambda: stop_replica(partition_index=np.arange(3, dtype=np.int32)),
    "offsets too few": lambda: stop_replica(row_offsets=np.array([2], np.int32)),
    "offsets that start late": lambda: stop_replica(row_offsets=np.array([1, 2], np.int32)),
    "offsets past the values": lambda: stop_replica(Strings(np.array([0, 9], np.int32), np.zeros(1, np.uint8))),
    "not UTF-8": lambda: stop_replica(Strings(np.array([0, 1], np.int32), np.array([255], np.uint8))),
    "too long a name": lambda: stop_replica(Strings.of(["x" * 32768])),
    "a null name": lambda: stop_replica(Strings.of([None])),
    "a list for a column": lambda: stop_replica(partition_index=[1, 2]),
    "strings for rows": lambda: Columns(StopReplicaRequest, topic_states=Strings.of(["a"])),
    "no such field": lambda: stop_replica(partition_number=np.arange(2)),
    "too large a number": lambda: Columns(StopReplicaRequest, controller_id=2**31),
    "text for a number": lambda: Columns(StopReplicaRequest, controller_id="one"),
}


@pytest.mark.parametrize("what", BROKEN)
@pytest.mark.parametrize("version", [0, 2, 4])
def test_columns_that_are_no_message(what: str, version: int) -> None:
    with pytest.raises(EncodeError):
        kcore.encode_columns(BROKEN[what](), version)


@pytest.mark.parametrize("version", [1, 7])
def test_offsets_that_descend(version: int) -> None:
    columns = leader_and_isr(3, 40, 3)
    columns.topic_states.partition_states.isr.offsets[60] = 9
    with pytest.raises(EncodeError, match=r"isr: the offsets are not ascending"):
        kcore.encode_columns(columns, version)
    columns = leader_and_isr(3, 40, 3)
    columns.topic_states.partition_states.row_offsets[1] = 100
    with pytest.raises(EncodeError, match="partition_states"):
        kcore.encode_columns(columns, version)


def test_out_must_have_room() -> None:
    columns = leader_and_isr(1, 20, 3)
    size = len(kcore.encode_columns(columns, 7))
    with pytest.raises(EncodeError, match=f"takes {size} bytes"):
        kcore.encode_columns(columns, 7, bytearray(size - 1))
    with pytest.raises(EncodeError):
        kcore.encode_columns(columns, 7, memoryview(bytes(size)))


def test_nothing_is_written_past_the_message() -> None:
    """Version 1 of StopReplica ends in a vector, and rows of many lengths are first written some bytes too far."""
    names = Strings.of(f"topic-{k}" for k in range(5))
    ends = np.array([0, 2, 3, 5, 8, 9], np.int32)
    partitions = Rows(ends, partition_index=np.arange(9, dtype=np.int32))
    topics = Rows(np.array([0, 5], np.int32), topic_name=names, partition_states=partitions)
    columns = Columns(StopReplicaRequest, topic_states=topics)
    data = kcore.encode_columns(columns, 1)
    out = bytearray(b"\xee" * (len(data) + 32))
    assert kcore.encode_columns(columns, 1, out) == len(data)
    assert out == data + b"\xee" * 32


def test_decode_takes_any_buffer() -> None:
    data = kcore.encode_columns(leader_and_isr(1, 20, 3), 7)
    for other in (bytearray(data), memoryview(data), np.frombuffer(data, np.uint8)):
        assert kcore.encode_columns(kcore.decode_columns("LeaderAndIsrRequest", 7, other), 7) == data
    with pytest.raises(DecodeError):
        kcore.decode_columns("LeaderAndIsrRequest", 7, b"")


def test_columns_are_copied_and_pickled() -> None:
    data = kcore.encode_columns(leader_and_isr(2, 20, 3), 7)
    columns = kcore.decode_columns("LeaderAndIsrRequest", 7, data)
    for other in (copy.copy(columns), copy.deepcopy(columns), pickle.loads(pickle.dumps(columns))):
        assert kcore.encode_columns(other, 7) == data
    assert "leader_epoch" in repr(columns.topic_states.partition_states)


def test_names_and_classes_are_alike() -> None:
    assert message_class("StopReplicaRequest") is StopReplicaRequest
    with pytest.raises(kcore.UnknownMessageError):
        kcore.decode_columns("NoSuchRequest", 0, b"")
