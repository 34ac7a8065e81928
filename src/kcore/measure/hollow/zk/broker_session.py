"""A hollow broker's ZooKeeper session that can die like a killed broker: the connection is cut, the session not closed.

ZooKeeper then keeps the broker's znode until the session's time-out is over. kazoo cannot do this: it closes its
sessions or reconnects. This session only opens, creates one ephemeral znode and pings.
"""

import asyncio
import struct
from typing import Final

import numpy as np

from kcore.errors import TargetError
from kcore.metadata.zookeeper.znode_operations import SetData
from kcore.zookeeper.operations import Ephemeral, first_error, name_of_error, operations_of, results_of

_MULTI, _PING, _PING_XID = 14, 11, -2  # ZooDefs.OpCode, ClientCnxn.PING_XID
_CONNECT: Final = struct.Struct(">iqiqi16s?")  # ConnectRequest with a password of 16 bytes
_REPLY: Final = struct.Struct(">iqi")  # ReplyHeader: xid, zxid, error
_ANSWER_S: Final = 30.0
SESSION_S: Final = 18.0  # The default of zookeeper.session.timeout.ms.
PING_S: Final = 6.0  # Between pings. After a cut the session ends SESSION_S - PING_S later at the earliest.


class BrokerSession:
    """A hollow broker's session with ZooKeeper, from `open` to `cut`."""

    def __init__(self, address: str) -> None:
        """`address`: HOST:PORT of ZooKeeper."""
        self._address = address
        self._answers: asyncio.Queue[bytes] = asyncio.Queue()
        self._tasks: list[asyncio.Task[None]] = []
        self.has_ended = False  # ZooKeeper has closed the session, because no ping came in time.
        self._writer: asyncio.StreamWriter | None = None

    async def open(self) -> None:
        """Opens the session; TargetError if ZooKeeper refuses it."""
        host, _, port = self._address.rpartition(":")
        reader, self._writer = await asyncio.open_connection(host, int(port))
        self._send(_CONNECT.pack(0, 0, int(SESSION_S * 1000), 0, 16, bytes(16), False))
        answer = await _frame(reader)
        _, granted_ms = struct.unpack_from(">ii", answer)
        if granted_ms != int(SESSION_S * 1000):
            raise TargetError(f"ZooKeeper at {self._address} does not grant a session of {SESSION_S:g} s")
        self._tasks = [asyncio.create_task(self._read(reader)), asyncio.create_task(self._ping())]

    async def create(self, path: str, data: bytes) -> int:
        """Creates the ephemeral znode and returns its czxid; TargetError if the creation fails."""
        operations = operations_of([Ephemeral(path), SetData(path, data, 0)])
        self._send(struct.pack(">ii", 1, _MULTI) + operations.request(np.arange(2)))
        async with asyncio.timeout(_ANSWER_S):
            answer = await self._answers.get()
        _, zxid, error = _REPLY.unpack_from(answer)
        results = results_of(answer, _REPLY.size, 2, zxid)
        if error or results.errors.any():
            name = name_of_error(error) if error else first_error(results.errors)[1]
            raise TargetError(f"{path}: ZooKeeper answers {name}")
        return int(results.zxids[0, 1])

    def cut(self) -> None:
        """Cuts the connection, as the death of the broker does; its znode stays until ZooKeeper ends the session."""
        for task in self._tasks:
            task.cancel()
        if self._writer is not None:
            self._writer.transport.abort()

    def _send(self, body: bytes) -> None:
        assert self._writer is not None, "open it first"
        self._writer.write(struct.pack(">i", len(body)) + body)

    async def _read(self, reader: asyncio.StreamReader) -> None:
        try:
            while True:
                answer = await _frame(reader)
                if _REPLY.unpack_from(answer)[0] != _PING_XID:
                    self._answers.put_nowait(answer)
        except (OSError, asyncio.IncompleteReadError):
            self.has_ended = True

    async def _ping(self) -> None:
        while not self.has_ended:
            await asyncio.sleep(PING_S)
            self._send(struct.pack(">ii", _PING_XID, _PING))


async def _frame(reader: asyncio.StreamReader) -> bytes:
    (size,) = struct.unpack(">i", await reader.readexactly(4))
    return await reader.readexactly(size)
