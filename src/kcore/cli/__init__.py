"""The command `kcore`; `commands.py` is the table of its commands. Only the command in use is imported."""

import sys
from io import TextIOWrapper

from kcore.cli import pipes
from kcore.cli.commands import app


def main() -> None:
    """Entry point of the command."""
    # The name of a file need not be UTF-8: it is shown with escapes, as on stderr.
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    with pipes.readers_that_leave():
        app()
