"""`kcore test` without the launcher: pytest over the checkout at hand."""

import importlib.util
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from kcore.bench.results import Exit
from kcore.cli.bench_command import fail


def run(arguments: Sequence[str]) -> int:
    """pytest's exit code; ends the command with exit code 2 outside a checkout or without pytest."""
    if not Path("tests", "cases.py").is_file():
        fail("tests belong to a checkout: run ./kcore test there")
    if importlib.util.find_spec("pytest") is None:
        fail("pytest is not installed: run ./kcore test, which sets it up")
    # pytest knows the options of tests/conftest.py only after its arguments: a folder by itself would be one of them.
    joined = "\0".join(arguments).replace("--cases\0", "--cases=").split("\0") if arguments else []
    code = subprocess.run([sys.executable, "-m", "pytest", *joined], check=False).returncode
    return Exit.GOOD if code == 0 else code
