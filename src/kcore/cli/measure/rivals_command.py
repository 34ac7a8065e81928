"""`kcore rivals`: measures kcore beside other libraries."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from kcore.cli.console import fail, load_before, wide_console
from kcore.cli.measure.results_folder import Overwrite, kept_whole, results_directory
from kcore.errors import PlanError
from kcore.measure.rivals import rivals


def command(
    only: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[GROUP]...", help="codec, memory, election, divergence, messages, records; all if left out."
        ),
    ] = None,
    partitions: Annotated[int, typer.Option(min=1_000, max=10_000_000, help="Partitions of the cluster.")] = 100_000,
    repeat: Annotated[int, typer.Option(min=1, max=1_000, help="Times that each peer runs a case.")] = 5,
    runs: Annotated[
        int, typer.Option(min=1, max=100, help="Runs of the whole comparison; several runs print ranges.")
    ] = 1,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Results folder; default: results are only printed.")
    ] = None,
    overwrite: Overwrite = False,
) -> None:
    """Build the peers in bench/rivals and run them beside kcore; compare results, then times.

    Exit code: 0 good, 1 results disagree, 2 usage, 3 a peer failed. A missing toolchain is a line, not a failure.
    """
    directory = None if out is None else results_directory(out, "rivals", overwrite)
    raise typer.Exit(run(only or [], partitions, repeat, runs, directory))


def run(only: list[str], partitions: int, repeat: int, runs: int, out: Path | None) -> int:
    """Runs the comparison and prints it; ends the command with exit code 2 for invalid options."""
    try:
        options = rivals.Options(partitions=partitions, repeat=repeat, runs=runs, out=out)
        options = replace(options, only=tuple(only)) if only else options
        load_before()
        return rivals.main(options, wide_console(), kept_whole)
    except PlanError as error:
        fail(str(error))
