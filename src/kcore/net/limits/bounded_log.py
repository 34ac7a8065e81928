"""Writes log lines about untrusted clients at a limited rate: a client that sends garbage must not fill the log."""

import logging
import time
from collections.abc import Callable
from typing import Final

from kcore.printable import printable

LONGEST_LINE: Final = 1_000  # Characters that are logged of a line: a peer's text may have megabytes.


class _Kind:
    """The state of one kind of lines: a token bucket, and how many lines were left out because it was empty."""

    __slots__ = ("filled_s", "left_out", "tokens")

    def __init__(self, tokens: float, now_s: float) -> None:
        self.tokens, self.filled_s, self.left_out = tokens, now_s, 0


class BoundedLog:
    """Writes at most `burst` lines of a kind at once, and then one line per `every_s`.

    Lines with the same format string are of one kind. The next written line says how many lines of its kind were left
    out. Control characters are escaped and long lines are shortened, since a line may have a client's text.
    """

    def __init__(
        self,
        logger: logging.Logger,
        *,
        burst: int = 10,
        every_s: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._logger, self._burst, self._every_s, self._clock = logger, burst, every_s, clock
        self._kinds: dict[str, _Kind] = {}

    def info(self, message: str, *arguments: object) -> None:
        """Writes a line at INFO; `message` and `arguments` as in `logging`."""
        self._write(logging.INFO, message, arguments)

    def warning(self, message: str, *arguments: object) -> None:
        """Writes a line at WARNING, as `info` does."""
        self._write(logging.WARNING, message, arguments)

    def error(self, message: str, *arguments: object) -> None:
        """Writes a line at ERROR, as `info` does."""
        self._write(logging.ERROR, message, arguments)

    def exception(self, message: str, *arguments: object) -> None:
        """Writes a line at ERROR with the traceback of the exception that is being handled: for internal errors."""
        self._write(logging.ERROR, message, arguments, traceback=True)

    def _write(self, level: int, message: str, arguments: tuple[object, ...], *, traceback: bool = False) -> None:
        if not self._logger.isEnabledFor(level):
            return
        now_s = self._clock()
        kind = self._kinds.setdefault(message, _Kind(self._burst, now_s))
        kind.tokens = min(self._burst, kind.tokens + (now_s - kind.filled_s) / self._every_s)
        kind.filled_s = now_s
        if kind.tokens < 1:
            kind.left_out += 1
            return
        kind.tokens -= 1
        more = f" ({kind.left_out} more of this kind are left out)" if kind.left_out else ""
        kind.left_out = 0
        self._logger.log(level, "%s%s", one_line(message % arguments), more, exc_info=traceback)


def one_line(text: str) -> str:
    """The text as one printable line (`printable`), shortened to LONGEST_LINE characters."""
    shown = printable(text[: LONGEST_LINE + 1])
    return shown if len(shown) <= LONGEST_LINE else f"{shown[:LONGEST_LINE]}... ({len(text)} characters)"
