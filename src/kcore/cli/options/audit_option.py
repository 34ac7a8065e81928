"""The option --audit, which all servers have."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from kcore.cli.console import fail
from kcore.server.broker.broker_server import BrokerServer
from kcore.server.security.audit import AuditLog

B = TypeVar("B", bound=BrokerServer)
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


def with_audit(make: Callable[[], B], audit: AuditLog | None) -> B:
    """The broker that `make` makes, with that log."""
    broker = make()
    broker.audit = audit
    return broker
