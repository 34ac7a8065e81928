"""The options of `kcore compare`, and how their texts are parsed."""

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
        help="A time that grows by more than RATIO is a regression (default 1.25). NAME: of one operation, workload, "
        "scenario or target. Repeatable.",
    ),
]
Map = Annotated[
    list[str] | None,
    typer.Option(
        "--map",
        metavar="OLD=NEW",
        help="The new run's name of a target, scenario or operation of the old run. Repeatable.",
    ),
]
Table = Annotated[
    str | None,
    typer.Option(
        metavar="URI",
        help="Compare two runs of this table, to which bench --table or storm --table has appended them. OLD and NEW "
        "are the names of the runs, or their beginnings.",
    ),
]
Labels = Annotated[str, typer.Option(metavar="OLD,NEW", help="The names of the two runs in tables and on the page.")]


class Options(NamedTuple):
    """The thresholds, renamed items and labels with which two runs are compared."""

    thresholds: Thresholds = Thresholds()
    names: Mapping[str, str] = MappingProxyType({})  # New names by the names in the old run.
    labels: tuple[str, str] = ("old", "new")


def options_of(threshold: Sequence[str] | None, mapped: Sequence[str] | None, labels: str) -> Options:
    """Parses the options' texts; ends the command with exit code 2 for an invalid one."""
    return Options(_thresholds(threshold or ()), _names(mapped or ()), _labels(labels))


def _thresholds(texts: Sequence[str]) -> Thresholds:
    """Parses texts such as "1.5" and "broker-lost=2"; a ratio without a name is the default of all names."""
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
            fail(f"--threshold {text}: a second threshold {f'for {name}' if name else 'without a name'}")
        own[name] = value
    return Thresholds(own.pop("", THRESHOLD), own)


def _names(texts: Sequence[str]) -> dict[str, str]:
    """Parses texts such as "old=new": the names in the new run by the names in the old run."""
    found: dict[str, str] = {}
    for text in texts:
        old, _, new = text.partition("=")
        if not old or not new:
            fail(f"--map {text}: give the name in the old run and that in the new one, as in kafka-4.4.0=kcore-kraft")
        if old in found:
            fail(f"--map {text}: {old} is {found[old]} already")
        found[old] = new
    return found


def _labels(text: str) -> tuple[str, str]:
    old, _, new = (part.strip() for part in text.partition(","))
    if not old or not new or "," in new or old == new:
        fail(f"--labels {text}: give two different names with a comma between them")
    return old, new
