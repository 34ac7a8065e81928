"""Work in steps has the result of work that is done at once."""

import random
from collections.abc import Generator
from typing import Any

import pytest

from kcore.steps import lists_of, sorting


def steps_and_result(steps: Generator[None, None, Any]) -> tuple[int, Any]:
    """The number of steps before the last one, and the result."""
    count = 0
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return count, done.value
        count += 1


@pytest.mark.parametrize(
    ("count", "lists"), [(0, []), (2, [[0, 1]]), (3, [[0, 1, 2]]), (4, [[0, 1, 2], [3]]), (6, [[0, 1, 2], [3, 4, 5]])]
)
def test_values_are_in_lists_of_the_size(count: int, lists: list[list[int]]) -> None:
    assert [*lists_of(range(count), 3)] == lists


@pytest.mark.parametrize(
    ("count", "steps"), [(0, 0), (1, 0), (10, 0), (11, 1 + 2), (20, 1 + 2), (21, 2 + 3), (1_000, 99 + 100)]
)
def test_many_values_are_sorted_in_steps(count: int, steps: int) -> None:
    """Values with the same key keep their order."""
    dice = random.Random(count)
    values = [(dice.randrange(count), place) for place in range(count)]
    found = steps_and_result(sorting(values, lambda each: each[0], 10))
    assert found == (steps, sorted(values, key=lambda each: each[0]))
