"""Sends a broker's requests to the active controller until it answers (NodeToControllerChannelManager of 3.9.1)."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

from kcore.errors import DisconnectedError, NetworkError, UnsupportedVersionError
from kcore.metadata.table.broker_table import Endpoint
from kcore.net.connection import Connection
from kcore.net.limits.bounded_log import BoundedLog
from kcore.schema.structure import Message
from kcore.server.broker.broker_connections import Dialer
from kcore.server.kraft_controller.envelopes import names_another_controller

logger = logging.getLogger(__name__)
RETRY_S: Final = 0.1


class ControllerClient:
    """One connection to the active controller; one request at a time."""

    def __init__(self, client_id: str, controller: Callable[[], Endpoint | None], dialer: Dialer | None = None) -> None:
        """`controller`: its endpoint, None while it is unknown; `dialer`: plaintext by default."""
        self._client_id, self._controller, self._dialer = client_id, controller, dialer or Dialer()
        self._connection: Connection | None = None
        self._at: Endpoint | None = None
        self._lock = asyncio.Lock()
        self._last_error = ""  # The last logged error; reset by an answer.
        self._log = BoundedLog(logger)

    async def ask(self, make: Callable[[Callable[[type[Message]], int]], tuple[Message, int]]) -> Any:
        """The response of the active controller; retries without a time limit.

        `make` returns the request and its version; its argument chooses the newest version that the controller has. It
        is called for every try, so that a request gets a new broker epoch. Between two tries other requests are sent,
        so that an unanswered request does not block them.
        """
        while True:
            async with self._lock:
                try:
                    connection = await self._connected()
                    versions = connection.versions
                    assert versions is not None
                    answer = await connection.send(*make(versions.choose))
                    if not names_another_controller(answer):
                        self._last_error = ""
                        return answer
                except (NetworkError, UnsupportedVersionError) as error:
                    if str(error) != self._last_error:  # Log each reason once.
                        self._last_error = str(error)
                        self._log.info("the controller does not answer: %s; retrying every %s s", error, RETRY_S)
                self.close()
                await asyncio.sleep(RETRY_S)

    async def _connected(self) -> Connection:
        where = self._controller()
        if where is None:
            raise DisconnectedError("no controller is known")
        if self._connection is None or self._at != where:
            self.close()
            self._connection = await self._dialer.connect(where, self._client_id)
            self._at = where
        await self._dialer.renew(self._connection)
        return self._connection

    def close(self) -> None:
        """Closes the connection; the next request opens a new one."""
        if self._connection is not None:
            self._connection.abort()
            self._connection = None
