"""The times at which batches arrived and brokers applied them, from the loop's notices."""

import numpy as np

from kcore.measure.hollow.timeline import Timeline


def words(*rows: tuple[int, ...]) -> bytes:
    return np.array(rows, np.int64).tobytes()


def three_batches() -> Timeline:
    timeline = Timeline()
    timeline.add(words((0, 4, 5, 100, 7, 1000), (5, 5, 1, 60, 8, 1100)), words((0, 5, 1000), (2, 6, 1100)))
    timeline.add(words((6, 9, 4, 90, 9, 1200)), words((1, 10, 1200), (0, 10, 1300)))
    return timeline


def test_batches_from_an_offset_on_are_those_that_hold_a_record_there_or_behind() -> None:
    timeline = three_batches()
    assert timeline.batches(0).base_offset.tolist() == [0, 5, 6]
    assert timeline.batches(4).base_offset.tolist() == [0, 5, 6]
    assert timeline.batches(5).base_offset.tolist() == [5, 6]
    assert timeline.batches(10).base_offset.tolist() == []
    assert timeline.batches(0, 6).bytes.tolist() == [100, 60]
    assert timeline.batches(0, 7).bytes.tolist() == [100, 60, 90]


def test_a_broker_knows_a_record_when_its_committed_end_first_lies_behind_it() -> None:
    timeline = three_batches()
    assert timeline.known(4, 3).tolist() == [1000, 1200, 1100]
    assert timeline.known(5, 3).tolist() == [1300, 1200, 1100]
    assert timeline.known(6, 4).tolist() == [1300, 1200, -1, -1]


def test_who_is_behind() -> None:
    timeline = three_batches()
    assert timeline.committed == 10
    assert timeline.behind(10, np.array([0, 1, 2])) == 1
    assert timeline.behind(6, np.array([0, 1, 2])) == 0
    assert timeline.behind(1, np.array([0, 7])) == 1  # Nothing has come to that one.
    assert timeline.behind(1, np.empty(0, np.int64)) == 0


def test_what_is_forgotten_is_what_was_seen_but_not_who_knows_what() -> None:
    timeline = three_batches()
    timeline.forget()
    assert len(timeline.batches(0)) == 0
    assert timeline.known(0, 1).tolist() == [-1]
    assert timeline.behind(10, np.array([0, 1])) == 0
    timeline.add(b"", words((2, 8, 2000)))
    assert timeline.committed == 10
    assert timeline.by_row.tolist() == [10, 10, 8]
