"""kcore's command, whose event loop writes each long turn to the file TURNS: the CPU time of its thread, in ms.

CPU time rather than time, because other processes may use the machine's cores meanwhile.
"""

import os
import selectors
import time
from typing import Final

from kcore.cli import main

LONG_S: Final = 0.002


class _Turns(selectors.DefaultSelector):
    """Measures what the loop does between two calls of `select`."""

    def __init__(self) -> None:
        super().__init__()
        self._begin_s = time.thread_time()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        took_s = time.thread_time() - self._begin_s
        if took_s > LONG_S:
            with open(f"{os.environ['TURNS']}.{os.getpid()}", "a", encoding="ascii") as file:
                file.write(f"{1000 * took_s:.1f}\n")
        ready = super().select(timeout)
        self._begin_s = time.thread_time()
        return ready


if __name__ == "__main__":
    selectors.DefaultSelector = _Turns  # type: ignore[misc]
    import kcore.server.metrics.watched_loop as watched_loop

    watched_loop._WatchedSelector.__bases__ = (_Turns,)
    main()
