"""The check of options that take a number with a fraction and have no upper bound: rejects "inf" and "nan"."""

from math import isfinite

import typer


def finite(value: float | None) -> float | None:
    """A callback of `typer.Option`: the number. The command ends with exit code 2 where it is infinite or none."""
    if value is not None and not isfinite(value):
        raise typer.BadParameter(f"{value} is not a finite number.")
    return value
