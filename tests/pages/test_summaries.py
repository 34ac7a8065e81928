"""Every page opens with a summary that fits one screen."""

import math
import re
from pathlib import Path

import pytest

from pages.markdown import ROOT

SCREEN_LINES, SCREEN_LETTERS = 40, 120
FEWEST_WORDS = 10
DETAILS = re.compile(r"^(?:## |::: )", re.MULTILINE)
# The site replaces these pages by files from the top of the repository (ci/docs_hooks.py).
REPLACED = {"architecture.md", "contributing.md", "changelog.md"}
PAGES = [path for path in sorted((ROOT / "docs").rglob("*.md")) if path.name not in REPLACED]


def summary_of(text: str) -> str:
    """The part of a page before its first section or its first name of the API."""
    return DETAILS.split(text, maxsplit=1)[0]


def screen_lines(text: str) -> int:
    """How many lines of a screen the text takes; long lines wrap."""
    return sum(max(1, math.ceil(len(line) / SCREEN_LETTERS)) for line in text.splitlines())


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_page_opens_with_a_summary_that_fits_one_screen(page: Path) -> None:
    title, _, summary = summary_of(page.read_text(encoding="utf-8")).partition("\n")
    assert title.startswith("# ")
    assert len(summary.split()) >= FEWEST_WORDS
    assert screen_lines(summary) <= SCREEN_LINES


def test_long_lines_and_missing_summaries_are_found() -> None:
    assert screen_lines("a" * 121 + "\n\nb") == 4
    assert summary_of("# Title\n\nWords.\n\n## Section\n") == "# Title\n\nWords.\n\n"
    assert summary_of("# Title\n\n::: kcore.decode\n") == "# Title\n\n"
