"""Folders stay small, and ARCHITECTURE.md stays short and lists the layers that `test_layers.py` enforces."""

import ast
import re
from pathlib import Path

from tidy.test_layers import LAYERS

ROOT = Path(__file__).parents[2]
MODULES = 27  # About 25.
FLAT = {"src/kcore/schema", "tests/reference"}  # A file for each family of APIs, and for each kernel.
SUFFIXES = {".py", ".pyx", ".rs"}
WORDS = 1_500


def test_no_folder_has_too_many_modules() -> None:
    folders = [path for top in ("src", "tests", "bench", "ci") for path in [ROOT / top, *(ROOT / top).rglob("*/")]]
    counts = {
        str(folder.relative_to(ROOT)): sum(path.suffix in SUFFIXES for path in folder.iterdir())
        for folder in folders
        if "target" not in folder.parts
    }
    assert not {folder: count for folder, count in counts.items() if count > MODULES and folder not in FLAT}


def test_every_package_says_what_it_is_for() -> None:
    files = sorted((ROOT / "src" / "kcore").rglob("__init__.py"))
    assert not [str(path) for path in files if not ast.get_docstring(ast.parse(path.read_text("utf-8")))]


def test_the_architecture_is_short() -> None:
    assert len((ROOT / "ARCHITECTURE.md").read_text("utf-8").split()) < WORDS


def test_the_architecture_lists_the_layers_that_are_enforced() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    table = text.partition("<!-- layers -->")[2].partition("<!-- /layers -->")[0]
    rows = [set(re.findall(r"`([\w/]+)`", row.split("|")[1])) for row in table.splitlines() if row.startswith("| `")]
    assert rows == list(LAYERS)
