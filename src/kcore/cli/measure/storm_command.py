"""`kcore storm`: from options to an exit code."""

import json
import logging
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from kcore.cli.console import fail, load_before, say, wide_console
from kcore.cli.measure.results_folder import Overwrite, kept_whole, results_directory
from kcore.cli.options import storm_options
from kcore.cli.options.spark_options import Archives, Conf, SparkSettings, session_on, settings_of
from kcore.errors import PlanError, TargetError
from kcore.measure.report import result_files
from kcore.measure.report.exits import Exit
from kcore.measure.report.machine import Load, facts
from kcore.measure.report.units import parse_counts
from kcore.measure.storm import report_table
from kcore.measure.storm import run_storm as storms
from kcore.measure.storm import storm_report as report
from kcore.measure.storm.kraft.scenarios import LIMITS, SCENARIOS
from kcore.measure.storm.profile import profile_files, profile_page
from kcore.measure.storm.profile.profile_cell import CellProfile, check_can_profile
from kcore.measure.storm.report_rows import BULKY, Row, different_ends, medians, merged, missing, table_of
from kcore.measure.storm.storm_plan import StormPlan
from kcore.measure.storm.targets import Target
from kcore.measure.storm.zk.scenarios import SCENARIOS as ZK_SCENARIOS
from kcore.printable import printable
from kcore.spark.java import NoJavaError, jvm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def command(
    scenarios: storm_options.Scenarios = None,
    target: storm_options.Targets = None,
    brokers: storm_options.Brokers = "20",
    partitions: storm_options.Partitions = "10k",
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
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="For the results; default out/storm-<time>.")] = None,
    overwrite: Overwrite = False,
    conf: Conf = None,
    archives: Archives = None,
    json: Annotated[bool, typer.Option("--json", help="JSON lines on stdout, the rest on stderr.")] = False,
    names: storm_options.Names = False,
) -> None:
    """Put a controller of Kafka or kcore under the load of hollow brokers; report when the last one has the change.

    Exit code: 0 good, 1 a scenario failed, 2 usage, 3 a partial run, or one with an invalid repetition.
    """
    if names:
        raise typer.Exit(list_scenarios())
    if old_metadata is not None:
        metadata = old_metadata
        say("kcore: --mind is called --metadata now.", err=True)
    plan = plan_of(
        (brokers, partitions, lost_replicas), paired=paired, targets=tuple(target or ["kafka-4.3.1"]),
        scenarios=tuple(scenarios or ()), partitions_per_topic=partitions_per_topic,
        replication_factor=replication_factor, racks=racks,
        controllers=controllers, heap=heap, metadata=metadata, heartbeat_s=heartbeat_s, seconds=seconds,
        lost_share=lost_share, master=master, repeat=repeat, seed=seed, profile=profile,
        session_timeout_ms=session_timeout, pids=tuple(pid or ()),
    )  # fmt: skip
    raise typer.Exit(run(plan, out, json, settings_of(master, conf, archives) if master else None, overwrite=overwrite))


def list_scenarios() -> Exit:
    """A line each; the limits in a group of their own."""
    for name, scenario in SCENARIOS.items():
        say(_line(name, scenario))
    say("\nof controllers in ZooKeeper mode (kafka-3.9.1-zk, kcore-zk):")
    for name, zk_scenario in ZK_SCENARIOS.items():
        say(_line(name, zk_scenario))
    say("\nlimits of the controller, only where named:")
    for name, scenario in LIMITS.items():
        say(_line(name, scenario))
    return Exit.GOOD


def _line(name: str, scenario: Callable[..., Any]) -> str:
    return f"{name:20} {(scenario.__doc__ or '').strip().splitlines()[0]}"


def plan_of(counts: tuple[str, str, str], **options: Any) -> StormPlan:
    """The plan of these brokers, partitions and lost replicas; ends the command with exit code 2 if there is none."""
    try:
        brokers, partitions, lost = map(_counts, ("brokers", "partitions", "lost-replicas"), counts)
        if len(lost) != 1:
            raise PlanError(f"--lost-replicas {counts[2]!r} is not one count such as 100k")
        plan = StormPlan(brokers=brokers, partitions=partitions, lost_replicas=lost[0], **options)
        plan.check()
    except (PlanError, TargetError) as error:
        fail(str(error))
    return plan


def _counts(option: str, text: str) -> tuple[int, ...]:
    try:
        return tuple(parse_counts(text))
    except ValueError:
        raise PlanError(f"--{option}: {text!r} is no list of counts such as 20,100 or 10k,1M") from None


