"""Free rows beside a set of numbers."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kcore.metadata.table.free_rows import FreeRows

ROWS = 24
Steps = st.lists(st.tuples(st.sampled_from(["add", "run", "take", "lowest", "truncate"]), st.randoms()), max_size=25)


def longest_run_from(free: set[int], first: int) -> int:
    return next(k for k in range(ROWS + 1) if first + k not in free)


@given(Steps)
@settings(max_examples=300, deadline=None)
def test_any_story(steps: list) -> None:
    rows, free = FreeRows(), set[int]()
    for act, dice in steps:
        if act == "add":
            fresh = sorted(dice.sample(sorted({*range(ROWS)} - free), dice.randint(0, ROWS - len(free))))
            rows.add(np.array(fresh, np.int32))
            free |= {*fresh}
        elif act == "run":
            count = dice.randint(1, 5)
            first = next((row for row in sorted(free) if longest_run_from(free, row) >= count), None)
            assert rows.take_run(count) == first
            free -= set() if first is None else {*range(first, first + count)}
        elif act == "take":
            gone = dice.sample(sorted(free), dice.randint(0, len(free)))
            rows.take(gone)
            free -= {*gone}
        elif act == "lowest":
            count = dice.randint(0, len(free))
            assert rows.lowest(count).tolist() == sorted(free)[:count]
            rows.take_lowest(count)
            free -= {*sorted(free)[:count]}
        else:
            length = dice.randint(0, ROWS)
            rows.truncate(length)
            free = {row for row in free if row < length}
        assert rows.lowest(ROWS).tolist() == rows.copy().lowest(99).tolist() == sorted(free)
        assert len(rows) == len(free)
        assert not {*rows._firsts} & {*rows._ends}  # Neighbours are one run.
