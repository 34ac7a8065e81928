"""Shrinks a failing seed: finds few steps after which the same invariant still fails.

Source: Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input" (ddmin), 2002.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Final

MOST_RUNS: Final = 300


def shrunk(steps: Sequence[int], fails: Callable[[Sequence[int]], Sequence[int] | None]) -> list[int]:
    """The fewest steps found that still fail, without more than MOST_RUNS runs.

    `fails` runs a world with these steps. It returns the steps that were performed until the same invariant failed, or
    None if it did not fail. `steps` must fail. Without the limit no single step of the result can be left out.
    """
    kept, parts, runs = [*steps], 1, 0
    while kept:
        for candidate in _candidates(kept, parts):
            if runs == MOST_RUNS:
                return kept
            runs += 1
            found = fails(candidate)
            if found is not None and len(found) < len(kept):
                kept, parts = [*found], max(parts - 1, 1)
                break
        else:
            if parts >= len(kept):
                return kept
            parts = min(2 * parts, len(kept))
    return kept


def _candidates(kept: Sequence[int], parts: int) -> Iterator[list[int]]:
    """`kept` without each of its parts; the later steps go first, since the failure may need none of them."""
    bounds = [len(kept) * each // parts for each in range(parts + 1)]
    for begin, end in reversed([*pairwise(bounds)]):
        yield [*kept[:begin], *kept[end:]]
