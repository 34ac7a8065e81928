"""`./kcore test --cases DIR`: the recorded tests alone, on the files of that folder."""

import gzip
import json
import subprocess
from pathlib import Path

import pytest

import cases

pytestmark = pytest.mark.long

LAUNCHER = Path(__file__).parents[3] / "kcore"
NAME = "epoch_cache_3.9.1"
TEST = f"tests/replication/test_divergence_recorded.py::test_epoch_cache[{NAME.rpartition('_')[2]}]"


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """From the folder's parent, by the folder's bare name."""
    command = [LAUNCHER, "test", "--cases", folder.name, "-rs", *arguments]
    return subprocess.run(command, cwd=folder.parent, capture_output=True, text=True, check=False)


@pytest.fixture
def other_cases(tmp_path: Path) -> Path:
    folder = tmp_path / "others"
    folder.mkdir()
    with gzip.open(folder / f"{NAME}.other.jsonl.gz", "wt") as lines:
        for case in cases.load(NAME)[:5]:
            lines.write(json.dumps(case) + "\n")
    return folder


@pytest.mark.parametrize("spelling", ["two words", "one word"])
def test_the_folder_that_is_named_is_used(other_cases: Path, spelling: str) -> None:
    assert "1 passed" in run(other_cases, TEST).stdout
    [file] = other_cases.iterdir()
    wrong = json.loads(gzip.decompress(file.read_bytes()).splitlines()[0])
    wrong["end_offset_for"][0] = [0, 0, 123456]
    file.write_bytes(gzip.compress(json.dumps(wrong).encode()))
    command = ["--cases", other_cases] if spelling == "two words" else [f"--cases={other_cases}"]
    failed = subprocess.run([LAUNCHER, "test", *command, TEST], capture_output=True, text=True, check=False)
    assert (failed.returncode, "1 failed" in failed.stdout) == (1, True)


def test_missing_cases_of_the_folder_are_named(other_cases: Path) -> None:
    done = run(other_cases, "tests/replication/test_election.py", TEST)
    assert done.returncode == 0
    assert "1 passed" in done.stdout and "no recorded cases zk_election_3.9.1" in done.stdout


def test_a_folder_with_nothing_for_any_test_is_no_success(other_cases: Path) -> None:
    done = run(other_cases, "tests/replication/test_election.py")
    assert done.returncode == 5
    assert "every test was skipped: nothing compared" in done.stdout and " passed" not in done.stdout


def test_a_folder_that_is_not_there() -> None:
    done = run(Path("nowhere"), TEST)
    assert done.returncode != 0 and "no such folder" in done.stdout + done.stderr


def test_a_folder_without_cases_is_refused(tmp_path: Path) -> None:
    done = run(tmp_path, TEST)
    assert done.returncode == 4 and "no recorded cases" in done.stderr
