"""A standby replays what is committed, and reverts what is not, part by part, with votes in between."""

from collections.abc import Iterator


class Following:
    """One part after the other; until the last is done, only what cannot wait has the others done at once."""

    def __init__(self) -> None:
        self._parts: Iterator[None] = iter(())
        self.is_at_work = False  # There may be more parts.

    def begin(self, parts: Iterator[None]) -> bool:
        """The first part of what was committed or is to be reverted; whether there may be more."""
        self.finish()
        self._parts = parts
        return self.go_on()

    def go_on(self) -> bool:
        """The next part; whether there may be more. Errors are those of `parts`."""
        self.is_at_work = next(self._parts, self) is None
        return self.is_at_work

    def finish(self) -> None:
        """All parts: the state is what was committed."""
        while self.go_on():
            pass
