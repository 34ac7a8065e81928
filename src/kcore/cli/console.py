"""The output of results and failures that all commands share."""

import sys
from typing import NoReturn

import typer
from rich.console import Console

from kcore.cli.pipes import drop
from kcore.report.exits import Exit
from kcore.report.machine import Load, cores
from kcore.report.noise import about_the_machine

LOG_WIDTH = 120


class _PatientConsole(Console):
    """Goes on without output once its reader has gone: what was measured is kept, and the exit code is the verdict."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        drop(sys.stderr if self.stderr else sys.stdout)


def wide_console(stderr: bool = False, log_width: int = LOG_WIDTH) -> Console:
    """As wide as the terminal; in a log as wide as the tables like to be."""
    console = _PatientConsole(stderr=stderr)
    if not console.is_terminal:
        console.width = max(console.width, log_width)
    return console


def load_before() -> Load:
    """How busy the machine is before a measurement; a busy one is told on stderr, before time is spent on it."""
    before = Load.now()
    for line in about_the_machine({"load": {"load_before": before.average}, "machine": {"cores": cores()}}):
        typer.echo(f"kcore: {line} Figures will be noisy.", err=True)
    return before


def fail(message: str) -> NoReturn:
    """End the command: what was asked cannot be done."""
    typer.echo(f"kcore: {message}", err=True)
    raise typer.Exit(Exit.USAGE)
