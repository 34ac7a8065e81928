"""The option of all commands that open a log for writing: what they do about a hole in it."""

from typing import Annotated, TypeAlias

import typer

SetAsideOption: TypeAlias = Annotated[
    bool,
    typer.Option("--set-aside", help="If a log has a hole, rename what follows it, and start with the rest."),
]
