"""The hash of kcore's code depends on what Python imports, and on nothing else."""

import os
import shutil
import subprocess
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from kcore.measure.report.own_code import code_sha256, commit_of

KERNEL = f"_ext/kernel{EXTENSION_SUFFIXES[0]}"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A checkout with two modules and a kernel."""
    found = tmp_path / "checkout" / "src" / "kcore"
    for name, text in (("__init__.py", ""), ("raft/node.py", "x = 1\n"), (KERNEL, "machine code")):
        (found / name).parent.mkdir(parents=True, exist_ok=True)
        (found / name).write_text(text)
    return found


def test_another_folder_other_times_and_compiled_bytecode_change_nothing(package: Path, tmp_path: Path) -> None:
    before = code_sha256(package)
    copy = tmp_path / "archive" / "kcore-packages" / "kcore"
    shutil.copytree(package, copy)
    os.utime(copy / "raft/node.py", (1, 1))
    for name in ("raft/__pycache__/node.cpython-311.pyc", "py.typed", "_ext/kernel.pyx", "_ext/kernel.pyi"):
        (copy / name).parent.mkdir(exist_ok=True)
        (copy / name).write_text("not imported")
    for name in ("_ext/kernel.cpython-399-other.so", "_ext/rust/target/release/libkernel.so"):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        (copy / name).write_text("a kernel of another Python, and one that cargo left")
    assert code_sha256(copy) == before and len(before) == 64


def test_each_change_of_code_changes_the_hash(package: Path) -> None:
    seen = {code_sha256(package)}
    (package / "raft/node.py").write_text("x = 2\n")
    seen.add(code_sha256(package))
    (package / KERNEL).write_text("other machine code")
    seen.add(code_sha256(package))
    (package / "raft/node.py").rename(package / "raft/nodes.py")
    seen.add(code_sha256(package))
    (package / "added.py").touch()
    seen.add(code_sha256(package))
    assert len(seen) == 5


def test_the_commit_is_that_of_kcores_own_checkout(package: Path) -> None:
    assert commit_of(package) is None
    top = package.parents[1]

    def git(*arguments: str) -> str:
        command = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments]
        return subprocess.run(command, cwd=top, check=True, capture_output=True, text=True).stdout.strip()

    git("init", "--quiet")
    git("add", ".")
    git("commit", "--quiet", "--message", "x")
    commit = git("rev-parse", "HEAD")
    assert commit_of(package) == commit
    (package / "raft/node.py").write_text("x = 2\n")
    assert commit_of(package) == f"{commit}-dirty"
    installed = top / "venv" / "site-packages" / "kcore"
    shutil.copytree(package, installed)
    assert commit_of(installed) is None
