"""Decoding many messages of one kind to columns at once equals decoding each of them."""

from collections import defaultdict
from typing import Any

import numpy as np
import pytest

import kcore
from kcore._ext.columns.columns_write import Writer
from kcore.errors import DecodeError, EncodeError, UnsupportedVersionError
from kcore.schema import LeaderAndIsrRequest, PartitionChangeRecord, PartitionRecord, UpdateMetadataRequest
from kcore.schema.leader_and_isr import LeaderAndIsrPartitionState, LeaderAndIsrTopicState
from kcore.types import Uuid
from kcore.wire.column_codec import decode_columns, decode_rows, encode_rows
from kcore.wire.columns import Columns, Rows, Vectors, default_column
from kcore.wire.gather import gather
from kcore.wire.layout import program
from kcore.wire.plan import plan
from reference.columns import rows_of, write
from wire.golden import vectors


def row_of(rows: Rows, row: int) -> dict[str, Any]:
    """All values of a row and the rows below it, as Python values; defaults of unsent fields."""
    values = {}
    for field in rows._struct.__fields__:
        known = rows.column(field.name)
        values[field.name] = value_of(default_column(field, len(rows)) if known is None else known, row)
    tags = rows.unknown_tags
    unknown = [] if tags is None else np.flatnonzero(tags.rows == row).tolist()
    for k in unknown:
        assert tags is not None
        values[f"tag {tags.tags[k]}"] = tags.values[tags.offsets[k] : tags.offsets[k + 1]].tobytes()
    return values


def value_of(column: Any, row: int) -> Any:
    if isinstance(column, Rows):
        if column.row_offsets is None:
            return row_of(column, row)
        if column.valid is not None and not column.valid[row]:
            return None
        return [row_of(column, k) for k in range(column.row_offsets[row], column.row_offsets[row + 1])]
    value = column[row]
    if isinstance(column, Vectors):
        return value.tolist() if isinstance(value, np.ndarray) else [listed(each) for each in value or ()]
    return value.tolist()


