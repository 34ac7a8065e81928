"""`kcore compare`: two result files, a verdict, an exit code."""

from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import typer

from kcore.bench import compare, compare_views, results
from kcore.bench.compare import Comparison
from kcore.bench.results import Summary
from kcore.cli.console import fail, wide_console
from kcore.cli.pipes import write_text
from kcore.report.keep import facts_of


def command(
    old: Annotated[Path, typer.Argument(help="A result folder, or its results.parquet or results.jsonl.")],
    new: Annotated[Path, typer.Argument(help="The same of the run to judge.")],
    threshold: Annotated[float, typer.Option(min=1.0, help="Slower by more than this ratio is a regression.")] = 1.25,
    everything: Annotated[bool, typer.Option("--all", help="Show operations within the rule, too.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Markdown on stdout, for a pull request.")] = False,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a page, with a chart of all ratios.")] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Tell which named operations became slower between two runs.

    An operation is slower if both ratios, of the medians and of the best times, are above the threshold.

    Exit code: 0 none, 1 a regression, 2 usage, 3 no verdict: operations are missing or their results differ.
    """
    if markdown and json:
        fail("--markdown and --json both go to stdout: choose one")
    comparison = run(old, new, threshold)
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


def run(old: Path, new: Path, threshold: float) -> Comparison:
    """Compare; ends the command with exit code 2 if a file cannot be read."""
    (before, old_facts), (after, new_facts) = _summaries(old), _summaries(new)
    return compare.compare(before, after, threshold, compare.remarks_on(old_facts, new_facts))


def _summaries(path: Path) -> tuple[list[Summary], dict[str, Any]]:
    try:
        table = results.read(path)
    except (OSError, ValueError, pa.ArrowException) as error:
        fail(f"{path}: {error}")
    rows = table.to_pylist()
    for row in results.failures(rows):
        typer.echo(f"kcore: {path}: a failed cell of {row['workload']} is left out: {row['error']}", err=True)
    return results.summarise(rows), facts_of(table)


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        fail(f"--html: {error}")
    typer.echo(f"kcore: the page is {path}", err=True)
