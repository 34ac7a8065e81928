"""The broker index against its plain definition, built, grown and shrunk."""

from itertools import product

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kcore._ext.tables import broker_index as kernels
from kcore.errors import TableError
from kcore.metadata.table.broker_index import BrokerIndex
from reference import broker_index as reference

BROKERS = 6
WIDTH = 4
Lists = st.lists(
    st.permutations(range(BROKERS)).flatmap(lambda p: st.integers(0, WIDTH).map(lambda n: p[:n])), max_size=9
)


def packed(lists: list[list[int]]) -> np.ndarray:
    rows = np.full((len(lists), WIDTH), -1, np.int16)
    for row, brokers in zip(rows, lists, strict=True):
        row[: len(brokers)] = brokers
    return rows


def test_every_small_table() -> None:
    choices = [[], [0], [2], [0, 1], [1, 0], [2, 1, 0]]
    for lists in product(choices, repeat=4):
        index = BrokerIndex(packed(list(lists)), 3)
        for broker_row in range(3):
            assert index.rows(broker_row).tolist() == reference.rows(dict(enumerate(lists)), broker_row)


def test_a_large_table() -> None:
    rng = np.random.default_rng(5)
    replicas = np.argsort(rng.random((20_000, 40)), axis=1)[:, :3].astype(np.int16)
    index = BrokerIndex(replicas, 41)
    for broker_row in range(41):
        expected = np.flatnonzero((replicas == broker_row).any(axis=1))
        np.testing.assert_array_equal(index.rows(broker_row), expected)
        assert index.rows(broker_row).dtype == np.int32
    assert index.nbytes <= 4 * replicas.size * 17 / 16 + 41 * 16


class IndexMachine(RuleBasedStateMachine):
    """Partitions are added, moved and removed; after each step every list matches the definition."""

    def __init__(self) -> None:
        super().__init__()
        self.replicas: dict[int, list[int]] = {}
        self.index = BrokerIndex(np.empty((0, WIDTH), np.int16), 0)
        self.copies: list[tuple[BrokerIndex, dict[int, list[int]]]] = []

    def drawn(self, data: st.DataObject) -> list[int]:
        return sorted(data.draw(st.sets(st.sampled_from(sorted(self.replicas)), max_size=5))) if self.replicas else []

    @rule(lists=Lists, gap=st.integers(0, 3), data=st.data())
    def add(self, lists: list[list[int]], gap: int, data: st.DataObject) -> None:
        first = max(self.replicas, default=-1) + 1 + gap
        if data.draw(st.booleans()):
            free = [row for row in range(first) if row not in self.replicas]
            rows = (free + list(range(first, first + len(lists))))[: len(lists)]
        else:
            rows = list(range(first, first + len(lists)))
        self.index.add(np.array(rows, np.int32), packed(lists))
        self.replicas.update(zip(rows, lists, strict=True))

    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        rows = self.drawn(data)
        self.index.remove(np.array(rows, np.int32), packed([self.replicas.pop(row) for row in rows]))

    @rule(data=st.data(), lists=Lists)
    def replace(self, data: st.DataObject, lists: list[list[int]]) -> None:
        rows = self.drawn(data)[: len(lists)]
        before, after = packed([self.replicas[row] for row in rows]), packed(lists[: len(rows)])
        self.index.replace(np.array(rows, np.int32), before, after)
        self.replicas.update(zip(rows, lists, strict=False))

    @rule()
    def copy(self) -> None:
        self.copies = [(self.index.copy(), dict(self.replicas))]

    @invariant()
    def as_defined(self) -> None:
        for index, replicas in [(self.index, self.replicas), *self.copies]:
            for broker_row in range(BROKERS):
                assert index.rows(broker_row).tolist() == reference.rows(replicas, broker_row)


TestIndexMachine = IndexMachine.TestCase
TestIndexMachine.settings = settings(max_examples=40, stateful_step_count=15, deadline=None)


def test_a_built_index_grows_list_by_list() -> None:
    """One broker's list outgrows its place and moves; the others stay in the arena."""
    index = BrokerIndex(packed([[0, 1], [1, 0], [1, 2]]), 3)
    before, other = index.nbytes, index.rows(2)
    rows = np.arange(3, 103, dtype=np.int32)
    index.add(rows, packed([[0]] * 100))
    assert index.rows(0).tolist() == [0, 1, *range(3, 103)]
    assert np.shares_memory(index.rows(2), other)
    assert before + 4 * 102 <= index.nbytes <= before + 4 * 102 * 9 / 8 + 32


def test_rows_are_a_read_only_view() -> None:
    index = BrokerIndex(packed([[0, 1], [1]]), 2)
    assert np.shares_memory(index.rows(1), index.rows(1))
    with pytest.raises(ValueError, match="read-only"):
        index.rows(1)[0] = 7


def test_a_broker_that_never_had_a_replica() -> None:
    index = BrokerIndex(packed([[0]]), 1)
    assert index.rows(5).tolist() == []
    with pytest.raises(TableError, match="broker row -1 is negative"):
        index.rows(-1)


def test_removing_what_is_not_there_is_a_bug() -> None:
    index = BrokerIndex(packed([[0], [1]]), 2)
    with pytest.raises(AssertionError, match="broker row 0"):
        index.remove(np.array([1], np.int32), packed([[0]]))


def test_kernels_refuse_lists_without_room() -> None:
    rows, fresh = np.arange(3, dtype=np.int32), np.array([7], np.int32)
    with pytest.raises(AssertionError):
        kernels.merge(rows, 3, fresh)
    with pytest.raises(AssertionError):
        kernels.drop(rows, 0, 4, fresh)
