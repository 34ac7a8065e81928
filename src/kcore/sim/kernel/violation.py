"""The error that ends a simulated world if an invariant does not hold."""

from typing import Final

RAISES: Final = "Raises"  # If a node raises an exception, the invariant's name is this and the exception's class.


class Violation(AssertionError):
    """An invariant does not hold: `invariant` is its name, `text` describes the failure."""

    def __init__(self, invariant: str, text: str) -> None:
        super().__init__(f"{invariant}: {text}")
        self.invariant = invariant
        self.text = text
