"""Back-off as a function of random numbers, and the errors that are retried."""

import asyncio
from itertools import islice
from random import Random

import pytest

from kcore.errors import AuthenticationError, DisconnectedError, FrameError, KcoreError, RequestTimeoutError
from kcore.net.retry import Backoff, is_retriable, retry
from kcore.protocol_errors import RETRIABLE, Errors, exception_of
from net.loops import story

QUICK = Backoff(0.001, 0.002)


def test_waits_without_jitter() -> None:
    waits = Backoff(0.1, 1.0, 2.0, jitter=0.0).delays_s(Random(1))
    assert list(islice(waits, 6)) == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    assert next(Backoff(5.0, 1.0, jitter=0.0).delays_s(Random(1))) == 1.0


def test_jitter_stays_in_its_bounds_and_fills_them() -> None:
    plain = list(islice(Backoff(jitter=0.0).delays_s(Random(1)), 8))
    runs = [list(islice(Backoff().delays_s(Random(seed)), 8)) for seed in range(300)]
    for wait, seen in zip(plain, zip(*runs, strict=True), strict=True):
        assert 0.8 * wait <= min(seen) < 0.82 * wait
        assert min(1.18 * wait, 1.0) < max(seen) <= min(1.2 * wait, 1.0) or max(seen) == 1.0
    assert runs[0] == list(islice(Backoff().delays_s(Random(0)), 8))


def test_waits_never_overflow() -> None:
    assert max(islice(Backoff().delays_s(Random(1)), 5000)) <= 1.0


def test_what_is_tried_again() -> None:
    for error in set(Errors) - {Errors.NONE}:
        assert is_retriable(exception_of(error)("")) == (error in RETRIABLE)
    assert is_retriable(DisconnectedError(""))
    assert is_retriable(RequestTimeoutError(""))
    for kind in (FrameError, AuthenticationError, KcoreError):
        assert not is_retriable(kind(""))


class Failing:
    """Raises these one after the other, then gives its count of calls."""

    def __init__(self, *errors: BaseException) -> None:
        self.errors = list(errors)
        self.calls = 0

    async def __call__(self) -> int:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return self.calls


@story
async def test_until_it_succeeds() -> None:
    call = Failing(DisconnectedError("a"), exception_of(Errors.NOT_CONTROLLER)("b"), RequestTimeoutError("c"))
    assert await retry(call, timeout_s=60, random=Random(1), backoff=QUICK) == 4


@pytest.mark.parametrize("kind", [FrameError, exception_of(Errors.INVALID_REQUEST), ZeroDivisionError])
@story
async def test_other_errors_pass_through(kind: type[Exception]) -> None:
    error = kind("no")
    call = Failing(DisconnectedError("a"), error)
    with pytest.raises(kind) as caught:
        await retry(call, timeout_s=60, random=Random(1), backoff=QUICK)
    assert caught.value is error
    assert call.calls == 2


@story
async def test_a_time_out_of_the_call_that_is_not_retriable() -> None:
    error = RequestTimeoutError("no")
    with pytest.raises(RequestTimeoutError) as caught:
        await retry(Failing(error), timeout_s=60, random=Random(1), retriable=lambda error: False)
    assert caught.value is error


@story
async def test_time_is_bounded() -> None:
    async def call() -> None:
        raise DisconnectedError("the last straw")

    with pytest.raises(RequestTimeoutError, match=r"given up after 0\.05 s: \d+ failures; the last: the last straw"):
        await retry(call, timeout_s=0.05, random=Random(1), backoff=QUICK)


@story
async def test_a_call_that_hangs_is_cancelled() -> None:
    with pytest.raises(RequestTimeoutError, match=r"given up after 0\.05 s: no answer came"):
        await retry(asyncio.Event().wait, timeout_s=0.05, random=Random(1))
