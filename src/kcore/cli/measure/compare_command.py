"""`kcore compare`: compares two result files, prints a verdict, and returns an exit code."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Final, NamedTuple

import pyarrow as pa
import typer

from kcore.cli.console import fail, say, wide_console
from kcore.cli.measure.result_stores import store_error
from kcore.cli.options import compare_options
from kcore.cli.options.compare_options import Options, options_of
from kcore.cli.pipes import write_text
from kcore.measure.bench import bench_results as results
from kcore.measure.bench import compare, compare_views
from kcore.measure.bench.compare import Compared, Comparison
from kcore.measure.report import result_files
from kcore.measure.report.result_table import ResultTable
from kcore.measure.report.uri_folder import UriFolder
from kcore.storage.uris import without_password

BENCH: Final = {"workload", "operation"}  # Columns that results of `kcore bench` have.
STORM: Final = {"scenario", "target"}  # Columns that results of `kcore storm` have.


def command(
    old: Annotated[
        str,
        typer.Argument(
            help="A result folder, or its results.parquet or results.jsonl; the output of storm --json; the URI of a "
            "folder, as --out has it; with --table, the name of a run."
        ),
    ],
    new: Annotated[str, typer.Argument(help="The results of the run to judge.")],
    table: compare_options.Table = None,
    threshold: compare_options.Threshold = None,
    mapped: compare_options.Map = None,
    labels: compare_options.Labels = "old,new",
    everything: Annotated[bool, typer.Option("--all", help="Also show unchanged operations.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Markdown on stdout, for a pull request.")] = False,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a page, with a chart of all ratios.")] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Compare two runs of `kcore bench` or `kcore storm`: which operations or scenarios became slower.

    An operation is slower if two ratios, of the medians and of the best times, are above the threshold. It is doubtful
    if only a part of its times is slower. The time of a storm is the controllers' work until the last broker has the
    change, without session time-outs, over all repetitions.

    Exit code: 0 none is slower, 1 a regression, 2 usage, 3 no verdict: an operation is missing or doubtful, or results
    differ.
    """
    if markdown and json:
        fail("--markdown and --json both go to stdout: choose one")
    comparison = run(old, new, options_of(threshold, mapped, labels), table)
    if markdown:
        write_text(compare_views.as_markdown(comparison, everything))
    elif json:
        write_text(compare_views.as_json(comparison) + "\n")
    else:
        compare_views.show(wide_console(), comparison, everything)
    if html is not None:
        from kcore.measure.bench import compare_page  # Imports matplotlib, which takes a second.

        _write(html, compare_page.as_html(comparison, (without_password(old), without_password(new))))
    raise typer.Exit(comparison.exit)


class _Run(NamedTuple):
    """The results of one run, and the facts and failures that bear on a comparison."""

    of_storm: bool
    found: Sequence[Compared]
    facts: dict[str, Any]
    profiled: bool = False
    left_out: Sequence[str] = ()  # Failed or invalid repetitions, one line each.


def run(old: str, new: str, options: Options, table: str | None = None) -> Comparison:
    """Compares the runs. Ends the command with exit code 2 if a file is unreadable, or only one is of a storm.

    `table`: the URI of a table of runs, in which `old` and `new` are names.
    """
    before, after = (_read(each) if table is None else _read_run(table, each) for each in (old, new))
    if before.of_storm != after.of_storm:
        storm, bench = map(without_password, (old, new) if before.of_storm else (new, old))
        fail(f"{storm} is of kcore storm, {bench} of kcore bench: give two of the same command")
    if wrong := compare.unknown_names(before.found, after.found, options.names):
        fail(f"--map: {wrong}")
    if unknown := options.thresholds.unknown([*before.found, *after.found]):
        fail(f"--threshold: {unknown[0]}")
    remarks = compare.remarks_on(before.facts, after.facts)
    remarks += [
        f"The {name} run: {line.rstrip('.')}."
        for name, each in (("old", before), ("new", after))
        for line in each.left_out
    ]
    if before.of_storm:
        remarks += _remarks_on_storms(before, after, (old, new), options)
    found = compare.compare(before.found, after.found, options.thresholds, remarks, options.names)
    found = replace(found, labels=options.labels)
    return replace(found, what="scenario", about=_about()) if before.of_storm else found


def _about() -> str:
    from kcore.measure.storm import compared

    return compared.ABOUT


def _remarks_on_storms(before: _Run, after: _Run, paths: tuple[str, str], options: Options) -> list[str]:
    from kcore.measure.storm import compared

    if before.profiled != after.profiled:
        with_it, without = map(without_password, paths if before.profiled else paths[::-1])
        fail(f"{with_it} is of a storm with --profile, {without} is not: samplers take CPU time; give two of one kind")
    remarks = compared.remarks_on(before.facts, after.facts)
    return remarks if options.names else [*remarks, *compared.map_hint(before.found, after.found)]


def _read(given: str) -> _Run:
    """The results in a file, or in a folder at a path or a URI."""
    if "://" not in given:
        return _read_file(Path(given), given)
    with TemporaryDirectory() as folder:
        try:
            path = UriFolder(given).fetch_results(Path(folder))
        except Exception as error:  # A file system of fsspec raises errors of its package.
            fail(store_error("results at", given, error))
        return _read_file(path, without_password(given))


def _read_file(path: Path, name: str) -> _Run:
    """`name`: the name of the results in errors."""
    from kcore.measure.storm import compared

    try:
        columns = set(result_files.columns_in(result_files.results_file(path)))
        if columns.isdisjoint(BENCH | STORM):
            raise ValueError("results of neither kcore bench nor kcore storm")
        return _of_storm(name, compared.read(path)) if columns >= STORM else _of_bench(name, results.read(path))
    except OSError as error:
        fail(f"{name}: {error.strerror}" if error.strerror else str(error))
    except (ValueError, pa.ArrowException) as error:
        fail(f"{name}: {error}")


def _read_run(uri: str, run: str) -> _Run:
    """The results of a run in a table of runs."""
    from kcore.measure.storm import compared

    try:
        table, name = ResultTable(uri).read(run), f"run {run}"
    except Exception as error:  # A file system of fsspec raises errors of its package.
        fail(store_error("--table", uri, error))
    try:
        if {*table.column_names} >= STORM:
            return _of_storm(name, compared.checked(table))
        return _of_bench(name, results.checked(table))
    except ValueError as error:
        fail(store_error("--table", uri, error))


def _of_bench(name: str, table: pa.Table) -> _Run:
    rows = table.to_pylist()
    failed = [f"a failed cell of {row['workload']} is left out: {row['error']}" for row in results.failures(rows)]
    return _Run(False, results.summarise(rows), result_files.facts_of(table), left_out=_reported(name, failed))


def _of_storm(name: str, table: pa.Table) -> _Run:
    from kcore.measure.storm import compared
    from kcore.measure.storm.report_rows import is_profiled

    rows, facts = table.to_pylist(maps_as_pydicts="strict"), result_files.facts_of(table)
    left_out = _reported(name, [*compared.left_out(rows), *compared.never_ran(rows, facts)])
    return _Run(True, compared.figures_of(rows), facts, is_profiled(rows), left_out)


def _reported(name: str, lines: Sequence[str]) -> Sequence[str]:
    for line in lines:
        say(f"kcore: {name}: {line}", err=True)
    return lines


def _write(path: Path, text: str) -> None:
    try:
        result_files.write_text(path, text)
    except OSError as error:
        fail(f"--html: {path}: {error.strerror or error}")
    say(f"kcore: the page is {path}", err=True)
