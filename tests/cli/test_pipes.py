"""A reader that closes the pipe (`kcore ... | head`) ends the output: no exit code of a regression, no traceback."""

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from kcore.cli.pipes import ENDED_BY_SIGPIPE
from kcore.measure.report import result_files
from kcore.measure.workloads.workload_rows import ROW_SCHEMA
from workloads.fakes import row

PYTHON = [sys.executable, "-m", "kcore"]


def without_reader(*command: str) -> tuple[int, str]:
    """Exit code and stderr of a command whose stdout nobody reads."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    finally:
        os.close(writer)
    return done.returncode, done.stderr


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Two runs of so many operations that a comparison does not fit into a pipe; one of them slower in the second."""
    for name, slow in (("old", 100), ("new", 200)):
        rows = [row(operation=f"numbers: {at} {'x' * 200}") for at in range(400)]
        rows[0] |= {"samples_ns": [slow, slow, slow]}
        result_files.write(pa.Table.from_pylist(rows, schema=ROW_SCHEMA), tmp_path / name)
    return tmp_path


@pytest.mark.long
@pytest.mark.parametrize("form", ["--all", "--markdown", "--json"])
def test_a_comparison_keeps_its_verdict_when_its_reader_leaves(runs: Path, form: str) -> None:
    same = without_reader(*PYTHON, "compare", str(runs / "old"), str(runs / "old"), form)
    assert same == (0, "")
    slower = without_reader(*PYTHON, "compare", str(runs / "old"), str(runs / "new"), form)
    assert slower == (1, "")


@pytest.mark.long
@pytest.mark.parametrize("command", [["--help"], ["storm", "--list"], ["compare", "--help"], ["bench", "--print-plan"]])
def test_a_command_that_only_prints_ends_as_by_sigpipe(command: list[str]) -> None:
    assert without_reader(*PYTHON, *command) == (ENDED_BY_SIGPIPE, "")


FAILS = """import socket, sys
from kcore.cli import pipes
with pipes.readers_that_leave():
    print("printed")
    ours, theirs = socket.socketpair()
    theirs.close()
    ours.send(b"x")
"""


def test_a_broken_connection_is_an_error_as_ever() -> None:
    done = subprocess.run([sys.executable, "-c", FAILS], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "printed\n")
    assert done.stderr.rstrip().endswith("BrokenPipeError: [Errno 32] Broken pipe")


FULL = """import sys
from kcore.cli import pipes
with pipes.readers_that_leave():
    sys.stdout.write("printed")
"""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_the_end_of_the_output_that_cannot_be_written_is_one_line_and_a_failure() -> None:
    with open("/dev/full", "w") as full:
        command, buffered = [sys.executable, "-c", FULL], os.environ | {"PYTHONUNBUFFERED": ""}
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False, env=buffered)
    assert (done.returncode, done.stderr) == (1, "kcore: the output could not be written: No space left on device\n")
