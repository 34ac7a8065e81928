"""The command `kcore`; `commands.py` is the table of its commands. Only the command in use is imported."""

import sys
from io import TextIOWrapper

from kcore.cli import pipes
from kcore.errors import MissingExtraError
from kcore.extras import needs
from kcore.measure.report.exits import Exit


def main() -> None:
    """Entry point of the command. Without an extra that it needs it says so in a line and ends with 2."""
    # The name of a file need not be UTF-8: it is shown with escapes, as on stderr.
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        with needs("cli"):
            from kcore.cli.commands import app
        with pipes.readers_that_leave():
            app()
    except MissingExtraError as error:
        print(f"kcore: {error}", file=sys.stderr)
        sys.exit(Exit.USAGE)
