"""Connections of a broker to the other brokers and to the controller."""

from typing import Final

from kcore.errors import DisconnectedError
from kcore.metadata.broker_table import Endpoint
from kcore.net.connect import connect
from kcore.net.connection import Connection
from kcore.net.limits import Limits

LIMITS: Final = Limits(connect_s=10.0, request_s=30.0, in_flight=1)


async def connect_to_broker(broker_id: int, where: Endpoint | None, client_id: str) -> Connection:
    """A connection to a broker at `where`; DisconnectedError where no live broker has the id."""
    if where is None:
        raise DisconnectedError(f"broker {broker_id} is not known to live")
    return await connect(where.host, where.port, client_id=client_id, limits=LIMITS)
