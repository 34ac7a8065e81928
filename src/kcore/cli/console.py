"""The output of results and failures that all commands share."""

import re
import sys
from collections.abc import Iterator
from typing import NoReturn

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from kcore.cli.pipes import drop
from kcore.measure.report.exits import Exit
from kcore.measure.report.machine import Load, cores
from kcore.measure.report.noise import about_the_machine
from kcore.printable import printable, printable_lines

LOG_WIDTH = 10_000  # Characters: no line of a table is wrapped in a file or a pipe.
_OS_ERROR = re.compile(r"\[Errno -?\d+\] ([^:\[]*[^:\[\s])(?:: '([^']*)')?(?: -> '([^']*)')?")


class _PatientConsole(Console):
    """Goes on without output once its reader has gone: what was measured is kept, and the exit code is the verdict.

    Text reaches the terminal with escapes in place of controls; `cell` makes the cells of a table so.
    """

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        for each in super().render(renderable, options):
            yield each if each.control else Segment(printable_lines(each.text), each.style)

    def on_broken_pipe(self) -> None:
        self.quiet = True
        drop(sys.stderr if self.stderr else sys.stdout)


def wide_console(stderr: bool = False) -> Console:
    """As wide as the terminal; in a file or a pipe as wide as the tables need, so that each row is one line."""
    console = _PatientConsole(stderr=stderr)
    if not console.is_terminal:
        console.width = LOG_WIDTH
    return console


def say(text: str = "", *, err: bool = False) -> None:
    """Print lines to stdout, or one to stderr, with escapes in place of the controls of peers and files."""
    typer.echo(printable(text) if err else printable_lines(text), err=err)


def cell(text: str | None) -> Text:
    """A name in a table: in one line, without markup."""
    return Text(printable(text or ""))


def load_before() -> Load:
    """How busy the machine is before a measurement; stderr names a busy one before time is spent on it."""
    before = Load.now()
    for line in about_the_machine({"load": {"load_before": before.average}, "machine": {"cores": cores()}}):
        say(f"kcore: {line} Figures will be noisy.", err=True)
    return before


def fail(message: str) -> NoReturn:
    """End the command: what was asked cannot be done."""
    say(f"kcore: {in_one_style(message)}", err=True)
    raise typer.Exit(Exit.USAGE)


def in_one_style(message: str) -> str:
    """An error's text with "PATH: REASON" in place of what Python makes of an operating system's error."""

    def styled(found: re.Match[str]) -> str:
        reason, paths = found[1], [each for each in found.group(2, 3) if each]
        named = [each for each in paths if each not in message[: found.start()]]
        return ": ".join([*named, reason])

    return _OS_ERROR.sub(styled, message)
