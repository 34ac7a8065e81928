"""Options of `kcore compare`, and what their texts mean."""

from collections.abc import Mapping, Sequence
from math import inf
from types import MappingProxyType
from typing import Annotated, NamedTuple

import typer

from kcore.cli.console import fail
from kcore.measure.bench.compare import THRESHOLD, Thresholds

Threshold = Annotated[
    list[str] | None,
    typer.Option(
        metavar="[NAME=]RATIO",
        help="Slower by more than this ratio is a regression (default 1.25); with a name, of that operation, workload, "
        "scenario or target alone. Repeatable.",
    ),
]
Map = Annotated[
    list[str] | None,
    typer.Option(
        "--map",
        metavar="OLD=NEW",
        help="What the new run calls a target, scenario or operation of the old. Repeatable.",
    ),
]
Labels = Annotated[str, typer.Option(metavar="OLD,NEW", help="The names of the two runs in tables and on the page.")]


class Options(NamedTuple):
    """How two runs are compared."""

    thresholds: Thresholds = Thresholds()
    names: Mapping[str, str] = MappingProxyType({})  # New names by the names in the old run.
    labels: tuple[str, str] = ("old", "new")


def options_of(threshold: Sequence[str] | None, mapped: Sequence[str] | None, labels: str) -> Options:
    """Parses the texts; ends the command with exit code 2 for one that makes no sense."""
    return Options(_thresholds(threshold or ()), _names(mapped or ()), _labels(labels))


def _thresholds(texts: Sequence[str]) -> Thresholds:
    """Parses "1.5" and "broker-lost=2"."""
    own: dict[str, float] = {}
    for text in texts:
        name, _, ratio = text.rpartition("=")
        try:
            value = float(ratio)
        except ValueError:
            value = 0.0
        if not 1.0 <= value < inf:
            fail(f"--threshold {text}: {ratio!r} is no ratio of at least 1")
        if name in own:
            fail(f"--threshold {text}: there is another one {f'for {name}' if name else 'without a name'}")
        own[name] = value
    return Thresholds(own.pop("", THRESHOLD), own)


def _names(texts: Sequence[str]) -> dict[str, str]:
    """Parses "old=new"."""
    found: dict[str, str] = {}
    for text in texts:
        old, _, new = text.partition("=")
        if not old or not new:
            fail(f"--map {text}: give the name in the old run and that in the new one, as in kafka-4.3.1=kcore-kraft")
        if old in found:
            fail(f"--map {text}: {old} is {found[old]} already")
        found[old] = new
    return found


def _labels(text: str) -> tuple[str, str]:
    old, _, new = (part.strip() for part in text.partition(","))
    if not old or not new or "," in new or old == new:
        fail(f"--labels {text}: give two different names with a comma between them")
    return old, new
