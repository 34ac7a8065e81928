"""The command `kcore`. `commands.py` is the table of its commands; only the module of the command in use is imported.

- `files`, `servers`, `measure`, `whatif`: the commands, by what they work on; `test_command`: `kcore test`.
- `options`: options that several commands share.
- `console`, `pipes`, `progress`: output, output into a pipe without a reader, and the progress of a run.
"""

import sys
from io import TextIOWrapper

from kcore.cli import pipes
from kcore.errors import MissingExtraError
from kcore.extras import needs
from kcore.measure.report.exits import Exit


def main() -> None:
    """The entry point of the command. If an extra is missing, prints one line that names it, and exits with code 2."""
    # The name of a file need not be UTF-8: invalid bytes are printed as escapes, as on stderr.
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
