"""Runs a plan cell by cell: starts controllers and brokers, runs the scenarios in order, stops everything."""

import asyncio
import resource
from collections.abc import Callable, Sequence
from random import Random
from time import monotonic
from typing import TYPE_CHECKING, Final

import numpy as np

from kcore.collector import rare_collections
from kcore.errors import KcoreError, TargetError
from kcore.measure.hollow.fleet import LINKS, Fleet, Options, cluster_of
from kcore.measure.hollow.quorum_client import Quorum
from kcore.measure.hollow.secured import tls_of
from kcore.measure.processes.controller_quorum import ControllerQuorum
from kcore.measure.processes.java_process import ChildProcess
from kcore.measure.processes.local_process import Usage, usage_of
from kcore.measure.processes.probe import build_of
from kcore.measure.processes.watched import watched
from kcore.measure.report.build import Build
from kcore.measure.report.units import time_left
from kcore.measure.storm.kraft.kraft_storm import Sizes, Storm, layout_of
from kcore.measure.storm.kraft.running_controllers import controller_pids, session_timeout_ms
from kcore.measure.storm.kraft.scenarios import ALL
from kcore.measure.storm.profile.profile_cell import CellProfile, profiled
from kcore.measure.storm.report_rows import Row, failed_row, row_of
from kcore.measure.storm.run_security import RunSecurity, read_client
from kcore.measure.storm.storm_plan import FIRST, Cell, StormPlan
from kcore.measure.storm.targets import Left, clear_away, free_ids, started
from kcore.measure.workloads.scaling import healthy, scaled
from kcore.metadata.table.partition_table import PartitionTable
from kcore.net.limits.admission import KEPT_FOR_FILES
from kcore.net.security.listener_security import ListenerSecurity
from kcore.schema.index import METADATA_RECORDS
from kcore.schema.metadata_records_log import NoOpRecord
from kcore.spark.java import java_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LogLine = Callable[[str], None]

_WAIT_S: Final = 120.0  # All time-outs are for a usual size; `Cell.patience` multiplies them.
_OTHER_DESCRIPTORS: Final = 256  # For files, jars and other connections of a process.
_SCENARIO_S: Final = 900.0  # All waits have shorter time-outs; this ends anything else that hangs.


def check_targets(plan: StormPlan) -> None:
    """Raises a TargetError, before anything is measured, if no controller listens at a target's addresses.

    Also for certificates or keys that the hollow brokers cannot use.
    """
    for target in plan.parsed():
        if target.addresses:
            security = read_client(plan.command_config)
            tls_of(security)
            asyncio.run(Quorum(target.addresses, random=Random(plan.seed), security=security).check_listens())


def check_descriptors(plan: StormPlan) -> None:
    """Raises a TargetError if a process of the run may not open descriptors for the connections of all brokers.

    The hard limit counts, since each process raises its own limit to it.
    """
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most == resource.RLIM_INFINITY:
        return
    room = {} if plan.master else {"the storm": most - _OTHER_DESCRIPTORS}
    for target in plan.parsed():
        if target.is_started and not target.in_zookeeper:
            kept = most // KEPT_FOR_FILES if target.is_kcore else _OTHER_DESCRIPTORS
            room[f"a controller of {target.name}"] = most - kept
    wanted = max(plan.brokers) * LINKS
    for process, places in room.items():
        if wanted > places:
            raise TargetError(
                f"{max(plan.brokers):,} brokers have {wanted:,} connections, and {process} has descriptors for "
                f"{places:,}: raise the hard limit of open files (ulimit -Hn), which is {most:,}"
            )


def check_builds(plan: StormPlan) -> None:
    """Raises an error of `build_of`, before anything is measured, if the controllers of a target cannot start.

    NoJavaError without the Java that ZooKeeper needs.
    """
    for target in plan.parsed():
        build_of(target, plan.heap)
        if target.in_zookeeper:
            java_home()


