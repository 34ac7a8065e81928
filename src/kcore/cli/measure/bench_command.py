"""`kcore bench`: reads the options, runs a plan, and returns an exit code."""

import sys
from contextlib import closing, suppress
from dataclasses import replace
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import pyarrow as pa
import typer
from rich.console import Console
from rich.markup import escape

from kcore.cli.console import fail, load_before, say, wide_console
from kcore.cli.measure.result_stores import NO_STORES, STORM, Out, Stores, Table, stores_of
from kcore.cli.measure.results_folder import Overwrite, kept_whole, results_directory
from kcore.cli.options import bench_options
from kcore.cli.options.command_config import CommandConfigOption
from kcore.cli.options.counts import counts_of
from kcore.cli.options.spark_options import Archives, Conf, SparkSettings, session_on, spark_of
from kcore.cli.progress import progress_display
from kcore.errors import ClusterFileError, PlanError, StorageError
from kcore.measure.bench import bench_report as report
from kcore.measure.bench import bench_results as results
from kcore.measure.bench import job, tables
from kcore.measure.bench.bench_plan import Plan
from kcore.measure.bench.builtin import BUILT_IN
from kcore.measure.bench.cell_journal import CellJournal
from kcore.measure.report import result_files
from kcore.measure.report.exits import Exit
from kcore.measure.report.host_speeds import about_the_hosts
from kcore.measure.report.machine import Load
from kcore.measure.report.result_table import ResultTable
from kcore.measure.workloads.catalog import WORKLOADS, operations_of
from kcore.metadata.table.partition_table import PartitionTable
from kcore.spark.progress import Progress

if TYPE_CHECKING:
    from kcore.measure.storm.storm_plan import StormPlan

HERE: Final = "local[*]"  # Spark on this machine.
# Stands in the page until the storm has ended, so that charts are drawn once.
_SECTION: Final = "<!-- the storm's section -->"


def command(
    plan: Annotated[str, typer.Argument(help="A plan file (TOML) or a built-in plan: default, smoke.")] = "default",
    master: Annotated[str, typer.Option(help="Spark's master URL.")] = HERE,
    partitions: bench_options.Partitions = None,
    brokers: bench_options.Brokers = None,
    replication_factor: bench_options.Factor = None,
    topics: bench_options.Topics = None,
    partitions_per_topic: bench_options.PerTopic = None,
    racks: bench_options.Racks = None,
    isr: bench_options.Isr = None,
    brokers_gone: bench_options.Gone = None,
    warm_up_s: bench_options.WarmUp = None,
    duration_s: bench_options.Duration = None,
    repeat: bench_options.Repeat = None,
    seed: bench_options.Seed = None,
    cluster: bench_options.Cluster = None,
    command_config: CommandConfigOption = None,
    out: Out = None,
    overwrite: Overwrite = False,
    resume: bench_options.Resume = None,
    table: Table = None,
    conf: Conf = None,
    archives: Archives = None,
    no_spark: Annotated[bool, typer.Option("--no-spark", help="Run the cells in this process.")] = False,
    json: Annotated[bool, typer.Option("--json", help="JSON lines on stdout, the rest on stderr.")] = False,
    storm: bench_options.Storm = None,
    with_kafka: bench_options.WithKafka = False,
    print_plan: Annotated[bool, typer.Option("--print-plan", help="Show the plan as TOML and stop.")] = False,
    names: bench_options.Names = False,
) -> None:
    """Measure the workloads of a plan over Spark; print the results and draw charts.

    The default plan ends with a storm, the loss of a broker. Its results, those of `kcore storm`, are in storm/.

    Exit code: 0 good, 1 a cell or a scenario failed, 2 usage, 3 a partial or invalid run, or results that disagree.
    """
    if names:
        list_workloads(json)
        return
    sizes = {"partitions": partitions, "brokers": brokers, "topics": topics, "racks": racks, "isr": isr}
    layout = {"partitions_per_topic": partitions_per_topic, "replication_factor": replication_factor}
    runs = {"warm_up_s": warm_up_s, "duration_s": duration_s, "repeat": repeat, "seed": seed}
    wanted, real = effective_plan(plan, cluster, command_config, brokers_gone=brokers_gone, **sizes, **layout, **runs)
    if print_plan:
        say(wanted.to_toml().removesuffix("\n"))
        return
    spark, (folder, at) = spark_of(None if no_spark else master, conf, archives), stores_of(out, table, overwrite)
    ending = storm_plan(storm, with_kafka, _is_default(wanted, spark), repeat, seed)
    done = run(wanted, spark, folder, json, overwrite=overwrite, resume=resume, storm=ending, cluster=real, stores=at)
    raise typer.Exit(done)


