"""`kcore compare`: two result files, a table, an exit code."""

from pathlib import Path
from typing import Annotated

import pyarrow as pa
import typer

from kcore.bench import compare, results
from kcore.bench.results import Summary
from kcore.cli.console import fail, wide_console
from kcore.report.exits import Exit


def command(
    old: Annotated[Path, typer.Argument(help="A result folder, or its results.parquet or results.jsonl.")],
    new: Annotated[Path, typer.Argument(help="The same of the run to judge.")],
    threshold: Annotated[float, typer.Option(min=1.0, help="Slower by more than this ratio is a regression.")] = 1.25,
) -> None:
    """Tell which named cells became slower between two runs.

    Exit code: 0 none, 1 a regression, 2 usage, 3 cells are missing or their results differ.
    """
    raise typer.Exit(run(old, new, threshold))


def run(old: Path, new: Path, threshold: float) -> Exit:
    """Compare and show; ends the command with exit code 2 if a file cannot be read."""
    console = wide_console()
    comparison = compare.compare(_summaries(old), _summaries(new), threshold)
    compare.show(console, comparison)
    return comparison.exit


def _summaries(path: Path) -> list[Summary]:
    try:
        table = results.read(path)
    except (OSError, ValueError, pa.ArrowException) as error:
        fail(f"{path}: {error}")
    rows = table.to_pylist()
    for row in results.failures(rows):
        typer.echo(f"kcore: {path}: a failed cell of {row['workload']} is left out: {row['error']}", err=True)
    return results.summarise(rows)
