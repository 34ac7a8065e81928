"""Records in columns stay in the decoded message, and are written from there."""

import copy
import gc
import pickle
from typing import Any

import numpy as np
import pytest

import kcore
from kcore.errors import EncodeError
from kcore.schema.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from kcore.wire import Columns, Vectors
from kcore.wire.column_codec import decode_rows
from kcore.wire.columns import Spans
from wire.every_kind import EveryKind

VERSIONS = (4, 11, 12, 17)


def fetched(records: list[list[bytes | None]]) -> FetchResponse:
    return FetchResponse(
        responses=[
            FetchableTopicResponse(
                topic=f"topic-{number}",
                partitions=[
                    PartitionData(partition_index=index, high_watermark=index, records=part)
                    for index, part in enumerate(parts)
                ],
            )
            for number, parts in enumerate(records)
        ]
    )


def encoded(records: list[list[bytes | None]], version: int) -> bytes:
    message = fetched(records)
    if version >= 13:
        for number, topic in enumerate(message.responses):
            topic.topic, topic.topic_id = "", kcore.types.Uuid(bytes([number + 1]) * 16)
    return bytes(kcore.encode(message, version))


def of(data: Any, version: int) -> tuple[Columns, Spans]:
    columns = kcore.decode_columns("FetchResponse", version, data)
    records = columns.responses.partitions.records
    assert type(records) is Spans
    return columns, records


def listed(column: Vectors) -> list[bytes | None]:
    return [None if value is None else value.tobytes() for value in column]


MIXED: list[list[bytes | None]] = [
    [bytes([k]) * 30 for k in range(40)],  # A run of one layout.
    [None] * 20,
    [b""] * 20,
    [bytes(k * 7 % 200) for k in range(60)],  # All different.
    [None, b"few", b""],
    [],
]
ALL = [part for parts in MIXED for part in parts]


@pytest.mark.parametrize("version", VERSIONS)
def test_rows_are_what_was_sent(version: int) -> None:
    data = encoded(MIXED, version)
    columns, records = of(data, version)
    assert len(records) == len(ALL) and listed(records) == ALL
    assert records.values.tobytes() == b"".join(part or b"" for part in ALL)
    assert kcore.encode_columns(columns, version) == data


def test_a_view_of_the_message_which_it_keeps_alive() -> None:
    data = encoded(MIXED, 17)
    _, records = of(data, 17)
    whole = np.frombuffer(data, np.uint8)
    assert np.shares_memory(records[5], whole) and not records[5].flags.writeable
    assert not np.shares_memory(records.values, whole)
    own = bytearray(data)
    _, records = of(own, 17)
    del own
    gc.collect()
    assert listed(records) == ALL and not records[5].flags.writeable


def test_other_messages_do_not_hold_theirs() -> None:
    data = bytearray(kcore.encode_columns(Columns("StopReplicaRequest"), 3))
    columns = kcore.decode_columns("StopReplicaRequest", 3, data)
    data.append(0)  # A BufferError while anything has a view of it.
    assert columns.controller_id == 0


@pytest.mark.parametrize("clone", [copy.copy, copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))])
def test_copies_have_bytes_of_their_own(clone: Any) -> None:
    data = encoded(MIXED, 17)
    columns, records = of(data, 17)
    copied = clone(records)
    assert type(copied) is Vectors and listed(copied) == ALL
    assert not np.shares_memory(copied.values, np.frombuffer(data, np.uint8))
    assert kcore.encode_columns(clone(columns), 17) == data


def test_both_forms_are_written() -> None:
    data = encoded(MIXED, 17)
    columns, records = of(data, 17)
    columns.responses.partitions._columns["records"] = Vectors(records.offsets, records.values, records.valid)
    assert kcore.encode_columns(columns, 17) == data


def test_rows_in_any_order_of_one_source() -> None:
    source = np.arange(100, dtype=np.uint8)
    offsets = np.arange(0, 33, dtype=np.int32) * 3
    records = Spans(offsets, source, np.arange(32, dtype=np.int64)[::-1].copy() * 3)
    assert records[0].tolist() == [93, 94, 95]
    columns, _ = of(encoded([[b"abc"] * 32], 17), 17)
    columns.responses.partitions._columns["records"] = records
    again = kcore.decode("FetchResponse", 17, kcore.encode_columns(columns, 17))
    assert [bytes(part.records) for part in again.responses[0].partitions] == [v.tobytes() for v in records]


@pytest.mark.parametrize("begin", [-1, 98, 2**62, -(2**63)])
def test_rows_outside_the_source_are_refused(begin: int) -> None:
    columns, _ = of(encoded([[b"abc"] * 32], 17), 17)
    begins = np.zeros(32, np.int64)
    begins[31] = begin
    offsets = np.arange(0, 33, dtype=np.int32) * 3
    columns.responses.partitions._columns["records"] = Spans(offsets, np.zeros(100, np.uint8), begins)
    with pytest.raises(EncodeError, match="not within the column's bytes"):
        kcore.encode_columns(columns, 17)


@pytest.mark.parametrize("part", ["begins", "source"])
def test_other_types_are_refused(part: str) -> None:
    columns, records = of(encoded([[b"abc"] * 32], 17), 17)
    setattr(records, part, getattr(records, part).astype(np.int32))
    with pytest.raises(EncodeError, match=part):
        kcore.encode_columns(columns, 17)


def test_a_field_of_the_message_itself() -> None:
    for records in (b"some records", b"", None):
        data = kcore.encode(EveryKind(names=["before"], records=records), 3)
        columns = kcore.decode_columns(EveryKind, 3, data)
        assert (None if columns.records is None else columns.records.tobytes()) == records
        assert kcore.encode_columns(columns, 3) == data


def test_rows_of_many_messages() -> None:
    whole = [bytes(kcore.encode(EveryKind(records=bytes([k]) * k), 3)) for k in range(30)]
    ends = np.cumsum([5, *map(len, whole)])
    rows = decode_rows(EveryKind, 3, b"front" + b"".join(whole), np.stack([ends[:-1], ends[1:]], axis=1))
    assert listed(rows.records) == [bytes([k]) * k for k in range(30)]
    nothing = decode_rows(EveryKind, 3, b"", np.empty((0, 2), np.int64))
    assert len(nothing.records) == 0 and len(nothing.records.values) == 0


def test_arrow_has_them() -> None:
    columns, _ = of(encoded(MIXED, 17), 17)
    assert columns.responses.partitions.to_arrow().column("records").to_pylist() == ALL
