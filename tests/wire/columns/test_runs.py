"""Records of one layout, with tags, nulls and arrays inside, give the same columns and bytes as one by one."""

import zlib
from itertools import product
from typing import Any

import numpy as np
import pytest

import kcore
from kcore import EncodeError
from kcore.schema import FetchRequest, message_class
from kcore.wire import Columns, Rows
from kcore.wire.plan import plan
from reference.columns import write
from wire.columns.test_columns import grouped, plain_rows
from wire.damage import assert_same_as_one_by_one
from wire.growing import DIALS, GROWING, Dials, message_row


def some_versions(name: str) -> list[int]:
    """The lowest, the middle and the highest one."""
    lowest, highest = message_class(name).versions.lowest, message_class(name).versions.highest
    return sorted({lowest, (lowest + highest) // 2, highest})


def drawn(name: str, version: int, dials: Dials) -> tuple[dict[str, Any], bytes]:
    """A message and its bytes, written one value at a time."""
    wire_plan = plan(message_class(name), version)
    row = message_row(wire_plan, dials, zlib.crc32(f"{name} {version} {dials}".encode()))
    return row, write(wire_plan, row)


@pytest.mark.parametrize("name", GROWING)
def test_columns_are_the_message(name: str) -> None:
    for version, (way, dials) in product(some_versions(name), DIALS.items()):
        row, data = drawn(name, version, dials)
        columns = kcore.decode_columns(name, version, data)
        expected = grouped(message_class(name), row)
        assert plain_rows(columns, expected) == expected, (version, way)
        assert kcore.encode_columns(columns, version) == data, (version, way)
        assert kcore.encode(kcore.decode(name, version, data), version) == data, (version, way)


@pytest.mark.parametrize("dials", ["alike", "alike, tags and nulls", "counts differ"])
@pytest.mark.parametrize("name", GROWING)
def test_wrong_bytes_give_the_error_of_value_by_value_reading(name: str, dials: str) -> None:
    """Cut short or with a flipped bit, in the middle of a run or at its ends: the object view walks value by value."""
    version = message_class(name).versions.highest
    _, data = drawn(name, version, DIALS[dials])
    assert_same_as_one_by_one(name, version, data, cuts=30, flips=150)


def fetch_request(partitions: int, **columns: Any) -> Columns:
    """One topic; offsets and epochs ascend."""
    numbers = np.arange(partitions)
    fields = {"partition": numbers.astype(np.int32), "fetch_offset": numbers + 2**40} | columns
    return Columns(
        FetchRequest,
        topics=Rows(
            np.array([0, 1], np.int32),
            topic_id=np.full((1, 16), 7, np.uint8),
            partitions=Rows(np.array([0, partitions], np.int32), **fields),
        ),
    )


@pytest.mark.parametrize("partitions", [1, 5, 6, 7, 8, 9, 63, 64, 65, 66, 129, 8192, 8193, 8194, 20_000])
def test_runs_of_any_length(partitions: int) -> None:
    """Blocks, what is left of them, and more rows than are compared at once."""
    data = kcore.encode_columns(fetch_request(partitions), 18)
    assert data == kcore.encode(kcore.decode("FetchRequest", 18, data), 18)
    again = kcore.decode_columns("FetchRequest", 18, data).topics.partitions
    assert (again.fetch_offset == np.arange(partitions) + 2**40).all()
    assert (again.high_watermark == 2**63 - 1).all() and not again.replica_directory_id.any()
    assert kcore.encode_columns(kcore.decode_columns("FetchRequest", 18, data), 18) == data


@pytest.mark.parametrize("place", [0, 1, 40, 63, 64, 8191, 8192, 8999])
def test_one_row_of_many_has_a_tag(place: int) -> None:
    watermarks = np.full(9000, 2**63 - 1)
    watermarks[place] = 5
    data = kcore.encode_columns(fetch_request(9000, high_watermark=watermarks), 18)
    assert data == kcore.encode(kcore.decode("FetchRequest", 18, data), 18)
    assert (kcore.decode_columns("FetchRequest", 18, data).topics.partitions.high_watermark == watermarks).all()


def test_columns_that_are_not_contiguous() -> None:
    numbers = np.arange(40, dtype=np.int32)
    sparse, dense = fetch_request(20, partition=numbers[::2]), fetch_request(20, partition=numbers[::2].copy())
    assert kcore.encode_columns(sparse, 18) == kcore.encode_columns(dense, 18)


def test_what_is_null_is_empty() -> None:
    client = kcore.wire.Strings(np.array([0, 2], np.int32), np.frombuffer(b"ab", np.uint8), np.array([False]))
    with pytest.raises(EncodeError, match=r"client_id: a row that is null has elements"):
        kcore.encode_columns(Columns("RequestHeader", client_id=client), 2)
    topics = Rows(np.array([0, 1], np.int32), valid=np.array([False]), name=kcore.wire.Strings.of(["a"]))
    with pytest.raises(EncodeError, match=r"topics: a row that is null has elements"):
        kcore.encode_columns(Columns("MetadataRequest", topics=topics), 12)


def test_a_struct_that_may_be_null_is_one_a_row_at_most() -> None:
    twice = Rows(np.array([0, 2], np.int32), topic_name=kcore.wire.Strings.of(["a", "b"]))
    with pytest.raises(EncodeError, match="a row has more than one struct"):
        kcore.encode_columns(Columns("DescribeTopicPartitionsRequest", cursor=twice), 0)
