"""Batches from decoded columns and from Arrow: the same bytes as from objects."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcore.errors import EncodeError
from kcore.wire.record_building import CODECS, encode_records
from kcore.wire.record_columns import RecordColumns
from kcore.wire.records import Record, decode_records
from wire.record_strategies import rows

TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=3)
SOME = [
    Record(7, 1_000, b"key", b"value", (("h", b"1"), ("größe", None))),
    Record(9, 1_003, None, b"v" * 300),
    Record(12, 998, b"", None, (("", b""),)),
]
FIELDS = ("offset", "timestamp", "key", "value", "headers")


def table_of(records: list[Record]) -> pa.Table:
    """A table with plain types, made without kcore's own conversion."""
    columns = {
        "offset": pa.array([row.offset for row in records], pa.int64()),
        "timestamp": pa.array([row.timestamp for row in records], pa.int64()),
        "key": pa.array([row.key for row in records], pa.binary()),
        "value": pa.array([row.value for row in records], pa.binary()),
        "headers": pa.array(
            [[{"key": key, "value": value} for key, value in row.headers] for row in records],
            pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
        ),
    }
    return pa.table(columns)


@given(rows(names=TEXT), st.sampled_from(CODECS), st.integers(0, 12))
def test_columns_and_tables_give_the_bytes_of_objects(records: list[Record], codec: Any, cut: int) -> None:
    facts: dict[str, Any] = {"base_offset": 0, "producer_id": 4, "producer_epoch": 1, "base_sequence": 2}
    expected = encode_records(records, codec=codec, **facts)
    table = table_of(records)
    assert encode_records(table, codec=codec, **facts) == expected
    assert encode_records(pa.concat_tables([table[:cut], table[cut:]]), codec=codec, **facts) == expected
    decoded = decode_records(expected)
    assert encode_records(decoded, codec=codec, **facts) == expected
    assert encode_records(decoded.to_arrow(), codec=codec, **facts) == expected
    part = encode_records(records[cut:], codec=codec, **facts)
    assert encode_records(table[cut:], codec=codec, **facts) == part  # A slice shares the buffers of the whole.


@given(rows(), st.sampled_from(CODECS))
def test_header_names_may_be_any_bytes(records: list[Record], codec: Any) -> None:
    expected = encode_records(records, codec=codec, base_offset=0)
    assert encode_records(decode_records(expected), codec=codec, base_offset=0) == expected
    assert encode_records(decode_records(expected).to_arrow(), codec=codec, base_offset=0) == expected


SPARKS_TIME = pa.timestamp("us", "UTC")
PAIRS = pa.struct([("key", pa.large_string()), ("value", pa.large_binary())])
FORMS: dict[str, Callable[[pa.Table], Any]] = {
    "a batch": lambda table: table.combine_chunks().to_batches()[0],
    "a reader": lambda table: table.to_reader(),
    "large": lambda table: cast(table, key=pa.large_binary(), value=pa.large_binary(), headers=pa.large_list(PAIRS)),
    "views": lambda table: cast(table, key=pa.binary_view(), value=pa.binary_view()),
    "text": lambda table: cast(table, key=pa.string(), value=pa.large_string()),
    "numbers": lambda table: cast(table, offset=pa.int32(), timestamp=pa.uint16()),
    "times": lambda table: cast(table, timestamp=pa.timestamp("ms")),
    "times of Spark": lambda table: cast(cast(table, timestamp=pa.timestamp("ms")), timestamp=SPARKS_TIME),
    "another order": lambda table: table.select(FIELDS[::-1]),
}


def cast(table: pa.Table, **types: pa.DataType) -> pa.Table:
    for name, type_ in types.items():
        table = table.set_column(table.schema.get_field_index(name), name, table[name].cast(type_))
    return table


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_forms_of_tables(form: Callable[[pa.Table], Any]) -> None:
    assert encode_records(form(table_of(SOME))) == encode_records(SOME)


