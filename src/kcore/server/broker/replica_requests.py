"""The requests that wait for responses of a broker's replicas; a request of many entries waits in parts."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

from kcore.broker.replicas.replica_manager import ReplicaManager
from kcore.net.limits.work_in_parts import run_steps
from kcore.net.server import RequestContext
from kcore.schema.structure import Message
from kcore.server.request_parts import Splitting, add_response
from kcore.steps import Steps

Response: TypeAlias = Message | Steps[Message]  # The steps return the response.


class ReplicaRequests:
    """The waiting requests of one broker."""

    def __init__(self, manager: ReplicaManager, perform: Callable[[], None]) -> None:
        """`perform` performs the replicas' outputs, and calls `answer` for responses."""
        self._manager, self._perform = manager, perform
        self._waiting: dict[int, asyncio.Future[Response]] = {}
        self._begun = 0

    def answer(self, request_id: int, response: Response) -> None:
        """Completes the waiting part of a request with its response."""
        future = self._waiting.pop(request_id, None)
        if future is not None and not future.done():
            future.set_result(response)

    @contextmanager
    def request(self, context: RequestContext) -> Iterator["WaitingRequest"]:
        """A client's request. Parts that have no response at the end of the `with` are dropped."""
        waiting = WaitingRequest(context, self.begin, self._perform)
        try:
            yield waiting
        finally:
            for request_id in waiting.parts:
                if self._waiting.pop(request_id, None) is not None:
                    self._manager.forget(request_id)

    def begin(self) -> tuple[int, "asyncio.Future[Response]"]:
        """The id of a new part, and the future of its response."""
        self._begun += 1
        future: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        self._waiting[self._begun] = future
        return self._begun, future


class WaitingRequest:
    """One client's request."""

    def __init__(
        self,
        context: RequestContext,
        begin: Callable[[], tuple[int, "asyncio.Future[Response]"]],
        perform: Callable[[], None],
    ) -> None:
        self._context, self._begin, self._perform = context, begin, perform
        self.parts: dict[int, asyncio.Future[Response]] = {}  # The responses, by the ids at the replicas.

    def begin(self) -> int:
        """The id of the next part at the replicas."""
        self._perform()  # The outputs of the part before it.
        request_id, future = self._begin()
        self.parts[request_id] = future
        return request_id

    async def response(self, splitting: Splitting) -> Message | None:
        """Waits for the responses to all parts, and joins them; None if the client disconnects first."""
        self._perform()
        whole: Message | None = None
        for future in self.parts.values():
            answer = future.result() if future.done() else await self._context.while_here(future)
            if answer is None:
                return None
            if not isinstance(answer, Message):
                answer = await run_steps(answer)
                self._perform()
            whole = add_response(whole, answer, splitting)
        return whole
