"""A whole run says at its start how long it will take, and at its end which files took longest."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from durations import CORE_S, KEY, SLOWEST, estimate, words_of

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[3]
TEST = "def test_quick() -> None: ...\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with kcore's conftest.py and one file more than are shown."""
    (tmp_path / "pytest.ini").write_text(f"[pytest]\ntestpaths = tests\npythonpath = {ROOT / 'tests'}\n")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/conftest.py").write_text((ROOT / "tests/conftest.py").read_text())
    for number in range(SLOWEST + 1):
        (tmp_path / f"tests/test_{number}.py").write_text(TEST)
    return tmp_path


def run(project: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "pytest", *arguments]
    return subprocess.run(command, cwd=project, capture_output=True, text=True, check=False).stdout


def recorded(project: Path) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = json.loads((project / ".pytest_cache/v" / KEY).read_text())
    return found


@pytest.mark.parametrize(
    "arguments", [[], pytest.param(["-n", "2"], marks=pytest.mark.long)], ids=["one process", "workers"]
)
def test_it_estimates_then_knows_and_names_the_slowest_files(project: Path, arguments: list[str]) -> None:
    printed = run(project, *arguments)
    assert "the quick tests will take about" in printed and "an estimate, since none ran to its end here" in printed
    slowest = printed[printed.index("slowest files") :]
    assert len(re.findall(r"^ +\d+\.\d s  tests/test_\d+\.py$", slowest, re.M)) == SLOWEST
    assert recorded(project)["quick"]["processes"] == (int(arguments[1]) if arguments else 1)
    assert ", as the last time here" in run(project, *arguments)


def test_tests_that_are_only_listed_are_no_run(project: Path) -> None:
    assert "will take" not in run(project, "--collect-only")
    assert not (project / ".pytest_cache/v" / KEY).exists()


def test_a_run_of_named_tests_says_neither(project: Path) -> None:
    printed = run(project, "tests/test_1.py")
    assert "will take" not in printed and "slowest files" not in printed
    assert not (project / ".pytest_cache/v" / KEY).exists()


def test_a_run_that_did_not_come_to_its_end_is_not_recorded(project: Path) -> None:
    (project / "tests/test_1.py").write_text("def test_it() -> None: assert False\n")
    run(project, "-x")
    assert not (project / ".pytest_cache/v" / KEY).exists()


def test_the_estimate_follows_the_processes() -> None:
    earlier = {"quick": {"seconds": 300.0, "processes": 3}}
    assert estimate("quick", earlier, 3) == "the quick tests will take about 5 minutes, as the last time here"
    assert estimate("quick", earlier, 1) == "the quick tests will take about 15 minutes, as the last time here"
    assert estimate("all", earlier, 1).startswith(f"all tests will take about {words_of(CORE_S['all'])}: an estimate")
