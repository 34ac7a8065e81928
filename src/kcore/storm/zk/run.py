"""One cell of a storm in ZooKeeper mode: ZooKeeper up, the cluster written, brokers and controller up, scenarios."""

import asyncio
from collections.abc import Callable
from random import Random
from typing import Final

from kcore.errors import KcoreError
from kcore.hollow.zk.fleet import HollowFleet
from kcore.hollow.zk.tree import write_tree
from kcore.processes.zk_cluster import ZookeeperProcess
from kcore.processes.zk_controllers import controller_of
from kcore.storm.plan import Cell, StormPlan
from kcore.storm.profile.cell import CellProfile
from kcore.storm.report_rows import Row, failed_row, row_of
from kcore.storm.zk.scenarios import SCENARIOS
from kcore.storm.zk.storm import ZkStorm
from kcore.workloads.generate import generate
from kcore.zookeeper.client import ZookeeperClient

_SCENARIO_S: Final = 600.0
_ZOOKEEPER_HEAP: Final = "1g"


def run_cell(
    plan: StormPlan, cell: Cell, rows: list[Row], tell: Callable[[str], None], profile: CellProfile | None = None
) -> None:
    """Each row goes into `rows` when it is there. KcoreError if nothing could be measured at all."""
    with ZookeeperProcess(heap=_ZOOKEEPER_HEAP, options=()) as zookeeper:
        asyncio.run(_run(plan, cell, zookeeper.address, rows, tell, profile))


async def _run(
    plan: StormPlan,
    cell: Cell,
    zookeeper: str,
    rows: list[Row],
    tell: Callable[[str], None],
    profile: CellProfile | None,
) -> None:
    topics = -(-cell.partitions // plan.partitions_per_topic)
    racks = plan.racks or None
    table = generate(cell.partitions, cell.brokers, plan.replication_factor, topics, plan.seed, racks)
    async with ZookeeperClient(zookeeper) as client:
        await write_tree(client, table)
        fleet = HollowFleet(client, table.brokers.ids.tolist())
        await fleet.open()
        try:
            await fleet.register(list(fleet.brokers))
            options = profile.java_options if profile else ()
            with controller_of(cell.target.text, zookeeper, plan.heap, options) as controller:
                if profile:
                    profile.pids = controller.pids
                storm = ZkStorm(fleet, controller, table, Random(plan.seed), profile=profile)
                await storm.settled()
                await _scenarios(plan, cell, storm, rows, tell)
        finally:
            await fleet.close()


async def _scenarios(plan: StormPlan, cell: Cell, storm: ZkStorm, rows: list[Row], tell: Callable[[str], None]) -> None:
    """One after the other; what comes after a failed one would measure something else, and does not run."""
    broken = ""
    for name in plan.scenarios_of(cell.target):
        if broken:
            rows.append(failed_row(cell, name, 1, plan.seed, f"not run: {broken}"))
            continue
        try:
            async with asyncio.timeout(_SCENARIO_S):
                result = await SCENARIOS[name](storm)
        except (KcoreError, OSError) as error:
            broken = f"{name} failed"
            rows.append(failed_row(cell, name, 1, plan.seed, str(error)))
            tell(f"{cell}: {name} failed: {error}")
            continue
        rows.append(row_of(cell, result, plan.seed))
        tell(
            f"{cell}: {name}: first broker after {result.first_ms:,.0f} ms, last after {result.last_ms:,.0f} ms, "
            f"{result.requests:,} requests"
        )
