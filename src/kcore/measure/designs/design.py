"""The base class of the designs: a cluster, one session per broker, and the loss of a broker."""

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import replace
from typing import ClassVar

import numpy as np

from kcore.errors import TargetError
from kcore.measure.designs.designs_rows import NOT_KNOWN, Row
from kcore.measure.designs.meter import read_meter
from kcore.measure.designs.sessions import CountedClient, Knowledge, Work
from kcore.metadata.table.partition_table import PartitionTable
from kcore.metadata.zookeeper.znode_operations import Create, Operation, OperationResult
from kcore.metadata.zookeeper.znodes import BROKER_IDS, broker_path
from kcore.types import Int32s
from kcore.zookeeper.operations import Ephemeral

CLIENT = -1  # The id of the client that routes requests by the external view, in `Knowledge`.


class Design(ABC):
    """One design, with a cluster of its own below the chroot in `hosts`. The benchmark measures the method `lose`."""

    name: ClassVar[str]

    def __init__(self, hosts: str, table: PartitionTable) -> None:
        self.hosts, self.table = hosts, table
        self.work, self.known, self.routed = Work(), Knowledge(), Knowledge()
        self.brokers: dict[int, CountedClient] = {}
        self.others: list[CountedClient] = []  # The sessions of the controller and of a client.
        self.lost = -1
        self.rpc_bytes = 0

    async def open(self) -> None:
        """Opens a session per broker, then writes the znodes, registers the brokers and sets the watches."""
        ids = self.table.brokers.ids.tolist()
        self.brokers = dict(zip(ids, await asyncio.gather(*(self.session() for _ in ids)), strict=True))
        await self.write_tree()
        for broker_id in self.brokers:
            await self.register(broker_id)
        await self.watch()
        await self.work.settled()

    async def session(self) -> CountedClient:
        """Opens one more ZooKeeper session."""
        return await CountedClient(self.hosts).__aenter__()

    async def close(self) -> None:
        """Ends every session, and removes the znodes that the design created."""
        brokers, others = list(self.brokers.values()), self.others
        self.brokers, self.others = {}, []  # From now on watches start no work.
        await asyncio.gather(*(client.session.close() for client in brokers))
        for client in others:
            await client.remove_made()
            await client.session.close()

    async def register(self, broker_id: int) -> None:
        """Creates the broker's ephemeral znode /brokers/ids/<id>."""
        await done(self.brokers[broker_id], [Ephemeral(broker_path(broker_id), b"host:port")])

    async def lose(self, broker_id: int) -> tuple[float, float]:
        """Ends the broker's session; returns the milliseconds until every replica and client has the new leaders."""
        self.lost = broker_id
        self.expect(self.led_by(broker_id))
        begin_ns = time.monotonic_ns()
        await self.brokers.pop(broker_id).session.close()
        await self.work.until(self.known.everyone)
        if self.routes:
            await self.work.until(self.routed.everyone)
        await self.work.settled()
        return (self.known.at_ns - begin_ns) / 1e6, (self.routed.at_ns - begin_ns) / 1e6 if self.routes else NOT_KNOWN

    def expect(self, rows: Int32s) -> None:
        """Sets what `lose` waits for: every live replica, and the client, has the new leaders of these partitions."""
        ids = self.table.brokers.ids
        replicas = ids[self.table.replicas__ps[rows]]
        pairs = zip(np.repeat(rows, replicas.shape[1]).tolist(), replicas.ravel().tolist(), strict=True)
        self.known.expect({(broker, row) for row, broker in pairs if broker != self.lost})
        if self.routes:
            self.routed.expect({(CLIENT, row) for row in rows.tolist()})

    @property
    def routes(self) -> bool:
        """True if clients have a view of their own, apart from the states."""
        return False

    def led_by(self, broker_id: int) -> Int32s:
        """The rows of the partitions that the broker leads, ascending."""
        row = self.table.brokers.row(broker_id)
        held = self.table.index.rows(row)
        led: Int32s = held[self.table.leader__p[held] == row]
        return led

    def held_by(self, broker_id: int) -> list[int]:
        """The rows of the partitions with a replica on the broker."""
        held: list[int] = self.table.index.rows(self.table.brokers.row(broker_id)).tolist()
        return held

    def partition_path(self, row: int) -> str:
        """The path of a partition's znode as in the article, without /partitions/."""
        table = self.table
        return f"/brokers/topics/{table.topics.names[table.topic_row__p[row]]}/{table.partition_index__p[row]}"

    def parents(self) -> list[Operation]:
        """Operations that create the znodes above those of the partitions."""
        tops = ["/brokers", BROKER_IDS, "/brokers/topics"]
        return [Create(path) for path in [*tops, *(f"/brokers/topics/{name}" for name in self.table.topics.names)]]

    def counts(self) -> tuple[int, int]:
        """Reads and writes of all live sessions."""
        clients = [*self.brokers.values(), *self.others]
        return sum(client.reads for client in clients), sum(client.writes for client in clients)

    @abstractmethod
    async def write_tree(self) -> None:
        """Writes the znodes of a healthy cluster."""

    @abstractmethod
    async def watch(self) -> None:
        """Sets every watch that the design needs."""


async def done(client: CountedClient, operations: Iterable[Operation | Ephemeral]) -> None:
    """Writes as the only writer; TargetError if a write fails."""
    wanted = list(operations)
    for operation, outcome in zip(wanted, await client.write(wanted), strict=True):
        if outcome is not OperationResult.DONE:
            raise TargetError(f"{operation.path}: {outcome.value}")


async def measure(design: Design, address: str, row: Row, broker_id: int) -> list[Row]:
    """Sets up the design, ends the session of `broker_id`, and returns the figures in a copy of `row`, as only item.

    `address`: HOST:PORT of the ZooKeeper server whose counts are read.
    """
    before, begin_ns = await read_meter(address), time.monotonic_ns()
    try:
        await design.open()
        setup_ms = (time.monotonic_ns() - begin_ns) / 1e6
        standing, setup = await read_meter(address), design.counts()
        leaders, lost = len(design.led_by(broker_id)), design.brokers[broker_id]
        known_ms, routed_ms = await design.lose(broker_id)
        after, all_in_all = await read_meter(address), design.counts()
    finally:
        await design.close()
    there, moved = standing.since(before), after.since(standing)
    measured = replace(
        row,
        count=leaders,
        watchers=there.watchers,
        znodes=there.znodes,
        setup_reads=setup[0],
        setup_writes=setup[1],
        setup_ms=setup_ms,
        reads=all_in_all[0] + lost.reads - setup[0],
        writes=all_in_all[1] + lost.writes - setup[1],
        events=moved.events,
        packets=moved.packets,
        bytes=moved.bytes,
        rpc_bytes=design.rpc_bytes,
        ms=known_ms,
        routed_ms=routed_ms,
    )
    return [measured]