def _is_default(plan: Plan, spark: SparkSettings | None) -> bool:
    """True for the default plan, unchanged and on this machine."""
    return plan == Plan.of("default") and spark in (None, SparkSettings(HERE, {}))


def list_workloads(as_json: bool) -> None:
    """Prints each workload with its purpose and its operations, one line per group."""
    for each in WORKLOADS.values():
        groups = operations_of(each)
        if as_json:
            listed = [{"group": group, "actions": actions} for group, actions in groups.items()]
            say(dumps({"workload": each.name, "summary": each.summary, "operations": listed}))
            continue
        say(f"{each.name:12} {each.summary}")
        for group, actions in groups.items():
            say(f"    {group}: {'; '.join(actions)}")
    if not as_json:
        say(f"\nA plan (TOML) names workloads; built-in plans: {', '.join(BUILT_IN)} (--print-plan shows one).")


def effective_plan(
    plan: str, cluster: str | None, command_config: Path | None, **options: Any
) -> tuple[Plan, PartitionTable | None]:
    """The plan with the options applied, and its cluster; ends the command with exit code 2 if one is invalid."""
    try:
        wanted, table = Plan.of(plan), None
        wanted = replace(wanted, cluster=cluster or wanted.cluster)
        if wanted.cluster is not None:
            table = job.read_cluster(wanted.cluster, command_config)
            if cluster is not None and options["partitions"] is None:
                wanted = job.as_it_is(wanted, table)
        sizes = {
            name: None if (text := options[name]) is None else counts_of(name, text)
            for name in ("partitions", "brokers", "topics")
        }
        if topics := sizes.pop("topics"):
            if len(topics) > 1:
                raise PlanError(f"--topics: {options['topics']!r} is more than one count")
            options["topics"] = topics[0]
        return wanted.with_options(**options | sizes), table
    except (PlanError, ClusterFileError) as error:
        fail(str(error))


def storm_plan(
    with_storm: bool | None, with_kafka: bool, is_default: bool, repeat: int | None, seed: int | None
) -> "StormPlan | None":
    """The plan of the storm at the end, or None.

    `with_storm`: --with-storm or --no-storm; None: only a default plan has a storm.

    Ends the command with exit code 2 for options that contradict each other.
    """
    if with_kafka and with_storm is False:
        fail("--no-storm leaves out the storm that --with-kafka is for: choose one")
    if not (with_kafka or (is_default if with_storm is None else with_storm)):
        return None
    from kcore.cli.measure import bench_storm  # A run without a storm does not import hollow brokers.

    return bench_storm.plan_of(with_kafka, repeat, seed)


def run(
    plan: Plan,
    spark: SparkSettings | None,
    out: Path | None,
    as_json: bool,
    *,
    overwrite: bool = False,
    resume: Path | None = None,
    storm: "StormPlan | None" = None,
    cluster: PartitionTable | None = None,
    stores: Stores = NO_STORES,
) -> Exit:
    """Runs the plan, prints and writes the results, then runs the storm. Without `spark`, cells run in this process.

    `resume`: the folder of an unfinished run, whose finished cells are not run again. `stores` get the results, too.
    """
    console = wide_console(stderr=as_json)
    with closing(_journal(plan, out, overwrite, resume)) as journal:
        if storm is not None:
            results_directory(journal.path.parent / STORM, "storm", overwrite or resume is not None)
        load = load_before()
        measured = _measured(plan, spark, console, cluster, journal)
        directory = journal.path.parent
        rows = measured.to_pylist()
        summaries = results.summarise(rows)
        tables.show(console, summaries, rows)
        for line in about_the_hosts(result_files.facts_of(measured)):
            console.print(f"[bold yellow]hosts[/] {escape(line)}", soft_wrap=True)
        for summary in summaries if as_json else ():
            sys.stdout.write(dumps(summary.as_row()) + "\n")
        if missing := results.missing(rows, plan.cells()):
            no_storm = ": no storm" if storm is not None else ""
            console.print(f"[bold red]partial run[/] {len(missing)} of {len(plan.cells())} cells are missing{no_storm}")
            storm = None
        if 0 < journal.count < len(plan.cells()):
            console.print(f"--resume {directory} runs the cells that are not measured", soft_wrap=True)
        with kept_whole(directory):
            if overwrite:
                _forget_storm(directory / STORM)
            page = _keep(measured, plan, directory, "" if storm is None else _SECTION, stores.table)
            journal.end(len(plan.cells()))
        stores.append(measured, plan.title, directory, console)
        kept, found = "results.parquet, results.jsonl, plan.toml, report.html", results.verdict(rows, plan.cells())
        if storm is not None:
            found = max(found, _end_with(storm, page, directory, load, console, as_json))
            kept += f", {STORM}/"
        console.print(f"Results in {directory}: {kept}", soft_wrap=True)
        stores.copy(directory, console)
        return found