def run(
    plan: StormPlan, out: Path | None, as_json: bool, spark: SparkSettings | None = None, *, overwrite: bool = False
) -> Exit:
    """Run, show and keep. Ctrl-C and SIGTERM end it early: what there is by then is shown and kept as partial."""
    try:
        storms.check_targets(plan)
        if plan.profile:
            check_can_profile(plan)
    except TargetError as error:
        say(f"kcore: {error}", err=True)
        return Exit.FAILED
    progress = wide_console(stderr=True)
    logging.getLogger("kazoo").setLevel(logging.ERROR)  # The end of a server at the end of the run is not logged.
    directory = results_directory(out, "storm", overwrite)
    for line in plan.left_out():
        _print(progress, f"left out: {line}")
    rows: list[Row] = []
    profiles: list[CellProfile] = []
    before = load_before()
    is_whole, left = _run(plan, rows, progress, spark, profiles if plan.profile else None)
    lacking = missing(rows, [(cell, name) for cell in plan.cells() for name in plan.scenarios_of(cell.target)])
    console = progress if as_json else wide_console()
    report_table.show(console, merged(rows), [*report_table.troubles(rows, lacking), *left])
    for row in rows if as_json else ():
        sys.stdout.write(json.dumps({name: value for name, value in row.items() if name not in BULKY}) + "\n")
    with kept_whole(directory):
        found = _keep(plan, rows, lacking, directory, before, profiles)
    _show_profile(console, found)
    kept = "results.parquet, results.jsonl, medians.json, plan.toml, report.html"
    kept += f", {profile_files.ROWS}, {profile_files.GRAPHS}" if plan.profile else ""
    console.print(f"Results in {directory}: {kept}", soft_wrap=True)
    return verdict(rows, lacking) if is_whole and not left else Exit.INVALID


def _run(
    plan: StormPlan,
    rows: list[Row],
    console: Console,
    wanted: SparkSettings | None,
    profiles: list[CellProfile] | None,
) -> tuple[bool, list[str]]:
    """Whether it came to its end, and what it has left on clusters of others, a line each."""
    before = signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        with _spark(wanted) as spark:
            left = storms.run(plan, rows, partial(_print, console), spark, profiles)
    except KeyboardInterrupt:
        console.print("interrupted: all is stopped", soft_wrap=True)
        return False, []
    except NoJavaError as error:
        fail(str(error))
    finally:
        signal.signal(signal.SIGTERM, before)
    return True, left


def _print(console: Console, line: str) -> None:
    """One line. An error in it may have the text of a controller."""
    console.print(escape(printable(line)), soft_wrap=True)


@contextmanager
def _spark(wanted: SparkSettings | None) -> "Iterator[SparkSession | None]":
    """A Spark session if one is wanted; none: the brokers run in this process."""
    if wanted is None:
        yield None
        return
    with session_on(wanted) as spark:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # Spark's own cuts the clearing away short.
        yield spark


def verdict(rows: Sequence[Row], lacking: Sequence[str]) -> Exit:
    """What the rows of a run come to."""
    if lacking or any(row["partial"] or not row["valid"] for row in rows):
        return Exit.INVALID
    is_wrong = any(row["error"] is not None for row in rows) or different_ends(rows)
    return Exit.FAILED if is_wrong else Exit.GOOD


def _keep(
    plan: StormPlan,
    rows: list[Row],
    lacking: Sequence[str],
    directory: Path,
    before: Load,
    profiles: Sequence[CellProfile],
) -> profile_files.Written:
    about = facts(before) | _jvm(plan) | {"plan": plan.to_toml(), "targets": list(dict.fromkeys(plan.targets))}
    result_files.write(result_files.with_facts(table_of(rows), about), directory)
    result_files.write_text(directory / "plan.toml", plan.to_toml())
    text = json.dumps({"facts": about, "medians": medians(rows)}, indent=1)
    result_files.write_text(directory / "medians.json", f"{text}\n")
    found = profile_files.write(profiles, directory) if plan.profile else profile_files.Written()
    section = profile_page.section(found.rows, found.drawn, found.costs)
    text = report.render(rows, about, lacking, directory, section)
    result_files.write_text(directory / "report.html", text)
    return found


def _show_profile(console: Console, found: profile_files.Written) -> None:
    profile_page.show(console, found.rows)
    for line in (*found.costs, *found.troubles):
        _print(console, line)


def _jvm(plan: StormPlan) -> dict[str, str | None]:
    """The Java virtual machine of Kafka's controllers, or of ZooKeeper, that the run started; empty if none of it."""
    started = any(target.release or target.in_zookeeper for target in map(Target.parse, plan.targets))
    return {"jvm": jvm()} if started else {}
