"""`./kcore test` skips long tests and says so; it runs them with `--all` or by name."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TESTS = """
import signal
import pytest

def test_quick() -> None:
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler

@pytest.mark.long
def test_long() -> None: ...
"""
LEFT_OUT = "1 long tests deselected: ./kcore test --all runs them, as CI does"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with kcore's conftest.py and two tests, one of them long."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "pytest.ini").write_text(f"[pytest]\ntestpaths = tests\npythonpath = {ROOT / 'tests'}\n")
    (folder / "tests").mkdir()
    (folder / "tests/conftest.py").write_text((ROOT / "tests/conftest.py").read_text())
    (folder / "tests/test_two.py").write_text(TESTS)
    return folder


def ran(project: Path, *arguments: str) -> str:
    """The output of a run in the background of a script, whose shell ignores SIGINT: tests interrupt programs."""
    background = "trap '' INT; exec \"$@\""
    command = ["sh", "-c", background, "sh", sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "arguments", [[], pytest.param(["-n", "2"], marks=pytest.mark.long)], ids=["one process", "workers"]
)
def test_long_tests_are_left_out_where_nothing_is_named_and_counted_once(project: Path, arguments: list[str]) -> None:
    out = ran(project, *arguments)
    assert "1 passed" in out
    assert LEFT_OUT in out.splitlines()


@pytest.mark.parametrize(
    "arguments",
    [
        *(["--all"], ["tests/test_two.py"], ["-k", "test_"]),
        *(
            pytest.param(each, marks=pytest.mark.long)
            for each in (["--all", "-n", "1"], ["-n", "1", "tests/test_two.py"], ["-m", "not slow"])
        ),
    ],
    ids=" ".join,
)
def test_long_tests_run_with_all_and_where_something_is_named(project: Path, arguments: list[str]) -> None:
    out = ran(project, *arguments)
    assert "2 passed" in out
    assert "deselected" not in out


def test_ci_runs_all_and_the_quick_ones_at_another_date() -> None:
    steps = (ROOT / "ci" / "all").read_text()
    assert "ci/shifted 400 Pacific/Auckland ./kcore test --hyp" in steps and "./kcore test -mlong" in steps
