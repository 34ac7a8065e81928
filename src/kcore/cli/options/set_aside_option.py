"""The option --set-aside of all commands that open a log for writing: how they treat a hole in the log."""

from typing import Annotated, TypeAlias

import typer

SetAsideOption: TypeAlias = Annotated[
    bool,
    typer.Option("--set-aside", help="If a log has a hole, rename the files after it, and start with the rest."),
]
