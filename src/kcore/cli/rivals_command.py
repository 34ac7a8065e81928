"""`kcore rivals`: kcore beside its rivals."""

from dataclasses import replace
from pathlib import Path

from kcore.bench import rivals
from kcore.cli.console import fail, wide_console
from kcore.errors import PlanError


def run(only: list[str], partitions: int, repeat: int, out: Path | None) -> int:
    """Run and show; ends the command with exit code 2 if that cannot be run."""
    try:
        options = rivals.Options(partitions=partitions, repeat=repeat, out=out)
        return rivals.main(replace(options, only=tuple(only)) if only else options, wide_console())
    except PlanError as error:
        fail(str(error))
