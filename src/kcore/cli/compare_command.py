"""`kcore compare`: two result files, a verdict, an exit code."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Final, NamedTuple

import pyarrow as pa
import typer

from kcore.bench import compare, compare_views, results
from kcore.bench.compare import Compared, Comparison, Thresholds
from kcore.cli.console import fail, say, wide_console
from kcore.cli.pipes import write_text
from kcore.report import keep

BENCH: Final = {"workload", "operation"}  # Columns of its results.
STORM: Final = {"scenario", "target"}  # The same of a storm.


def command(
    old: Annotated[
        Path,
        typer.Argument(help="A result folder, or its results.parquet or results.jsonl; what storm --json printed."),
    ],
    new: Annotated[Path, typer.Argument(help="The same of the run to judge.")],
    threshold: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[NAME=]RATIO",
            help="Slower by more than this ratio is a regression (default 1.25); with a name, of that operation, "
            "workload, scenario or target alone. Repeatable.",
        ),
    ] = None,
    mapped: Annotated[
        list[str] | None,
        typer.Option(
            "--map",
            metavar="OLD=NEW",
            help="What the new run calls a target, scenario or operation of the old run. Repeatable.",
        ),
    ] = None,
    labels: Annotated[
        str, typer.Option(metavar="OLD,NEW", help="What the two runs are called in tables and on the page.")
    ] = "old,new",
    everything: Annotated[bool, typer.Option("--all", help="Show what is within the rule, too.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Markdown on stdout, for a pull request.")] = False,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a page, with a chart of all ratios.")] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Tell which named operations became slower between two runs of `kcore bench`, or scenarios of `kcore storm`.

    One is slower if both ratios, of the medians and of the best times, are above the threshold; it is doubtful if only
    a part of its times is. Of a storm the time is the controllers' work until the last broker knew, without session
    time-outs, over the repetitions.

    Exit code: 0 none, 1 a regression, 2 usage, 3 no verdict: something is missing, results differ, or one is doubtful.
    """
    if markdown and json:
        fail("--markdown and --json both go to stdout: choose one")
    options = Options(_thresholds(threshold or []), _pairs("--map", mapped or []), _labels(labels))
    comparison = run(old, new, options)
    if html is not None:
        from kcore.bench import compare_page  # With matplotlib, which takes a second to load.

        _write(html, compare_page.as_html(comparison, (str(old), str(new))))
    if markdown:
        write_text(compare_views.as_markdown(comparison, everything))
    elif json:
        write_text(compare_views.as_json(comparison) + "\n")
    else:
        compare_views.show(wide_console(), comparison, everything)
    raise typer.Exit(comparison.exit)


class Options(NamedTuple):
    """How two runs are compared."""

    thresholds: Thresholds = Thresholds()
    names: Mapping[str, str] = MappingProxyType({})  # Of the old run, by what the new run calls them.
    labels: tuple[str, str] = ("old", "new")


def _thresholds(texts: Sequence[str]) -> Thresholds:
    """From "1.5" and "broker-lost=2"."""
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
    return Thresholds(own.pop("", compare.THRESHOLD), own)


def _pairs(option: str, texts: Sequence[str]) -> dict[str, str]:
    """From "old=new"."""
    found: dict[str, str] = {}
    for text in texts:
        old, _, new = text.partition("=")
        if not old or not new:
            fail(
                f"{option} {text}: give the name in the old run and that in the new one, as in kafka-4.3.1=kcore-kraft"
            )
        if old in found:
            fail(f"{option} {text}: {old} is {found[old]} already")
        found[old] = new
    return found


def _labels(text: str) -> tuple[str, str]:
    old, _, new = (part.strip() for part in text.partition(","))
    if not old or not new or "," in new or old == new:
        fail(f"--labels {text}: give two different names with a comma between them")
    return old, new


class _Run(NamedTuple):
    """The results of one run."""

    of_storm: bool
    found: Sequence[Compared]
    facts: dict[str, Any]
    profiled: bool = False


def run(old: Path, new: Path, options: Options) -> Comparison:
    """Compare; ends the command with exit code 2 if a file cannot be read, or one is of a storm and one is not."""
    before, after = _read(old), _read(new)
    if before.of_storm != after.of_storm:
        storm, bench = (old, new) if before.of_storm else (new, old)
        fail(f"{storm} is of kcore storm, {bench} of kcore bench: give two of the same command")
    if wrong := compare.unknown_names(before.found, after.found, options.names):
        fail(f"--map: {wrong}")
    if unknown := options.thresholds.unknown([*before.found, *after.found]):
        fail(f"--threshold: {unknown[0]}")
    remarks = compare.remarks_on(before.facts, after.facts)
    if before.of_storm:
        remarks += _remarks_on_storms(before, after, (old, new), options)
    found = compare.compare(before.found, after.found, options.thresholds, remarks, options.names)
    found = replace(found, labels=options.labels)
    return replace(found, what="scenario", about=_about()) if before.of_storm else found


def _about() -> str:
    from kcore.storm import compared

    return compared.ABOUT


def _remarks_on_storms(before: _Run, after: _Run, paths: tuple[Path, Path], options: Options) -> list[str]:
    from kcore.storm import compared

    if before.profiled != after.profiled:
        with_it, without = paths if before.profiled else paths[::-1]
        fail(f"{with_it} is of a storm with --profile, {without} is not: samplers take CPU time; give two of one kind")
    remarks = compared.remarks_on(before.facts, after.facts)
    return remarks if options.names else [*remarks, *compared.map_hint(before.found, after.found)]


def _read(path: Path) -> _Run:
    try:
        columns = set(keep.columns_in(keep.results_file(path)))
        if columns.isdisjoint(BENCH | STORM):
            raise ValueError("results of neither kcore bench nor kcore storm")
        return _read_storm(path) if columns >= STORM else _read_bench(path)
    except OSError as error:
        fail(f"{path}: {error.strerror}" if error.strerror else str(error))
    except (ValueError, pa.ArrowException) as error:
        fail(f"{path}: {error}")


def _read_bench(path: Path) -> _Run:
    table = results.read(path)
    rows = table.to_pylist()
    for row in results.failures(rows):
        say(f"kcore: {path}: a failed cell of {row['workload']} is left out: {row['error']}", err=True)
    return _Run(False, results.summarise(rows), keep.facts_of(table))


def _read_storm(path: Path) -> _Run:
    from kcore.storm import compared
    from kcore.storm.report_rows import is_profiled

    table = compared.read(path)
    rows = table.to_pylist(maps_as_pydicts="strict")
    for line in compared.left_out(rows):
        say(f"kcore: {path}: {line}", err=True)
    return _Run(True, compared.figures_of(rows), keep.facts_of(table), is_profiled(rows))


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        fail(f"--html: {error}")
    say(f"kcore: the page is {path}", err=True)
