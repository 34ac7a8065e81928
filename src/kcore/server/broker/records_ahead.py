"""Large compressed batches are checked in a thread: a megabyte may be hundreds of them, and the loop serves others.

One batch at a time, so that producers of such batches have one core at most, and less of it where all cores are in
use: the thread gives way to the loop's. The kernel works without the GIL.
"""

import asyncio
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final

from kcore.broker.replicas.log_validator import CheckedAhead, check_ahead, may_take_long
from kcore.broker.replicas.replica import Key
from kcore.broker.replicas.replica_manager import ReplicaManager
from kcore.broker.replicas.roles import Role
from kcore.schema.produce import ProduceRequest

NICER: Final = 5  # Than the other threads of the process, on Linux.


def _give_way() -> None:
    if sys.platform != "linux":
        return  # Elsewhere a thread has no priority of its own.
    with suppress(OSError):
        niceness = os.getpriority(os.PRIO_PROCESS, 0)
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), niceness + NICER)


_THREAD: Final = ThreadPoolExecutor(1, "records", _give_way)


async def checked_ahead(manager: ReplicaManager, request: ProduceRequest, date_ms: int) -> dict[Key, CheckedAhead]:
    """What is known of the request's large batches, for partitions that this broker leads."""
    found: dict[Key, CheckedAhead] = {}
    for topic in request.topic_data:
        for data in topic.partition_data:
            key, records = (topic.name, data.index), data.records or b""
            partition = manager.partitions.get(key)
            if partition is not None and partition.role is Role.LEADER and may_take_long(records):
                loop, config = asyncio.get_running_loop(), partition.settings.log
                found[key] = await loop.run_in_executor(_THREAD, check_ahead, records, config, date_ms)
    return found
