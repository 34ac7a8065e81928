"""The seeds of random tests."""

from typing import Any

import pytest


def seeds(quick: int, count: int) -> list[Any]:
    """The first `quick` of `count` seeds; the others are for long runs."""
    return [pytest.param(seed, marks=() if seed < quick else pytest.mark.long) for seed in range(count)]
