"""`kcore bench`: from options to an exit code."""

import sys
from dataclasses import replace
from json import dumps
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import typer
from rich.console import Console
from rich.markup import escape

from kcore.cli.console import fail, load_before, say, wide_console
from kcore.cli.measure.results_folder import Overwrite, kept_whole, results_directory
from kcore.cli.options import bench_options
from kcore.cli.options.spark_options import Archives, Conf, SparkSettings, session_on, settings_of
from kcore.cli.progress import progress_display
from kcore.errors import ClusterFileError, PlanError
from kcore.measure.bench import bench_report as report
from kcore.measure.bench import bench_results as results
from kcore.measure.bench import job, tables
from kcore.measure.bench.bench_plan import Plan
from kcore.measure.bench.builtin import BUILT_IN
from kcore.measure.report import result_files
from kcore.measure.report.exits import Exit
from kcore.measure.report.units import parse_counts
from kcore.measure.workloads.catalog import WORKLOADS, operations_of
from kcore.spark.progress import Progress


def command(
    plan: Annotated[str, typer.Argument(help="A plan file (TOML) or a built-in plan: default, smoke.")] = "default",
    master: Annotated[str, typer.Option(help="Spark's master URL.")] = "local[*]",
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
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="For the results; default out/bench-<time>.")] = None,
    overwrite: Overwrite = False,
    conf: Conf = None,
    archives: Archives = None,
    no_spark: Annotated[bool, typer.Option("--no-spark", help="Run the cells in this process.")] = False,
    json: Annotated[bool, typer.Option("--json", help="JSON lines on stdout, the rest on stderr.")] = False,
    print_plan: Annotated[bool, typer.Option("--print-plan", help="Show the plan as TOML and stop.")] = False,
    names: bench_options.Names = False,
) -> None:
    """Measure the workloads of a plan over Spark; print the results and draw charts.

    Exit code: 0 good, 1 a cell failed, 2 usage, 3 a partial run or results that disagree.
    """
    if names:
        list_workloads(json)
        return
    sizes = {"partitions": partitions, "brokers": brokers, "topics": topics}
    layout = {"partitions_per_topic": partitions_per_topic, "replication_factor": replication_factor}
    replicas = {"racks": racks, "isr": isr, "brokers_gone": brokers_gone}
    runs = {"warm_up_s": warm_up_s, "duration_s": duration_s, "repeat": repeat, "seed": seed}
    wanted = effective_plan(plan, cluster, **sizes, **layout, **replicas, **runs)
    if print_plan:
        say(wanted.to_toml().removesuffix("\n"))
        return
    spark = None if no_spark else settings_of(master, conf, archives)
    raise typer.Exit(run(wanted, spark, out, json, overwrite=overwrite))


def list_workloads(as_json: bool) -> None:
    """Each workload with what it measures, and its operations, a line a group."""
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


def effective_plan(plan: str, cluster: str | None, **options: Any) -> Plan:
    """The plan with the options in it; ends the command with exit code 2 if there is none."""
    try:
        wanted = Plan.of(plan)
        if cluster is not None:
            wanted = replace(wanted, cluster=cluster)
            if options["partitions"] is None:
                wanted = job.as_it_is(wanted)
        sizes = {name: _counts(name, options[name]) for name in ("partitions", "brokers", "topics")}
        if topics := sizes.pop("topics"):
            if len(topics) > 1:
                raise PlanError(f"--topics: {options['topics']!r} is more than one count")
            options["topics"] = topics[0]
        return wanted.with_options(**options | sizes)
    except (PlanError, ClusterFileError) as error:
        fail(str(error))


def _counts(option: str, text: str | None) -> tuple[int, ...] | None:
    try:
        return None if text is None else tuple(parse_counts(text))
    except ValueError:
        raise PlanError(f"--{option}: {text!r} is no list of counts such as 10k,100k,1M") from None


def run(plan: Plan, spark: SparkSettings | None, out: Path | None, as_json: bool, *, overwrite: bool = False) -> Exit:
    """Run, show and keep; without `spark` in this process."""
    console = wide_console(stderr=as_json)
    directory = results_directory(out, "bench", overwrite)
    try:
        if plan.cluster is not None:
            job.read_cluster(plan.cluster)  # A wrong invocation ends here, with one line.
        load_before()
        table = _measure(plan, spark, console)
    except (PlanError, ClusterFileError) as error:
        fail(str(error))
    rows = table.to_pylist()
    summaries = results.summarise(rows)
    tables.show(console, summaries, rows)
    for summary in summaries if as_json else ():
        sys.stdout.write(dumps(summary.as_row()) + "\n")
    if missing := results.missing(rows, plan.cells()):
        console.print(f"[bold red]partial run[/] {len(missing)} of {len(plan.cells())} cells are missing")
    with kept_whole(directory):
        _keep(table, plan, directory)
    console.print(f"Results in {directory}: results.parquet, results.jsonl, plan.toml, report.html", soft_wrap=True)
    return results.verdict(rows, plan.cells())


def _measure(plan: Plan, wanted: SparkSettings | None, console: Console) -> pa.Table:
    if wanted is None:
        with progress_display(console, len(plan.cells()), None) as on_progress:
            return job.run(plan, on_progress=on_progress)
    troubles: list[str] = []
    with session_on(wanted) as spark, progress_display(console, len(plan.cells()), wanted.master) as on_progress:

        def watch(progress: Progress) -> None:
            if progress.trouble and progress.trouble not in troubles:
                troubles.append(progress.trouble)
            on_progress(progress)

        table = job.run(plan, spark, watch)
    for trouble in troubles:
        console.print(f"[bold red]Spark[/] {escape(trouble)}", soft_wrap=True)
    return table


def _keep(table: pa.Table, plan: Plan, directory: Path) -> None:
    result_files.write(table, directory)
    result_files.write_text(directory / "plan.toml", plan.to_toml())
    result_files.write_text(directory / "report.html", report.render(table, plan.cells(), directory))
