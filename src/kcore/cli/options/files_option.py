"""The option --shared-files of the commands that make a server's files."""

import os
from typing import Annotated, Final

import typer

SharedFilesOption = Annotated[
    bool,
    typer.Option(
        "--shared-files", help="Make files and folders as Kafka does, by the umask; else for their owner alone."
    ),
]
OWNER_ALONE: Final = 0o077


def keep_private(shared: bool) -> None:
    """The command's files have mode 0600 and its folders 0700: logs, snapshots and audit have secrets.

    `commands` sets the umask back when the command ends.
    """
    if not shared:
        os.umask(OWNER_ALONE)