def _journal(plan: Plan, out: Path | None, overwrite: bool, resume: Path | None) -> CellJournal:
    """The journal of a new run, or of the run to resume; ends the command with exit code 2 if that cannot be."""
    if resume is None:
        return CellJournal(results_directory(out, "bench", overwrite), plan)
    if out is not None or overwrite:
        fail("--resume writes to the folder of the run: leave out --out and --overwrite")
    try:
        return CellJournal.resume(resume, plan)
    except OSError as error:
        fail(f"--resume: {error}")


def _measured(
    plan: Plan, wanted: SparkSettings | None, console: Console, cluster: PartitionTable | None, journal: CellJournal
) -> pa.Table:
    """The rows of all cells. Ends the command with one line if the plan cannot run, or the journal cannot be kept."""
    try:
        return _measure(plan, wanted, console, cluster, journal)
    except (PlanError, ClusterFileError) as error:
        fail(str(error))
    except StorageError as error:  # The disk of the journal may be full.
        say(f"kcore: {error}: the run ends; --resume {journal.path.parent} runs the missing cells", err=True)
        raise typer.Exit(Exit.INVALID) from None


def _measure(
    plan: Plan, wanted: SparkSettings | None, console: Console, cluster: PartitionTable | None, journal: CellJournal
) -> pa.Table:
    cells, earlier = len(plan.cells()), journal.count
    if wanted is None:
        with progress_display(console, cells, None, earlier) as on_progress:
            return job.run(plan, on_progress=on_progress, cluster=cluster, journal=journal)
    troubles: list[str] = []
    with session_on(wanted) as spark, progress_display(console, cells, wanted.master, earlier) as on_progress:

        def watch(progress: Progress) -> None:
            if progress.trouble and progress.trouble not in troubles:
                troubles.append(progress.trouble)
            on_progress(progress)

        table = job.run(plan, spark, watch, cluster, journal)
    for trouble in troubles:
        console.print(f"[bold red]Spark[/] {escape(trouble)}", soft_wrap=True)
    return table


def _keep(table: pa.Table, plan: Plan, directory: Path, section: str, runs_at: ResultTable | None) -> str:
    """Writes all files of the results; returns the page."""
    result_files.write_rows(table, directory)
    result_files.write_text(directory / "plan.toml", plan.to_toml())
    page = report.render(table, plan.cells(), directory, section, runs_at)
    result_files.write_text(directory / "report.html", page)
    return page


def _end_with(storm: "StormPlan", page: str, directory: Path, load: Load, console: Console, as_json: bool) -> Exit:
    """Runs the storm, then puts its section into the page of the run."""
    from kcore.cli.measure import bench_storm

    ending = bench_storm.run(storm, directory / STORM, load, console, as_json)
    with kept_whole(directory):
        result_files.write_text(directory / "report.html", page.replace(_SECTION, ending.section))
    return ending.exit


def _forget_storm(folder: Path) -> None:
    """Removes the results of an earlier storm, so that the folder has the results of one run only."""
    if folder.is_dir():
        result_files.clear(folder)
        with suppress(OSError):
            folder.rmdir()
