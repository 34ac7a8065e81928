"""Third-party packages that only a part of kcore needs, and the extra that installs each."""

from importlib import import_module
from typing import Any, Final

from kcore.errors import MissingPackageError

EXTRAS: Final = {"pyarrow": "spark"}


def require(package: str) -> Any:
    """The package, imported. MissingPackageError names the extra that brings it."""
    try:
        return import_module(package)
    except ImportError as error:
        extra = EXTRAS[package]
        raise MissingPackageError(f"this needs {package}: pip install 'kcore[{extra}]'", name=package) from error
