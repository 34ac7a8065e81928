"""`kcore storm replay`: describes a recorded metadata log, or replays it on controllers."""

import signal
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from kcore.cli.console import fail, load_before, say, wide_console
from kcore.cli.measure.measured_storm import print_line
from kcore.cli.measure.results_folder import Overwrite, kept_whole, results_directory
from kcore.cli.options import storm_options, target_options
from kcore.cli.options.command_config import CommandConfigOption
from kcore.cli.servers.server_process import use_all_descriptors
from kcore.errors import KcoreError, PlanError, TargetError
from kcore.measure.processes.target import KAFKA, Target, parse_targets
from kcore.measure.report import result_files
from kcore.measure.report.exits import Exit
from kcore.measure.report.machine import facts
from kcore.measure.storm.replay import describe_table, replay_page, replay_report
from kcore.measure.storm.replay.describe import describe as described
from kcore.measure.storm.replay.recording import Recording, recording_of, speed_of
from kcore.measure.storm.replay.run_replay import ReplayOptions, TargetReplay, replay
from kcore.measure.storm.replay.trace import Trace, read_trace
from kcore.spark.java import NoJavaError
from kcore.storage.tools.dump import compact

TracePath = Annotated[
    Path,
    typer.Argument(metavar="TRACE", help="A log directory, or the metadata log's folder __cluster_metadata-0."),
]
Targets = Annotated[
    list[str] | None,
    typer.Option(
        metavar="[LABEL=]TARGET",
        help=f"Controllers to start for the run: a release as {KAFKA}, kafka:DIR with Kafka's jars, kcore-kraft; or "
        f"HOST:PORT,... of an empty cluster. Default {KAFKA}. Several --target: one report compares them.",
    ),
]
Speed = Annotated[str, typer.Option(metavar="N", help="How many times faster than recorded, such as 10x.")]
From = Annotated[
    str, typer.Option("--from", metavar="T", help="Begin at this time (ISO, UTC), or +1h30m after the trace's begin.")
]
To = Annotated[str, typer.Option("--to", metavar="T", help="End at this time, or +2h after the trace's begin.")]
SessionTimeout = Annotated[
    int,
    typer.Option(
        metavar="MS",
        help="broker.session.timeout.ms of the controllers to start; default: 9000 divided by --speed, at least 3000.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="JSON on stdout, the rest on stderr.")]


def command(
    trace: TracePath,
    describe: Annotated[bool, typer.Option("--describe", help="Print the trace's content; replay nothing.")] = False,
    target: Targets = None,
    speed: Speed = "1x",
    begin: From = "",
    end: To = "",
    jvm: target_options.Jvm = None,
    properties: target_options.Properties = None,
    java: target_options.Java = None,
    controllers: storm_options.Controllers = 1,
    heap: storm_options.Heap = "2g",
    session_timeout: SessionTimeout = 0,
    command_config: CommandConfigOption = None,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Results folder; default out/replay-<time>.")] = None,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Replay a recorded metadata log on controllers of Kafka or kcore; --describe: only print what is in it.

    Exit code: 0 good, 1 a target failed or the log could be read only in part, 2 usage, 3 the run was interrupted.
    """
    try:
        options = ReplayOptions(speed_of(speed), controllers, heap, session_timeout, str(command_config or ""))
        options.check()
        targets = parse_targets(target or [KAFKA], jvm=jvm or (), properties=properties or (), java=java or ())
        _check_mode(targets)
        found = read_trace(trace)
        recording = recording_of(found, begin, end)
    except (KcoreError, OSError) as error:
        fail(str(error))
    if describe:
        raise typer.Exit(_describe(found, recording, json))
    raise typer.Exit(_replay(found, recording, targets, options, results_directory(out, "replay", overwrite), json))


def _check_mode(targets: list[Target]) -> None:
    """Raises PlanError for controllers in ZooKeeper mode."""
    for each in targets:
        if each.in_zookeeper:
            raise PlanError(
                f"--target {each.text}: a controller in ZooKeeper mode has no metadata log and no KRaft brokers: give "
                f"{KAFKA} or kcore-kraft"
            )


def _describe(trace: Trace, recording: Recording, as_json: bool) -> Exit:
    found = described(recording, has_snapshot=trace.has_snapshot, problem=trace.problem)
    if as_json:
        say(compact(found.as_json()))
    else:
        describe_table.show(wide_console(), found)
    return _reported(trace)


def _reported(trace: Trace) -> Exit:
    """Prints why the trace could be read only in part; FAILED if so."""
    for each in filter(None, (trace.problem, str(trace.newer))):
        say(f"kcore: {each}", err=True)
    return Exit.FAILED if trace.problem or trace.newer.count else Exit.GOOD


def _replay(
    trace: Trace, recording: Recording, targets: list[Target], options: ReplayOptions, directory: Path, as_json: bool
) -> Exit:
    before = load_before()
    use_all_descriptors()
    progress = wide_console(stderr=True)
    handler = signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    results: list[TargetReplay] = []
    is_whole = True
    try:
        replay(recording, targets, options, results, partial(print_line, progress))
    except KeyboardInterrupt:
        is_whole = False  # The report has a line about it.
    except (NoJavaError, TargetError) as error:
        fail(str(error))
    finally:
        signal.signal(signal.SIGTERM, handler)
    console = progress if as_json else wide_console()
    replay_report.show(console, results)
    about = facts(before) | replay_report.facts_of(recording, results, options)
    with kept_whole(directory):
        result_files.write(result_files.with_facts(replay_report.table_of(results), about), directory)
        text = replay_page.render(recording, results, about, options.speed)
        result_files.write_text(directory / "report.html", text)
    if as_json:
        say(compact({"targets": [replay_report.summary_of(each) for each in results]}))
    console.print(f"Results in {directory}: results.parquet, results.jsonl, report.html", soft_wrap=True)
    if not is_whole:
        return Exit.INVALID
    return Exit.FAILED if any(each.error for each in results) else _reported(trace)
