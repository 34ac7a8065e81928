"""The package imports without heavy dependencies, and the repo has nothing that is specific to one machine."""

import ast
import pydoc
import re
import subprocess
import sys
from functools import cache
from importlib import import_module, metadata
from pathlib import Path

import pytest

import kcore

ROOT = Path(__file__).parents[2]
HEAVY = ("numpy", "numba", "pyspark", "pandas", "matplotlib")
TEXT = {".py", ".pyx", ".pxd", ".pyi", ".rs", ".toml", ".md", ".lock", ".in", ".java", ".go", ""}
MACHINE_PATH = re.compile(r"(?<![\w.$}\"])/(?:root|work|home/\w+|Users/\w+|tmp)/")
# A registry's host: each tool knows its own, and a machine may be set to another.
REGISTRIES = [
    re.compile(host)  # One by one, each from a plain letter on: that is ten times as fast as one pattern of all.
    for host in (
        *(r"repo1?\.maven\b", r"central\.sonatype\b", r"/maven[2]\b", r"pypi\.(?:org|io|python)\b"),
        *(r"pythonhosted\.org", r"(?:index|static)\.crates\.io", r"registry\.npmjs\b", r"proxy\.golang\.org"),
        r"/(?:artifactory|nexus)/",
    )
]
SOMEONES_INDEX = re.compile(r"^\s*--(?:index-url|extra-index-url|find-links)", re.MULTILINE)


def test_import_is_light() -> None:
    code = f"import sys, kcore; print(*[name for name in {HEAVY} if name in sys.modules])"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert loaded.stdout.split() == []


def test_no_first_decision_pays_for_an_import() -> None:
    code = "import sys, kcore; kcore.generate; print('kcore.replication.elect' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "True\n"


def test_what_is_loaded_later_is_what_type_checkers_see() -> None:
    """And every name is there."""
    [checked] = [node for node in ast.parse(Path(kcore.__file__).read_text()).body if isinstance(node, ast.If)]
    seen = {alias.name for node in checked.body for alias in node.names}  # type: ignore[attr-defined]
    assert seen == {*kcore._MODULE_OF, *kcore._GROUP_OF, *kcore._GROUPS}
    for name, module in kcore._MODULE_OF.items():
        assert getattr(kcore, name) is getattr(import_module(module), name)
    assert all(getattr(kcore, group).__name__ == f"kcore.{group}" for group in kcore._GROUPS)
    assert not hasattr(kcore, "no_such_name")


def test_an_old_flat_name_works_and_names_its_group() -> None:
    for name, group in kcore._GROUP_OF.items():
        with pytest.warns(DeprecationWarning, match=rf"kcore\.{name} is deprecated: use kcore\.{group}\.{name}"):
            old = getattr(kcore, name)
        assert name == "elect" or old is getattr(import_module(f"kcore.{group}"), name)


def test_the_public_names_are_listed_by_dir_and_by_help() -> None:
    """With the sentence that each function's docstring begins with. Packages are public, too, but no names of `*`."""
    errors = {name for name, each in vars(kcore).items() if isinstance(each, type) and issubclass(each, Exception)}
    assert set(kcore.__all__) == {"__version__", *errors, *kcore._MODULE_OF}
    assert {*kcore.__all__, *kcore._GROUPS} == set(dir(kcore))
    said = pydoc.plain(pydoc.render_doc(kcore))
    assert [name for name in kcore.__all__ if not re.search(rf"\b{name}\b", said) and name != "__version__"] == []
    assert f"VERSION\n    {kcore.__version__}" in said


def test_the_version_has_one_place_and_the_licence_is_in_the_package() -> None:
    assert metadata.version("kcore") == kcore.__version__
    facts = metadata.metadata("kcore")
    assert (facts["License-Expression"], facts.get_all("License-File")) == ("Apache-2.0", ["LICENSE"])
    text = (ROOT / "LICENSE").read_text("utf-8")
    assert "Version 2.0, January 2004" in text and "END OF TERMS AND CONDITIONS" in text


def names_a_registry(text: str) -> bool:
    return any(registry.search(text) for registry in REGISTRIES)


@cache
def texts() -> list[Path]:
    folders = [ROOT / name for name in ("src", "tests", "bench", "ci", ".ci", "docs", "examples")]
    found = [path for folder in folders for path in folder.rglob("*") if path.is_file() and path.suffix in TEXT]
    generated = {"data", "target", "__pycache__", "node_modules"}
    found = [path for path in found if not generated & set(path.relative_to(ROOT).parts)]
    at_top = (path for path in ROOT.iterdir() if path.name != ".git")  # A file in a worktree: where the repository is.
    return [*found, *(path for path in at_top if path.is_file() and path.suffix in TEXT)]


def test_no_machine_paths() -> None:
    found = [path for path in texts() if MACHINE_PATH.search(path.read_text(encoding="utf-8"))]
    assert found == []


def test_no_address_of_a_registry() -> None:
    assert names_a_registry("https://repo1" + ".maven.org/path")
    assert [path for path in texts() if names_a_registry(path.read_text(encoding="utf-8"))] == []


def test_locks_name_no_index() -> None:
    locks = sorted(ROOT.glob("requirements*.lock"))
    assert len(locks) == 3
    for lock in locks:
        text = lock.read_text(encoding="utf-8")
        assert not SOMEONES_INDEX.search(text)
        assert "://" not in text
        pins = re.findall(r"^[a-z][^\s=]*==", text, re.MULTILINE)
        assert pins
        assert text.count("\n    --hash=sha256:") >= len(pins)
