"""The error that ends a simulated world if an invariant does not hold."""

from typing import Final

RAISES: Final = "Raises"  # Prefix of the name of an exception that no invariant expects.


class Violation(AssertionError):
    """The name of a broken invariant, and a description."""

    def __init__(self, invariant: str, text: str) -> None:
        super().__init__(f"{invariant}: {text}")
        self.invariant = invariant
        self.text = text
