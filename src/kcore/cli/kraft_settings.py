"""server.properties, read for the commands of a KRaft controller."""

from pathlib import Path

from kcore.cli.console import fail
from kcore.errors import FileKindError, StorageError
from kcore.server.kraft.settings import KraftSettings, SettingsError, settings_of
from kcore.storage.files import read_bytes
from kcore.storage.properties import parse_properties


def read_settings(path: Path) -> KraftSettings:
    """Ends the command, with one line, for a file that is none, and for a setting that cannot be."""
    try:
        return settings_of(parse_properties(read_bytes(path)))
    except (OSError, StorageError, FileKindError, SettingsError) as error:
        fail(f"{path}: {error}")
