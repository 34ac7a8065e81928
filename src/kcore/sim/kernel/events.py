"""The queue of a world's events. Time moves to the next event, and everything that happens is an event."""

import zlib
from collections import deque
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from math import log
from random import Random
from typing import Any, Final

from kcore.sim.kernel.simulated_process import NEVER_US, PAUSED, STORING, Process

EVENTS_LISTED: Final = 30  # The last events, which the description of a failure lists.
HASH_FACTOR: Final = 0x100000001B3
HASH_MASK: Final = (1 << 64) - 1
THE_WORLD: Final = 63  # The place in the hash of an event without a process.

REQUEST, RESPONSE, TIMER, EXPIRY, FLUSHED, STORED, DO = range(7)
KINDS: Final = ("request", "response", "timer", "requests expire", "flushed", "stored", "do")
Event = tuple[int, int, int, Process | None, Any]  # Time (us), number, kind, process, value.
Handler = Callable[[Any, Any], None]


def call(_: Process | None, do: Any) -> None:
    """Handles an event whose value is a function: calls the function."""
    do()


class Described:
    """The function of an event, with a text for stories."""

    __slots__ = ("_do", "text")

    def __init__(self, do: Callable[[], None], text: Callable[[], str]) -> None:
        self._do, self.text = do, text

    def __call__(self) -> None:
        self._do()


class Kernel:
    """Time, random numbers and the queue. The same seed and handlers give the same events and the same `hash`."""

    def __init__(self, seed: int, salt: str) -> None:
        """`salt`: further input of the hash."""
        self.random = Random(f"world {seed}")
        self.dice = self.random.random
        self.now_us = 0
        self.count = 0  # Handled events.
        self.sequence = 0
        self.hash = zlib.crc32(salt.encode())
        self.heap: list[Event] = []
        self.recent: deque[Event] = deque(maxlen=EVENTS_LISTED)
        self.handlers: Sequence[Handler] = (call,) * len(KINDS)  # By kind of event; a world replaces them.

    def push(self, time_us: int, kind: int, process: Process | None, what: Any) -> None:
        """Queues an event."""
        self.sequence += 1
        heappush(self.heap, (time_us, self.sequence, kind, process, what))

    def after_us(self, delay_us: float, do: Callable[[], None], process: Process | None = None) -> None:
        """Calls `do` once after the delay; an event of `process` waits while the process is blocked."""
        self.push(self.now_us + int(delay_us), DO, process, do)

    def every_us(self, mean_us: int, do: Callable[[], object], process: Process | None = None) -> None:
        """Calls `do` repeatedly, at random times with that mean interval; `process` as in `after_us`."""

        heap, dice, rate = self.heap, self.dice, 1 / mean_us

        def next_time() -> None:
            self.sequence += 1
            delay_us = -log(1.0 - dice()) / rate  # As `Random.expovariate`.
            heappush(heap, (self.now_us + int(delay_us), self.sequence, DO, process, again))

        def again() -> None:
            next_time()
            do()

        next_time()

    def take(self, events: int, until_us: int = NEVER_US) -> None:
        """Handles up to `events` more events; fewer if `until_us` comes first."""
        heap, handlers, remember = self.heap, self.handlers, self.recent.append
        last = self.count + events
        while self.count < last and heap and heap[0][0] <= until_us:
            event = heappop(heap)
            now_us, _, kind, process, what = event
            self.now_us, place = now_us, THE_WORLD
            if process is not None:
                if process.blocked and (kind != STORED or process.blocked != STORING):
                    process.inbox.append(event)
                    continue
                place = process.index
            self.count += 1
            remember(event)
            self.hash = (self.hash * HASH_FACTOR ^ (now_us << 10) ^ (place << 3) ^ kind) & HASH_MASK
            handlers[kind](process, what)

    def run_us(self, for_us: int, until: Callable[[], bool] = lambda: False) -> bool:
        """Handles the events of the next `for_us` microseconds. Stops with True as soon as `until` holds."""
        end_us = self.now_us + for_us
        while not until():
            count = self.count
            self.take(1, end_us)
            if self.count == count:
                self.now_us = end_us
                return until()
        return True

    def unblock(self, process: Process, bit: int) -> None:
        """Clears one bit of `blocked`. If the process is not paused, queues its waiting events again, in order."""
        process.blocked &= ~bit
        if not process.blocked & PAUSED:
            waiting, process.inbox = process.inbox, type(process.inbox)()
            for _, _, kind, _, what in waiting:
                self.push(self.now_us, kind, process, what)
