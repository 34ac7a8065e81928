"""Large compressed batches are checked in a thread: a megabyte may be hundreds of them, and the loop serves others.

One batch at a time, so that producers of such batches have one core at most. The kernel works without the GIL.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from kcore.broker.replicas.log_validator import CheckedAhead, check_ahead, may_take_long
from kcore.broker.replicas.replica import Key
from kcore.broker.replicas.replica_manager import ReplicaManager
from kcore.broker.replicas.roles import Role
from kcore.schema.produce import ProduceRequest

_THREAD: Final = ThreadPoolExecutor(1, "records")


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
