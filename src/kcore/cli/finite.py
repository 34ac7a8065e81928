"""The check of options that take a number with a fraction: bounds alone let "nan" pass, and a lower one "inf"."""

from math import isfinite

import typer


def finite(value: float | None) -> float | None:
    """A callback of `typer.Option`: the number; the command ends with exit code 2 where it is none, or infinite."""
    if value is not None and not isfinite(value):
        raise typer.BadParameter(f"{value} is not a finite number.")
    return value
