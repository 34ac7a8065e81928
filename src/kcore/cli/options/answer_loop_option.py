"""The option for what answers observers' fetches and heartbeats: of `controller kraft run` and `quorum serve`."""

from typing import Annotated, TypeAlias

import typer

from kcore.server.quorum_node.answer_loop import FrontKind

# Hidden: it is for comparisons. A storm's processes get it by their environment.
FrontOption: TypeAlias = Annotated[
    FrontKind,
    typer.Option(
        "--front", hidden=True, envvar="KCORE_FRONT", help="`plain`: Python answers what changes nothing, too."
    ),
]
