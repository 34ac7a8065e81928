"""`kcore storm replay`: describes a recorded metadata log."""

from pathlib import Path
from typing import Annotated

import typer

from kcore.cli.console import fail, say, wide_console
from kcore.errors import KcoreError
from kcore.measure.report.exits import Exit
from kcore.measure.storm.replay import describe_table
from kcore.measure.storm.replay.describe import describe as described
from kcore.measure.storm.replay.recording import Recording, recording_of
from kcore.measure.storm.replay.trace import Trace, read_trace
from kcore.storage.tools.dump import compact

TracePath = Annotated[
    Path,
    typer.Argument(metavar="TRACE", help="A log directory, or the metadata log's folder __cluster_metadata-0."),
]
From = Annotated[
    str,
    typer.Option("--from", metavar="T", help="Begin at this time (ISO, UTC), or +1h30m after the trace's begin."),
]
To = Annotated[str, typer.Option("--to", metavar="T", help="End at this time, or +2h after the trace's begin.")]
Json = Annotated[bool, typer.Option("--json", help="JSON on stdout, the rest on stderr.")]


def command(
    trace: TracePath,
    describe: Annotated[bool, typer.Option("--describe", help="Print the trace's content; replay nothing.")] = False,
    begin: From = "",
    end: To = "",
    json: Json = False,
) -> None:
    """Describe a recorded metadata log: what brokers and administrators did, and when.

    Exit code: 0 good, 1 the log could be read only in part, 2 usage.
    """
    if not describe:
        fail("give --describe")
    found, recording = _read(trace, begin, end)
    raise typer.Exit(_describe(found, recording, json))


def _read(path: Path, begin: str, end: str) -> tuple[Trace, Recording]:
    """The trace and its part between two times; ends the command with exit code 2 if there is none."""
    try:
        trace = read_trace(path)
        return trace, recording_of(trace, begin, end)
    except (KcoreError, OSError) as error:
        fail(str(error))


def _describe(trace: Trace, recording: Recording, as_json: bool) -> Exit:
    found = described(recording, has_snapshot=trace.has_snapshot, problem=trace.problem)
    if as_json:
        say(compact(found.as_json()))
    else:
        describe_table.show(wide_console(), found)
    for each in filter(None, (trace.problem, str(trace.newer))):
        say(f"kcore: {each}", err=True)
    return Exit.FAILED if trace.problem or trace.newer.count else Exit.GOOD
