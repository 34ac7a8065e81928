"""The error that ends a simulated world if an invariant does not hold."""

from typing import Final

RAISES: Final = "Raises"  # Before the name of an exception that no invariant foresaw.


class Violation(AssertionError):
    """An invariant, by its name, and what broke it."""

    def __init__(self, invariant: str, text: str) -> None:
        super().__init__(f"{invariant}: {text}")
        self.invariant = invariant
        self.text = text
