"""Again after a while: Kafka's exponential back-off with jitter (KIP-580), and which errors it is for."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from random import Random
from typing import NamedTuple, TypeVar

from kcore.errors import DisconnectedError, KcoreError, RequestTimeoutError
from kcore.protocol_errors import RetriableException

Result = TypeVar("Result")


class Backoff(NamedTuple):
    """Waits grow from `first_s` by `multiplier` to `highest_s`, each up to `jitter` of itself longer or shorter."""

    first_s: float = 0.1  # retry.backoff.ms
    highest_s: float = 1.0  # retry.backoff.max.ms
    multiplier: float = 2.0
    jitter: float = 0.2

    def delays_s(self, random: Random) -> Iterator[float]:
        """Without end; none is above `highest_s`, jitter included."""
        delay_s = min(self.first_s, self.highest_s)
        while True:
            yield min(delay_s * random.uniform(1 - self.jitter, 1 + self.jitter), self.highest_s)
            delay_s = min(delay_s * self.multiplier, self.highest_s)


def is_retriable(error: KcoreError) -> bool:
    """What Kafka's clients try again: its retriable error codes, no connection, no answer in time."""
    return isinstance(error, RetriableException | DisconnectedError | RequestTimeoutError)


async def retry(
    call: Callable[[], Awaitable[Result]],
    *,
    timeout_s: float,
    random: Random,
    backoff: Backoff | None = None,
    retriable: Callable[[KcoreError], bool] = is_retriable,
) -> Result:
    """Repeats `call` until it raises no retriable error and returns the result; other errors pass through.

    When `timeout_s` are over, RequestTimeoutError with the last error in its text; a call that runs then is cancelled.
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
            raise  # The call raised this error, which is not retriable.
        why = f"{failures} failures; the last: {last}" if failures else "no answer came"
        raise RequestTimeoutError(f"given up after {timeout_s:g} s: {why}") from error
    raise AssertionError("delays have no end")
