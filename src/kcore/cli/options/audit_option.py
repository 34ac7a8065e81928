"""The option --audit, which all servers have."""

from pathlib import Path
from typing import Annotated

import typer

from kcore.cli.console import fail
from kcore.server.security.audit import AuditLog

AuditOption = Annotated[
    Path | None,
    typer.Option("--audit", metavar="FILE", help="Append a line of JSON for each request: who, what, outcome."),
]


def audit_log(path: Path | None) -> AuditLog | None:
    """The log that the option names; ends the command if its file cannot be opened."""
    try:
        return None if path is None else AuditLog(path)
    except OSError as error:
        fail(f"--audit {path}: {error.strerror}")
