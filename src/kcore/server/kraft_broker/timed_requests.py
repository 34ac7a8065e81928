"""Sends the requests of a state machine of the broker to the controller, and wakes the machine at its deadlines."""

import asyncio
from collections.abc import Callable
from typing import Any

from kcore.server.broker.broker_connections import ControllerClient, Make


class TimedRequests:
    """One request at a time, and one deadline. A request that is not answered in time closes its connection."""

    def __init__(
        self,
        name: str,
        channel: ControllerClient,
        now_ms: Callable[[], int],
        on_due: Callable[[], None],
        on_answer: Callable[[Any], None],
    ) -> None:
        """`name`: the name of the task that waits for an answer.

        `on_due` is called at the deadline. `on_answer` gets the response, or None if it does not arrive in time.
        """
        self._name, self._channel, self._now_ms = name, channel, now_ms
        self._on_due, self._on_answer = on_due, on_answer
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self.is_closed = False

    def send(self, make: Make, timeout_s: float) -> None:
        """Sends the request that `make` returns; see `ControllerClient.ask`."""
        self._task = asyncio.create_task(self._ask(make, timeout_s), name=self._name)

    async def _ask(self, make: Make, timeout_s: float) -> None:
        response = None
        try:
            async with asyncio.timeout(timeout_s):
                response = await self._channel.ask(make)
        except TimeoutError:
            self._channel.close()
        self._on_answer(response)

    def set_deadline(self, due_ms: int | None) -> None:
        """Replaces the deadline; None: there is no deadline."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if due_ms is not None and not self.is_closed:
            delay_s = max(due_ms - self._now_ms(), 0) / 1000
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._on_due)

    async def close(self) -> None:
        """Ends the request and the deadline, and closes the connection."""
        self.is_closed = True
        self.set_deadline(None)
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._channel.close()
