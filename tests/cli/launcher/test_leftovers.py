"""Processes that tests start end with pytest, even if pytest is killed in the middle of a test."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[3]
TEST = """
import subprocess, time
from pathlib import Path

def test_it() -> None:
    process = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    Path("started").write_text(str(process.pid))
    Path("started").rename("sleeper")
    if not Path("ends").exists():
        time.sleep(1000)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "pytest.ini").write_text(f"[pytest]\ntestpaths = tests\npythonpath = {ROOT / 'tests'}\n")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/conftest.py").write_text((ROOT / "tests/conftest.py").read_text())
    (tmp_path / "tests/test_it.py").write_text(TEST)
    return tmp_path


@contextmanager
def running(project: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "pytest", "-q", *arguments]
    with subprocess.Popen(command, cwd=project, stdout=subprocess.DEVNULL, process_group=0) as process:
        try:
            yield process
        finally:
            process.kill()


def until_gone(project: Path) -> None:
    """Until the process that the test started has ended; the test's time-out is that of CI."""
    status = Path(f"/proc/{(project / 'sleeper').read_text()}/status")
    while status.exists() and "State:\tZ" not in status.read_text():
        time.sleep(0.05)


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="the environment of processes is not in /proc here")
@pytest.mark.parametrize(
    ("arguments", "how"),
    [
        ([], signal.SIGTERM),
        (["-n1"], signal.SIGKILL),
        pytest.param(["-n1"], signal.SIGINT, marks=pytest.mark.long),
        pytest.param([], signal.SIGKILL, marks=pytest.mark.long),
    ],
)
def test_a_process_of_a_test_ends_with_pytest(project: Path, arguments: list[str], how: signal.Signals) -> None:
    with running(project, *arguments) as process:
        while not (project / "sleeper").exists():
            assert process.poll() is None
            time.sleep(0.05)
        os.kill(process.pid, how)
        until_gone(project)


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="the environment of processes is not in /proc here")
def test_what_a_test_leaves_behind_ends_with_a_run_that_passes(project: Path) -> None:
    (project / "ends").touch()
    with running(project) as process:
        assert process.wait() == 0
        until_gone(project)
