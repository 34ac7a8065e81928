"""How all commands print results and failures."""

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

LOG_WIDTH = 10_000  # In characters: no row of a table is wrapped in a file or a pipe.
_OS_ERROR = re.compile(r"\[Errno -?\d+\] ([^:\[]*[^:\[\s])(?:: '([^']*)')?(?: -> '([^']*)')?")


class _PatientConsole(Console):
    """A console that drops its output if the reader of its pipe has gone, so that the command still keeps its results.

    Control characters are printed as escapes; `cell` does the same for the cells of a table.
    """

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        for each in super().render(renderable, options):
            yield each if each.control else Segment(printable_lines(each.text), each.style)

    def on_broken_pipe(self) -> None:
        self.quiet = True
        drop(sys.stderr if self.stderr else sys.stdout)


def wide_console(stderr: bool = False) -> Console:
    """A console as wide as the terminal; for a file or a pipe, so wide that each row of a table is one line."""
    console = _PatientConsole(stderr=stderr)
    if not console.is_terminal:
        console.width = LOG_WIDTH
    return console


def say(text: str = "", *, err: bool = False) -> None:
    """Prints lines to stdout, or one line in the style of errors to stderr; escapes replace control characters."""
    typer.echo(printable(in_one_style(text)) if err else printable_lines(text), err=err)


def cell(text: str | None) -> Text:
    """The text of a table's cell: on one line, with escapes in place of controls, and without markup."""
    return Text(printable(text or ""))


def load_before() -> Load:
    """Measures how busy the machine is before a measurement, and warns on stderr if that will disturb the figures."""
    before = Load.now()
    for line in about_the_machine({"load": {"load_before": before.average}, "machine": {"cores": cores()}}):
        say(f"kcore: {line} Figures will be noisy.", err=True)
    return before


def fail(message: str) -> NoReturn:
    """Prints the message and ends the command with exit code 2: its arguments or its surroundings are wrong."""
    say(f"kcore: {message}", err=True)
    raise typer.Exit(Exit.USAGE)


def in_one_style(message: str) -> str:
    """An error's text in which "PATH: REASON" replaces Python's form of an operating system's error."""

    def styled(found: re.Match[str]) -> str:
        reason, paths = found[1], [each for each in found.group(2, 3) if each]
        named = [each for each in paths if each not in message[: found.start()]]
        return ": ".join([*named, reason])

    return _OS_ERROR.sub(styled, message)