def test_columns_that_may_be_missing_or_null() -> None:
    plain = [Record(row.offset, row.timestamp) for row in SOME]
    assert encode_records(table_of(SOME).select(["offset", "timestamp"])) == encode_records(plain)
    nulls = table_of(SOME).set_column(1, "timestamp", pa.array([1_000, None, 998]))
    assert list(decode_records(encode_records(nulls)))[1].timestamp == -1
    without = [None if not row.headers else [(*pair,) for pair in row.headers] for row in SOME]
    headers = pa.array(without, pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])))
    assert encode_records(table_of(SOME).set_column(4, "headers", headers)) == encode_records(SOME)
    with_bytes = pa.ListArray.from_arrays(pa.array([0, 1, 2]), headers.values[:2], mask=pa.array([True, False]))
    hidden = table_of(SOME)[:2].set_column(4, "headers", with_bytes)  # A null list over a header.
    [first, second] = decode_records(encode_records(hidden))
    assert (first.headers, second.headers) == ((), (("größe", None),))


def test_no_rows() -> None:
    for empty in (table_of([]), table_of(SOME)[:0], pa.table({"offset": [], "timestamp": []}).cast(table_schema())):
        assert encode_records(empty, base_offset=5) == encode_records([], base_offset=5)
        with pytest.raises(EncodeError, match="needs a base_offset"):
            encode_records(empty)


def table_schema() -> pa.Schema:
    return pa.schema([("offset", pa.int64()), ("timestamp", pa.int64())])


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"offset": None}, "records need a column offset; there are offset, timestamp, key, value, headers"),
        ({"vlaue": pa.array([b""] * 3)}, "a record has no column 'vlaue'; did you mean 'value'?"),
        ({"offset": pa.array([7, None, 12])}, "the column offset has nulls"),
        ({"offset": pa.array([7.0, 8.0, 9.0])}, "the column offset is double"),
        ({"offset": pa.array([7, 7, 8])}, "a record has offset 7 after 7: offsets must rise"),
        ({"offset": pa.array([7, 9, 2**31 + 7])}, "a batch's field out of its range"),
        ({"offset": pa.array([7, 9, 2**63], pa.uint64())}, "the column offset is uint64, which is not int64"),
        ({"timestamp": pa.array(["x"] * 3)}, "the column timestamp is string"),
        ({"timestamp": pa.array([1, 2, 3], pa.timestamp("us"))}, "would lose data"),
        ({"timestamp": pa.array([-(2**63), 0, 2**63 - 1])}, "an integer beyond int64"),
        ({"value": pa.array([1, 2, 3])}, "the column value is int64, which is not large_binary"),
        ({"headers": pa.array([b""] * 3)}, "the column headers is binary"),
        ({"headers": pa.array([[{"key": None, "value": b""}]] * 3)}, "a header without a key (row 0)"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_tables_that_are_no_records(changes: dict[str, Any], said: str) -> None:
    columns = {name: table_of(SOME)[name] for name in FIELDS} | changes
    table = pa.table({name: column for name, column in columns.items() if column is not None})
    with pytest.raises(EncodeError, match=re.escape(said)):
        encode_records(table)


def test_other_streams_are_refused() -> None:
    class Broken:
        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            return 5

    with pytest.raises(EncodeError, match="cannot be read as a table of Arrow"):
        encode_records(Broken())
    twice = pa.Table.from_arrays([pa.array([1])] * 3, names=["offset", "timestamp", "offset"])
    with pytest.raises(EncodeError, match="the column offset is there 2 times"):
        encode_records(twice)


def test_base_timestamps_of_columns() -> None:
    records = decode_records(encode_records(SOME))
    for base in (0, 5_000, np.int64(3)):
        given: dict[str, Any] = {"base_timestamp": base}
        assert encode_records(records, **given) == encode_records(SOME, **given)
    for wrong in (2**63, -(2**63), 1.5, "x"):
        given = {"base_timestamp": wrong}
        for rows_given in (records, SOME):
            with pytest.raises(EncodeError):
                encode_records(rows_given, **given)


def test_columns_show_their_ends() -> None:
    columns = RecordColumns.of_records(decode_records(encode_records(SOME)))
    assert (columns.offsets(), columns.timestamps(), len(columns)) == ([7, 12], [1_000, 1_003], 3)
