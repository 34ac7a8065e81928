"""The command `kcore`. What is heavy to import, a command imports when it runs: `--help` stays fast."""

from kcore.cli.commands import app


def main() -> None:
    """Entry point of the command."""
    app()
