"""The check of options that take a fraction and have no upper bound: rejects "inf" and "nan"."""

from math import isfinite

import typer


def finite(value: float | None) -> float | None:
    """A callback of `typer.Option`: returns the number; ends the command with exit code 2 for "inf" and "nan"."""
    if value is not None and not isfinite(value):
        raise typer.BadParameter(f"{value} is not a finite number.")
    return value
