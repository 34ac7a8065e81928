"""`kcore bench designs`: reads the options, measures the designs, and returns an exit code."""

import json
import logging
import signal
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from kcore.cli.console import fail, load_before, wide_console
from kcore.cli.measure.results_folder import Overwrite, kept_whole, results_directory
from kcore.cli.options.counts import count_of
from kcore.constants import MAX_PARTITIONS
from kcore.errors import KcoreError, PlanError, TargetError
from kcore.measure.designs import designs_report as report
from kcore.measure.designs import run_designs as designs
from kcore.measure.designs.designs_plan import QUICK, DesignsPlan
from kcore.measure.designs.designs_rows import Row, predicted, table_of
from kcore.measure.report import result_files
from kcore.measure.report.exits import Exit
from kcore.measure.report.machine import facts
from kcore.measure.report.units import duration
from kcore.spark.java import NoJavaError, jvm


def command(
    partitions: Annotated[str | None, typer.Option(metavar="N", help="Partitions; default 10k.")] = None,
    brokers: Annotated[int | None, typer.Option(help="Brokers, each with its own session; default 20.")] = None,
    repeat: Annotated[int | None, typer.Option(help="Repetitions of all steps; default 1.")] = None,
    seed: Annotated[int | None, typer.Option(help="The seed of the placement of replicas.")] = None,
    zookeeper: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="A running server that answers mntr; the command works below a znode that it removes again. "
            "Default: a server that is started for the run.",
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Results folder; default out/designs-<time>.")] = None,
    overwrite: Overwrite = False,
    json: Annotated[bool, typer.Option("--json", help="JSON lines on stdout, the rest on stderr.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Measure a small cluster once, in seconds.")] = False,
) -> None:
    """Measure Kafka's early designs on a real ZooKeeper: watchers, znodes, reads, writes, time to new leaders.

    v1: leader znodes that replicas watch; v2: states that replicas watch, and queues; v3: a controller and direct
    requests; v3 with an external view. Then state writes: one by one, pipelined and in transactions (multi); and a
    command to a broker: by queue and by direct request. Brokers that do not acknowledge in time are not measured:
    `kcore controller zk` raises an alarm for them.

    Exit code: 0 good, 1 a design failed, 2 usage, 3 a partial run.
    """
    plan = plan_of(partitions, brokers, repeat, seed, quick)
    raise typer.Exit(run(plan, zookeeper, out, json, overwrite=overwrite))


def plan_of(
    partitions: str | None, brokers: int | None, repeat: int | None, seed: int | None, quick: bool
) -> DesignsPlan:
    """The plan that the options describe; ends the command with exit code 2 for an invalid one."""
    options = {"brokers": brokers, "repeat": repeat, "seed": seed}
    given = {name: value for name, value in options.items() if value is not None}
    try:
        if partitions is not None:
            given["partitions"] = count_of("partitions", partitions, MAX_PARTITIONS)
        plan = replace(QUICK if quick else DesignsPlan(), **given)
        plan.check()
    except PlanError as error:
        fail(str(error))
    return plan


def run(plan: DesignsPlan, zookeeper: str | None, out: Path | None, as_json: bool, *, overwrite: bool = False) -> Exit:
    """Runs the plan, prints and writes the results. After Ctrl-C or SIGTERM it does so with the finished rows."""
    if zookeeper is not None:
        try:
            designs.check_listens(zookeeper)
        except TargetError as error:
            fail(str(error))
    progress = wide_console(stderr=True)
    directory = results_directory(out, "designs", overwrite)
    rows: list[Row] = []
    before = load_before()
    is_whole = _run(plan, zookeeper, rows, progress)
    rows = predicted(rows)
    about = facts(before) | ({} if zookeeper else {"jvm": jvm()})
    console = progress if as_json else wide_console()
    report.show(console, rows)
    for row in rows if as_json else ():
        sys.stdout.write(json.dumps(asdict(row)) + "\n")
    with kept_whole(directory):
        _keep(plan, rows, directory, about)
    console.print(f"Results in {directory}: results.parquet, results.jsonl, report.html", soft_wrap=True)
    if not is_whole:
        return Exit.INVALID
    return Exit.FAILED if report.troubles(rows) else Exit.GOOD


def _run(plan: DesignsPlan, zookeeper: str | None, rows: list[Row], console: Console) -> bool:
    """Runs all steps; True if none was interrupted."""

    def print_row(row: Row) -> None:
        what = row.error or row.note or (duration(row.ms * 1e6) if row.ms >= 0 else "")
        console.print(escape(f"{row.repetition}/{plan.repeat} {row.kind}: {row.name}: {what}"), soft_wrap=True)

    logging.getLogger("kazoo").setLevel(logging.CRITICAL)  # The error that ends the run is printed below.
    before = signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        console.print(f"{plan.partitions:,} partitions on {plan.brokers:,} brokers, {plan.repeat} repetitions")
        designs.run(plan, zookeeper, rows, print_row)
    except KeyboardInterrupt:
        console.print("interrupted: all is stopped", soft_wrap=True)
        return False
    except (KcoreError, NoJavaError) as error:
        if not rows:
            fail(str(error))
        console.print(f"[bold red]{escape(str(error))}[/]", soft_wrap=True)
        return False
    finally:
        signal.signal(signal.SIGTERM, before)
    return True


def _keep(plan: DesignsPlan, rows: list[Row], directory: Path, facts_of_run: dict[str, Any]) -> None:
    about = facts_of_run | {"plan": asdict(plan)}
    result_files.write(result_files.with_facts(table_of(rows), about), directory)
    result_files.write_text(directory / "report.html", report.render(rows, about, directory))
