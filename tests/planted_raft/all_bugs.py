"""`ci/sim --planted all`: searches for every planted bug; shows and keeps each result."""

import json
from contextlib import closing, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from rich.console import Console
from rich.markup import escape

from kcore.cli.console import fail, say, wide_console
from kcore.cli.measure.results_folder import kept_whole, results_directory
from kcore.measure.report import result_files
from kcore.measure.report.earlier import EarlierRun, ResultKind, earlier_runs
from kcore.measure.report.exits import Exit
from kcore.measure.report.figure_history import Figures, history_section
from kcore.measure.report.machine import Load, facts
from kcore.measure.report.report_page import about_the_run, html_table, page, paragraphs
from planted_raft import PLANTED
from planted_raft.hunting import BROKEN, CAUGHT, Hunt, hunt_all

SCHEMA: Final = pa.schema(
    [
        ("name", pa.string()),
        ("invariant", pa.string()),  # The invariant that must catch the bug.
        ("verdict", pa.string()),
        ("seed", pa.int64()),  # The last seed that ran.
        ("seconds", pa.float64()),
        ("text", pa.string()),
        ("others", pa.map_(pa.string(), pa.int64())),  # Other invariants that failed before, with counts of worlds.
    ]
)
_KIND: Final = ResultKind(SCHEMA, ("name", "verdict", "seed"), own=("verdict", "others"))
_HEAD: Final = ("planted bug", "invariant that must catch it", "verdict", "seed", "seconds", "found before by", "what")
_TEXT: Final = ("invariant that must catch it", "verdict", "found before by", "what")


def run(seeds: range, events: int, processes: int, out: Path | None, as_json: bool, *, overwrite: bool = False) -> Exit:
    """Searches for all planted bugs, and prints a line for each; GOOD if the named invariant caught each bug.

    Ctrl-C ends the search early: the results of all finished bugs are kept and counted.
    """
    directory, before = results_directory(out, "sim", overwrite), Load.now()
    console, found = wide_console(stderr=as_json), list[Hunt]()
    with suppress(KeyboardInterrupt), closing(hunt_all(seeds, events, processes)) as hunts:
        for each in hunts:
            found.append(each)
            _print(console, each)
            if as_json:
                say(json.dumps(asdict(each)))
    summary_text = summary(found, seeds, events)
    console.print(summary_text, soft_wrap=True)
    if found:
        about = facts(before) | {"events": events, "planted": "all"}
        with kept_whole(directory):
            _keep(found, summary_text, about, directory)
        console.print(f"Results in {directory}: results.parquet, results.jsonl, report.html", soft_wrap=True)
    if len(found) < len(PLANTED):
        return Exit.INVALID
    return Exit.FAILED if _missed(found) else Exit.GOOD


def refuse(**given: Any) -> None:
    """Ends the command with exit code 2 if an option is given that a search for all bugs does not use."""
    for name, value in given.items():
        if value is not None:
            fail(f"--planted all takes no --{name}: name one bug, or leave --{name} out")


def summary(found: list[Hunt], seeds: range, events: int) -> str:
    """One line that counts the bugs and those that were caught."""
    within = f"caught within {len(seeds):,} seeds of {events:,} events"
    caught = len(found) - len(_missed(found))
    if len(found) < len(PLANTED):
        return f"interrupted: {len(found)} of {len(PLANTED)} planted bugs were looked for, {caught} {within}"
    return f"{len(found)} planted bugs, {caught} {within}"


def _missed(found: list[Hunt]) -> list[Hunt]:
    return [each for each in found if each.verdict != CAUGHT]


def _print(console: Console, each: Hunt) -> None:
    where = f"by {each.invariant}, seed {each.seed}" if each.verdict == CAUGHT else f"{each.invariant} must do it"
    before = f"; before: {_others(each)}" if each.others else ""
    line = f"{each.name:48} {each.verdict} {where}, {each.seconds:.1f} s{before}"
    console.print(line, soft_wrap=True, highlight=False, style=None if each.verdict == CAUGHT else "bold red")
    if each.verdict == BROKEN:
        console.print(escape(each.text), soft_wrap=True, highlight=False)


def _others(each: Hunt) -> str:
    return ", ".join(f"{name} in {count}" for name, count in each.others.items())


def _keep(found: list[Hunt], summary_text: str, about: dict[str, Any], directory: Path) -> None:
    rows = [asdict(each) | {"others": [*each.others.items()]} for each in found]
    result_files.write(result_files.with_facts(pa.Table.from_pylist(rows, schema=SCHEMA), about), directory)
    result_files.write_text(directory / "report.html", render(found, summary_text, about, directory))


def render(found: list[Hunt], summary_text: str, about: dict[str, Any], directory: Path | None = None) -> str:
    """The report as HTML; bugs that were not caught come first. Earlier runs are in the folders beside `directory`."""
    ordered = sorted(found, key=lambda each: (each.verdict == CAUGHT, each.name))
    lines = [
        (
            (each.name, each.invariant, each.verdict, "" if each.seed is None else f"{each.seed:,}",
             f"{each.seconds:.1f}", _others(each), each.text),
            False,
        )
        for each in ordered
    ]  # fmt: skip
    good = len(found) == len(PLANTED) and not _missed(found)
    body = [
        "<h1>ci/sim: planted bugs</h1>",
        paragraphs([about.get("when", "")], "lead"),
        paragraphs([summary_text], "good" if good else "bad"),
        "<h2>Planted bugs</h2>",
        html_table(_HEAD, lines, _TEXT, ["" if each.verdict == CAUGHT else "bad" for each in ordered]),
        _history(found, about, directory),
        about_the_run(about),
    ]
    return page("ci/sim: planted bugs", body)


def _history(found: list[Hunt], about: dict[str, Any], directory: Path | None) -> str:
    """A section with the seed that caught each bug, in this run and in earlier runs."""
    earlier = earlier_runs(directory, about, _KIND)
    now = _seeds([asdict(each) for each in found], about)
    note = "The seed that caught each bug, of runs with as many events a seed: other code may need another one."
    return history_section(("planted bug", "worlds"), now, earlier, _read, lambda seed: f"{seed:,.0f}", note)


def _read(run: EarlierRun) -> Figures:
    return _seeds(run.table.to_pylist(), run.facts)


def _seeds(rows: list[dict[str, Any]], about: dict[str, Any]) -> Figures:
    worlds = f"{about.get('events', 0):,} events a seed"
    return {(row["name"], worlds): row["seed"] for row in rows if row["verdict"] == CAUGHT}
