"""Finds a bound that is off by one: `<` for `<=`, one entry too many, the last one left out.

Tests try something far below a limit and something far above it. Such tests leave open whether the limit itself is accepted.

To apply it to a new limit, write a function that says whether a count (a time, a size, a ratio) is accepted, and hand
it to `check_limit` with the largest one that is. Where the limit is too large for a test, replace the constant by a
small one. A test of its own pins the constant, from the documentation or from Kafka's.
"""

from collections.abc import Callable


def check_limit(accepts: Callable[[int], bool], most: int, *, step: int = 1) -> None:
    """`most` is accepted, and so is one `step` less; one `step` more is not."""
    assert accepts(most - step), f"{most - step} is below the limit"
    assert accepts(most), f"{most} is the limit, which is within"
    assert not accepts(most + step), f"{most + step} is beyond the limit of {most}"
