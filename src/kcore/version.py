"""The version of kcore. The package's metadata and `kcore --version` both read it from this module."""

from typing import Final

__version__: Final = "0.1.0"
