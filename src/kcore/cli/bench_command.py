"""`kcore bench`: from options to an exit code."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import typer
from rich.console import Console
from rich.markup import escape

from kcore.bench import job, report, results, tables
from kcore.bench.plan import Plan
from kcore.cli.console import fail, wide_console
from kcore.cli.progress import progress_display
from kcore.cli.results_folder import Overwrite, results_directory
from kcore.cli.spark_options import Archives, Conf, SparkSettings, session_on, settings_of
from kcore.errors import ClusterFileError, PlanError
from kcore.report import keep
from kcore.report.exits import Exit
from kcore.report.units import parse_counts
from kcore.spark.progress import Progress

Sizes = typer.Option(metavar="N,N,...", help="Instead of the plan's sizes, such as 10k,1M.")


def command(
    plan: Annotated[str, typer.Argument(help="A plan file (TOML) or a built-in plan: default, smoke.")] = "default",
    master: Annotated[str, typer.Option(help="Spark's master URL.")] = "local[*]",
    partitions: Annotated[str | None, Sizes] = None,
    brokers: Annotated[str | None, Sizes] = None,
    repeat: Annotated[int | None, typer.Option(help="Repetitions of every cell.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of every cell.")] = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="A ZooKeeper dump or a raw request with its header, in place of generated clusters: "
            "as it is, or scaled up to --partitions and --brokers.",
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="For the results; default out/bench-<time>.")] = None,
    overwrite: Overwrite = False,
    conf: Conf = None,
    archives: Archives = None,
    no_spark: Annotated[bool, typer.Option("--no-spark", help="Run the cells in this process.")] = False,
    json: Annotated[bool, typer.Option("--json", help="JSON lines on stdout, the rest on stderr.")] = False,
    print_plan: Annotated[bool, typer.Option("--print-plan", help="Show the plan as TOML and stop.")] = False,
) -> None:
    """Run a plan's workloads over Spark; print, keep and draw what was measured.

    Exit code: 0 good, 1 a cell failed, 2 usage, 3 a partial run or results that disagree.
    """
    wanted = effective_plan(plan, partitions, brokers, repeat, seed, cluster)
    if print_plan:
        typer.echo(wanted.to_toml(), nl=False)
        return
    spark = None if no_spark else settings_of(master, conf, archives)
    raise typer.Exit(run(wanted, spark, out, json, overwrite=overwrite))


def effective_plan(
    plan: str, partitions: str | None, brokers: str | None, repeat: int | None, seed: int | None, cluster: str | None
) -> Plan:
    """The plan with the options in it; ends the command with exit code 2 if there is none."""
    try:
        wanted = Plan.of(plan)
        if cluster is not None:
            wanted = replace(wanted, cluster=cluster)
            if partitions is None:
                wanted = job.as_it_is(wanted)
        sizes = {"partitions": _counts("partitions", partitions), "brokers": _counts("brokers", brokers)}
        return wanted.with_options(**sizes, repeat=repeat, seed=seed)
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
        table = _measure(plan, spark, console)
    except (PlanError, ClusterFileError) as error:
        fail(str(error))
    exit_code = _keep_and_show(table, plan, directory, console)
    if as_json:
        for summary in results.summarise(table.to_pylist()):
            sys.stdout.write(json.dumps(summary.as_row()) + "\n")
    return exit_code


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


def _keep_and_show(table: pa.Table, plan: Plan, directory: Path, console: Console) -> Exit:
    rows = table.to_pylist()
    summaries = results.summarise(rows)
    tables.show(console, summaries, rows)
    keep.write(table, directory)
    (directory / "plan.toml").write_text(plan.to_toml(), encoding="utf-8")
    (directory / "report.html").write_text(report.render(table, plan.cells(), directory), encoding="utf-8")
    missing = results.missing(rows, plan.cells())
    if missing:
        console.print(f"[bold red]partial run[/] {len(missing)} of {len(plan.cells())} cells are missing")
    console.print(f"Results in {directory}: results.parquet, results.jsonl, plan.toml, report.html", soft_wrap=True)
    return results.verdict(rows, plan.cells())
