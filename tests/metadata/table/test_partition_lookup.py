"""Finding partitions by topic and number, in any rows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcore.errors import TableError
from kcore.metadata.table.partition_lookup import PartitionLookup
from reference import partition_lookup as twin

TOPICS = 4
Keys = st.lists(st.tuples(st.integers(0, TOPICS - 1), st.integers(0, 5)), max_size=14)


def lookup_of(keys: list[tuple[int, int]]) -> PartitionLookup:
    topic_rows, indexes = np.array(keys, np.int32).reshape(-1, 2).T
    return PartitionLookup(topic_rows.copy(), indexes.copy(), TOPICS)


def check(lookup: PartitionLookup, rows: dict[tuple[int, int], int]) -> None:
    asked = [(topic, index) for topic in range(TOPICS) for index in range(-1, 12)]
    found = lookup.rows([topic for topic, _ in asked], [index for _, index in asked])
    assert found.tolist() == [twin.row_of(rows, *key) for key in asked]
    expected = [twin.rows_of_topic(rows, topic) for topic in range(TOPICS)]
    assert [lookup.rows_of_topic(topic).tolist() for topic in range(TOPICS)] == expected
    together, starts = lookup.rows_of_topics(np.arange(TOPICS, dtype=np.int32)[::-1].copy())
    assert [part.tolist() for part in np.split(together, starts[1:-1])] == expected[::-1]


@given(Keys)
@settings(max_examples=100, deadline=None)
def test_any_order(keys: list[tuple[int, int]]) -> None:
    """Regular topics, hash order, gaps, repetitions: found, or refused if a partition comes twice."""
    if len(set(keys)) < len(keys):
        with pytest.raises(TableError, match="is given twice"):
            lookup_of(keys)
        return
    check(lookup_of(keys), {key: row for row, key in enumerate(keys)})


@given(st.lists(st.tuples(st.integers(0, TOPICS - 1), st.integers(1, 3), st.integers(0, 2)), max_size=10), st.data())
@settings(max_examples=100, deadline=None)
def test_growing_and_shrinking(steps: list[tuple[int, int, int]], data: st.DataObject) -> None:
    lookup, rows, next_row = lookup_of([]), {}, 0
    for topic, count, gap in steps:
        first = max((index for owner, index in rows if owner == topic), default=-1) + 1 + data.draw(st.integers(0, 1))
        next_row += gap
        lookup.add(topic, first, next_row, count)
        rows |= {(topic, first + each): next_row + each for each in range(count)}
        next_row += count
        if data.draw(st.integers(0, 3)) == 0:
            lookup.remove(topic)
            rows = {key: row for key, row in rows.items() if key[0] != topic}
        check(lookup.copy(), rows)


def test_regular_topics_cost_two_numbers_each() -> None:
    regular = PartitionLookup(
        np.repeat(np.arange(TOPICS, dtype=np.int32), 50), np.tile(np.arange(50, dtype=np.int32), TOPICS), TOPICS
    )
    assert regular.nbytes <= 8 * TOPICS + 100


@given(Keys.map(lambda keys: sorted(set(keys))), st.data())
@settings(max_examples=150, deadline=None)
def test_any_of_them_can_be_dropped(keys: list[tuple[int, int]], data: st.DataObject) -> None:
    """In the middle of a topic, at its end, strays or not; and added again in another row."""
    lookup = lookup_of(keys)
    rows = {key: row for row, key in enumerate(keys)}
    while rows:
        gone = data.draw(st.lists(st.sampled_from(sorted(rows)), unique=True, min_size=1))
        lookup.drop(*np.array(gone, np.int32).T)
        back = {key: 20 + rows.pop(key) for key in gone[: data.draw(st.integers(0, 2))] if key in rows}
        rows = {key: row for key, row in rows.items() if key not in gone}
        check(lookup, rows)
        if back and data.draw(st.booleans()):
            lookup.put(*np.array(list(back), np.int32).T.copy(), np.array(list(back.values()), np.int32))
            rows |= back
            check(lookup, rows)


def test_strays_take_no_more_room_when_they_come_and_go() -> None:
    lookup = lookup_of([])
    for round_ in range(200):
        for partition in (7, 5, 3):
            lookup.add(round_ % TOPICS, partition, partition, 1)
        if round_ == 0:
            room = lookup.nbytes
        lookup.remove(round_ % TOPICS)
    assert lookup.nbytes == room


def test_what_is_refused() -> None:
    lookup = lookup_of([(0, 0)])
    for topics, indexes, fault in [
        ([TOPICS], [0], "unknown topic row"),
        ([-1], [0], "unknown topic row"),
        ([0], [0, 1], "shape"),
        ([0], [2**31], "outside"),
    ]:
        with pytest.raises(TableError, match=fault):
            lookup.rows(topics, indexes)
