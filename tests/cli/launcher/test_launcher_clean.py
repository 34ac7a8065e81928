"""`./kcore clean` removes what kcore made in its clone and its cache, and nothing else; `./kcore test --help`."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

LAUNCHER = Path(__file__).parents[3] / "kcore"
MADE = (".venv/bin/python", "build/setup.log", "out/storm-1/table.json", ".hypothesis/x", ".pytest_cache/x")
COMPILED = ("src/kcore/_ext/wire.so", "src/kcore/_ext/rust/target/x", "tests/__pycache__/x.pyc", "src/kcore.egg-info/x")
SOURCES = (
    "README.md",
    "src/kcore/_ext/wire/object_codec.pyx",
    "tests/test_x.py",
    "docs/out/page.md",
    "src/mine.so",
    "notes.txt",
)
CACHED = ("kafka-4.3.1/.lock", "kafka-4.3.1/a.jar", "java-0123456789ab/bin/java", "rivals/x", "log4j2.properties")
OF_OTHERS = ("kafka-3.9.1/bin/kafka-topics.sh", "java-21/bin/java", "photos/x")


def write(folder: Path, names: tuple[str, ...]) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x" * 100_000)


def files_of(folder: Path) -> set[str]:
    return {str(each.relative_to(folder)) for each in folder.rglob("*") if each.is_file() or each.is_symlink()}


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone beside a folder of somebody else's, and a cache that others use, too."""
    folder = tmp_path / "a clone"
    write(folder, MADE + COMPILED + SOURCES)
    write(tmp_path / "cache", CACHED + OF_OTHERS)
    write(tmp_path / "elsewhere", ("results.json",))
    (folder / "dist").symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    shutil.copy(LAUNCHER, folder)
    return folder


def run(clone: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """From another folder, as from cron."""
    environment = os.environ | {"KCORE_CACHE": str(clone.parent / "cache")}
    command = [clone / "kcore", *arguments]
    return subprocess.run(command, env=environment, cwd="/", capture_output=True, text=True, check=False)


def test_clean_removes_what_kcore_made_and_nothing_else(clone: Path) -> None:
    done = run(clone, "clean")
    assert done.returncode == 0, done.stderr
    assert files_of(clone) == {*SOURCES, "kcore"}
    assert files_of(clone.parent / "cache") == {*OF_OTHERS}
    assert files_of(clone.parent / "elsewhere") == {"results.json"}
    again = run(clone, "clean")
    assert (again.returncode, "removed 0.0 MB in all" in again.stderr) == (0, True)


def test_clean_says_what_it_removes_and_how_much(clone: Path) -> None:
    printed = run(clone, "clean").stderr
    for path in (clone / "out", clone / ".venv", clone.parent / "cache/kafka-4.3.1", clone.parent / "cache/rivals"):
        assert f"kcore: removed {path} (0." in printed
    assert "kcore: removed 4 compiled files and folders of them (0.4 MB)" in printed
    *parts, total = [float(each) for each in re.findall(r"([0-9.]+) MB", printed)]
    assert sum(parts) == pytest.approx(total, abs=0.05 * len(parts)) and total > 1.2


def test_clean_with_list_removes_nothing(clone: Path) -> None:
    before = files_of(clone.parent)
    done = run(clone, "clean", "--list")
    assert done.returncode == 0 and "MB in all" in done.stderr
    assert "kcore: would remove" in done.stderr and "removed" not in done.stderr
    assert files_of(clone.parent) == before


def test_clean_refuses_other_arguments(clone: Path) -> None:
    before = files_of(clone.parent)
    done = run(clone, "clean", "out")
    assert done.returncode == 2
    assert done.stderr == "kcore: clean takes --list, which removes nothing, and no other argument: out\n"
    assert files_of(clone.parent) == before


def test_an_empty_cache_goes_as_well(clone: Path) -> None:
    for name in OF_OTHERS:
        (clone.parent / "cache" / name).unlink()
    for name in {Path(name).parts[0] for name in OF_OTHERS}:
        shutil.rmtree(clone.parent / "cache" / name)
    run(clone, "clean")
    assert not (clone.parent / "cache").exists()


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_the_help_of_test_is_ten_lines_and_needs_no_set_up(clone: Path, option: str) -> None:
    shutil.rmtree(clone / ".venv")
    done = run(clone, "test", option)
    assert done.returncode == 0 and not done.stderr
    assert len(done.stdout.splitlines()) == 10
    assert all(word in done.stdout for word in ("--all", "--cases", "oracle", "-k", "pytest --help"))
    assert not (clone / ".venv").exists()
