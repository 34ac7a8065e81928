"""The kernel of requests and answers, held against kazoo's own serialization."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kazoo.protocol.states import ZnodeStat

from kcore._ext.wire import jute as kernel
from kcore.errors import ZookeeperError
from kcore.metadata.zookeeper.znode_operations import Create, Delete, SetData
from kcore.metadata.zookeeper.znode_states import texts_of
from kcore.zookeeper.operations import (
    MAX_BYTES,
    MAX_OPERATIONS,
    Ephemeral,
    Operations,
    check_of,
    operations_of,
    reads_of,
    results_of,
)
from reference import jute as twin

INT32 = st.one_of(st.integers(-2, 5), st.integers(-(2**31), 2**31 - 1))
INT64 = st.one_of(st.integers(-2, 5), st.integers(-(2**63), 2**63 - 1))
PATHS = st.text("/ab\u00e9", min_size=1, max_size=20)
OPERATIONS = st.lists(st.tuples(st.sampled_from([1, 2, 4, 5, 13]), PATHS, st.binary(max_size=9), INT32), max_size=6)
STATS = st.builds(ZnodeStat, INT64, INT64, INT64, INT64, INT32, INT32, INT32, INT64, INT32, INT32, INT64)
PARTS = st.lists(
    st.one_of(
        st.tuples(st.just(-1), st.sampled_from([0, -2, -101, -103, -110, -111])),
        st.tuples(st.just(1), st.binary(max_size=0) | st.just(b"/a/b")),
        st.tuples(st.just(2), st.none()),
        st.tuples(st.just(13), st.none()),
        st.tuples(st.just(4), st.tuples(st.none() | st.binary(max_size=30), STATS)),
        st.tuples(st.just(5), STATS),
    ),
    max_size=6,
)


def columns_of(operations: list[tuple[int, str, bytes, int]]) -> Operations:
    kinds, paths, data, versions = zip(*operations, strict=True) if operations else ((), (), (), ())
    return Operations(
        np.array(kinds, np.uint8),
        texts_of([path.encode() for path in paths]),
        texts_of(data),
        np.array(versions, np.int32),
    )


@settings(deadline=None)
@given(OPERATIONS, st.randoms(use_true_random=False))
def test_requests(operations: list[tuple[int, str, bytes, int]], dice) -> None:
    # SetData with no data is an empty buffer, a create with none is null: as Kafka sends them.
    rows = [dice.randrange(len(operations)) for _ in range(dice.randrange(9))] if operations else []
    body = columns_of(operations).request(np.array(rows, np.int64))
    assert body == twin.request([operations[row] for row in rows])


def test_operations_become_columns() -> None:
    operations = [
        Create("/a"), Create("/a/b", b"1"), Ephemeral("/e", b"2"), SetData("/a", b"", 7), Delete("/a", 3), Delete("/b"),
        Create("/config/changes/config_change_", sequential=True), Create("/brokers/topics/config_change_"),
    ]  # fmt: skip
    columns = operations_of(operations, "/kafka")
    assert columns.request(np.arange(8)) == twin.request(
        [
            (1, "/kafka/a", b"", 0), (1, "/kafka/a/b", b"1", 0), (1, "/kafka/e", b"2", 1), (5, "/kafka/a", b"", 7),
            (2, "/kafka/a", b"", 3), (2, "/kafka/b", b"", -1), (1, "/kafka/config/changes/config_change_", b"", 2),
            (1, "/kafka/brokers/topics/config_change_", b"", 0),  # A topic may have that name.
        ]
    )  # fmt: skip
    fenced = check_of(("/controller_epoch", 5), "/kafka") + columns.request(np.arange(0))
    assert fenced == twin.request([(13, "/kafka/controller_epoch", b"", 5)])


def test_batches_are_bounded_in_number_and_bytes() -> None:
    paths = texts_of([b"/a"] * 2_500)
    assert [len(rows) for rows in reads_of(paths).batches()] == [MAX_OPERATIONS, MAX_OPERATIONS, 500]
    sizes = [10, MAX_BYTES * 2, 10, MAX_BYTES // 2, MAX_BYTES // 2, 10]
    columns = operations_of([SetData("/a", bytes(size)) for size in sizes])
    assert [rows.tolist() for rows in columns.batches()] == [[0], [1], [2, 3], [4, 5]]
    assert list(operations_of([]).batches()) == []


@settings(deadline=None, max_examples=300)
@given(PARTS, st.binary(max_size=5))
def test_answers(parts, before: bytes) -> None:
    answer = before + twin.answer(parts)
    results = results_of(answer, len(before), len(parts))
    expected = twin.results(answer, len(before))
    assert len(expected) == len(parts)
    for row, (error, data, stat) in enumerate(expected):
        assert results.errors[row] == error
        assert answer[results.data[0, row] : results.data[1, row]] == data
        assert results.versions[row] == (stat.version if stat else -1)
        assert results.zxids[:, row].tolist() == ([stat.czxid, stat.ephemeralOwner] if stat else [-1, -1])


@settings(deadline=None, max_examples=300)
@given(PARTS.filter(bool), st.data())
def test_answers_that_are_cut_or_changed(parts, data: st.DataObject) -> None:
    """Refused, or read as the twin reads them; never a byte outside is touched."""
    answer = bytearray(twin.answer(parts))
    for _ in range(data.draw(st.integers(0, 2))):
        answer[data.draw(st.integers(0, len(answer) - 1))] = data.draw(st.integers(0, 255))
    del answer[data.draw(st.integers(0, len(answer))) :]
    text, count = bytes(answer), len(parts)
    try:
        expected = twin.results(text, 0)
    except Exception:
        expected = None
    try:
        results = results_of(text, 0, count)
    except ZookeeperError:
        assert expected is None or len(expected) != count
    else:
        assert expected is not None
        assert [error for error, _, _ in expected] == results.errors.tolist()
        assert (results.data <= len(text)).all()


def test_a_path_that_was_made_is_bytes() -> None:
    """The client does not check that the path is UTF-8."""
    answer = twin.answer([(1, b"/a/b")]).replace(b"/a/b", b"\x80a/b")
    results = results_of(answer, 0, 1)
    assert answer[slice(*results.data[:, 0])] == twin.results(answer, 0)[0][1] == b"\x80a/b"


def test_any_byte_but_0_is_true() -> None:
    """Java's readBoolean: here it says that this is the end."""
    answer = twin.answer([(1, b"/a/b")])
    for byte in (1, 2, 255):
        early = answer[:4] + bytes([byte]) + answer[5:]
        assert twin.results(early, 0) == []
        assert len(results_of(early, 0, 0).errors) == 0


