"""Runs a cell in ZooKeeper mode: starts ZooKeeper, brokers and controller, writes the cluster, runs the scenarios."""

import asyncio
from collections.abc import Callable, Sequence
from random import Random
from typing import Final

from kcore.collector import rare_collections
from kcore.errors import KcoreError
from kcore.measure.hollow.zk.tree import write_paths, write_tree
from kcore.measure.hollow.zk.zk_fleet import HollowFleet
from kcore.measure.processes.java_process import ChildProcess
from kcore.measure.processes.watched import watched
from kcore.measure.processes.zk_cluster import ZookeeperProcess
from kcore.measure.processes.zk_controllers import controller_of
from kcore.measure.storm.profile.profile_cell import CellProfile
from kcore.measure.storm.report_rows import Row, failed_row, row_of
from kcore.measure.storm.storm_plan import Cell, StormPlan
from kcore.measure.storm.zk.end_state import end_state
from kcore.measure.storm.zk.scenarios import BROKER_LOST, CREATE, SCENARIOS
from kcore.measure.storm.zk.zk_storm import QUIET_S, ZkStorm
from kcore.measure.workloads.generate import generate
from kcore.metadata.table.partition_table import PartitionTable
from kcore.zookeeper.client import ZookeeperClient

_WAIT_S: Final = 180.0  # Time-outs are for a usual size; `Cell.patience` multiplies them.
_SCENARIO_S: Final = 1800.0


def run_cell(
    plan: StormPlan,
    cell: Cell,
    rows: list[Row],
    log_line: Callable[[str], None],
    profile: CellProfile | None = None,
    cluster: PartitionTable | None = None,
) -> None:
    """Runs a cell's scenarios, and adds each row to `rows` at once. KcoreError if the cluster does not start.

    `cluster`: brokers and topics of the cell; generated ones by default.
    """
    # A garbage collection during a scenario would take processors from the measured controller.
    with ZookeeperProcess(heap="1g", options=()) as zookeeper, rare_collections():
        topics = -(-cell.partitions // plan.partitions_per_topic)
        sizes = (cell.partitions, cell.brokers, plan.replication_factor, topics, plan.seed)
        table = generate(*sizes, plan.racks or None) if cluster is None else cluster
        asyncio.run(_run(plan, cell, zookeeper, rows, log_line, profile, table))


async def _run(
    plan: StormPlan,
    cell: Cell,
    zookeeper: ZookeeperProcess,
    rows: list[Row],
    log_line: Callable[[str], None],
    profile: CellProfile | None,
    table: PartitionTable,
) -> None:
    names = plan.scenarios_of(cell.target)
    async with ZookeeperClient(zookeeper.address) as client:
        if CREATE in names:
            await write_paths(client)
        else:
            await write_tree(client, table)
        fleet = HollowFleet(client, dict(zip(table.brokers.ids.tolist(), table.brokers.racks, strict=True)))
        await fleet.open()
        try:
            lost_id = await _register(fleet, names, plan.dice(cell.repetition, BROKER_LOST))
            options = profile.java_options if profile else ()
            with controller_of(cell.target, zookeeper.address, plan.heap, options) as controller:
                if profile:
                    profile.pids = controller.pids
                storm = ZkStorm(fleet, controller, table, Random(), lost_id, _WAIT_S * cell.patience, profile)
                if CREATE in names:
                    await fleet.quiet(QUIET_S, storm.timeout_s)
                else:
                    await storm.settled()
                await _scenarios(plan, cell, storm, (controller.process, zookeeper), rows, log_line)
        finally:
            await fleet.close()


async def _register(fleet: HollowFleet, names: list[str], dice: Random) -> int | None:
    """Registers all brokers. Returns the one that broker-lost will kill, or None: it has a session of its own."""
    ids = sorted(fleet.brokers)
    lost_id = dice.choice(ids[1:]) if BROKER_LOST in names and len(ids) > 1 else None
    await fleet.register([broker_id for broker_id in ids if broker_id != lost_id])
    if lost_id is not None:
        await fleet.register_to_die(lost_id)
    return lost_id


async def _scenarios(
    plan: StormPlan,
    cell: Cell,
    storm: ZkStorm,
    processes: Sequence[ChildProcess],
    rows: list[Row],
    log_line: Callable[[str], None],
) -> None:
    """Runs the scenarios in order. After a failed one the rest does not run: the cluster is in another state."""
    broken = ""
    for name in plan.scenarios_of(cell.target):
        if broken:
            rows.append(failed_row(cell, name, 1, plan.seed, f"not run: {broken}"))
            continue
        storm.random = plan.dice(cell.repetition, name)
        try:
            async with asyncio.timeout(_SCENARIO_S * cell.patience):
                result = await watched(SCENARIOS[name](storm), processes)
            result.end_state = await end_state(storm.fleet.client, storm.table)
        except (KcoreError, OSError) as error:
            broken = f"{name} failed"
            why = str(error) or f"not finished within {_SCENARIO_S * cell.patience:g} s"
            rows.append(failed_row(cell, name, 1, plan.seed, why))
            log_line(f"{cell}: {name} failed: {why}")
            continue
        rows.append(row_of(cell, result, plan.seed))
        if result.invalid:
            log_line(f"{cell}: {name}: invalid: {result.invalid}")
        session = f" (of which {result.session_ms:,.0f} ms a session's time-out)" if result.session_ms > 0 else ""
        log_line(
            f"{cell}: {name}: first broker after {result.first_ms:,.0f} ms, last after {result.last_ms:,.0f} ms"
            f"{session}, {result.requests:,} requests"
        )
