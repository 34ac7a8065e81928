"""Columns, lists a row and records as values: compared, pickled, copied, printed; wrong offsets and wrong texts."""

import copy
import pickle
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kcore
from kcore.errors import DecodeError, EncodeError, NotBytesError
from kcore.schema import FetchResponse
from kcore.schema.fetch import FetchableTopicResponse, PartitionData
from kcore.wire.column_codec import decode_columns, encode_columns
from kcore.wire.columns import Columns, Rows, Spans, Strings, UnknownTags, Vectors
from kcore.wire.record_building import CODECS, encode_records
from kcore.wire.records import Record, decode_records

COPIES: dict[str, Callable[[Any], Any]] = {
    "pickle": lambda each: pickle.loads(pickle.dumps(each)),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}
ANY_COPY = pytest.mark.parametrize("again", COPIES.values(), ids=COPIES)


def int32s(*values: int) -> Any:
    return np.array(values, np.int32)


def response() -> bytes:
    """With records, which stay in the message."""
    partitions = [PartitionData(partition_index=k, records=b"some records" * k) for k in range(3)]
    topics = [FetchableTopicResponse(topic=name, partitions=partitions) for name in ("a", "b")]
    return kcore.encode(FetchResponse(responses=topics), 11)


@ANY_COPY
def test_a_copy_of_columns_is_equal(again: Callable[[Any], Any]) -> None:
    columns = decode_columns("FetchResponse", 11, response())
    twin = again(columns)
    assert isinstance(columns.responses.partitions.records, Spans)
    assert twin == columns and encode_columns(twin, 11) == response()
    assert twin.responses.partitions.records == columns.responses.partitions.records
    assert twin != decode_columns("FetchResponse", 11, kcore.encode(FetchResponse(), 11))


def test_columns_are_equal_by_what_they_hold() -> None:
    """An unset column reads as its default, so it equals a column of defaults."""
    assert Columns("FetchRequest") == Columns("FetchRequest", max_wait_ms=0, cluster_id=None)
    assert Columns("FetchRequest") != Columns("FetchRequest", max_wait_ms=1)
    assert Columns("FetchRequest") != Columns("FetchResponse") and Columns("FetchRequest") != "columns"
    named = Columns("FetchRequest", topics=Rows(int32s(0, 2), topic=Strings.of(["a", "b"])))
    assert named == Columns("FetchRequest", topics=Rows(int32s(0, 2), topic=Strings.of(["a", "b"])))
    assert named != Columns("FetchRequest", topics=Rows(int32s(0, 2), topic=Strings.of(["a", "c"])))
    assert named != Columns("FetchRequest", topics=Rows(int32s(0, 1), topic=Strings.of(["a"])))
    tags = UnknownTags(int32s(0), np.array([9], np.uint32), int32s(0, 1), np.zeros(1, np.uint8))
    assert tags == copy.deepcopy(tags) and Columns("FetchRequest", unknown_tags=tags) != Columns("FetchRequest")
    assert repr(tags) == "UnknownTags(1)"


def test_lists_are_equal_by_what_their_rows_hold() -> None:
    lists = Vectors(int32s(0, 2, 3), int32s(5, 6, 7))
    assert lists == Vectors(int32s(1, 3, 4), int32s(9, 5, 6, 7, 9))
    assert lists != Vectors(int32s(0, 1, 3), int32s(5, 6, 7))
    assert lists != Vectors(int32s(0, 2, 3), int32s(5, 6, 8))
    empty, null = Vectors(int32s(0, 0), int32s()), Vectors(int32s(0, 0), int32s(), np.array([False]))
    assert empty != null and empty == Vectors(int32s(0, 0), int32s(), np.array([True]))
    nested = Vectors(int32s(0, 1), Strings.of(["a"]))
    assert nested == Vectors(int32s(1, 2), Strings.of(["b", "a"])) and nested != Vectors(int32s(0, 1), Strings.of("b"))
    assert Strings.of(["a"]) != Vectors(int32s(0, 1), np.frombuffer(b"a", np.uint8))
    with pytest.raises(TypeError, match="unhashable"):
        hash(lists)


def test_offsets_that_are_wrong() -> None:
    """A regression: three bytes were read as "\0\0\0" with offsets up to five hundred."""
    with pytest.raises(EncodeError, match="row 0 is from 0 to 500, and there are 3 values"):
        Strings(int32s(0, 500), np.zeros(3, np.uint8))[0]
    with pytest.raises(EncodeError, match="row 1 is from 3 to 1"):
        Strings(int32s(0, 3, 1), np.zeros(3, np.uint8)).tolist()
    with pytest.raises(EncodeError, match="row_offsets must not fall, and the last one is -1"):
        Rows(int32s(0, -1))
    with pytest.raises(EncodeError, match=r"topics.name: offsets must not fall, and the last one is -1"):
        lists = Vectors(int32s(0, -1), int32s())
        encode_columns(Columns("MetadataRequest", topics=Rows(int32s(0, 1), name=lists)), 0)
    with pytest.raises(EncodeError, match="offsets begin at 0, not at 1"):
        encode_columns(Columns("MetadataRequest", topics=Rows(int32s(1, 1), name=Strings.of([]))), 0)


