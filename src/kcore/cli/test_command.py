"""`kcore test` without the launcher: pytest over the checkout at hand."""

import importlib.util
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import typer

from kcore.cli.console import fail
from kcore.measure.report.exits import Exit


def command(context: typer.Context) -> None:
    """Run a checkout's quick tests, --all: all; arguments go to pytest."""
    raise typer.Exit(run(context.args))


def run(arguments: Sequence[str]) -> int:
    """pytest's exit code; ends the command with exit code 2 outside a checkout or without pytest."""
    if not Path("tests", "cases.py").is_file():
        fail("tests belong to a checkout: run ./kcore test there")
    if importlib.util.find_spec("pytest") is None:
        fail("pytest is not installed: run ./kcore test, which sets it up")
    code = subprocess.run([sys.executable, "-m", "pytest", *_joined(arguments)], check=False).returncode
    return Exit.GOOD if code == 0 else code


def _joined(arguments: Sequence[str]) -> Iterator[str]:
    """`--cases DIR` as one word: pytest reads tests/conftest.py late, and would take the folder for a test's path."""
    words = iter(arguments)
    for word in words:
        folder = next(words, None) if word == "--cases" else None
        yield word if folder is None else f"--cases={folder}"
