"""Finds a bound that is off by one: `<` for `<=`, one entry too many, the last one left out.

Tests with values far below and far above a limit leave open whether the limit itself is accepted.

To test a new limit, write a function that says whether a count (a time, a size, a ratio) is accepted. Pass the function
and the largest accepted count to `check_limit`. Where the limit is too large for a test, replace the constant by a
small one. A test of its own pins the constant, from the documentation or from Kafka's.
"""

from collections.abc import Callable


def check_limit(accepts: Callable[[int], bool], most: int, *, step: int = 1) -> None:
    """`most` is accepted, and so is one `step` less; one `step` more is not."""
    assert accepts(most - step), f"{most - step} is below the limit"
    assert accepts(most), f"{most} is the limit, which is within"
    assert not accepts(most + step), f"{most + step} is beyond the limit of {most}"
