"""A standby replays what is committed. The end of a large transaction takes several parts, with votes in between."""

from collections.abc import Iterator


class Following:
    """One part after the other; what comes meanwhile has all parts done first."""

    def __init__(self) -> None:
        self._parts: Iterator[None] = iter(())

    def begin(self, parts: Iterator[None]) -> bool:
        """The first part of what was committed; whether there are more."""
        self.finish()
        self._parts = parts
        return self.go_on()

    def go_on(self) -> bool:
        """The next part; whether there are more. Errors are those of `parts`."""
        for _ in self._parts:
            return True
        return False

    def finish(self) -> None:
        """All parts: the state is what was committed."""
        while self.go_on():
            pass
