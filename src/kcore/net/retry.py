"""Repeats failed calls after Kafka's exponential back-off with jitter (KIP-580)."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from random import Random
from typing import NamedTuple, TypeVar

from kcore.errors import DisconnectedError, KcoreError, RequestTimeoutError
from kcore.protocol_errors import RetriableException

Result = TypeVar("Result")


class Backoff(NamedTuple):
    """The waiting times between calls: from `first_s`, times `multiplier` each, up to `highest_s`.

    `jitter` is the part by which each waiting time is longer or shorter at random.
    """

    first_s: float = 0.1  # retry.backoff.ms
    highest_s: float = 1.0  # retry.backoff.max.ms
    multiplier: float = 2.0
    jitter: float = 0.2

    def delays_s(self, random: Random) -> Iterator[float]:
        """The waiting times, without end; with jitter, none is above `highest_s`."""
        delay_s = min(self.first_s, self.highest_s)
        while True:
            yield min(delay_s * random.uniform(1 - self.jitter, 1 + self.jitter), self.highest_s)
            delay_s = min(delay_s * self.multiplier, self.highest_s)


def is_retriable(error: KcoreError) -> bool:
    """Whether Kafka's clients repeat a call after this error: a retriable error code, no connection, or a time-out."""
    return isinstance(error, RetriableException | DisconnectedError | RequestTimeoutError)


async def retry(
    call: Callable[[], Awaitable[Result]],
    *,
    timeout_s: float,
    random: Random,
    backoff: Backoff | None = None,
    retriable: Callable[[KcoreError], bool] = is_retriable,
) -> Result:
    """Repeats `call` while it raises retriable errors; returns its result, or raises its first other error.

    After `timeout_s`, cancels the running call and raises RequestTimeoutError with the last error in its text.
    """
    failures, last = 0, ""
    try:
        async with asyncio.timeout(timeout_s) as time:
            for delay_s in (backoff or Backoff()).delays_s(random):
                try:
                    return await call()
                except KcoreError as error:
                    if not retriable(error):
                        raise
                    failures, last = failures + 1, str(error)
                await asyncio.sleep(delay_s)
    except TimeoutError as error:
        if not time.expired():
            raise  # `call` itself raised this TimeoutError, which is not retriable.
        why = f"{failures} failures; the last: {last}" if failures else "no answer came"
        raise RequestTimeoutError(f"given up after {timeout_s:g} s: {why}") from error
    raise AssertionError("delays have no end")
