"""The option for what answers observers' fetches and heartbeats: of `controller kraft run` and `quorum serve`."""

from typing import Annotated, TypeAlias

import typer

from kcore.cli.console import fail
from kcore.server.quorum.compiled import FRONTS, FrontKind

# Hidden: it is for comparisons. A storm's processes get it by their environment.
FrontOption: TypeAlias = Annotated[
    str,
    typer.Option(
        "--front", hidden=True, envvar="KCORE_FRONT", help="`plain`: Python answers what changes nothing, too."
    ),
]


def front_of(text: str) -> FrontKind:
    """The kind of that name; ends the command for others."""
    for kind in FRONTS:
        if text == kind:
            return kind
    fail(f"--front {text}: {' or '.join(FRONTS)}")
