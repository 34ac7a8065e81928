"""Runs each design on its own cluster, then writes, then commands, below one znode that is removed at the end."""

import asyncio
import secrets
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from typing import Any, Final, TypeAlias

from kcore.errors import KcoreError, TargetError
from kcore.measure.designs import commands, design, writes
from kcore.measure.designs.design import Design
from kcore.measure.designs.designs_plan import DesignsPlan
from kcore.measure.designs.designs_rows import Row
from kcore.measure.designs.meter import read_meter
from kcore.measure.designs.sessions import CountedClient, remove_tree
from kcore.measure.designs.v1 import LeaderWatchers
from kcore.measure.designs.v2 import StateQueues
from kcore.measure.designs.v3 import Controlled, OneByOne
from kcore.measure.designs.views import OneView, ViewAPartition
from kcore.measure.processes.zk_cluster import ZookeeperProcess
from kcore.net.address import address_flaw

DESIGNS: Final[tuple[type[Design], ...]] = (LeaderWatchers, StateQueues, OneByOne, Controlled, OneView, ViewAPartition)
STEPS: Final = len(DESIGNS) + 2  # The steps of one repetition.
_LOST: Final = 1  # The id of the lost broker.

_CONNECT_S: Final = 10.0
_TIMEOUT_S: Final = 600.0  # Limit of one step.

OnRow: TypeAlias = Callable[[Row], None]
# Takes the hosts with a chroot in which the step works.
Step: TypeAlias = Callable[[str], Coroutine[Any, Any, list[Row]]]


def check_listens(zookeeper: str) -> None:
    """Raises TargetError if the text is not HOST:PORT, or if the address accepts no connection."""
    host, _, port = zookeeper.rpartition(":")
    host = host.strip("[]")
    if not port.isdecimal() or not host or address_flaw(host, int(port)):
        raise TargetError(f"--zookeeper {zookeeper!r}: give HOST:PORT, such as localhost:2181")
    try:
        socket.create_connection((host, int(port)), _CONNECT_S).close()
    except OSError as error:
        raise TargetError(f"--zookeeper {zookeeper}: {error.strerror or error}: is ZooKeeper running there?") from None


def run(plan: DesignsPlan, zookeeper: str | None, rows: list[Row], on_row: OnRow) -> None:
    """Adds each row to `rows` after its measurement, and calls `on_row` with the row.

    `zookeeper`: HOST:PORT of a running server; None starts a server. Raises TargetError if it cannot be used.
    """
    plan.check()
    with _server(zookeeper) as address:
        asyncio.run(_run(plan, address, rows, on_row))


@contextmanager
def _server(zookeeper: str | None) -> Iterator[str]:
    if zookeeper is not None:
        yield zookeeper
        return
    with ZookeeperProcess(heap="1g", options=()) as process:
        yield process.address


async def _run(plan: DesignsPlan, address: str, rows: list[Row], on_row: OnRow) -> None:
    async with CountedClient(address, connect_timeout_s=_CONNECT_S) as root:
        await read_meter(address)  # Fails before any znode is made. A server answers mntr only once it serves sessions.
        async with _ours(root, f"/kcore-designs-{secrets.token_hex(6)}") as top:
            for repetition in range(1, plan.repeat + 1):
                for number, (row, step) in enumerate(_steps(plan, address, repetition)):
                    place = f"{top}/{repetition}-{number}"
                    for each in await _or_error(_in_chroot(root, address, place, step), row):
                        rows.append(each)
                        on_row(each)


@asynccontextmanager
async def _ours(root: CountedClient, path: str) -> AsyncIterator[str]:
    """A znode that exists during the context and is removed with all below it, also after an interruption."""
    await root.make_path(path)
    try:
        yield path
    finally:
        async with asyncio.timeout(_TIMEOUT_S):
            await remove_tree(root, path)


def _steps(plan: DesignsPlan, address: str, repetition: int) -> Iterator[tuple[Row, Step]]:
    """The steps of one repetition, each with the row that reports its failure."""
    row = Row("design", "", repetition, plan.partitions, plan.brokers)
    for kind in DESIGNS:
        one = replace(row, name=kind.name)
        yield one, lambda hosts, kind=kind, one=one: design.measure(kind(hosts, plan.table()), address, one, _LOST)  # type: ignore[misc]
    yield replace(row, kind="writes", name="state writes"), lambda hosts: writes.measure(hosts, row, plan.writes)
    one = replace(row, kind="command", name="commands")
    yield one, lambda hosts: commands.measure(hosts, address, row, plan.commands)


async def _in_chroot(root: CountedClient, address: str, path: str, step: Step) -> list[Row]:
    async with _ours(root, path), asyncio.timeout(_TIMEOUT_S):
        return await step(f"{address}{path}")


async def _or_error(measured: Coroutine[Any, Any, list[Row]], row: Row) -> list[Row]:
    try:
        return await measured
    except (KcoreError, OSError) as error:
        return [replace(row, error=str(error) or type(error).__name__)]
