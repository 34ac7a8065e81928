"""The examples run, and print what their last comment says."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from pages.markdown import ROOT
from pages.test_pages import check

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
PRINTS = re.compile(r"^# Prints:\n((?:#.*\n)+)\Z", re.MULTILINE)
TAKES_ARGUMENTS = ("metadata_follower", "proxy")  # `test_network_examples.py` runs them.
APART = [each for each in EXAMPLES if each.stem not in TAKES_ARGUMENTS]


def prints_of(example: Path) -> str:
    """The output that the example's last comment shows."""
    said = PRINTS.search(example.read_text(encoding="utf-8"))
    assert said, "an example ends by `# Prints:` and a comment with its output"
    return re.sub(r"^# ?", "", said[1], flags=re.MULTILINE)


@pytest.mark.long
@pytest.mark.parametrize("example", APART, ids=lambda path: path.stem)
def test_example(example: Path, tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, example], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    check(prints_of(example), done.stdout)


def test_every_example_is_listed() -> None:
    page = (ROOT / "docs/examples.md").read_text(encoding="utf-8")
    assert [path.name for path in EXAMPLES if path.name not in page] == []
    assert len(EXAMPLES) >= 5
