"""Partitions that differ in the lengths of their ISRs and other arrays of broker ids: a cluster that has lost brokers.

The object codec, which reads value by value, is the reference. The kernels under test: `kcore._ext.columns.mixed_read`
and `kcore._ext.columns.mixed_write`.
"""

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kcore
from kcore.schema import LeaderAndIsrRequest, UpdateMetadataRequest
from kcore.schema.leader_and_isr import LeaderAndIsrPartitionState, LeaderAndIsrTopicState
from kcore.schema.update_metadata import UpdateMetadataPartitionState, UpdateMetadataTopicState
from wire.damage import assert_same_as_one_by_one

MESSAGES = [("LeaderAndIsrRequest", 7), ("LeaderAndIsrRequest", 2), ("UpdateMetadataRequest", 8)]
MESSAGES.append(("UpdateMetadataRequest", 5))
SCALARS = ("partition_index", "controller_epoch", "leader", "leader_epoch")
ARRAYS = {
    "LeaderAndIsrRequest": ("isr", "replicas", "adding_replicas", "removing_replicas"),
    "UpdateMetadataRequest": ("isr", "replicas", "offline_replicas"),
}
Lengths = Callable[[random.Random, int], dict[str, int]]


def full(rng: random.Random, index: int) -> dict[str, int]:
    return {"isr": 3, "replicas": 3}


def mixed(rng: random.Random, index: int) -> dict[str, int]:
    return full(rng, index) | {"isr": rng.randint(1, 3)}


def some_lost(rng: random.Random, index: int) -> dict[str, int]:
    lost = rng.random() < 0.03
    return full(rng, index) | {"isr": 3 - lost, "offline_replicas": int(lost)}


SHAPES: dict[str, Lengths] = {
    "ISRs of 1 to 3": mixed,
    "few have lost a replica": some_lost,
    "replication factors differ too": lambda rng, index: {"isr": rng.randint(0, 2), "replicas": rng.randint(2, 4)},
    "as many as are moved at once": lambda rng, index: {"isr": rng.randint(0, 8), "replicas": 8},
    "one is longer than that": lambda rng, index: {"isr": 9 if rng.random() < 0.02 else rng.randint(1, 8)},
    "all arrays differ": lambda rng, index: {field: rng.randint(0, 3) for each in ARRAYS.values() for field in each},
    "mixed between full": lambda rng, index: (mixed if 200 <= index < 400 else full)(rng, index),
    "full between mixed": lambda rng, index: (full if 200 <= index < 400 else mixed)(rng, index),
    "moves begin on the way": lambda rng, index: mixed(rng, index) | {"adding_replicas": int(index > 300)},
    "lengths take a byte more": lambda rng, index: {"isr": rng.randint(1, 3), "replicas": 130},
}


def partition(name: str, rng: random.Random, index: int, lengths: dict[str, int]) -> Any:
    arrays = {field: [rng.randint(-1, 2**31 - 1) for _ in range(lengths.get(field, 0))] for field in ARRAYS[name]}
    numbers = {field: rng.randint(-(2**31), 2**31 - 1) for field in SCALARS}
    if name == "LeaderAndIsrRequest":
        return LeaderAndIsrPartitionState(**numbers, **arrays, is_new=rng.random() < 0.5)
    return UpdateMetadataPartitionState(**numbers, **arrays)


def request(name: str, sizes: tuple[int, ...], lengths: Lengths, seed: int) -> Any:
    """Topics of so many partitions."""
    rng = random.Random(seed)
    states = [[partition(name, rng, k, lengths(rng, k)) for k in range(size)] for size in sizes]
    message, topic = (
        (LeaderAndIsrRequest, LeaderAndIsrTopicState)
        if name == "LeaderAndIsrRequest"
        else (UpdateMetadataRequest, UpdateMetadataTopicState)
    )
    topics = [topic(topic_name=f"topic-{number}", partition_states=each) for number, each in enumerate(states)]
    return message(controller_id=1, controller_epoch=2, topic_states=topics)


def assert_same(name: str, version: int, data: bytes) -> None:
    """Columns and objects have the same values, and encode to the same bytes, also at the end of a larger buffer."""
    columns = kcore.decode_columns(name, version, data)
    decoded = kcore.decode(name, version, data)
    states = [state for topic in decoded.topic_states for state in topic.partition_states]
    rows = columns.topic_states.partition_states
    assert [len(topic.partition_states) for topic in decoded.topic_states] == np.diff(rows.row_offsets).tolist()
    for field in SCALARS:
        assert getattr(rows, field).tolist() == [getattr(state, field) for state in states]
    for field in ARRAYS[name]:
        assert [row.tolist() for row in getattr(rows, field)] == [getattr(state, field) for state in states], field
    assert kcore.encode_columns(columns, version) == data
    out = bytearray(b"\xaa" * (len(data) + 40))
    assert kcore.encode_columns(columns, version, out) == len(data)
    assert out == data + b"\xaa" * 40  # Nothing is written behind the message.


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("name", "version"), MESSAGES)
def test_arrays_of_different_lengths(name: str, version: int, shape: str) -> None:
    message = request(name, (1, 5, 6, 7, 8, 9, 31, 33, 64, 65, 100, 600), SHAPES[shape], 3)
    assert_same(name, version, kcore.encode(message, version))


@pytest.mark.parametrize("size", [2047, 2048, 2049, 5000])
def test_more_of_them_than_are_taken_at_once(size: int) -> None:
    data = kcore.encode(request("LeaderAndIsrRequest", (size,), mixed, size), 7)
    assert_same("LeaderAndIsrRequest", 7, data)


@pytest.mark.parametrize("shape", ["ISRs of 1 to 3", "all arrays differ", "few have lost a replica"])
@pytest.mark.parametrize(("name", "version"), MESSAGES)
def test_wrong_bytes_give_the_error_of_value_by_value_reading(name: str, version: int, shape: str) -> None:
    """Cut short or with a flipped bit anywhere: the object codec finds the same error at the same place."""
    data = kcore.encode(request(name, (90, 40, 70), SHAPES[shape], 7), version)
    assert_same_as_one_by_one(name, version, data, cuts=60, flips=600)


def test_unknown_tags_among_them_are_kept() -> None:
    message = request("LeaderAndIsrRequest", (300,), mixed, 5)
    for k in (0, 40, 41, 120, 299):
        message.topic_states[0].partition_states[k].unknown_tagged_fields = ((9, b"new"),)
    data = kcore.encode(message, 7)
    columns = kcore.decode_columns("LeaderAndIsrRequest", 7, data)
    assert columns.topic_states.partition_states.unknown_tags.rows.tolist() == [0, 40, 41, 120, 299]
    assert_same("LeaderAndIsrRequest", 7, data)


def test_values_that_end_with_their_array() -> None:
    """The last rows' values end their arrays."""
    data = kcore.encode(request("LeaderAndIsrRequest", (64,), mixed, 9), 7)
    columns = kcore.decode_columns("LeaderAndIsrRequest", 7, data)
    states = columns.topic_states.partition_states
    exact = kcore.wire.Vectors(states.isr.offsets.copy(), states.isr.values.copy())
    states._made["isr"] = exact
    assert kcore.encode_columns(columns, 7) == data
