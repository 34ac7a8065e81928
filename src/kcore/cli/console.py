"""The output of results and failures that all commands share."""

import sys
from typing import NoReturn

import typer
from rich.console import Console

from kcore.cli.pipes import drop
from kcore.report.exits import Exit

LOG_WIDTH = 10_000  # Characters: no line of a table is wrapped in a file or a pipe.


class _PatientConsole(Console):
    """Goes on without output once its reader has gone: what was measured is kept, and the exit code is the verdict."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        drop(sys.stderr if self.stderr else sys.stdout)


def wide_console(stderr: bool = False) -> Console:
    """As wide as the terminal; in a file or a pipe as wide as the tables need, so that each row is one line."""
    console = _PatientConsole(stderr=stderr)
    if not console.is_terminal:
        console.width = LOG_WIDTH
    return console


def fail(message: str) -> NoReturn:
    """End the command: what was asked cannot be done."""
    typer.echo(f"kcore: {message}", err=True)
    raise typer.Exit(Exit.USAGE)
