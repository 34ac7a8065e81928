"""Records are views of the decoded bytes, not copies; copies of a message have bytes of their own."""

import copy
import gc
import pickle
from typing import Any

import numpy as np
import pytest

import kcore
from kcore.schema.fetch import FetchableTopicResponse, PartitionData
from wire.every_kind import EveryKind

MESSAGE = EveryKind(names=["before"], records=b"some records", numbers=[1])
DATA = kcore.encode(MESSAGE, 3)
START = DATA.index(b"some records")


def records(data: Any) -> Any:
    return kcore.decode(EveryKind, 3, data).records


def test_a_slice_of_the_input() -> None:
    view = records(DATA)
    assert type(view) is memoryview and view == b"some records"
    assert view.obj is DATA and view.readonly
    assert (view.format, view.ndim, view.shape, view.strides, view.contiguous) == ("B", 1, (12,), (1,), True)
    assert np.shares_memory(np.frombuffer(view, np.uint8), np.frombuffer(DATA, np.uint8)[START : START + 12])
    assert bytes(view[5:]) == b"records" and view[-1] == ord("s") and view.tolist() == list(b"some records")


def test_it_keeps_the_input_alive() -> None:
    data = bytes(bytearray(DATA))  # No other reference to the bytes.
    view = records(data)
    del data
    gc.collect()
    assert view == b"some records"


def test_of_an_input_that_may_change_it_has_a_copy() -> None:
    data = bytearray(DATA)
    view = records(data)
    data[START] = ord("S")
    data.append(0)
    assert view == b"some records" and type(view.obj) is bytes


def test_inputs_with_other_elements() -> None:
    messages = [kcore.encode(EveryKind(names=["x" * size], records=b"some records"), 3) for size in range(8)]
    [data] = [data for data in messages if len(data) % 8 == 0]
    words = np.frombuffer(data, np.int64)
    for source in (words, words.reshape(-1, 1), memoryview(data).cast("h"), memoryview(b"x" + data)[1:]):
        assert records(source) == b"some records"


def test_empty_and_null() -> None:
    assert records(kcore.encode(EveryKind(records=b""), 3)) == b""
    assert records(kcore.encode(EveryKind(records=None), 3)) is None


def test_any_bytes_like_object_is_written() -> None:
    wanted = kcore.decode(EveryKind, 3, DATA)
    for value in (
        bytearray(b"some records"),
        memoryview(b"?some records")[1:],
        np.frombuffer(b"some records", np.uint8),
    ):
        message = kcore.decode(EveryKind, 3, DATA)
        message.records = value
        assert kcore.encode(message, 3) == DATA == kcore.encode(wanted, 3)
    with pytest.raises(kcore.EncodeError, match=r"^records: expected bytes: memoryview"):
        kcore.encode(EveryKind(records=memoryview(b"strided")[::2]), 3)


def test_copies_have_bytes_of_their_own() -> None:
    message = kcore.decode(EveryKind, 3, DATA)
    for other in (copy.copy(message), copy.deepcopy(message), pickle.loads(pickle.dumps(message))):
        assert other == message and type(other.records) is bytes
    assert "records=<12 bytes>" in repr(message)


def test_every_partition_of_a_fetch_has_its_own() -> None:
    partitions = [PartitionData(partition_index=i, records=b"records of " + bytes([65 + i])) for i in range(3)]
    response = kcore.schema.FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=partitions)])
    data = kcore.encode(response, 12)
    [topic] = kcore.decode("FetchResponse", 12, data).responses
    assert [bytes(partition.records) for partition in topic.partitions] == [
        b"records of A",
        b"records of B",
        b"records of C",
    ]
    assert all(partition.records.obj is data for partition in topic.partitions)
