"""`kcore test` without the launcher `./kcore`: runs pytest in the checkout of the working folder."""

import importlib.util
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import typer

from kcore.cli.console import fail
from kcore.measure.report.exits import Exit


def command(context: typer.Context) -> None:
    """Run a checkout's quick tests; --all: all tests; others go to pytest."""
    raise typer.Exit(run(context.args))


def run(arguments: Sequence[str]) -> int:
    """Runs pytest and returns its exit code. Ends the command with code 2 outside a checkout or without pytest."""
    if not Path("tests", "cases.py").is_file():
        fail("tests belong to a checkout: run ./kcore test there")
    if importlib.util.find_spec("pytest") is None:
        fail("pytest is not installed: run ./kcore test, which sets it up")
    code = subprocess.run([sys.executable, "-m", "pytest", *_joined(arguments)], check=False).returncode
    return Exit.GOOD if code == 0 else code


def _joined(arguments: Sequence[str]) -> Iterator[str]:
    """The arguments with `--cases DIR` as one word: pytest would take a separate DIR for the path of a test."""
    words = iter(arguments)
    for word in words:
        folder = next(words, None) if word == "--cases" else None
        yield word if folder is None else f"--cases={folder}"
