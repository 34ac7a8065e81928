"""Large compressed batches are checked in a thread: a megabyte may be hundreds of them, and the loop serves others.

One batch at a time, so that producers of such batches have one core at most, and less of it where all cores are in
use: the thread gives way to the loop's. The kernel works without the GIL.
"""

import asyncio
import os
import sys
import threading
from collections import OrderedDict
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from heapq import heappop, heappush
from itertools import count
from typing import Final

from kcore.broker.replicas.log_validator import CheckedRecords, check_ahead, may_take_long
from kcore.broker.replicas.replica import Key
from kcore.broker.replicas.replica_manager import ReplicaManager
from kcore.broker.replicas.roles import Role
from kcore.errors import DisconnectedError
from kcore.net.request_context import RequestContext
from kcore.schema.produce import ProduceRequest

GONE: Final = "the producer has disconnected before its records were checked"
NICER: Final = 5  # Than the other threads of the process, on Linux.


def _give_way() -> None:
    if sys.platform != "linux":
        return  # Elsewhere a thread has no priority of its own.
    with suppress(OSError):
        niceness = os.getpriority(os.PRIO_PROCESS, 0)
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), niceness + NICER)


_THREAD: Final = ThreadPoolExecutor(1, "records", _give_way)


class RecordChecks:
    """The checks of one broker. Addresses have their turns one after the other, and of one address the smallest batch.

    A producer of batches that are far more than their bytes holds up nobody but its own address, and there no smaller
    batches.
    """

    def __init__(self) -> None:
        self._waiting: OrderedDict[str, list[tuple[int, int, asyncio.Future[None]]]] = OrderedDict()  # Heaps.
        self._number = count()
        self._is_busy = False

    async def checked(
        self, manager: ReplicaManager, request: ProduceRequest, date_ms: int, context: RequestContext
    ) -> dict[Key, CheckedRecords]:
        """What is known of the request's large batches, for partitions that this broker leads.

        DisconnectedError where the client has gone before its turn came.
        """
        found: dict[Key, CheckedRecords] = {}
        for topic in request.topic_data:
            for data in topic.partition_data:
                key, records = (topic.name, data.index), data.records or b""
                partition = manager.partitions.get(key)
                if partition is not None and partition.role is Role.LEADER and may_take_long(records):
                    loop, config = asyncio.get_running_loop(), partition.settings.log
                    async with self._turn(context.client_address, len(records)):
                        if context.gone is not None and context.gone.done():
                            raise DisconnectedError(GONE)
                        found[key] = await loop.run_in_executor(_THREAD, check_ahead, records, config, date_ms)
        return found

    @asynccontextmanager
    async def _turn(self, address: str, size: int) -> AsyncIterator[None]:
        if self._is_busy:
            mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            heappush(self._waiting.setdefault(address, []), (size, next(self._number), mine))
            try:
                await mine
            except asyncio.CancelledError:
                if mine.done() and not mine.cancelled():
                    self._go_on()
                raise
        self._is_busy = True
        try:
            yield
        finally:
            self._go_on()

    def _go_on(self) -> None:
        """The next one has its turn."""
        self._is_busy = False
        while self._waiting:
            address, heap = self._waiting.popitem(last=False)
            _, _, following = heappop(heap)
            if heap:
                self._waiting[address] = heap  # Behind the other addresses.
            if not following.done():  # It was not cancelled.
                self._is_busy = True
                following.set_result(None)
                return
