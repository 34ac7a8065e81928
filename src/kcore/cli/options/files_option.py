"""The option --shared-files of the commands that make a server's files."""

import os
from typing import Annotated, Final

import typer

SharedFilesOption = Annotated[
    bool,
    typer.Option(
        "--shared-files", help="Create files with the modes of the umask, as Kafka does. Default: for their owner only."
    ),
]
OWNER_ALONE: Final = 0o077


def keep_private(shared: bool) -> None:
    """Sets the umask so that the command's files have mode 0600 and its folders 0700, unless `shared`.

    Logs, snapshots and audit files contain secrets. `commands` resets the umask when the command ends.
    """
    if not shared:
        os.umask(OWNER_ALONE)
