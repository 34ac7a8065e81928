"""The article's step 3: writes one state per partition, one by one, pipelined, and in transactions of several sizes."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np
from kazoo.protocol.serialization import SetData as SetDataRequest

from kcore.errors import TargetError
from kcore.measure.designs.designs_rows import ONE_BY_ONE, Row
from kcore.measure.designs.sessions import CountedClient
from kcore.metadata.zookeeper.znode_operations import Create, SetData
from kcore.metadata.zookeeper.znodes import PartitionStateNode, encode_state
from kcore.types import Int64s
from kcore.zookeeper.client import ZookeeperClient
from kcore.zookeeper.operations import Operations, operations_of, results_of
from kcore.zookeeper.session import SessionEvent

BATCHES: Final = (100, 1_000, 2_000)
FRAME_BYTES: Final = 0xFFFFF  # The default of jute.maxbuffer: ZooKeeper closes the connection of a longer request.
_HEADER_BYTES: Final = 8  # xid and type, before the body.
_TIMEOUT_S: Final = 60.0
_ONE_BY_ONE_S: Final = 30.0  # Time limit of the measurement one by one; until then the time per write is known.
_TOP: Final = "/states"
_SILENT: Final = logging.Logger("refused", logging.CRITICAL + 1)  # kazoo logs every lost connection.


async def measure(hosts: str, row: Row, writes: int) -> list[Row]:
    """A row for each way of writing, made from `row`. All ways write the same znodes in the same order."""
    rows: list[Row] = []
    async with CountedClient(hosts) as client:
        paths = [f"{_TOP}/{partition}" for partition in range(writes)]
        await client.write([Create(_TOP), *(Create(path) for path in paths)])
        operations = [SetData(path, _state(partition)) for partition, path in enumerate(paths)]
        for name, way in _ways(client, operations):
            begin_ns = time.monotonic_ns()
            count = await way()
            ms = (time.monotonic_ns() - begin_ns) / 1e6
            rows.append(replace(row, kind="writes", name=name, count=count, writes=count, ms=ms))
        rows += await _largest(hosts, client, operations, row)
        await client.remove_made()
    return rows


def _state(partition: int) -> bytes:
    isr = tuple((partition + at) % 100 for at in range(3))
    return encode_state(PartitionStateNode(isr[0], 12, isr, 3))


def _ways(client: CountedClient, operations: list[SetData]) -> Iterator[tuple[str, Callable[[], Awaitable[int]]]]:
    """The ways to write, each a name and a function that returns the number of its writes."""

    async def one_by_one() -> int:
        end_s = time.monotonic() + _ONE_BY_ONE_S
        for count, operation in enumerate(operations, 1):
            await _set(client, operation)
            if time.monotonic() > end_s:
                return count
        return len(operations)

    async def pipelined() -> int:
        await asyncio.gather(*(_set(client, operation) for operation in operations))
        return len(operations)

    yield ONE_BY_ONE, one_by_one
    yield "pipelined", pipelined
    columns = operations_of(operations, client.session.chroot)
    for size in (each for each in BATCHES if each <= len(operations)):
        batches = [np.arange(at, min(at + size, len(operations))) for at in range(0, len(operations), size)]
        yield f"multi of {size:,}", partial(_transactions, client, columns, batches)


async def _set(client: CountedClient, operation: SetData) -> None:
    await client.session.ask(SetDataRequest(client.session.full(operation.path), operation.data, -1))


async def _transactions(client: ZookeeperClient, columns: Operations, batches: list[Int64s]) -> int:
    """Sends the transactions one after the other; TargetError if ZooKeeper refuses a write."""
    for rows in batches:
        answer = await client.session.multi(columns.request(rows))
        if results_of(answer.text, answer.begin, len(rows)).errors.any():
            raise TargetError("ZooKeeper refused state writes")
    return sum(map(len, batches))


async def _largest(hosts: str, client: CountedClient, operations: list[SetData], row: Row) -> list[Row]:
    """Measures the largest transaction that ZooKeeper accepts, and one with one write more."""
    size = len(operations_of(operations[-1:], client.session.chroot).request(np.arange(1)))
    many = operations * (2 * FRAME_BYTES // (size * len(operations)) + 1)
    columns = operations_of(many, client.session.chroot)
    ends = np.cumsum(columns.sizes(np.arange(columns.total))) + len(columns.request(np.arange(0))) + _HEADER_BYTES
    fits = int(np.searchsorted(ends, FRAME_BYTES, side="right"))
    rows = []
    for count in (fits, fits + 1):
        begin_ns = time.monotonic_ns()
        taken = await _is_taken(hosts, columns.request(np.arange(count)))
        note = f"{ends[count - 1]:,} bytes: " + ("taken" if taken else "the connection is dropped (jute.maxbuffer)")
        ms = (time.monotonic_ns() - begin_ns) / 1e6 if taken else -1
        one = replace(row, kind="writes", name=f"one multi of {count:,}", count=count, ms=ms, note=note)
        rows.append(replace(one, writes=count) if taken else one)
    return rows


async def _is_taken(hosts: str, body: bytes) -> bool:
    """True if ZooKeeper accepts the transaction. Uses its own session, whose client would resend a refused one."""
    dropped = asyncio.Event()

    def on_session(event: SessionEvent) -> None:
        if event is SessionEvent.SUSPENDED:
            dropped.set()

    async with ZookeeperClient(hosts, on_session=on_session, logger=_SILENT) as client:
        reply = asyncio.ensure_future(client.session.multi(body))
        lost = asyncio.ensure_future(dropped.wait())
        await asyncio.wait((reply, lost), timeout=_TIMEOUT_S, return_when=asyncio.FIRST_COMPLETED)
        is_taken = reply.done() and not dropped.is_set()
        for task in (reply, lost):
            task.cancel()
        await asyncio.gather(reply, lost, return_exceptions=True)
    return is_taken