def test_texts_that_are_not_utf8() -> None:
    wrong = Strings(int32s(0, 2, 4), np.frombuffer(b"ok\xc3\x28", np.uint8))
    assert wrong[0] == "ok"
    for read in (lambda: wrong[1], wrong.tolist, lambda: list(wrong)):
        with pytest.raises(DecodeError, match="not UTF-8") as error:
            read()
        assert error.value.offset == 2
    for texts in (["\ud800"], [7]):
        with pytest.raises(EncodeError, match="texts must be strings"):
            Strings.of(texts)  # type: ignore[list-item]


def test_where_columns_are_encoded_into() -> None:
    columns = Columns("FetchRequest", max_wait_ms=3)
    with pytest.raises(EncodeError, match="`out` is read-only: bytes"):
        encode_columns(columns, 7, bytes(100))  # type: ignore[call-overload]
    with pytest.raises(EncodeError, match="the message takes 33 bytes, `out` has room for 3"):
        encode_columns(columns, 7, bytearray(3))
    room = bytearray(100)
    assert encode_columns(columns, 7, room) == 33 and bytes(room[:33]) == encode_columns(columns, 7)


@pytest.mark.parametrize("read", [kcore.decode, kcore.decode_columns, kcore.wire.decode_from])
def test_what_is_no_bytes(read: Callable[..., Any]) -> None:
    for data in (
        np.zeros(100),
        np.zeros(5, np.complex64),
        np.array([None]),
        memoryview(b"ab" * 20)[::2],
        "text",
        7,
        None,
    ):
        with pytest.raises(NotBytesError, match="expected bytes"):
            read("FetchRequest", 4, data)
    for number in (np.zeros(100), 7):
        with pytest.raises(NotBytesError, match="expected bytes"):
            kcore.wire.scan_batches(number)  # type: ignore[arg-type]
    plain = kcore.encode(kcore.schema.FetchRequest(), 4)
    for same in (bytearray(plain), np.frombuffer(plain, np.int8), memoryview(plain)):
        read("FetchRequest", 4, same)
    with pytest.raises(NotBytesError, match="ndarray of items of the format d"):
        read("FetchRequest", 4, np.zeros(100))


@ANY_COPY
@pytest.mark.parametrize("codec", CODECS)
def test_a_copy_of_records_is_equal(again: Callable[[Any], Any], codec: Any) -> None:
    given = [Record(5, 10, b"k", b"v" * 50, (("h", None),)), Record(7, 11, None, zlib.compress(b"w"))]
    records = decode_records(encode_records(given, codec=codec))
    twin = again(records)
    assert twin == records and twin is not records and list(twin) == given
    assert twin.batches == records.batches and not twin.offset.flags.writeable
    assert twin != decode_records(encode_records(given[:1], codec=codec)) and twin != "records"
    assert pickle.loads(pickle.dumps(given)) == given


def test_records_that_ended_early_are_pickled_with_their_problem() -> None:
    data = encode_records([Record(0, 0)]) + b"\0" * 30
    records = decode_records(data, stop=True)
    twin = pickle.loads(pickle.dumps(records))
    assert twin == records and str(twin.problem) == str(records.problem) and twin.end == records.end
    assert records != decode_records(data[:-30])


def test_repr_has_counts_alone() -> None:
    records = decode_records(encode_records([Record(k, 0, b"v" * 1000) for k in range(1000)]))
    assert repr(records) == "<Records: 1000 records, offsets 0 to 999>"
    assert repr(records.batches) == "<RecordBatches: 1, with 1000 records>"
    assert len(repr(decode_columns("FetchResponse", 11, response()))) < 200


def test_offsets_of_a_batch_rise() -> None:
    """A regression: records 5, 1 made a batch with a lastOffsetDelta of -4."""
    with pytest.raises(EncodeError, match="a record has offset 1 after 5: offsets must rise"):
        encode_records([Record(5, 0), Record(1, 0)])
    with pytest.raises(EncodeError, match="offset 5 after 5"):
        encode_records([Record(5, 0), Record(5, 0)])
    with pytest.raises(EncodeError, match="a record has offset 3 in a batch that begins at 4"):
        encode_records([Record(3, 0)], base_offset=4)
    with pytest.raises(EncodeError, match="last_offset_delta is 1, and the last record is 2 above the base offset"):
        encode_records([Record(3, 0), Record(5, 0)], last_offset_delta=1)
    batches = kcore.wire.scan_batches(encode_records([Record(3, 0), Record(5, 0)], base_offset=2, last_offset_delta=9))
    assert (batches.base_offset.item(), batches.last_offset.item()) == (2, 11)
