"""`kcore storm`: reads the options, measures controllers, and returns an exit code."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import numpy as np
import typer

from kcore.cli.console import fail, load_before, say, wide_console
from kcore.cli.measure.measured_storm import measure, print_line
from kcore.cli.measure.result_stores import NO_STORES, Out, Stores, Table, stores_of
from kcore.cli.measure.results_folder import Overwrite, kept_whole, results_directory
from kcore.cli.options import storm_options, target_options
from kcore.cli.options.command_config import CommandConfigOption
from kcore.cli.options.counts import counts_of
from kcore.cli.options.spark_options import Archives, Conf, SparkSettings, spark_of
from kcore.cli.servers.server_process import use_all_descriptors
from kcore.errors import ClusterFileError, PlanError, TargetError
from kcore.measure.processes.target import KAFKA
from kcore.measure.report.exits import Exit
from kcore.measure.storm import run_storm as storms
from kcore.measure.storm.kraft.scenarios import LIMITS, SCENARIOS
from kcore.measure.storm.profile import profile_files, profile_page
from kcore.measure.storm.profile.profile_cell import check_can_profile
from kcore.measure.storm.storm_plan import MOST_A_TOPIC, StormPlan
from kcore.measure.storm.zk.scenarios import SCENARIOS as ZK_SCENARIOS
from kcore.metadata.table.partition_table import PartitionTable
from kcore.sources.load import load_cluster
from kcore.spark.java import NoJavaError


def command(
    scenarios: storm_options.Scenarios = None,
    target: storm_options.Targets = None,
    jvm: target_options.Jvm = None,
    properties: target_options.Properties = None,
    java: target_options.Java = None,
    brokers: storm_options.Brokers = None,
    partitions: storm_options.Partitions = None,
    cluster: storm_options.Cluster = None,
    paired: storm_options.Paired = False,
    partitions_per_topic: storm_options.PerTopic = 100,
    replication_factor: storm_options.Factor = 3,
    racks: storm_options.Racks = 3,
    controllers: storm_options.Controllers = 1,
    heap: storm_options.Heap = "2g",
    metadata: storm_options.Metadata = "full",
    old_metadata: storm_options.OldMetadata = None,
    heartbeat_s: storm_options.Heartbeat = 2.0,
    seconds: storm_options.Seconds = 10.0,
    lost_share: storm_options.LostShare = 0.5,
    lost_replicas: storm_options.LostReplicas = "0",
    master: storm_options.Master = "",
    repeat: storm_options.Repeat = 1,
    seed: storm_options.Seed = 1,
    session_timeout: storm_options.SessionTimeout = 0,
    pid: storm_options.Pids = None,
    profile: storm_options.Profile = False,
    command_config: CommandConfigOption = None,
    secure: storm_options.Secure = False,
    secure_with: storm_options.SecureWith = None,
    out: Out = None,
    overwrite: Overwrite = False, table: Table = None,
    conf: Conf = None, archives: Archives = None,
    json: Annotated[bool, typer.Option("--json", help="JSON lines on stdout, the rest on stderr.")] = False,
    names: storm_options.Names = False,
) -> None:  # fmt: skip
    """Load a controller of Kafka or kcore with hollow brokers; report when the last broker has each change.

    Exit code: 0 good, 1 a target or a scenario failed, 2 usage, 3 a partial run, or one with an invalid repetition.
    """
    if names:
        raise typer.Exit(list_scenarios())
    sizes = Sizes(brokers, partitions, lost_replicas, partitions_per_topic, replication_factor, racks)
    plan, real = plan_and_cluster(cluster, command_config, sizes, targets=target or [KAFKA], jvm=jvm, java=java,
        properties=properties, scenarios=scenarios, controllers=controllers, heap=heap, seconds=seconds, paired=paired,
        metadata=old_metadata or metadata, heartbeat_s=heartbeat_s, lost_share=lost_share, master=master, seed=seed,
        repeat=repeat, profile=profile, session_timeout_ms=session_timeout, pids=pid,
        secure=_protocol(secure, secure_with))  # fmt: skip
    spark, (folder, stores) = spark_of(master, conf, archives), stores_of(out, table, overwrite)
    raise typer.Exit(run(plan, folder, json, spark, overwrite=overwrite, cluster=real, stores=stores))


class Sizes(NamedTuple):
    """The options that describe the cluster of a storm, as texts and numbers."""

    brokers: str | None
    partitions: str | None
    lost_replicas: str
    partitions_per_topic: int = 100
    replication_factor: int = 3
    racks: int = 3

    def counts(self) -> tuple[str, str, str]:
        """The brokers, partitions and lost replicas."""
        return self.brokers or "20", self.partitions or "10k", self.lost_replicas

    def layout(self) -> dict[str, int]:
        """The options about topics and racks, by name."""
        return {name: getattr(self, name) for name in _LAYOUT}


_LAYOUT: Final = ("partitions_per_topic", "replication_factor", "racks")


def plan_and_cluster(
    source: str | None, command_config: Path | None, given: Sizes, **options: Any
) -> tuple[StormPlan, PartitionTable | None]:
    """The plan of these options and sizes, and the cluster of --cluster; ends the command if one is invalid."""
    table, sizes = read_cluster(source, command_config, given)
    options |= {"cluster": source or "", "command_config": str(command_config or "")}
    return plan_of(sizes.counts(), **sizes.layout(), **options), table


def read_cluster(source: str | None, command_config: Path | None, given: Sizes) -> tuple[PartitionTable | None, Sizes]:
    """The cluster of --cluster, and its sizes where the options give none; ends the command for an unusable one."""
    if source is None:
        return None, given
    if given.layout() != Sizes(None, None, "0").layout():
        fail(f"--partitions-per-topic, --replication-factor and --racks are for generated clusters, and {source} has "
             "its own: leave them out")  # fmt: skip
    try:
        table = load_cluster(source, command_config=command_config).table
    except ClusterFileError as error:
        fail(str(error))
    if not table.partition_count:
        fail(f"{source}: the cluster has no partition")
    used = table.topic_row__p >= 0
    sizes__t = np.bincount(table.topic_row__p[used])
    if (size := int(sizes__t.max())) > MOST_A_TOPIC:
        name = table.topics.names[int(sizes__t.argmax())]
        fail(f"{source}: topic {name!r} has {size:,} partitions; one request creates at most {MOST_A_TOPIC:,}")
    return table, given._replace(
        brokers=given.brokers or str(len(table.brokers)),
        partitions=given.partitions or str(table.partition_count),
        replication_factor=int((table.replicas__ps[used] >= 0).sum(axis=1).max()),
        racks=len({*table.brokers.racks} - {None}),
    )


def list_scenarios() -> Exit:
    """Prints a line per scenario, with those of ZooKeeper mode and the limits in groups of their own."""
    for name, scenario in SCENARIOS.items():
        say(_line(name, scenario))
    say("\nof controllers in ZooKeeper mode (kafka-3.9.1-zk, kcore-zk):")
    for name, zk_scenario in ZK_SCENARIOS.items():
        say(_line(name, zk_scenario))
    say("\nlimits of the controller, only where named:")
    for name, scenario in LIMITS.items():
        say(_line(name, scenario))
    return Exit.GOOD


def _protocol(secure: bool, secure_with: str | None) -> str:
    """The security protocol of --secure; empty without it."""
    if secure_with is not None and not secure:
        fail(f"--secure-with {secure_with} is the protocol of --secure: give --secure, too")
    return (secure_with or storm_options.SECURE_WITH) if secure else ""


def _line(name: str, scenario: Callable[..., Any]) -> str:
    return f"{name:20} {(scenario.__doc__ or '').strip().splitlines()[0]}"


def plan_of(counts: tuple[str, str, str], **options: Any) -> StormPlan:
    """The plan of these brokers, partitions and lost replicas; ends the command with exit code 2 if it is invalid.

    An option that may be given several times is a list, or None if it is not given.
    """
    given: dict[str, Any] = {name: tuple(each or ()) if each is None or isinstance(each, list) else each
             for name, each in options.items()}  # fmt: skip
    try:
        brokers, partitions, lost = map(counts_of, ("brokers", "partitions", "lost-replicas"), counts)
        if len(lost) != 1:
            raise PlanError(f"--lost-replicas {counts[2]!r} is not one count such as 100k")
        plan = StormPlan(brokers=brokers, partitions=partitions, lost_replicas=lost[0], **given)
        plan.check()
    except (PlanError, TargetError) as error:
        fail(str(error))
    return plan


def run(
    plan: StormPlan,
    out: Path | None,
    as_json: bool,
    spark: SparkSettings | None = None,
    *,
    overwrite: bool = False,
    cluster: PartitionTable | None = None,
    stores: Stores = NO_STORES,
) -> Exit:
    """Runs the plan, prints and writes the results. After Ctrl-C or SIGTERM it does so with the finished rows."""
    try:
        storms.check_descriptors(plan)
        storms.check_targets(plan)
        if plan.profile:
            check_can_profile(plan)
        directory = results_directory(out, "storm", overwrite)
        storms.check_builds(plan)
    except (TargetError, NoJavaError) as error:
        say(f"kcore: {error}", err=True)
        return Exit.FAILED
    except PlanError as error:
        fail(str(error))
    use_all_descriptors()
    progress = wide_console(stderr=True)
    for line in plan.left_out():
        print_line(progress, f"left out: {line}")
    storm = measure(plan, progress, load_before(), spark, cluster)
    console = progress if as_json else wide_console()
    storm.show(console, as_json)
    with kept_whole(directory):
        found = storm.keep(directory, runs_at=stores.table)
    stores.append(storm.table(), "storm", directory, console)
    profile_page.show(console, found.rows)
    for line in (*found.costs, *found.troubles):
        print_line(console, line)
    kept = "results.parquet, results.jsonl, medians.json, plan.toml, report.html"
    kept += f", {profile_files.ROWS}, {profile_files.GRAPHS}" if plan.profile else ""
    console.print(f"Results in {directory}: {kept}", soft_wrap=True)
    stores.copy(directory, console)
    return storm.exit
