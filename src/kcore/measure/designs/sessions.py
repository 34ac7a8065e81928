"""ZooKeeper sessions that count their requests, and the tasks that watches start."""

import asyncio
import time
from collections.abc import Coroutine, Sequence
from typing import Any

from kcore.metadata.table.changes import UnwrittenChanges
from kcore.metadata.table.partition_table import PartitionTable
from kcore.metadata.zookeeper.znode_operations import Create, Delete, Node, Operation, OperationResult, States
from kcore.types import Bools, Int32s
from kcore.zookeeper.client import ZookeeperClient
from kcore.zookeeper.operations import Ephemeral, Fence
from kcore.zookeeper.session import OnWatch


class CountedClient(ZookeeperClient):
    """A session that counts znodes: each one read or written counts, even if one request has many."""

    def __init__(self, hosts: str, **options: Any) -> None:
        super().__init__(hosts, **options)
        self.reads = self.writes = 0
        self._made: list[str] = []

    async def read_nodes(self, paths: Sequence[str], watch: OnWatch | None = None) -> list[Node | None]:
        self.reads += len(paths)
        return await super().read_nodes(paths, watch)

    async def read_children(self, paths: Sequence[str], watch: OnWatch | None = None) -> list[list[str] | None]:
        self.reads += len(paths)
        return await super().read_children(paths, watch)

    async def read_states(self, table: PartitionTable, rows: Int32s) -> States:
        self.reads += len(rows)
        return await super().read_states(table, rows)

    async def write(
        self, operations: Sequence[Operation | Ephemeral], *, atomic: bool = False, fence: Fence | None = None
    ) -> list[OperationResult]:
        self.writes += len(operations)
        self._made += [operation.path for operation in operations if isinstance(operation, Create)]
        return await super().write(operations, atomic=atomic, fence=fence)

    async def write_states(
        self, table: PartitionTable, changes: UnwrittenChanges, controller_epoch: int, *, fence: Fence | None = None
    ) -> Bools:
        self.writes += len(changes)
        return await super().write_states(table, changes, controller_epoch, fence=fence)

    async def remove_made(self) -> None:
        """Removes the znodes that it created, newest first: faster than `remove_tree`, which must list them."""
        await super().write([Delete(path) for path in reversed(self._made)])
        self._made = []

    async def read_and_watch(self, watches: Sequence[tuple[str, OnWatch]]) -> None:
        """Reads and watches many paths; each has a callback for its next change, creation or removal."""
        zxid = self.session.last_zxid()
        found = await self.read_nodes([path for path, _ in watches])
        await self.session.set_watches(
            zxid,
            [
                self.session.watch(self.session.full(path), on_watch, is_there=node is not None)
                for (path, on_watch), node in zip(watches, found, strict=True)
            ],
        )


class Work:
    """The tasks that watches start. If one fails, `settled` and `until` raise its exception, so that the run fails."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self._failure: BaseException | None = None
        self._failed = asyncio.Event()

    def start(self, call: Coroutine[Any, Any, None]) -> None:
        """Starts the coroutine as a task of the running loop."""
        task = asyncio.get_running_loop().create_task(call)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._failure = self._failure or task.exception()
            self._failed.set()

    async def until(self, event: asyncio.Event) -> None:
        """Waits until the event is set or a task fails."""
        waiting = [asyncio.ensure_future(each.wait()) for each in (event, self._failed)]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waiting:
                each.cancel()
        self._check()

    async def settled(self) -> None:
        """Waits until all started tasks have ended."""
        while self._tasks:
            await asyncio.wait(set(self._tasks))
        self._check()

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure


class Knowledge:
    """Records when the last replica or client got the new leader of each partition."""

    def __init__(self) -> None:
        self.everyone = asyncio.Event()
        self.at_ns = 0
        self._waiting: set[tuple[int, int]] = set()  # Pairs of a broker or client id, and a partition's row.

    def expect(self, pairs: set[tuple[int, int]]) -> None:
        """Sets the pairs of id and partition row to wait for."""
        self._waiting = pairs
        if not pairs:
            self.everyone.set()

    def learnt(self, who: int, row: int, at_ns: int | None = None) -> None:
        """Records that `who` has the new leader at `at_ns`, by default now; only the first call for a pair counts."""
        if (who, row) in self._waiting:
            self._waiting.discard((who, row))
            self.at_ns = max(self.at_ns, time.monotonic_ns() if at_ns is None else at_ns)
            if not self._waiting:
                self.everyone.set()


async def remove_tree(client: ZookeeperClient, top: str) -> None:
    """Deletes the znode and all znodes below it, the deepest first; repeats this if others were created meanwhile."""
    while await client.stat(top) is not None:
        levels = [[top]]
        while levels[-1]:
            found = await client.read_children(levels[-1])
            children = zip(levels[-1], found, strict=True)
            levels.append([f"{path}/{name}" for path, names in children for name in names or []])
        for level in reversed(levels):
            await client.write([Delete(path) for path in level])
