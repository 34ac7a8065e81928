"""Columns in Arrow have the values of the object view, and share their memory."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import kcore
from kcore.schema.structure import Field, Struct
from kcore.types import Uuid
from kcore.wire.columns import Columns, Rows, Strings
from wire.columns.test_columns import leader_and_isr
from wire.every_kind import EveryKind
from wire.golden import vectors


def as_arrow_says(value: Any) -> Any:
    """A value of the object view in the form of pyarrow's `to_pylist`."""
    if isinstance(value, Struct):
        return row_of(value)
    if isinstance(value, list):
        return [as_arrow_says(element) for element in value]
    if isinstance(value, Uuid | bytes | bytearray | memoryview):
        return bytes(value)
    return value


def row_of(struct: Struct) -> dict[str, Any]:
    return {field.name: as_arrow_says(getattr(struct, field.name)) for field in struct.__fields__}


def same(struct: Struct, row: dict[str, Any]) -> None:
    """The fields in Arrow are right, and only defaults are left out."""
    for field in struct.__fields__:
        value = getattr(struct, field.name)
        if field.name not in row:
            assert value == field.default(), field.name
        else:
            same_value(field, value, row[field.name])
    tags = [(tag["tag"], tag["value"]) for tag in row.get("unknown_tagged_fields") or ()]
    assert tags == list(struct.unknown_tagged_fields)


def same_value(field: Field, value: Any, found: Any) -> None:
    if isinstance(value, Struct):
        same(value, found)
    elif isinstance(value, list) and value and isinstance(value[0], Struct):
        assert len(value) == len(found)
        for element, below in zip(value, found, strict=True):
            same(element, below)
    else:
        assert found == as_arrow_says(value), field.name


@pytest.mark.recorded
def test_every_vector() -> None:
    for name, case in vectors():
        data = bytes.fromhex(case["hex"])
        message = kcore.decode(name, case["version"], data)
        columns = kcore.decode_columns(name, case["version"], data)
        if columns.column("topic_states") is not None and not message.topic_states:
            continue  # Columns have KIP-380's shape in every version; objects do not.
        batch = columns.to_arrow()
        batch.validate(full=True)
        [row] = batch.to_pylist()
        same(message, row)


def test_partitions_as_a_table() -> None:
    decoded = kcore.decode_columns("LeaderAndIsrRequest", 7, kcore.encode_columns(leader_and_isr(3, 40, 3), 7))
    partitions = decoded.topic_states.partition_states
    batch = partitions.to_arrow()
    assert (batch.num_rows, batch["leader"].to_pylist()) == (120, partitions.leader.tolist())
    assert batch["isr"].to_pylist() == [isr.tolist() for isr in partitions.isr]


def test_memory_is_shared() -> None:
    decoded = kcore.decode_columns("LeaderAndIsrRequest", 7, kcore.encode_columns(leader_and_isr(3, 40, 3), 7))
    partitions = decoded.topic_states.partition_states
    batch = partitions.to_arrow()
    for array, column in (
        (batch["leader"].buffers()[1], partitions.leader),
        (batch["isr"].buffers()[1], partitions.isr.offsets),
        (batch["isr"].values.buffers()[1], partitions.isr.values),
        (decoded.topic_states.to_arrow()["topic_name"].buffers()[2], decoded.topic_states.topic_name.values),
    ):
        assert array.address == column.ctypes.data
    leader = batch["leader"]
    partitions.leader[:] = 7
    assert set(leader.to_pylist()) == {7}


def test_the_columns_may_go_before_their_arrow() -> None:
    batch = kcore.decode_columns(
        "LeaderAndIsrRequest", 7, kcore.encode_columns(leader_and_isr(9, 400, 3), 7)
    ).to_arrow()
    before = batch.to_pylist()
    junk = [np.full(100_000, 255, np.uint8) for _ in range(50)]
    assert batch.to_pylist() == before and junk


def test_columns_that_a_caller_made() -> None:
    topics = Rows(np.array([0, 2], np.int32), topic_name=Strings.of(["a", "b"]))
    [row] = Columns("LeaderAndIsrRequest", controller_id=3, topic_states=topics).to_arrow().to_pylist()
    assert row == {"controller_id": 3, "topic_states": [{"topic_name": "a"}, {"topic_name": "b"}]}
    assert Columns("LeaderAndIsrRequest").to_arrow().num_rows == 1
    assert isinstance(Columns(EveryKind).to_arrow(), pa.RecordBatch)
