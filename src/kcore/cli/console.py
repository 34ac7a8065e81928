"""The output of results and failures that all commands share."""

import errno
import os
import sys
from datetime import datetime
from pathlib import Path
from typing import NoReturn

import typer
from rich.console import Console

from kcore.cli.pipes import drop
from kcore.report.exits import Exit

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


def results_directory(out: Path | None, command: str) -> Path:
    """Where a command keeps its results, made before it runs: ends the command where that cannot be.

    A run of hours is not to be lost to a folder that cannot be written to.
    """
    directory = out or Path("out") / f"{command}-{datetime.now():%Y%m%d-%H%M%S}"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        if not os.access(directory, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(directory))
    except OSError as error:
        fail(f"--out: {error}")
    return directory


def fail(message: str) -> NoReturn:
    """End the command: what was asked cannot be done."""
    typer.echo(f"kcore: {message}", err=True)
    raise typer.Exit(Exit.USAGE)
