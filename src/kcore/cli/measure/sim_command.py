"""`kcore sim raft`: reads the options, simulates quorums, and returns an exit code. `run` serves other worlds too."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from kcore.cli.console import fail, say, wide_console
from kcore.cli.measure.results_folder import Overwrite, kept_whole, results_directory
from kcore.cli.options.sim_options import (
    Events,
    FirstSeed,
    Json,
    Level,
    Master,
    Observers,
    Out,
    Planted,
    Processes,
    Seed,
    Seeds,
    Voters,
)
from kcore.cli.options.spark_options import Archives, Conf, Gathered, SparkSettings, gather, session_on, spark_of
from kcore.measure.report import result_files
from kcore.measure.report.exits import Exit
from kcore.measure.report.machine import Load, facts
from kcore.sim.raft.campaign import Campaign, Row, cores, rows, table_of
from kcore.sim.raft.coverage import counted
from kcore.sim.raft.options import LEVELS
from kcore.suggestions import did_you_mean

MOST_SEED = 2**63 - 1  # The largest 64-bit integer of a result row.
QUIET_S = 5.0  # The least time between two lines of progress.
MOST_SHOWN = 5  # Failures that are printed with their last events; the results have all.


class Found(NamedTuple):
    """The rows of the finished seeds; `is_partial`: seeds are missing."""

    rows: list[Row]
    is_partial: bool


def command(
    seeds: Seeds = 100,
    first_seed: FirstSeed = 1,
    seed: Seed = None,
    events: Events = 20_000,
    level: Level = None,
    voters: Voters = None,
    observers: Observers = None,
    master: Master = None,
    processes: Processes = None,
    out: Out = None,
    overwrite: Overwrite = False,
    conf: Conf = None,
    archives: Archives = None,
    json: Json = False,
    planted: Planted = False,
) -> None:
    """Simulate raft quorums with failing networks, disks and clocks; check the invariants after every event.

    At the end of a world all faults end, and its quorum must then elect a leader. A broken invariant is printed with
    the last events and with the command that replays them.

    Ctrl-C ends the command early; it prints and writes the finished seeds.

    Exit code: 0 all invariants held, 1 one was broken, 2 usage, 3 seeds are missing.
    """
    campaign = Campaign(chosen_seeds(seeds, first_seed, seed), events, checked_options(level, voters, observers))
    spark = spark_of(master, conf, archives)
    raise typer.Exit(exit_of(run(campaign, spark, processes, out, json, overwrite=overwrite)))


def exit_of(found: Found, missing: Sequence[str] = ()) -> Exit:
    """The exit code of a run. `missing`: required events that no world has seen."""
    if found.is_partial:
        return Exit.INVALID
    return Exit.FAILED if _failed(found.rows) or missing else Exit.GOOD


def print_missing(campaign: Campaign, found: Found, as_json: bool) -> list[str]:
    """Prints a line for each event that no world has seen, on stderr if stdout has JSON; returns their names."""
    missing = campaign.missing(counted(row["coverage"] for row in found.rows)[0])
    for name in missing:
        say(f"never seen: {name}", err=as_json)
    return missing


def chosen_seeds(seeds: int, first_seed: int, seed: int | None) -> range:
    """The seeds that the options choose; ends the command with exit code 2 if the last one is too large."""
    chosen = range(first_seed, first_seed + seeds) if seed is None else range(seed, seed + 1)
    if chosen.stop > MOST_SEED:
        fail(f"the last seed is past {MOST_SEED:,}: choose a smaller --first-seed, --seed or --seeds")
    return chosen


def checked_options(level: str | None, voters: int | None, observers: int | None) -> dict[str, Any]:
    """The options that are the same in all worlds; ends the command with exit code 2 for an unknown level."""
    if level is not None and level not in LEVELS:
        fail(f"--level: {level!r} is none of {', '.join(LEVELS)}{did_you_mean(level, LEVELS)}")
    return {"level": level, "voters": voters, "observers": observers}


def run(
    campaign: Campaign,
    spark: SparkSettings | None,
    processes: int | None,
    out: Path | None,
    as_json: bool,
    *,
    overwrite: bool = False,
    is_last: Callable[[Row], bool] | None = None,
) -> Found:
    """Runs the seeds, prints and writes their rows. `is_last`: a row for which this is True ends the run early."""
    console = wide_console(stderr=as_json)
    directory = results_directory(out, "sim", overwrite) if len(campaign.seeds) > 1 else None
    began_s, before = perf_counter(), Load.now()
    found: list[Row] = []
    gathered = Gathered([], is_partial=False)
    try:
        if spark:
            gathered = _over_spark(campaign, spark, found)
            for row in found if as_json else ():
                _print_json(row)
        else:
            for row in _here(campaign, processes or cores(), console, is_last):
                found.append(row)
                if as_json:
                    _print_json(row)
    except KeyboardInterrupt:
        gathered = Gathered(gathered.troubles, is_partial=True)
    elapsed_s = perf_counter() - began_s
    for trouble in gathered.troubles:
        console.print(f"[bold red]Spark[/] {escape(trouble)}", soft_wrap=True)
    if found:
        _show(console, campaign, found, elapsed_s)
        if directory is not None:
            master = spark.master if spark else None
            with kept_whole(directory):
                _keep(campaign, found, master, directory, console, facts(before), summary(found, elapsed_s))
    if gathered.is_partial:
        console.print(f"partial run: {len(found):,} of {len(campaign.seeds):,} seeds are done", soft_wrap=True)
    return Found(found, gathered.is_partial)


def _print_json(row: Row) -> None:
    say(json.dumps(row | {"coverage": dict(row["coverage"])}))


def _here(campaign: Campaign, processes: int, console: Console, is_last: Callable[[Row], bool] | None) -> Iterator[Row]:
    """Runs all seeds and prints failures. With `is_last`, ends at the first row that satisfies it, and prints none."""
    done = failed = 0
    last_s = perf_counter()
    with closing(rows(campaign, processes)) as coming:
        for row in coming:
            yield row
            done, failed = done + 1, failed + (row["invariant"] is not None)
            if is_last is None and row["invariant"] is not None:
                line = f"seed {row['seed']}: {row['invariant']} {row['text']}"
                console.print(escape(line), soft_wrap=True, highlight=False)
            if perf_counter() - last_s > QUIET_S:
                last_s = perf_counter()
                console.print(f"{done:,} of {len(campaign.seeds):,} seeds, {failed} failed")
            if is_last is not None and is_last(row):
                break


def _over_spark(campaign: Campaign, wanted: SparkSettings, found: list[Row]) -> Gathered:
    """Adds the rows to `found`, sorted by seed; returns the problems of the run."""
    from kcore.spark.simulation import simulate_pieces

    with session_on(wanted) as spark:
        gathered = gather(simulate_pieces(spark, campaign), found)
    found.sort(key=lambda row: int(row["seed"]))
    return gathered


def _failed(found: Sequence[Row]) -> list[Row]:
    return [row for row in found if row["invariant"] is not None]


def _show(console: Console, campaign: Campaign, found: Sequence[Row], elapsed_s: float) -> None:
    failed = _failed(found)
    for row in failed[:MOST_SHOWN]:
        for line in row["story"]:
            console.print(escape(line), soft_wrap=True, highlight=False)
        console.print(f"[bold red]{row['invariant']}[/] {escape(row['text'])}", soft_wrap=True, highlight=False)
        console.print(f"seed {row['seed']}, event {row['events']:,}; again: {row['replay']}\n", soft_wrap=True)
    if len(failed) > MOST_SHOWN:
        rest = Counter(row["invariant"] for row in failed[MOST_SHOWN:])
        counts = ", ".join(f"{name} {count}" for name, count in rest.most_common())
        console.print(f"and {len(failed) - MOST_SHOWN} more seeds: {counts}\n", soft_wrap=True)
    if len(found) > 1:
        console.print(_coverage(campaign, found))
    console.print(summary(found, elapsed_s), soft_wrap=True)


def summary(found: Sequence[Row], elapsed_s: float) -> str:
    """The simulated work as text, in total and per minute of one core.

    A number of events alone does not compare two versions: an event that commits a record is more work than one that
    polls. The numbers of records and of simulated hours show the work in the events.
    """
    events, records, simulated_ms = (
        sum(row[name] for row in found) for name in ("events", "committed", "simulated_ms")
    )
    minutes, hours = sum(row["seconds"] for row in found) / 60, simulated_ms / 3_600_000
    return (
        f"{len(found):,} seeds, {len(_failed(found))} failed: {events:,} events, {records:,} records committed, "
        f"{hours:,.1f} simulated hours in {elapsed_s:,.1f} s; a minute a core: {events / minutes / 1e6:.2f} million "
        f"events, {records / minutes:,.0f} records, {hours / minutes:.1f} simulated hours"
    )


def _coverage(campaign: Campaign, found: Sequence[Row]) -> Table:
    """The table of how often each kind of event happened, and in how many seeds; then the kinds that never happened."""
    times, seeds = counted(row["coverage"] for row in found)
    table = Table("what", "times", "seeds", title="what happened")
    for column in table.columns[1:]:
        column.justify = "right"
    for name in sorted(times):
        table.add_row(escape(name), f"{times[name]:,}", f"{seeds[name]:,}")
    for name in campaign.missing(times):
        table.add_row(escape(name), "[yellow]never[/]", "")
    return table


def _keep(
    campaign: Campaign,
    found: Sequence[Row],
    master: str | None,
    directory: Path,
    console: Console,
    about: dict[str, Any],
    summary_text: str,
) -> None:
    from kcore.cli.measure import sim_page  # Imports matplotlib, which takes a second.

    about |= {"events": campaign.events, "options": campaign.fixed, "master": master}
    result_files.write(result_files.with_facts(table_of(found), about), directory)
    result_files.write_text(directory / "report.html", sim_page.render(found, summary_text, about, directory, campaign))
    console.print(f"Results in {directory}: results.parquet, results.jsonl, report.html", soft_wrap=True)
