"""Measures one command to one broker: through a queue in ZooKeeper, and as one direct request."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from statistics import median

from kcore.controller.zk.requests.batch import RequestBatch
from kcore.controller.zk.requests.control_request import ControlRequest
from kcore.controller.zk.requests.versions import request_versions
from kcore.measure.designs.design import done
from kcore.measure.designs.designs_rows import Row
from kcore.measure.designs.meter import read_meter
from kcore.measure.designs.sessions import CountedClient, Work
from kcore.measure.designs.state_queue import QueueReader, command, queue_nodes
from kcore.measure.hollow.zk.receivers import Receivers
from kcore.measure.workloads.generate import generate
from kcore.metadata.zookeeper.znode_operations import Create
from kcore.net.connect import connect

_BROKER = 1


async def measure(hosts: str, address: str, row: Row, count: int) -> list[Row]:
    """A row for each way to send commands; `ms` is the median of one command, counts are totals of all commands."""
    row = replace(row, kind="command", count=count)
    return [await _by_queue(hosts, address, row, count), await _direct(row, count)]


async def _by_queue(hosts: str, address: str, row: Row, count: int) -> Row:
    """Sends commands by the queue; each ends when the broker has removed it. Watching again costs one more read."""
    what, work, taken = b'{"command":"start_replica","topic":"topic-00000","partition":0}', Work(), asyncio.Event()
    async with CountedClient(hosts) as sender, CountedClient(hosts) as broker:
        await done(sender, [Create("/brokers"), *queue_nodes([_BROKER])])
        reader = QueueReader(broker, _BROKER, work, lambda _: taken.set())
        await reader.arm()
        before, reads, writes = await read_meter(address), broker.reads, sender.writes

        async def once() -> None:
            taken.clear()
            await command(sender, _BROKER, what)
            await work.until(taken)

        ms = await _median_ms(once, count, work.settled)
        load = (await read_meter(address)).since(before)
        return replace(
            row, name="through the queue", ms=ms, reads=broker.reads - reads, writes=sender.writes - writes
            + broker.writes, events=load.events, packets=load.packets, bytes=load.bytes,
        )  # fmt: skip


async def _direct(row: Row, count: int) -> Row:
    """Sends LeaderAndIsr requests of one partition; each ends with the broker's response."""
    brokers, fanout = Receivers([_BROKER]), _request().fanout()
    broker = brokers.open()[_BROKER]
    body = fanout.buffers(broker.epoch)
    try:
        async with await connect("127.0.0.1", broker.port, ask_versions=False) as connection:

            async def once() -> None:
                await connection.send_bytes(fanout.message.api_key, fanout.version, *body)

            ms = await _median_ms(once, count, _nothing)
    finally:
        await brokers.close()
    return replace(
        row, name="direct request", ms=ms, reads=0, writes=0, events=0, rpc_bytes=sum(map(len, body)) * count
    )


def _request() -> ControlRequest:
    table = generate(1, 1 + _BROKER, 1 + _BROKER, 1, 1)
    batch = RequestBatch(0, 1, table, request_versions("3.9"))
    batch.add_leader_and_isr(_BROKER, 0, False)
    return next(each for each in batch.requests() if _BROKER in each.broker_ids)


async def _nothing() -> None:
    """Does nothing between two direct requests."""


async def _median_ms(once: Callable[[], Awaitable[None]], count: int, then: Callable[[], Awaitable[None]]) -> float:
    times_ns = []
    for _ in range(count):
        begin_ns = time.monotonic_ns()
        await once()
        times_ns.append(time.monotonic_ns() - begin_ns)
        await then()
    return median(times_ns) / 1e6
