"""A user's program of a hundred lines that uses every public name: type checkers pass it, and it runs."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import kcore

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).with_name("user_program.py")
TOOLS = Path(sys.executable).parent
CHECKERS = {
    # The package is checked by `ci/types`; here it counts as an installed one.
    "mypy": [TOOLS / "mypy", "--strict", "--follow-imports=silent", "--no-incremental"],
    "pyright": [TOOLS / "pyright", "--pythonpath", sys.executable],  # Strict, too: the program says so.
}


def test_it_uses_every_public_name() -> None:
    used = set(re.findall(r"\bkcore\.(\w+)", PROGRAM.read_text("utf-8")))
    assert set(kcore.__all__) - used == set()


def test_it_runs() -> None:
    done = subprocess.run([sys.executable, PROGRAM], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, f"kcore {kcore.__version__}: every public name was used\n"), (
        done.stderr
    )


@pytest.mark.long
@pytest.mark.parametrize("checker", CHECKERS)
def test_type_checkers_pass_it_and_not_one_that_is_wrong(checker: str, tmp_path: Path) -> None:
    assert checked(checker, PROGRAM) == 0
    for right, wrong in (("broker_epoch=9", "broker_epohc=9"), ('read="headers"', 'read="header"')):
        text = PROGRAM.read_text("utf-8")
        assert right in text
        program = tmp_path / "wrong.py"
        program.write_text(text.replace(right, wrong))
        assert checked(checker, program) == 1


def checked(checker: str, program: Path) -> int:
    return subprocess.run([*CHECKERS[checker], program], cwd=ROOT, capture_output=True, check=False).returncode