def run(
    plan: StormPlan,
    rows: list[Row],
    log_line: LogLine,
    spark: "SparkSession | None" = None,
    profiles: list[CellProfile] | None = None,
    cluster: PartitionTable | None = None,
) -> list[str]:
    """Runs all cells; adds each row to `rows` at once, so that an interrupted run keeps its results.

    `profiles`: gets a profile of each cell; None: the controllers are not profiled. `cluster`: the plan's cluster.

    Returns a line, already reported, for everything that could not be removed from other people's clusters.
    """
    left: list[str] = []
    cells = plan.cells()
    if any(cell.target.in_zookeeper for cell in cells):
        from kcore.measure.storm.zk import run_zk_storm as zk_run  # Imports kazoo; KRaft storms do not need it.
    began_s = monotonic()
    for at, cell in enumerate(cells):
        place = f"{at + 1} of {len(cells)}" if len(cells) > 1 else ""
        estimate = time_left(at, len(cells), monotonic() - began_s)
        log_line(", ".join(filter(None, (f"{cell}: starting", place, estimate))))
        first, build = len(rows), Build(cell.target.text)
        try:
            build = build_of(cell.target, plan.heap)
            with profiled(cell, profiles) as profile:
                grown = None if cluster is None else healthy(scaled(cluster, cell.partitions, cell.brokers, plan.seed))
                if cell.target.in_zookeeper:
                    zk_run.run_cell(plan, cell, rows, log_line, profile, grown)
                    continue
                options = profile.java_options if profile else ()
                made = RunSecurity.made(cell.target.security)
                client = read_client(plan.command_config) if cell.target.addresses else made.client
                # A garbage collection during a scenario would take processors from the measured controllers.
                with started(cell.target, plan.controllers, plan.heap, options, made) as processes, rare_collections():
                    one = _CellRun(plan, cell, processes, rows, left, log_line, spark, profile, client, grown)
                    asyncio.run(one.run())
        except (KcoreError, OSError) as error:
            log_line(f"{cell}: {error}")
            done = {row["scenario"] for row in rows if _is_of(row, cell)}
            rest = [name for name in plan.scenarios_of(cell.target) if name not in done]
            rows += [failed_row(cell, name, plan.controllers, plan.seed, str(error)) for name in rest]
        finally:
            rows[first:] = [row | build.as_row() for row in rows[first:]]
    return left


def _is_of(row: Row, cell: Cell) -> bool:
    mine = (cell.target.name, cell.brokers, cell.partitions, cell.repetition)
    return mine == tuple(row[name] for name in ("target", "wanted_brokers", "wanted_partitions", "repetition"))


