"""`kcore rivals`: kcore beside its rivals."""

from pathlib import Path

from kcore.bench import rivals
from kcore.cli.bench_command import fail, wide_console
from kcore.errors import PlanError


def run(only: list[str], partitions: int, repeat: int, out: Path | None) -> int:
    """Run and show; ends the command with exit code 2 if that cannot be run."""
    try:
        groups = tuple(only) or rivals.Options.only
        options = rivals.Options(partitions=partitions, only=groups, repeat=repeat, out=out)
        return rivals.main(options, wide_console())
    except PlanError as error:
        fail(str(error))
