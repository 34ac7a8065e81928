"""Writes the file of `--arrow`."""

import os
from pathlib import Path
from typing import Any

from kcore.cli.console import fail
from kcore.extras import needs


def write_feather(table: Any, path: Path) -> None:
    """Writes a pyarrow.Table to an Arrow IPC file (Feather 2), uncompressed. Ends the command after a disk's error."""
    with needs("arrow"):
        from pyarrow import feather

    try:
        with path.open("wb") as file:
            feather.write_feather(table, file, compression="uncompressed")
    except OSError as error:
        fail(f"--arrow {path}: {os.strerror(error.errno) if error.errno else error}")
