"""Identifies the code of kcore that this process runs: a hash of its modules and kernels, and the git commit.

A version string does not change with each edit. The hash does: two processes with the same hash run the same bytes.
"""

import os
import subprocess
from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Final, NamedTuple

DIGITS: Final = 16  # Tables and errors show so many digits of the hash; results have all.
_PACKAGE: Final = Path(__file__).parents[2]
_SOURCES: Final = "rust"  # The folder of the crates and of what cargo builds there: Python imports nothing from it.
_GIT_S: Final = 10.0


class OwnCode(NamedTuple):
    """The code of an installed kcore."""

    sha256: str
    commit: str | None  # Ends in "-dirty" if files differ from the commit; None outside a checkout.


@cache
def own_sha256() -> str:
    """The hash of this process's kcore, computed once."""
    return code_sha256(_PACKAGE)


@cache
def own_code() -> OwnCode:
    """The hash and the commit of this process's kcore, computed once."""
    return OwnCode(own_sha256(), commit_of(_PACKAGE))


def code_sha256(package: Path) -> str:
    """The hash of the files below `package` that Python imports: modules, and the kernels of this interpreter.

    It depends on names and contents only, not on the folder, on times, or on compiled bytecode. An archive, a wheel
    and an editable install have the same hash if these files are equal.
    """
    whole = sha256()
    for name, file in sorted(_imported(package)):
        whole.update(f"{name}\0{sha256(file.read_bytes()).hexdigest()}\n".encode())
    return whole.hexdigest()


def commit_of(package: Path) -> str | None:
    """The commit of the checkout whose folder src/ holds `package`; None without a checkout or without git."""
    top = package.parents[1]
    if package.parent.name != "src" or not (top / ".git").exists():
        return None  # A repository further up, such as one around a virtual environment, is not kcore's.
    repository = ["git", f"--git-dir={top / '.git'}", f"--work-tree={top}"]
    command = [*repository, "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    environment = os.environ | {"GIT_OPTIONAL_LOCKS": "0"}
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=_GIT_S, env=environment)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None


def _imported(package: Path) -> Iterator[tuple[str, Path]]:
    """Each imported file, and its name relative to the package."""
    for file in package.rglob("*"):
        place = file.relative_to(package)
        suffix = file.name[file.name.find(".") :]
        if (suffix == ".py" or suffix in EXTENSION_SUFFIXES) and _SOURCES not in place.parts and file.is_file():
            yield place.as_posix(), file
