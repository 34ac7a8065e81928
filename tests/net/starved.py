"""A server in a process of its own with few descriptors, for tests: it opens a file whenever it is asked."""

import asyncio
import logging
import resource
import sys
from pathlib import Path
from typing import Any

from kcore import schema as s
from kcore.measure.workloads.memory import process_peak
from kcore.net.server import RequestContext, serve


async def main(descriptors: int) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))
    logging.basicConfig(format="%(message)s")

    async def handler(context: RequestContext, message: Any) -> Any:
        with Path("/dev/null").open("rb"):
            return s.BrokerHeartbeatResponse(is_fenced=True)

    async with await serve("127.0.0.1", 0, handler, {"BrokerHeartbeat": (0, 1)}) as server:
        print(server.port, flush=True)
        await asyncio.to_thread(sys.stdin.read)
        print(process_peak() // 1024, dict(server.metrics.errors), flush=True)


asyncio.run(main(int(sys.argv[1])))
