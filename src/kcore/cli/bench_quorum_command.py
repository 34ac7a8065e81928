"""`kcore bench quorum`: raft nodes measured, a line each."""

import typer

from kcore.cli.console import fail
from kcore.raft_bench.nodes import Load
from kcore.raft_bench.run import HEADER, KAFKA, KCORE, run
from kcore.report.exits import Exit
from kcore.spark.java import NoJavaError

SYSTEMS = (f"{KAFKA}4.3.1", f"{KAFKA}3.9.1", KCORE)
WIDTHS = (12, 8, 18, 8, 8, 8, 9, 5)


def command(
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
