"""Divergence against its slow twins: every small log against every other, random ones beyond, and bad input."""

from itertools import combinations, product
from typing import Any

import numpy as np
import pytest

from kcore.errors import TableError
from kcore.replication.divergence import end_offset_for_epoch, exchange, truncation_offsets
from kcore.replication.epochs import EpochCache, EpochTables
from reference import divergence as twin

Log = tuple[twin.Table, int]


def small_logs() -> list[Log]:
    """Every log of up to four records whose epochs are below three; an epoch may have no record."""
    logs = []
    for size in range(4):
        for epochs, starts in product(combinations(range(3), size), combinations(range(4), size)):
            logs += [(list(zip(epochs, starts, strict=True)), end) for end in range(max(starts, default=0), 5)]
    return logs


def random_log(random: np.random.Generator, size: int) -> Log:
    epochs, starts = np.cumsum(random.integers(1, 3, size)), np.cumsum(random.integers(1, 6, size))
    table = list(zip(epochs.tolist(), starts.tolist(), strict=True))
    return table, int(starts[-1] if size else 0) + int(random.integers(0, 4))


def check_end_offsets(logs: list[Log], requested: list[int]) -> None:
    tables = EpochTables.of([table for table, _ in logs], [end for _, end in logs])
    epochs, end_offsets = end_offset_for_epoch(*tables.columns, requested)
    expected = [twin.end_offset(table, end, asked) for (table, end), asked in zip(logs, requested, strict=True)]
    assert list(zip(epochs.tolist(), end_offsets.tolist(), strict=True)) == expected
    cached = [EpochCache(table).end_offset_for(asked, end) for (table, end), asked in zip(logs, requested, strict=True)]
    assert cached == expected


def check_truncations(leaders: list[Log], followers: list[Log], watermarks: list[int]) -> None:
    truncations = truncation_offsets(
        EpochTables.of([table for table, _ in leaders], [end for _, end in leaders]),
        EpochTables.of([table for table, _ in followers], [end for _, end in followers], watermarks),
    )
    rows = zip(leaders, followers, watermarks, strict=True)
    expected = [twin.truncation(*leader, *follower, watermark) for leader, follower, watermark in rows]
    assert list(zip(truncations.offsets.tolist(), truncations.rounds.tolist(), strict=True)) == expected


def test_end_offsets_of_every_small_log() -> None:
    questions = [(log, requested) for log in small_logs() for requested in range(-2, 5)]
    check_end_offsets([log for log, _ in questions], [requested for _, requested in questions])


def test_truncations_of_every_pair_of_small_logs() -> None:
    pairs = list(product(small_logs(), repeat=2))
    check_truncations([leader for leader, _ in pairs], [follower for _, follower in pairs], [7] * len(pairs))


@pytest.mark.parametrize("size", [5, 20, 63, 64, 65, 200])
def test_larger_logs(size: int) -> None:
    random = np.random.default_rng(size)
    leaders = [random_log(random, int(random.integers(0, size + 1))) for _ in range(300)]
    check_end_offsets(leaders, random.integers(-1, 2 * size, 300).tolist())
    followers = []
    for table, _ in leaders:  # Half of a follower's log is its leader's, as a rule.
        shared = table[: len(table) // 2]
        last_epoch, last_start = shared[-1] if shared else (-1, 0)
        own, _ = random_log(random, int(random.integers(0, 6)))
        followers.append(([*shared, *((last_epoch + e, last_start + s) for e, s in own)], last_start + 40))
    check_truncations(leaders, followers, random.integers(0, 9, 300).tolist())


def test_an_exchange_of_several_rounds() -> None:
    """KIP-279: after fast fail-overs neither side has the other's epochs, and one request is not enough."""
    leader, follower = EpochCache([(1, 0), (3, 10), (5, 20)]), EpochCache([(1, 0), (2, 10), (4, 15)])
    seen = exchange(leader, 30, follower, 18, high_watermark=5)
    assert seen.requests == [(4, (3, 20)), (2, (1, 10))]
    assert seen.truncations == [(15, False), (10, True)]
    assert (seen.log_end_offset, seen.cache.entries) == (10, [(1, 0)])
    assert follower.latest_epoch == 4


def test_no_partitions() -> None:
    nothing = EpochTables.of([], [], [])
    assert len(truncation_offsets(nothing, nothing).offsets) == 0
    assert len(end_offset_for_epoch(*nothing.columns, [])[0]) == 0


def test_an_entry_that_cannot_be() -> None:
    with pytest.raises(TableError, match="negative"):
        EpochCache([(-1, 0)])


TABLE = {"epochs": [1, 2, 1], "starts": [0, 5, 0], "row_offsets": [0, 2, 3], "log_ends": [9, 9]}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"epochs": [1, 2]}, "3 starts for 2 epochs"),
        ({"epochs": [[1, 2, 1]]}, "one dimension"),
        ({"epochs": [1.0, 2.0, 1.0]}, "whole numbers"),
        ({"epochs": [1, 2**31, 1]}, "do not fit"),
        ({"row_offsets": [0, 2]}, "row offsets"),
        ({"row_offsets": [1, 2, 3]}, "ascend from 0 to 3"),
        ({"row_offsets": [0, 2, 4]}, "ascend from 0 to 3"),
        ({"row_offsets": [0, 4, 3]}, "ascend from 0 to 3"),
        ({"row_offsets": []}, "row offsets"),
    ],
)
def test_shapes_that_make_no_table(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(TableError, match=message):
        EpochTables(**TABLE | changed)
    with pytest.raises(TableError, match=message):
        end_offset_for_epoch(**TABLE | changed, requested=[1, 1])


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"epochs": [2, 2, 1]}, "epochs must ascend"),
        ({"epochs": [-1, 2, 1]}, "epochs must not be negative"),
        ({"starts": [0, 0, 0]}, "starts must ascend"),
        ({"starts": [0, 5, -1]}, "starts must not be negative"),
        ({"log_ends": [4, 9]}, "after the end of its log"),
        ({"high_watermarks": [1]}, "1 high watermarks for 2 rows"),
    ],
)
def test_values_that_make_no_table(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(TableError, match=message):
        EpochTables(**TABLE | changed)


def test_requests_that_do_not_match() -> None:
    table = EpochTables(**TABLE)
    with pytest.raises(TableError, match="3 requested epochs for 2 rows"):
        end_offset_for_epoch(*table.columns, [1, 1, 1])
    with pytest.raises(TableError, match="high watermarks are missing"):
        truncation_offsets(table, table)
    with pytest.raises(TableError, match="2 leaders for 0 followers"):
        truncation_offsets(table, EpochTables.of([], [], []))


def test_a_table_keeps_its_rows_to_itself() -> None:
    rows = np.array([0, 2, 3])
    table = EpochTables(**TABLE | {"row_offsets": rows})
    rows[:] = 1_000_000
    assert table.row_offsets.tolist() == [0, 2, 3]


def test_row_offsets_are_read_only() -> None:
    tables = EpochTables(**{name: np.array(values) for name, values in TABLE.items()})
    with pytest.raises(ValueError, match="read-only"):
        tables.row_offsets[1] = 2**40