def test_columns_that_do_not_fit_together() -> None:
    columns = columns_of([(1, "/a", b"x", 0), (5, "/b", b"yy", 0)])
    for rows in ([2], [-1], [0, 5]):
        with pytest.raises(ValueError, match="no operation"):
            columns.request(np.array(rows))
    with pytest.raises(ValueError, match="no operation"):
        columns_of([(9, "/a", b"", 0)]).request(np.arange(1))
    with pytest.raises(ValueError, match="the path of operation 1 is not within"):
        columns._replace(paths=columns.paths._replace(text=columns.paths.text[:3])).request(np.arange(2))
    with pytest.raises(ValueError, match="the data of operation 1 is not within"):
        columns._replace(data=columns.data._replace(text=columns.data.text[:2])).request(np.arange(2))
    with pytest.raises(ValueError, match="different lengths"):
        columns._replace(versions=columns.versions[:1]).request(np.arange(2))
    with pytest.raises(ValueError, match=r"out must have \d+ bytes, and has"):
        kernel.write_request(
            columns.kinds, *columns.paths, *columns.data, columns.versions, b"acl", np.arange(2), np.empty(9, np.uint8)
        )
    with pytest.raises(ValueError, match="different lengths"):
        kernel.parse_results(
            b"", 0, np.empty(1, np.int32), np.empty((2, 2), np.int64), np.empty(1, np.int32), np.empty((2, 1), np.int64)
        )
