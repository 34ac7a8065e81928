"""The command `kcore`. What is heavy to import, a command imports when it runs: `--help` stays fast."""

import sys
from io import TextIOWrapper

from kcore.cli.commands import app


def main() -> None:
    """Entry point of the command."""
    # The name of a file need not be UTF-8: it is shown with escapes, as on stderr.
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    app()
