"""How a standby replays commits and reverts uncommitted records: in parts, so that votes are answered in between."""

from collections.abc import Iterator


class Following:
    """Runs the parts one after the other. An event that cannot wait calls `finish`."""

    def __init__(self) -> None:
        self._parts: Iterator[None] = iter(())
        self.is_at_work = False  # True if there may be more parts.

    def begin(self, parts: Iterator[None]) -> bool:
        """Run the first part; returns whether there may be more."""
        self.finish()
        self._parts = parts
        return self.go_on()

    def go_on(self) -> bool:
        """Run the next part; returns whether there may be more. Raises the errors of `parts`."""
        self.is_at_work = next(self._parts, self) is None
        return self.is_at_work

    def finish(self) -> None:
        """Run all parts: the state is then the committed one."""
        while self.go_on():
            pass
