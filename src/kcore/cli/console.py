"""The output of results and failures that all commands share."""

import re
import sys
from typing import NoReturn

import typer
from rich.console import Console

from kcore.cli.pipes import drop
from kcore.report.exits import Exit

LOG_WIDTH = 120
_OS_ERROR = re.compile(r"\[Errno -?\d+\] ([^:\[]*[^:\[\s])(?:: '([^']*)')?(?: -> '([^']*)')?")


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


def fail(message: str) -> NoReturn:
    """End the command: what was asked cannot be done."""
    typer.echo(f"kcore: {in_one_style(message)}", err=True)
    raise typer.Exit(Exit.USAGE)


def in_one_style(message: str) -> str:
    """An error's text with "PATH: REASON" in place of what Python makes of an operating system's error."""

    def styled(found: re.Match[str]) -> str:
        reason, paths = found[1], [each for each in found.group(2, 3) if each]
        named = [each for each in paths if each not in message[: found.start()]]
        return ": ".join([*named, reason])

    return _OS_ERROR.sub(styled, message)
