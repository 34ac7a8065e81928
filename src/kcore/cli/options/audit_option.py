"""The option --audit of all servers: the file to which a server appends a line for each request."""

from pathlib import Path
from typing import Annotated

import typer

from kcore.cli.console import fail
from kcore.server.security.audit import AuditLog

AuditOption = Annotated[
    Path | None,
    typer.Option("--audit", metavar="FILE", help="Append a JSON line for each request: client, content, outcome."),
]


def audit_log(path: Path | None) -> AuditLog | None:
    """The audit log in the option's file, None without the option; ends the command if the file cannot be opened."""
    try:
        return None if path is None else AuditLog(path)
    except OSError as error:
        fail(f"--audit {path}: {error.strerror}")
