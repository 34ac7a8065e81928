"""The kernel of states and paths against its slow twin, and the cases that it leaves to Python's json."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcore._ext.tables import znodes as kernel
from kcore.errors import TableError
from kcore.metadata.table.changes import UnwrittenChanges
from kcore.metadata.zookeeper.znode_states import StateColumns, decode_states, encode_states, partition_paths, texts_of
from kcore.metadata.zookeeper.znodes import state_path
from reference.znodes import State, path_of, state_of, text_of

INT32 = st.one_of(st.integers(-3, 12), st.integers(-(2**31), 2**31 - 1), st.sampled_from([-(2**31), 2**31 - 1]))
STATES = st.builds(State, INT32, INT32, INT32, st.sampled_from([0, 1]), st.lists(INT32, max_size=6))


def decoded(texts: list[bytes]) -> StateColumns:
    columns = texts_of(texts)
    return decode_states(columns.text, columns.offsets[:-1], columns.offsets[1:], lambda row: f"/state/{row}")


def states_of(columns: StateColumns) -> list[State]:
    offsets = columns.isr_offsets.tolist()
    assert offsets[0] == 0
    assert offsets[-1] == len(columns.isr)
    return [
        State(
            int(columns.leaders[row]),
            int(columns.leader_epochs[row]),
            int(columns.controller_epochs[row]),
            int(columns.recovery[row]),
            columns.isr[offsets[row] : offsets[row + 1]].tolist(),
        )
        for row in range(len(columns.leaders))
    ]


def changes_of(states: list[State]) -> UnwrittenChanges:
    numbers = np.array([state[:4] for state in states], np.int32).reshape(-1, 4)
    return UnwrittenChanges(
        rows=np.arange(len(states), dtype=np.int32),
        leaders=numbers[:, 0],
        isr_offsets=np.cumsum([0, *(len(state.isr) for state in states)], dtype=np.int32),
        isr=np.array([broker for state in states for broker in state.isr], np.int32),
        leader_epochs=numbers[:, 1],
        partition_epochs=numbers[:, 0],
        recovery=numbers[:, 3].astype(np.int8),
    )


@settings(deadline=None)
@given(st.lists(STATES, max_size=8), INT32)
def test_states_are_written_and_read_as_the_twin_does(states: list[State], controller_epoch: int) -> None:
    states = [state._replace(controller_epoch=controller_epoch) for state in states]
    texts = encode_states(changes_of(states), controller_epoch)
    written = [texts.at(row) for row in range(texts.total)]
    assert written == [text_of(state) for state in states]
    assert states_of(decoded(written)) == states


PIECES = st.sampled_from(
    ['"leader"', '"leader_epoch"', '"controller_epoch"', '"leader_recovery_state"', '"version"', '"isr"', '"other"']
)
SPACE = st.sampled_from(["", "", "", " ", "\n\t", "\r"])
NUMBERS = st.one_of(
    INT32.map(str), st.sampled_from(["0", "1", "-0", "01", "1.0", "1e2", "2147483648", "null", "-", "[]"])
)


@st.composite
def json_like(draw: st.DrawFn) -> bytes:
    """Objects that are almost states."""
    names = draw(st.permutations(['"leader"', '"leader_epoch"', '"controller_epoch"', '"isr"', '"version"']))
    names = names[: draw(st.integers(3, 5))] + draw(st.lists(PIECES, max_size=2))
    fields = []
    for name in names:
        listed = draw(st.lists(NUMBERS, max_size=3))
        number = draw(NUMBERS)
        value = "[" + draw(SPACE) + ",".join(listed) + draw(SPACE) + "]" if name == '"isr"' else number
        fields.append(f"{draw(SPACE)}{name}{draw(SPACE)}:{draw(SPACE)}{value}{draw(SPACE)}")
    return f"{draw(SPACE)}{{{','.join(fields)}}}{draw(SPACE)}".encode()


def agree(text: bytes) -> None:
    """One text between two valid ones: as the twin reads it, or refused with its path."""
    good = State(1, 2, 3, 1, [4, 5])
    expected = state_of(text)
    if expected is None:
        with pytest.raises(TableError, match="/state/1"):
            decoded([text_of(good), text, text_of(good)])
    else:
        assert states_of(decoded([text_of(good), text, text_of(good)])) == [good, expected, good]


@settings(deadline=None, max_examples=200)
@given(json_like())
def test_json_that_is_nearly_a_state(text: bytes) -> None:
    agree(text)


@settings(deadline=None, max_examples=150)
@given(STATES, st.data())
def test_a_state_with_bytes_changed(state: State, data: st.DataObject) -> None:
    text = bytearray(text_of(state))
    for _ in range(data.draw(st.integers(1, 3))):
        text[data.draw(st.integers(0, len(text) - 1))] = data.draw(st.sampled_from(b'{}[]":,-0129 \n\x00\xff\\uela'))
    agree(bytes(text[: data.draw(st.integers(0, len(text)))]))
    agree(bytes(text))


def test_every_prefix_of_a_state_is_none() -> None:
    text = text_of(State(10, 20, 30, 1, [1, 22, 333]))
    for end in range(len(text)):
        agree(text[:end])


def test_the_kernel_reads_what_json_allows_by_itself() -> None:
    """Any order, any white space; skipped states are flagged, and have no ISR."""
    fast = b' {\n "isr" : [ 3 , -1 ] ,"leader":5,\t"version":9,"controller_epoch":-2,"leader_epoch" :7}\r'
    slow = b'{"isr":[1],"leader":5,"leader":6,"controller_epoch":1,"leader_epoch":7}'
    texts = texts_of([slow, fast, slow])
    values, recovery = np.zeros((3, 3), np.int32), np.zeros(3, np.int8)
    offsets, isr, is_read = np.zeros(4, np.int32), np.zeros(9, np.int32), np.zeros(3, np.uint8)
    kernel.parse_states(texts.text, texts.offsets[:-1], texts.offsets[1:], values, recovery, offsets, isr, is_read)
    assert is_read.tolist() == [0, 1, 0]
    assert offsets.tolist() == [0, 0, 2, 2]
    assert isr[:2].tolist() == [3, -1]
    assert values[:, 1].tolist() == [5, 7, -2]
    assert json.loads(slow)["leader"] == states_of(decoded([slow]))[0].leader == 6  # The last, as Jackson's.


def test_an_isr_never_leaves_its_column() -> None:
    texts = texts_of([text_of(State(1, 1, 1, 0, [1, 2, 3]))] * 2)
    values, recovery, offsets = np.zeros((3, 2), np.int32), np.zeros(2, np.int8), np.zeros(3, np.int32)
    memory, is_read = np.full(6, 99, np.int32), np.zeros(2, np.uint8)
    begins, ends = texts.offsets[:-1], texts.offsets[1:]
    kernel.parse_states(texts.text, begins, ends, values, recovery, offsets, memory[:5], is_read)
    assert is_read.tolist() == [1, 0]
    assert offsets.tolist() == [0, 3, 3]
    assert memory[5] == 99


@settings(deadline=None)
@given(
    st.lists(st.text("abc.-_9", min_size=1, max_size=12), min_size=1, max_size=5, unique=True),
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2**31 - 1)), max_size=9),
    st.sampled_from(["", "/kafka/one"]),
    st.sampled_from(["", "/state"]),
)
def test_paths(topics: list[str], partitions: list[tuple[int, int]], chroot: str, below: str) -> None:
    topic_rows = np.array([row % len(topics) for row, _ in partitions], np.int32)
    indexes = np.array([partition for _, partition in partitions], np.int32)
    paths = partition_paths(topics, topic_rows, indexes, chroot=chroot, below=below)
    expected = [
        path_of(f"{chroot}/brokers/topics/", topics[row % len(topics)], partition, below)
        for row, partition in partitions
    ]
    assert [paths.at(row) for row in range(paths.total)] == expected


def test_a_path_is_that_of_the_znode() -> None:
    paths = partition_paths(["a", "b"], np.array([1], np.int32), np.array([12], np.int32))
    assert paths.at(0).decode() == state_path("b", 12)


NOTHING = np.empty(0, np.int32)


@pytest.mark.parametrize(
    "call",
    [
        lambda: decode_states(b"{}", np.array([0]), np.array([3]), str),
        lambda: decode_states(b"{}", np.array([-1]), np.array([2]), str),
        lambda: decode_states(b"{}", np.array([2]), np.array([1]), str),
        lambda: decode_states(b"{}", np.array([0]), np.array([1, 2]), str),
        lambda: partition_paths(["a"], np.array([0, 0], np.int32), np.array([1], np.int32)),
        lambda: kernel.write_states(
            NOTHING, NOTHING, NOTHING, NOTHING, NOTHING.astype(np.int8), 1, np.empty(9, np.uint8), np.zeros(1, int)
        ),
        lambda: kernel.write_states(
            np.zeros(1, np.int32), np.zeros(1, np.int32), np.array([0, 2], np.int32), np.zeros(1, np.int32),
            np.zeros(1, np.int8), 1, np.empty(999, np.uint8), np.zeros(2, int),
        ),
        lambda: kernel.write_states(
            np.zeros(1, np.int32), np.zeros(1, np.int32), np.array([0, 1], np.int32), np.zeros(1, np.int32),
            np.zeros(1, np.int8), 1, np.empty(99, np.uint8), np.zeros(2, int),
        ),
    ],
)  # fmt: skip
def test_columns_that_do_not_fit_together(call) -> None:
    with pytest.raises(ValueError, match=r"state|columns|offsets|room|row"):
        call()
