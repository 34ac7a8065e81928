"""Reads nothing from a client for its throttle time. Source: ThrottledChannel."""

import asyncio

from kcore.net.connection_states import ClientConnection, ConnectionState, Event


class ThrottledChannel:
    """The throttle time of one connection."""

    def __init__(self, client: ClientConnection) -> None:
        self._client = client
        self._over: asyncio.Future[None] | None = None  # Done when the throttle time is over.

    async def wait(self, throttle_ms: int) -> None:
        """Waits for the throttle time, or until `end`."""
        loop = asyncio.get_running_loop()
        self._client.enter(Event.THROTTLE)
        self._over = loop.create_future()
        timer = loop.call_later(throttle_ms / 1000, self.end)
        try:
            await self._over
        finally:
            timer.cancel()
            if self._client.state is ConnectionState.THROTTLED:  # Or else the client has disconnected.
                self._client.enter(Event.UNTHROTTLE)

    def end(self) -> None:
        """Ends the throttle time, for example because the connection ends."""
        if self._over is not None and not self._over.done():
            self._over.set_result(None)
