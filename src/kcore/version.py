"""The version of kcore, in this one place: the package's metadata and `kcore --version` read it."""

from typing import Final

__version__: Final = "0.1.0"
