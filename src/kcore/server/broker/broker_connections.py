"""Connections of a broker to the other brokers and to the controller."""

from collections.abc import Callable
from typing import Final

from kcore.errors import DisconnectedError
from kcore.metadata.table.broker_table import Endpoint
from kcore.net.connect import authenticate, connect
from kcore.net.connection import Connection
from kcore.net.limits.connection_limits import Limits
from kcore.net.security.client_security import Security

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
        """Authenticates again before the session ends (KIP-368). Called before each request; closes on NetworkError."""
        if self._security is None or not connection.ends_soon or connection.closed:
            return
        sasl = self._security().sasl
        if sasl is not None:
            try:
                await authenticate(connection, sasl)
            except BaseException:
                connection.abort()
                raise
