"""Reads and writes `.kafka_cleanshutdown`, the broker epoch of the last clean shutdown (KIP-966).

Source: CleanShutdownFileHandler of 4.3.1.
"""

import json
import re
from pathlib import Path
from typing import Final

from kcore.constants import UNKNOWN_BROKER_EPOCH
from kcore.storage.files import OS, FileSystem, is_there, read_bytes, remove, write_atomically

CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"  # The file, in a log directory.
_MOST: Final = 2**63 - 1
_EPOCH: Final = re.compile(rb'\{\s*"version"\s*:\s*0\s*,\s*"brokerEpoch"\s*:\s*(\d{1,19})\s*\}\s*')


def take_clean_shutdown(directory: Path, files: FileSystem = OS) -> int:
    """Reads the broker epoch and deletes the file; UNKNOWN_BROKER_EPOCH if there is no readable file."""
    path = directory / CLEAN_SHUTDOWN
    if not is_there(path, files):
        return UNKNOWN_BROKER_EPOCH
    found = _EPOCH.fullmatch(read_bytes(path, files=files))
    remove(path, files)
    return int(found[1]) if found and int(found[1]) <= _MOST else UNKNOWN_BROKER_EPOCH


def write_clean_shutdown(directory: Path, broker_epoch: int, files: FileSystem = OS) -> None:
    """Records a clean shutdown; the directory's other files must be durable before."""
    content = json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":"))
    write_atomically(directory / CLEAN_SHUTDOWN, content.encode(), files)
