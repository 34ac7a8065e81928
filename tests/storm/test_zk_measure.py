"""What is measured of a scenario in ZooKeeper mode, over a fleet that is only a list of requests."""

import asyncio
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

from kcore.hollow.zk.broker import Arrival
from kcore.schema import LeaderAndIsrRequest
from kcore.storm.zk.storm import ZkMeasure


class Fleet:
    """Brokers 1 and 2, and the requests that came to them."""

    live = (1, 2)

    def __init__(self) -> None:
        self.found: list[tuple[int, Arrival]] = []

    def arrivals(self) -> list[tuple[int, Arrival]]:
        return self.found

    async def until(self, what: str, so: Callable[[], bool], timeout_s: float) -> None:
        assert so(), what

    async def quiet(self, quiet_s: float, timeout_s: float) -> None:
        pass


def test_requests_before_a_late_watch_count() -> None:
    fleet = Fleet()
    storm: Any = SimpleNamespace(
        fleet=fleet,
        table=[],
        controller=SimpleNamespace(usage=lambda: None),
        profile=None,
        forget=fleet.found.clear,
        timeout_s=1.0,
    )
    measure = ZkMeasure(storm, "failover")
    first_ns = time.monotonic_ns()
    for at, broker_id in enumerate(fleet.live):
        fleet.found.append((broker_id, arrival(first_ns + at * 2_000_000)))
    measure.begins_now()
    result = asyncio.run(measure.end("all requests", lambda: True))
    assert (result.requests, result.first_ms, result.last_ms) == (2, 0.0, 2.0)


def arrival(at_ns: int) -> Arrival:
    return Arrival(at_ns, LeaderAndIsrRequest, 1, 10, Mock())
