"""Requests that wait for an answer of the node's machine, each under a reply id."""

import asyncio
from collections import deque
from collections.abc import Callable, Hashable
from functools import partial
from itertools import count
from typing import Final, NamedTuple

from kcore.net.limits.time_share import TimeShare
from kcore.net.request_context import RequestContext
from kcore.net.requests import Answer
from kcore.schema.structure import Message

WRITTEN_AT_ONCE: Final = 64  # Responses that are written in one iteration of the event loop.
TakeReply = Callable[[Hashable], None]
"""Passes a request to the machine, with the reply id for `PendingRequests.answer_to`."""


class _Unanswered(NamedTuple):
    """A request without a task that has no answer yet."""

    answer: Answer
    may_wait: bool


class PendingRequests:
    """The requests of one node that have no answer yet, with a task each or without."""

    def __init__(self) -> None:
        self.waiting: dict[Hashable, asyncio.Future[Message | None]] = {}  # The requests with a task.
        self._direct: dict[Hashable, _Unanswered] = {}  # The requests without a task.
        self._observers = TimeShare()  # Fetches of observers that Python answers, and their late responses.
        self._begins: Hashable = (
            None  # The reply id of the request that the machine handles now; None between requests.
        )
        self._late: deque[tuple[Answer, Message | None]] = deque()  # Responses that `_write_late` writes.
        self._ids = count()

    def begin(self, ask: TakeReply, answer: Answer, *, may_wait: bool = False) -> None:
        """Begins a request without a task. `may_wait`: requests of others begin before it."""
        reply_to = next(self._ids)
        self._direct[reply_to] = _Unanswered(answer, may_wait)
        if may_wait:
            self._observers.add(partial(self._ask, ask, reply_to))
        else:
            self._ask(ask, reply_to)

    def _ask(self, ask: TakeReply, reply_to: Hashable) -> None:
        self._begins = reply_to
        try:
            ask(reply_to)
        finally:
            self._begins = None

    async def answered(self, context: RequestContext, ask: TakeReply) -> Message | None:
        """Calls `ask` with a new reply id. Returns the response to it; None if the client disconnects first."""
        reply_to = next(self._ids)
        answer: asyncio.Future[Message | None] = asyncio.get_running_loop().create_future()
        self.waiting[reply_to] = answer
        try:
            ask(reply_to)
            return await context.while_here(answer)
        finally:
            self.waiting.pop(reply_to, None)

    def answer_to(self, reply_to: Hashable, response: Message | None) -> None:
        """Hands the response to the request with this reply id; None closes the request's connection."""
        if (request := self._direct.pop(reply_to, None)) is None:
            future = self.waiting.pop(reply_to, None)
            if future is not None and not future.done():
                future.set_result(response)
        elif reply_to == self._begins:
            request.answer(response)
        elif request.may_wait:
            self._observers.add(partial(request.answer, response))
        else:
            self._late.append((request.answer, response))
            if len(self._late) == 1:
                asyncio.get_running_loop().call_soon(self._write_late)

    def _write_late(self) -> None:
        """Writes some late responses, and leaves others to later calls, so that heartbeats do not wait long."""
        for _ in range(min(WRITTEN_AT_ONCE, len(self._late))):
            answer, response = self._late.popleft()
            answer(response)
        if self._late:
            asyncio.get_running_loop().call_soon(self._write_late)

    def close(self) -> None:
        """Ends all requests; they get no response."""
        for future in self.waiting.values():
            future.cancel()
        self.waiting.clear()
        self._observers.clear()
        for each in self._direct.values():
            each.answer(None)
        self._direct.clear()
