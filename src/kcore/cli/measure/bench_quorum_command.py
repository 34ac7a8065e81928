"""`kcore bench quorum`: reads the options, measures raft quorums, and returns an exit code."""

from contextlib import closing, suppress
from json import dumps
from pathlib import Path
from typing import Annotated, Any

import typer

from kcore.cli.console import fail, load_before, say
from kcore.cli.measure.results_folder import Overwrite, kept_whole, results_directory
from kcore.cli.options import target_options
from kcore.errors import PlanError, TargetError
from kcore.measure.processes.probe import build_of
from kcore.measure.processes.target import KAFKA, Target, parse_targets
from kcore.measure.raft_bench import run_raft_bench as raft_bench
from kcore.measure.raft_bench.nodes import HEAP, Load
from kcore.measure.raft_bench.run_raft_bench import HEADER, KCORE, Row
from kcore.measure.report import machine, result_files
from kcore.measure.report.exits import Exit
from kcore.spark.java import NoJavaError

DEFAULT = [KAFKA, KCORE]
LINGER = "controller.quorum.append.linger.ms"
RATES = (1_000, 20_000)
MOST_RATE = 10_000_000
MOST_BYTES = 1 << 20  # A controller accepts at most 8 MiB in one batch.
MOST_S = 86_400.0
WIDTHS = (12, 8, 18, 8, 8, 8, 9, 5)


def command(
    target: Annotated[
        list[str] | None,
        typer.Option(
            "--target",
            "--system",
            metavar="[LABEL=]TARGET",
            help=f"A release as {KAFKA}, kafka:DIR with Kafka's jars, or kcore; default: {KAFKA} and kcore.",
        ),
    ] = None,
    jvm: target_options.Jvm = None,
    properties: target_options.Properties = None,
    java: target_options.Java = None,
    rate: Annotated[
        list[int] | None, typer.Option(min=1, max=MOST_RATE, help="Records a second; default 1000 and 20000.")
    ] = None,
    linger: Annotated[
        list[str] | None,
        typer.Option(metavar="MS", help="Or `default`: the system's own linger. If not given: default, and 0."),
    ] = None,
    record_bytes: Annotated[int, typer.Option(min=1, max=MOST_BYTES, help="The size of each record.")] = 256,
    seconds: Annotated[
        float, typer.Option(min=10, max=MOST_S, help="Seconds to measure, after half as many of warm-up.")
    ] = 60.0,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Results folder; default out/quorum-<time>.")] = None,
    overwrite: Overwrite = False,
    json: Annotated[bool, typer.Option("--json", help="JSON lines on stdout, the rest on stderr.")] = False,
) -> None:
    """Measure three voters with fsync on loopback: kcore's beside Kafka's own (kafka.tools.TestRaftServer).

    The targets run one after the other. kcore's latency runs from the time when a record was due until its commit.
    Kafka's runs from the append, and its tool counts at most 249 ms. The tool of releases before 4.0 always appends
    20,000 records of 256 bytes a second. Ctrl-C ends the command early and keeps the finished measurements.

    Exit code: 0 good, 1 a node ended or nothing was committed, 2 usage, 3 a partial run.
    """
    targets = checked_targets(target or DEFAULT, jvm or [], properties or [], java or [])
    loads = [Load(each, record_bytes, ms) for ms in lingers_of(linger or ["default", "0"]) for each in rate or RATES]
    raise typer.Exit(run(targets, loads, seconds, out, json, overwrite=overwrite))


def checked_targets(texts: list[str], jvm: list[str], properties: list[str], java: list[str]) -> list[Target]:
    """The targets with their options; ends the command with exit code 2 for another text or a wrong option."""
    try:
        targets = parse_targets(texts, jvm=jvm, properties=properties, java=java, own=(KCORE,))
    except TargetError as error:
        fail(str(error))
    for target in targets:
        if target.in_zookeeper or target.addresses:
            fail(f"--target {target.text}: give kafka-RELEASE such as {KAFKA}, kafka:DIR or {KCORE}")
        if any(line.startswith(f"{LINGER}=") for line in target.properties):
            fail(f"--property {LINGER}: give --linger")
    return targets


def lingers_of(texts: list[str]) -> list[int | None]:
    """The lingers in milliseconds, None for `default`; ends the command with exit code 2 for another text."""
    for text in texts:
        if text != "default" and not text.isdecimal():
            fail(f"--linger {text}: milliseconds, or default")
    return [None if text == "default" else int(text) for text in texts]


def run(
    targets: list[Target],
    loads: list[Load],
    seconds: float,
    out: Path | None,
    as_json: bool,
    *,
    overwrite: bool = False,
) -> Exit:
    """Measures all targets under all loads, prints a line after each, and writes the results."""
    directory = results_directory(out, "quorum", overwrite)
    try:
        for target in targets:  # A target that cannot run is reported before the first measurement.
            build_of(target, HEAP)
    except (TargetError, NoJavaError) as error:
        say(f"kcore: {error}", err=True)
        return Exit.FAILED
    except PlanError as error:
        fail(str(error))
    before = load_before()
    rows: list[Row] = []
    wanted = len(targets) * len(loads)
    if not as_json:
        say(_line(HEADER))
    with suppress(KeyboardInterrupt), closing(raft_bench.run(targets, loads, seconds / 2, seconds)) as measured:
        for row in measured:
            rows.append(row)
            say(dumps(row.as_dict()) if as_json else _line(row.cells()))
            if row.fault:
                say(f"kcore: {row.fault}", err=True)
    with kept_whole(directory):
        _keep(rows, seconds, wanted, directory, machine.facts(before))
    if len(rows) < wanted:
        say(f"partial run: {len(rows)} of {wanted} measurements are done", err=True)
        return Exit.INVALID
    return Exit.FAILED if any(row.fault for row in rows) else Exit.GOOD


def _keep(rows: list[Row], seconds: float, wanted: int, directory: Path, about: dict[str, Any]) -> None:
    from kcore.measure.raft_bench import raft_bench_report as report  # Imports matplotlib, which takes a second.

    jvms = dict.fromkeys(row.build.jvm for row in rows if row.build.jvm)
    about |= {"seconds": seconds} | ({"jvm": ", ".join(jvms)} if jvms else {})
    result_files.write(result_files.with_facts(report.table_of(rows), about), directory)
    result_files.write_text(directory / "report.html", report.render(rows, about, wanted, directory))
    say(f"Results in {directory}: results.parquet, results.jsonl, report.html", err=True)


def _line(cells: tuple[str, ...]) -> str:
    first = [f"{cell:<{width}}" for cell, width in zip(cells[:3], WIDTHS, strict=False)]
    return "  ".join([*first, *(f"{cell:>{width}}" for cell, width in zip(cells[3:], WIDTHS[3:], strict=True))])