class _CellRun:
    """The storm on one KRaft cluster."""

    def __init__(
        self,
        plan: StormPlan,
        cell: Cell,
        processes: ControllerQuorum | None,
        rows: list[Row],
        left: list[str],
        log_line: LogLine,
        spark: "SparkSession | None",
        profile: CellProfile | None,
        client: ListenerSecurity,
        cluster: PartitionTable | None,
    ) -> None:
        self.plan, self.cell, self.processes, self.rows, self.log_line = plan, cell, processes, rows, log_line
        self.jitter, self.spark, self.left = Random(), spark, left  # Jitter must not change the scenarios' choices.
        self.profile, self.client, self.cluster = profile, client, cluster
        self.nodes: Sequence[ChildProcess] = processes.nodes if processes else ()
        self.pids: list[int] = []  # The processes of controllers that run already.
        if profile and processes:
            profile.pids = processes.pids
        # Not from the seed: two runs may use one cluster.
        self.prefix = "storm-" if processes else f"kcore-storm-{Random().randbytes(4).hex()}-"

    async def run(self) -> None:
        bootstrap = self.processes.bootstrap if self.processes else self.cell.target.addresses
        quorum = Quorum(bootstrap, random=self.jitter, patience=self.cell.patience, security=self.client)
        try:
            await quorum.open()
            others = set((await cluster_of(quorum, self.jitter)).brokers)
            ids = self._broker_ids(quorum.controller_ids | others)
            try:
                await self._with_brokers(quorum, ids, bool(others))
            finally:  # The storm's brokers have ended: none registers again.
                if self.processes is None:
                    await self._clear_away(quorum, ids)
        finally:
            await quorum.close()

    def _broker_ids(self, taken: set[int]) -> Sequence[int]:
        """The ids of the cluster's brokers, in its order, or free ids if one of these is taken."""
        if self.cluster is None:
            return free_ids(self.cell.brokers, taken)
        ids: list[int] = self.cluster.brokers.ids.tolist()
        if taken.isdisjoint(ids):
            return ids
        free = free_ids(len(ids), taken)
        self.log_line(f"{self.cell}: broker ids of the cluster are in use: its brokers have ids from {free[0]} on")
        return [free[place] for place in np.argsort(np.argsort(ids)).tolist()]

    async def _with_brokers(self, quorum: Quorum, ids: Sequence[int], others: bool) -> None:
        session_ms, unknown = await self._session(quorum)
        self._find_processes(quorum)
        async with self._fleet(quorum) as fleet:
            for at, broker_id in enumerate(ids):
                usual = f"rack-{at % self.plan.racks}" if self.plan.racks else None
                fleet.add(broker_id, rack=usual if self.cluster is None else self.cluster.brokers.racks[at])
            storm = self._storm(quorum, fleet, others)
            if self.cluster is not None:
                storm.layout = layout_of(self.cluster, ids)
            storm.session_ms, storm.session_unknown = session_ms, unknown
            await self._scenarios(storm)

    async def _session(self, quorum: Quorum) -> tuple[int, str]:
        """The time-out of brokers' sessions in ms, or 0 and why it is not known."""
        given = self.plan.session_timeout_ms if self.cell.target.addresses else 0
        try:
            found = await session_timeout_ms(quorum)
        except TargetError as error:
            if given:
                return given, ""
            self.log_line(f"{self.cell}: the work of lost brokers will not be known: {error}")
            return 0, str(error)
        if given and given != found:
            raise TargetError(f"--session-timeout {given}: controller {quorum.leader_id} has {found} ms: leave it out")
        return found, ""

    def _find_processes(self, quorum: Quorum) -> None:
        """Finds the controllers that run already, if they are on this machine."""
        if self.processes is not None:
            return
        try:
            self.pids = controller_pids(quorum, self.plan.pids)
        except TargetError as error:
            self.log_line(f"{self.cell}: CPU and memory of the controllers are not known: {error}")

    def _fleet(self, quorum: Quorum) -> Fleet:
        is_counting = self.plan.metadata == "count"
        options = Options(self.plan.heartbeat_s, counts_only=is_counting, patience=self.cell.patience)
        random = Random()  # Not from the seed: a cluster refuses a second broker with the same directory ids.
        if self.spark is None:
            return Fleet(quorum, random=random, options=options)
        from kcore.measure.hollow.spark_fleet import SparkFleet

        return SparkFleet(quorum, self.spark, random=random, options=options, brokers=self.cell.brokers)

    def _storm(self, quorum: Quorum, fleet: Fleet, others: bool) -> Storm:
        plan, cell = self.plan, self.cell
        return Storm(
            quorum,
            fleet,
            Sizes(
                cell.brokers,
                cell.partitions,
                plan.partitions_per_topic,
                plan.replication_factor,
                plan.racks,
                plan.seconds,
                lost_share=plan.lost_share,
                lost_replicas=plan.lost_replicas,
            ),
            Random(),  # `_scenarios` sets another one for each scenario.
            # Controllers before 3.9 name only those that have registered, which takes a moment after the start.
            controllers=len(self.processes.nodes if self.processes else quorum.controller_ids),
            processes=self.processes,
            usage=self._usage,
            prefix=self.prefix,
            timeout_s=_WAIT_S * self.cell.patience,
            places=others,
            profile=self.profile,
        )

    def _usage(self) -> Usage | None:
        """The sums over all controllers, or over those that still run if this run started them; None if not known."""
        found = [usage_of(pid) for pid in (self.processes.pids() if self.processes else self.pids)]
        known = [usage for usage in found if usage]
        if not known or len(known) < len(found):
            return None
        sums = [sum(column) for column in zip(*((u.cpu_s, u.rss_bytes, u.peak_rss_bytes) for u in known), strict=True)]
        return Usage(sums[0], int(sums[1]), int(sums[2]))

    async def _scenarios(self, storm: Storm) -> None:
        """Runs the scenarios in order. A failed one is a row with its error; the next runs if the cluster recovers."""
        broken = ""
        for name in self.plan.scenarios_of(self.cell.target):
            if broken:
                self._failed(storm, name, f"not run: {broken}")
                continue
            storm.random = self.plan.dice(self.cell.repetition, name)
            try:
                async with asyncio.timeout(_SCENARIO_S * self.cell.patience):
                    result = await watched(ALL[name](storm), self.nodes)
            except asyncio.CancelledError:
                if storm.fleet.lost:
                    self._partial(storm, name)
                raise
            except Exception as error:  # Any error: the other scenarios may still give results.
                text = _text_of(error)
                ends = [node.end for node in self.nodes if node.end and node.end not in text]
                self._failed(storm, name, "; ".join((text, *ends)))
                broken = f"{name} failed" if name in FIRST else await self._recovered(storm)
                continue
            self.rows.append(row_of(self.cell, result, self.plan.seed))
            if result.invalid:
                self.log_line(f"{self.cell}: {name}: invalid: {result.invalid}")
            last = f"last broker after {result.last_ms:,.0f} ms" if result.last_ms >= 0 else "nothing changed"
            waves = "".join(f", {wave} {ms:,.0f} ms" for wave, ms in result.waves_ms.items())
            self.log_line(
                f"{self.cell}: {name}: {last}{waves}, {result.changes:,} changes, {result.seconds:.1f} s in all"
            )

    def _partial(self, storm: Storm, name: str) -> None:
        """Adds the row of a scenario that lost some of its brokers, from the changes that have arrived."""
        measure = storm.measure
        if measure is None or measure.result.scenario != name:
            return
        kinds = {record.__name__ for record in METADATA_RECORDS.values()} - {NoOpRecord.__name__}
        result = measure.so_far(*kinds)
        result.invalidate(storm.fleet.lost)
        self.rows.append(row_of(self.cell, result, self.plan.seed, partial=True))
        self.log_line(f"{self.cell}: {name}: partial: {storm.fleet.lost}")

    def _failed(self, storm: Storm, name: str, error: str) -> None:
        self.rows.append(failed_row(self.cell, name, storm.controllers, self.plan.seed, error))
        self.log_line(f"{self.cell}: {name} failed: {error}")

    async def _recovered(self, storm: Storm) -> str:
        """Brings all controllers and brokers back after a failure; returns why that failed, or an empty text."""
        for node in self.nodes:
            if not node.is_running:
                node.start(wait=False)
        try:
            await watched(storm.restore([*storm.fleet.brokers.values()]), self.nodes)
        except (KcoreError, OSError) as error:
            return f"the cluster did not recover: {error}"
        return ""

    async def _clear_away(self, quorum: Quorum, ids: Sequence[int]) -> None:
        """Removes the storm's topics and brokers from a cluster that the run did not start, also after Ctrl-C."""
        try:
            problems = await clear_away(quorum, self.jitter, self.prefix, ids)
        except (KcoreError, OSError) as error:
            maybe = Left(quorum.bootstrap[0], [f"{self.prefix}*"], list(ids))
            problems = [f"may be left behind: {maybe}: {_text_of(error)}"]
        self.left += [f"{self.cell}: {problem}" for problem in problems]
        for problem in problems:
            self.log_line(f"{self.cell}: {problem}")


def _text_of(error: Exception) -> str:
    """The message of an error; for an error that is not a KcoreError, its type too."""
    return str(error) if isinstance(error, KcoreError) else f"{type(error).__name__}: {error}"
