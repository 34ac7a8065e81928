"""Checks large compressed batches in a thread, so that the event loop serves other clients meanwhile.

A compressed megabyte may expand to hundreds of megabytes. Batches are checked one after the other in a thread of lower
priority, so that they take one core at most. The kernel releases the GIL.
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

from kcore.broker.replicas.log_validator import CheckedRecords, may_take_long, precheck_records
from kcore.broker.replicas.replica import Key, Role
from kcore.broker.replicas.replica_manager import ReplicaManager
from kcore.errors import DisconnectedError
from kcore.net.request_context import RequestContext
from kcore.schema.produce import ProduceRequest

GONE: Final = "the producer has disconnected before its records were checked"
NICENESS_INCREASE: Final = 5  # Added to the niceness of the process's other threads, on Linux.


def _lower_priority() -> None:
    if sys.platform != "linux":
        return  # On other systems a thread has no niceness of its own.
    with suppress(OSError):
        niceness = os.getpriority(os.PRIO_PROCESS, 0)
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), niceness + NICENESS_INCREASE)


_THREAD: Final = ThreadPoolExecutor(1, "records", _lower_priority)


class RecordChecks:
    """The checks of one broker: client addresses take turns, and each address has its smallest batch checked first.

    A producer of batches that expand a lot delays only larger batches of its own address.
    """

    def __init__(self) -> None:
        self._waiting: OrderedDict[str, list[tuple[int, int, asyncio.Future[None]]]] = OrderedDict()  # By address.
        self._number = count()
        self._is_busy = False

    async def checked(
        self, manager: ReplicaManager, request: ProduceRequest, date_ms: int, context: RequestContext
    ) -> dict[Key, CheckedRecords]:
        """Checks the request's large batches for partitions that this broker leads. Returns the results by partition.

        DisconnectedError if the client disconnects before a batch is checked.
        """
        found: dict[Key, CheckedRecords] = {}
        for topic in request.topic_data:
            for data in topic.partition_data:
                key, records = (topic.name, data.index), data.records or b""
                partition = manager.partitions.get(key)
                if partition is not None and partition.role is Role.LEADER and may_take_long(records):
                    loop, config = asyncio.get_running_loop(), partition.settings.log
                    async with self._slot(context.client_address, len(records)):
                        if context.gone is not None and context.gone.done():
                            raise DisconnectedError(GONE)
                        found[key] = await loop.run_in_executor(_THREAD, precheck_records, records, config, date_ms)
        return found

    @asynccontextmanager
    async def _slot(self, address: str, size: int) -> AsyncIterator[None]:
        if self._is_busy:
            mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            heappush(self._waiting.setdefault(address, []), (size, next(self._number), mine))
            try:
                await mine
            except asyncio.CancelledError:
                if mine.done() and not mine.cancelled():
                    self._release_slot()
                raise
        self._is_busy = True
        try:
            yield
        finally:
            self._release_slot()

    def _release_slot(self) -> None:
        """Lets the next waiting batch be checked."""
        self._is_busy = False
        while self._waiting:
            address, heap = self._waiting.popitem(last=False)
            _, _, following = heappop(heap)
            if heap:
                self._waiting[address] = heap  # At the end, after the other addresses.
            if not following.done():  # The waiting task was not cancelled.
                self._is_busy = True
                following.set_result(None)
                return