def listed(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else value


def kinds() -> dict[tuple[str, int], list[bytes]]:
    """The recorded metadata records, and the requests of two kinds, by name and version."""
    found = defaultdict(list)
    for name, case in vectors():
        if case["type"] == "metadata" or name in ("VoteRequest", "BrokerRegistrationRequest", "FetchResponse"):
            found[name, case["version"]].append(bytes.fromhex(case["hex"]))
    return found


@pytest.mark.recorded
def test_every_row_is_its_message() -> None:
    for (name, version), messages in kinds().items():
        messages = [*messages, *messages[::-1]]
        data, spans = bytearray(b"no message"), []
        for message in messages:
            spans.append((len(data), len(data) + len(message)))
            data += message + b"between"
        columns = decode_columns(name, version, messages[0])
        rows = decode_rows(columns.message, version, bytes(data), np.array(spans))
        assert len(rows) == len(messages) and not isinstance(rows, Columns)
        for row, message in enumerate(messages):
            assert row_of(rows, row) == row_of(decode_columns(name, version, message), 0)


def record(number: int) -> bytes:
    topic_id = Uuid(bytes([number] * 16))
    return kcore.encode(PartitionRecord(partition_id=number, topic_id=topic_id, replicas=[1] * number, isr=[2]), 1)


def test_rows_may_come_in_any_order_and_overlap() -> None:
    first, second = record(1), record(3)
    spans = [(len(first), len(first + second)), (0, len(first)), (0, len(first))]
    rows = decode_rows(PartitionRecord, 1, first + second, np.array(spans))
    assert rows.partition_id.tolist() == [3, 1, 1]
    assert [each.tolist() for each in rows.replicas] == [[1, 1, 1], [1], [1]]


def test_no_messages_are_no_rows() -> None:
    for data in (b"", b"abc"):
        rows = decode_rows(PartitionChangeRecord, 2, data, np.empty((0, 2), np.int64))
        assert len(rows) == 0 and rows.isr.offsets.tolist() == [0] and rows.topic_id.shape == (0, 16)


def test_an_error_in_a_span_has_its_offset() -> None:
    first, second = record(1), record(3)
    data, end = first + second, len(first + second)
    for cut in range(1, len(second)):
        with pytest.raises(DecodeError) as raised:
            decode_rows(PartitionRecord, 1, data, np.array([(0, len(first)), (len(first), end - cut)]))
        assert len(first) <= raised.value.offset <= end - cut
    with pytest.raises(DecodeError, match="left"):
        decode_rows(PartitionRecord, 1, data, np.array([(0, len(first) + 1)]))


@pytest.mark.parametrize("span", [(-1, 5), (5, 4), (0, 10**6), (10**6, 10**6), (-(2**63), 2**63 - 1)])
def test_spans_lie_in_the_bytes(span: tuple[int, int]) -> None:
    with pytest.raises(DecodeError, match="beyond"):
        decode_rows(PartitionRecord, 1, record(1), np.array([span]))


def test_a_version_that_is_none() -> None:
    with pytest.raises(UnsupportedVersionError):
        decode_rows(PartitionRecord, 3, b"", np.empty((0, 2), np.int64))


def whole(messages: list[bytes]) -> tuple[bytes, Any]:
    """The messages one behind the other, and their spans."""
    ends = np.cumsum([len(each) for each in messages])
    return b"".join(messages), np.stack([ends - [len(each) for each in messages], ends], axis=1)


@pytest.mark.recorded
def test_rows_are_encoded_as_each_of_them_is_by_itself() -> None:
    """Also rows of messages with topics, of which a row has any number."""
    found = defaultdict(list)
    for name, case in vectors():
        found[name, case["version"]].append(bytes.fromhex(case["hex"]))
    grouped = 0
    for (name, version), messages in found.items():
        data, spans = whole([*messages, *messages[::-1], messages[0]])
        message = decode_columns(name, version, messages[0]).message
        rows = decode_rows(message, version, data, spans)
        try:
            encoded, ends = encode_rows(message, version, rows, len(spans))
        except UnsupportedVersionError:  # Its partitions have no topics, and decoded rows are never grouped.
            continue
        grouped += message in (LeaderAndIsrRequest, UpdateMetadataRequest)
        assert ends.tolist() == spans[:, 1].tolist(), (name, version)
        assert encoded == data
        assert encoded == b"".join(write(plan(message, version), row) for row in rows_of(rows))
    assert grouped


def test_many_rows_of_runs_that_begin_and_end_anywhere() -> None:
    """Partitions of one layout are written many at a time, across messages."""
    random = np.random.default_rng(7)
    message, version = LeaderAndIsrRequest, 7
    for _ in range(30):
        counts = random.integers(0, 40, 25)
        messages = [encoded_request(random, int(count)) for count in counts]
        data, spans = whole(messages)
        encoded, ends = encode_rows(message, version, decode_rows(message, version, data, spans), len(messages))
        assert encoded == data and ends.tolist() == spans[:, 1].tolist()


def encoded_request(random: np.random.Generator, count: int) -> bytes:
    """A LeaderAndIsr of two topics; every tenth ISR is shorter."""

    def state(index: int) -> LeaderAndIsrPartitionState:
        isr = [1, 2, 3][: 2 + int(random.integers(10) > 0)]
        return LeaderAndIsrPartitionState(partition_index=index, leader=1, isr=isr, replicas=[1, 2, 3])

    topics = [
        LeaderAndIsrTopicState(topic_name=name, partition_states=[state(k) for k in range(part)])
        for name, part in (("orders", count), ("t", count // 2))
    ]
    return kcore.encode(LeaderAndIsrRequest(controller_epoch=count, topic_states=topics), 7)


def test_no_rows_are_no_bytes() -> None:
    rows = decode_rows(PartitionRecord, 1, b"", np.empty((0, 2), np.int64))
    assert [
        each if isinstance(each, bytes) else each.tolist() for each in encode_rows(PartitionRecord, 1, rows, 0)
    ] == [
        b"",
        [],
    ]


def test_invalid_rows_are_refused() -> None:
    data, spans = whole([record(1), record(3)])
    rows = decode_rows(PartitionRecord, 1, data, spans)
    for count in (1, 3):
        with pytest.raises(EncodeError, match="PartitionRecord"):
            encode_rows(PartitionRecord, 1, rows, count)
    with pytest.raises(EncodeError, match="has no field"):
        encode_rows(LeaderAndIsrRequest, 7, rows, 2)
    with pytest.raises(UnsupportedVersionError, match="has no topics"):
        encode_rows(LeaderAndIsrRequest, 1, Rows(), 2)


def test_a_writer_needs_room_for_the_ends() -> None:
    data, spans = whole([record(1), record(3)])
    running = program(PartitionRecord, 1)
    gathered = gather(running, decode_rows(PartitionRecord, 1, data, spans), 2)
    writer = Writer(running.tables, gathered.arrays, gathered.rows, gathered.tag_counts)
    assert writer.measure() == ("", 0)
    with pytest.raises(ValueError, match="no room"):
        writer.to_bytes_each(np.empty(1, np.int64))
    with pytest.raises(BufferError):
        writer.to_bytes_each(bytes(16))  # type: ignore[arg-type]
