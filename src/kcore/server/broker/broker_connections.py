"""Connections of a broker to the other brokers and to the controller."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

from kcore.errors import DisconnectedError, NetworkError, UnsupportedVersionError
from kcore.metadata.table.broker_table import Endpoint
from kcore.net.connect import authenticate, connect
from kcore.net.connection import Connection
from kcore.net.limits.bounded_log import BoundedLog
from kcore.net.limits.connection_limits import Limits
from kcore.net.security.client_security import Security
from kcore.schema.structure import Message
from kcore.server.envelopes import names_another_controller

LIMITS: Final = Limits(connect_s=10.0, request_s=30.0, in_flight=1)


class Dialer:
    """Connects to nodes whose listeners have the same security protocol."""

    def __init__(self, security: Callable[[], Security] | None = None) -> None:
        """`security`: the TLS and SASL settings of each new connection; None for plaintext."""
        self._security = security

    @property
    def is_plaintext(self) -> bool:
        """Whether connections have neither TLS nor SASL."""
        return self._security is None

    async def connect(self, where: Endpoint, client_id: str) -> Connection:
        """Connects and authenticates; NetworkError."""
        security = None if self._security is None else self._security()
        return await connect(where.host, where.port, client_id=client_id, security=security, limits=LIMITS)

    async def connect_to_broker(self, broker_id: int, where: Endpoint | None, client_id: str) -> Connection:
        """Connects to a broker at `where`; DisconnectedError if no live broker has the id."""
        if where is None:
            raise DisconnectedError(f"broker {broker_id} is not alive")
        return await self.connect(where, client_id)

    async def renew(self, connection: Connection) -> None:
        """Reauthenticates before a request if the session ends soon (KIP-368). An error closes the connection."""
        if self._security is None or not connection.ends_soon:
            return
        sasl = self._security().sasl
        if sasl is not None:
            try:
                await authenticate(connection, sasl)
            except BaseException:
                connection.abort()
                raise


logger = logging.getLogger(__name__)
RETRY_S: Final = 0.1


class ControllerClient:
    """One connection to the active controller; one request at a time."""

    def __init__(self, client_id: str, controller: Callable[[], Endpoint | None], dialer: Dialer | None = None) -> None:
        """`controller` returns the active controller's endpoint, None while unknown. `dialer`: plaintext by default."""
        self._client_id, self._controller, self._dialer = client_id, controller, dialer or Dialer()
        self._connection: Connection | None = None
        self._at: Endpoint | None = None
        self._lock = asyncio.Lock()
        self._last_error = ""  # The last logged error; reset by an answer.
        self._log = BoundedLog(logger)

    async def ask(self, make: Callable[[Callable[[type[Message]], int]], tuple[Message, int]]) -> Any:
        """The response of the active controller; retries without a time limit.

        `make` returns the request and its version; its argument chooses the newest version that the controller has. The
        client calls it for every try, so that the request gets a new broker epoch. Other requests are sent
        between two tries, so that an unanswered request does not block them.
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
