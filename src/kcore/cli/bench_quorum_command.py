"""`kcore bench quorum`: raft nodes measured, a line each."""

from typing import Annotated

import typer

from kcore.cli.console import fail
from kcore.raft_bench.nodes import Load
from kcore.raft_bench.run import HEADER, KAFKA, KCORE, run
from kcore.report.exits import Exit
from kcore.spark.java import NoJavaError

SYSTEMS = (f"{KAFKA}4.3.1", f"{KAFKA}3.9.1", KCORE)
MOST_RATE = 10_000_000
MOST_BYTES = 1 << 20  # What a controller takes in one batch is 8 MiB.
MOST_S = 86_400.0
WIDTHS = (12, 8, 18, 8, 8, 8, 9, 5)


def command(
    system: Annotated[
        list[str] | None, typer.Option(help="kafka-4.3.1, kafka-3.9.1 or kcore; default: the first and the last.")
    ] = None,
    rate: Annotated[
        list[int] | None, typer.Option(min=1, max=MOST_RATE, help="Records a second; default 1000 and 20000.")
    ] = None,
    linger: Annotated[
        list[str] | None, typer.Option(metavar="MS", help="default: the system's own. If not given: default, and 0.")
    ] = None,
    record_bytes: Annotated[int, typer.Option(min=1, max=MOST_BYTES, help="Of each record.")] = 256,
    seconds: Annotated[
        float, typer.Option(min=10, max=MOST_S, help="Measured, after half as many to get warm.")
    ] = 60.0,
    json: Annotated[bool, typer.Option("--json", help="A line of JSON each.")] = False,
) -> None:
    """Measure three voters with fsync on loopback: kcore's beside Kafka's own (kafka.tools.TestRaftServer).

    One system at a time. Latency until the commit is counted from when a record was due (kcore) or appended (Kafka,
    whose tool counts up to 249 ms). Kafka 3.9.1's tool always appends 20,000 records of 256 bytes a second.

    Exit code: 0 good, 1 a node ended or nothing was committed, 2 usage.
    """
    systems, lingers = system or ["kafka-4.3.1", "kcore"], linger or ["default", "0"]
    rates = rate or [1_000, 20_000]
    raise typer.Exit(run_all(systems, rates, lingers, record_bytes, seconds, json))


def run_all(
    systems: list[str], rates: list[int], lingers: list[str], record_bytes: int, seconds: float, json: bool
) -> Exit:
    """Prints as it goes."""
    for system in systems:
        if system not in SYSTEMS:
            fail(f"--system {system}: {', '.join(SYSTEMS)}")
    for linger in lingers:
        if linger != "default" and not linger.isdecimal():
            fail(f"--linger {linger}: milliseconds, or default")
    loads = [
        Load(rate, record_bytes, None if linger == "default" else int(linger)) for linger in lingers for rate in rates
    ]
    if not json:
        typer.echo(_line(HEADER))
    exit_code = Exit.GOOD
    try:
        for row in run(systems, loads, seconds / 2, seconds):
            typer.echo(row.as_json() if json else _line(row.cells()))
            if row.fault:
                typer.echo(f"kcore: {row.fault}", err=True)
                exit_code = Exit.FAILED
    except NoJavaError as error:
        fail(str(error))
    return exit_code


def _line(cells: tuple[str, ...]) -> str:
    first = [f"{cell:<{width}}" for cell, width in zip(cells[:3], WIDTHS, strict=False)]
    return "  ".join([*first, *(f"{cell:>{width}}" for cell, width in zip(cells[3:], WIDTHS[3:], strict=True))])
