"""What a broker asks of the active controller, again until it answers (NodeToControllerChannelManager of 3.9.1)."""

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
    """One connection to the controller that UpdateMetadata names; one request at a time."""

    def __init__(self, client_id: str, controller: Callable[[], Endpoint | None], dialer: Dialer | None = None) -> None:
        """`controller`: its endpoint, None while it is unknown; `dialer`: by default of plaintext."""
        self._client_id, self._controller, self._dialer = client_id, controller, dialer or Dialer()
        self._connection: Connection | None = None
        self._at: Endpoint | None = None
        self._turn = asyncio.Lock()
        self._last_error = ""  # Since the last answer.
        self._log = BoundedLog(logger)

    async def ask(self, make: Callable[[Callable[[type[Message]], int]], tuple[Message, int]]) -> Any:
        """The response of the active controller, however long that takes.

        `make` gives the request and its version; its argument gives the newest version of a request there. It is called
        for every try, so that a new broker epoch gets in. Other requests have their turns between two tries: one that
        the controller does not answer holds up no other.
        """
        while True:
            async with self._turn:
                try:
                    connection = await self._connected()
                    versions = connection.versions
                    assert versions is not None
                    answer = await connection.send(*make(versions.choose))
                    if not names_another_controller(answer):
                        self._last_error = ""
                        return answer
                except (NetworkError, UnsupportedVersionError) as error:
                    if str(error) != self._last_error:  # Once for each reason.
                        self._last_error = str(error)
                        self._log.info("the controller does not answer: %s; again every %s s", error, RETRY_S)
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
        """The connection ends."""
        if self._connection is not None:
            self._connection.abort()
            self._connection = None
