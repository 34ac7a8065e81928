"""Connections of a broker to the other brokers and to the controller."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final, TypeAlias

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

    async def connect(self, where: Endpoint, client_id: str, *, ask_versions: bool = True) -> Connection:
        """Connects and authenticates; `ask_versions`: see `connect`. NetworkError."""
        security = None if self._security is None else self._security()
        return await connect(
            *(where.host, where.port),
            client_id=client_id,
            security=security,
            limits=LIMITS,
            ask_versions=ask_versions,
        )

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


class NodeConnection:
    """One connection to another node, which is opened for the next request after `close`."""

    def __init__(self, dialer: Dialer, client_id: str, endpoint: Callable[[], Endpoint | None], absent: str) -> None:
        """`endpoint` returns the node's endpoint, None while unknown. `absent`: the error message in this case."""
        self._dialer, self._client_id, self.endpoint, self._absent = dialer, client_id, endpoint, absent
        self._connection: Connection | None = None
        self.at: Endpoint | None = None  # None: there is no connection.

    async def ready(self) -> Connection:
        """The open connection. DisconnectedError while the node's endpoint is unknown, or another NetworkError."""
        if self._connection is None:
            if (where := self.endpoint()) is None:
                raise DisconnectedError(self._absent)
            self._connection = await self._dialer.connect(where, self._client_id)
            self.at = where
        await self._dialer.renew(self._connection)
        return self._connection

    def close(self) -> None:
        """Closes the connection at once."""
        if self._connection is not None:
            self._connection.abort()
            self._connection = self.at = None


Choose: TypeAlias = Callable[[type[Message]], int]  # Chooses the newest version of an API that the controller has.
Make: TypeAlias = Callable[[Choose], tuple[Message, int]]  # Makes a request and its version.


class ControllerClient:
    """One connection to the active controller; one request at a time."""

    def __init__(self, client_id: str, controller: Callable[[], Endpoint | None], dialer: Dialer | None = None) -> None:
        """`controller` returns the active controller's endpoint, None while unknown. `dialer`: plaintext by default."""
        self._connection = NodeConnection(dialer or Dialer(), client_id, controller, "no controller is known")
        self._lock = asyncio.Lock()
        self._last_error = ""  # The last logged error; reset by an answer.
        self._log = BoundedLog(logger)

    async def ask(self, make: Make) -> Any:
        """The response of the active controller; retries without a time limit.

        The client calls `make` for every try, so that the request gets a new broker epoch. Other requests are sent
        between two tries, so that an unanswered request does not block them.
        """
        while True:
            async with self._lock:
                try:
                    if self._connection.at != self._connection.endpoint():
                        self.close()
                    connection = await self._connection.ready()
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

    def close(self) -> None:
        """Closes the connection; the next request opens a new one."""
        self._connection.close()
