"""The code on the README and the pages of docs/ runs, and prints what they say."""

import os
import subprocess
import sys
from contextlib import redirect_stdout
from doctest import ELLIPSIS, OutputChecker
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from pages.markdown import LANGUAGES, PAGES, ROOT, blocks_of, python_of, transcripts_of

CHECKER = OutputChecker()


def names(pages: list[Path]) -> list[str]:
    return [str(page.relative_to(ROOT)) for page in pages]


def check(shown: str, printed: str) -> None:
    """`...` stands for anything; blanks at the ends of lines do not count."""
    wanted = "\n".join(line.rstrip() for line in shown.splitlines())
    found = "\n".join(line.rstrip() for line in printed.splitlines())
    assert CHECKER.check_output(wanted, found, ELLIPSIS), f"the page shows\n{wanted}\nbut this is printed:\n{found}"


WITH_SPARK = [
    page for page in PAGES if any("kcore.spark" in block.body for block, _ in python_of(page.read_text("utf-8")))
]
WITH_PYTHON = [page for page in PAGES if python_of(page.read_text(encoding="utf-8")) and page not in WITH_SPARK]
WITH_TRANSCRIPTS = [page for page in PAGES if [*transcripts_of(page.read_text(encoding="utf-8"))]]
LONG_TRANSCRIPTS = {"files.md", "whatif.md", "your-cluster.md"}


@pytest.mark.parametrize("page", PAGES, ids=names(PAGES))
def test_every_block_says_what_it_is(page: Path) -> None:
    """So that none is left out of the tests by a misspelt language, or by a fence that does not close."""
    text = page.read_text(encoding="utf-8")
    blocks = blocks_of(text)
    assert [block.line for block in blocks if block.language not in LANGUAGES] == []
    assert sum(line.lstrip().startswith("```") for line in text.splitlines()) == 2 * len(blocks)


@pytest.mark.parametrize("page", WITH_PYTHON, ids=names(WITH_PYTHON))
def test_python_blocks(page: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    run_python(page)


@pytest.mark.long
@pytest.mark.parametrize("page", WITH_SPARK, ids=names(WITH_SPARK))
def test_python_blocks_over_spark(page: Path, folder: Path) -> None:
    """In a process of its own: Spark's Java stays in the folder in which it was started."""
    code = (
        "import sys; from pathlib import Path; from pages.test_pages import run_python; run_python(Path(sys.argv[1]))"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT / "tests")}
    done = subprocess.run(
        [sys.executable, "-c", code, page], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def run_python(page: Path) -> None:
    """The blocks of a page, in one namespace, in the current folder; AssertionError where they print something else."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for block, shown in python_of(page.read_text(encoding="utf-8")):
        code = compile("\n" * block.line + block.body, str(page), "exec")
        printed = StringIO()
        with redirect_stdout(printed):
            exec(code, namespace)
        check(shown or "", printed.getvalue())


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=pytest.mark.long if page.name in LONG_TRANSCRIPTS else ()) for page in WITH_TRANSCRIPTS],
    ids=names(WITH_TRANSCRIPTS),
)
def test_transcripts(page: Path, folder: Path) -> None:
    environment = os.environ | {"COLUMNS": "100", "NO_COLOR": "1"}
    for command, shown in transcripts_of(page.read_text(encoding="utf-8")):
        line = command.replace("./kcore ", f"{sys.executable} -m kcore ")
        done = subprocess.run(
            line, shell=True, cwd=folder, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            check=False,
        )  # fmt: skip
        check(shown, done.stdout)


def test_the_checks_find_what_is_wrong() -> None:
    page = "```python\nprint(1)\n```\n\n```text\n2\n```\n\nwords\n\n```text\nno output\n```\n"
    [(block, shown)] = python_of(page)
    assert (block.body, shown) == ("print(1)\n", "2\n")
    with pytest.raises(AssertionError, match="but this is printed"):
        check("2\n", "1\n")
    check("1 of ... cells\n", "1 of 13 cells\n")
    assert [*transcripts_of("```console\n$ a b\nc\nd\n$ e\n```\n")] == [("a b", "c\nd\n"), ("e", "")]
