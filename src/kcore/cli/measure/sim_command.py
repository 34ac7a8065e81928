"""`kcore sim raft`: from options to an exit code."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from kcore.cli.console import fail, say, wide_console
from kcore.cli.measure import sim_planted
from kcore.cli.measure.results_folder import Overwrite, kept_whole, results_directory
from kcore.cli.options.spark_options import Archives, Conf, Gathered, SparkSettings, gather, session_on, settings_of
from kcore.measure.report import result_files
from kcore.measure.report.exits import Exit
from kcore.measure.report.machine import Load, facts
from kcore.sim.kernel.violation import RAISES
from kcore.sim.raft.campaign import Campaign, Row, cores, rows, table_of
from kcore.sim.raft.coverage import counted, never_seen
from kcore.sim.raft.options import LEVELS
from kcore.sim.raft.planted import PLANTED, PlantError
from kcore.suggestions import did_you_mean

MOST_SEED = 2**63 - 1  # The largest integer in a row.
QUIET_S = 5.0  # Between two lines of progress.
ALL = "all"  # Selects all planted bugs.
MOST_SHOWN = 5  # Failures, with their stories; all are kept.


def command(
    seeds: Annotated[int, typer.Option(min=1, metavar="N", help="How many worlds.")] = 100,
    first_seed: Annotated[int, typer.Option(min=0, metavar="N", help="The seed of the first world.")] = 1,
    seed: Annotated[int | None, typer.Option(min=0, metavar="N", help="This one world alone: a replay.")] = None,
    events: Annotated[int, typer.Option(min=1, help="The events of each world; then all faults end.")] = 20_000,
    level: Annotated[
        str | None, typer.Option(help="3.9, 4.3 or mixed in all worlds; drawn from the seed otherwise.")
    ] = None,
    voters: Annotated[int | None, typer.Option(min=1, max=5, help="So many in all worlds.")] = None,
    observers: Annotated[int | None, typer.Option(min=0, max=5, help="So many in all worlds.")] = None,
    planted: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Plant this bug; ends at the first seed that finds it. Or all, one by one."),
    ] = None,
    master: Annotated[str | None, typer.Option(help="Over Spark, at this master URL such as local[*].")] = None,
    processes: Annotated[int | None, typer.Option(min=1, help="Without Spark: default one a core.")] = None,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="For the results; default out/sim-<time>.")] = None,
    overwrite: Overwrite = False,
    conf: Conf = None,
    archives: Archives = None,
    json: Annotated[bool, typer.Option("--json", help="A seed's JSON a line on stdout, the rest on stderr.")] = False,
    names: Annotated[bool, typer.Option("--names", help="List the bugs that can be planted, and stop.")] = False,
) -> None:
    """Simulate raft quorums: networks, disks and clocks that fail, invariants after every event.

    At the end of a world all faults end, and its quorum must then elect a leader. A broken invariant is printed with
    the last events and with the command that replays them.

    Ctrl-C ends it early: the seeds, or planted bugs, that are done are shown and kept.

    Exit code: 0 all held (with --planted: the bug was caught by the invariant that it names), 1 not, 2 usage,
    3 seeds or planted bugs are missing.
    """
    if names:
        list_planted()
        return
    check(level, planted)
    first = first_seed if seed is None else seed
    if first + (seeds if seed is None else 1) > MOST_SEED:
        fail(f"the last seed is past {MOST_SEED:,}: choose a smaller --first-seed, --seed or --seeds")
    chosen = range(first_seed, first_seed + seeds) if seed is None else range(seed, seed + 1)
    fixed = {"level": level, "voters": voters, "observers": observers}
    if planted == ALL:
        sim_planted.refuse(**fixed, master=master, conf=conf, archives=archives)
        raise typer.Exit(sim_planted.run(chosen, events, processes or cores(), out, json, overwrite=overwrite))
    spark = settings_of(master, conf, archives) if master else None
    campaign = Campaign(chosen, events, planted, fixed)
    raise typer.Exit(run(campaign, spark, processes, out, json, overwrite=overwrite))


def list_planted() -> None:
    """A line each, with the invariant that must catch it."""
    for plant in PLANTED.values():
        say(f"{plant.name:48} {plant.invariant:30} {plant.about}")


def check(level: str | None, plant: str | None) -> None:
    """Ends the command with exit code 2 for words that name nothing."""
    if level is not None and level not in LEVELS:
        fail(f"--level: {level!r} is none of {', '.join(LEVELS)}{did_you_mean(level, LEVELS)}")
    if plant is not None and plant not in (*PLANTED, ALL):
        close = did_you_mean(plant, (*PLANTED, ALL), "`kcore sim raft --names` lists them")
        fail(f"--planted: no bug is called {plant!r}{close}")


def run(
    campaign: Campaign,
    spark: SparkSettings | None,
    processes: int | None,
    out: Path | None,
    as_json: bool,
    *,
    overwrite: bool = False,
) -> Exit:
    """Runs the seeds, shows and keeps what came of them."""
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
            for row in _here(campaign, processes or cores(), console):
                found.append(row)
                if as_json:
                    _print_json(row)
    except KeyboardInterrupt:
        gathered = Gathered(gathered.troubles, is_partial=True)
    except PlantError as error:
        fail(str(error))
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
        return Exit.INVALID
    is_good = any(_is_catch(campaign, row) for row in found) if campaign.plant is not None else not _failed(found)
    return Exit.GOOD if is_good else Exit.FAILED


def _print_json(row: Row) -> None:
    say(json.dumps(row | {"coverage": dict(row["coverage"])}))


def _is_catch(campaign: Campaign, row: Row) -> bool:
    """The planted bug is found, by the invariant that it names."""
    return campaign.plant is not None and row["invariant"] == PLANTED[campaign.plant].invariant


def _here(campaign: Campaign, processes: int, console: Console) -> Iterator[Row]:
    """Runs all seeds, reports each failure at once; with a planted bug, up to the first seed that finds it or fails."""
    done = failed = 0
    last_s = perf_counter()
    with closing(rows(campaign, processes)) as coming:
        for row in coming:
            yield row
            done, failed = done + 1, failed + (row["invariant"] is not None)
            if campaign.plant is None and row["invariant"] is not None:
                line = f"seed {row['seed']}: {row['invariant']} {row['text']}"
                console.print(escape(line), soft_wrap=True, highlight=False)
            if perf_counter() - last_s > QUIET_S:
                last_s = perf_counter()
                console.print(f"{done:,} of {len(campaign.seeds):,} seeds, {failed} failed")
            if campaign.plant is not None and (_is_catch(campaign, row) or _is_broken(row)):
                break


def _over_spark(campaign: Campaign, wanted: SparkSettings, found: list[Row]) -> Gathered:
    """Adds the rows, by seed; what went wrong."""
    from kcore.spark.simulation import simulate_pieces

    with session_on(wanted) as spark:
        gathered = gather(simulate_pieces(spark, campaign), found)
    found.sort(key=lambda row: int(row["seed"]))
    return gathered


def _is_broken(row: Row) -> bool:
    return row["invariant"] is not None and str(row["invariant"]).startswith(RAISES)


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
        console.print(_coverage(found))
    console.print(summary(found, elapsed_s), soft_wrap=True)
    if campaign.plant is not None:
        plant, last = PLANTED[campaign.plant], found[-1]
        caught = f"caught by seed {last['seed']}: {last['invariant']}" if _is_catch(campaign, last) else "not caught"
        if _is_broken(last):
            caught = f"broken: {last['invariant']} is no invariant"
        console.print(f"planted bug {plant.name}, which {plant.invariant} must catch: {caught}", soft_wrap=True)


def summary(found: Sequence[Row], elapsed_s: float) -> str:
    """The simulated work, in total and per minute of one core.

    Events alone compare no two versions: an event that commits a record is more work than one that polls. Records and
    simulated time say how much work the events were.
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


def _coverage(found: Sequence[Row]) -> Table:
    """How often everything happened, and in how many seeds; then what never did."""
    times, seeds = counted(row["coverage"] for row in found)
    table = Table("what", "times", "seeds", title="what happened")
    for column in table.columns[1:]:
        column.justify = "right"
    for name in sorted(times):
        table.add_row(escape(name), f"{times[name]:,}", f"{seeds[name]:,}")
    for name in never_seen(times):
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
    from kcore.cli.measure import sim_page  # With matplotlib, which takes a second to load.

    about |= {"events": campaign.events, "planted": campaign.plant, "options": campaign.fixed, "master": master}
    result_files.write(result_files.with_facts(table_of(found), about), directory)
    result_files.write_text(directory / "report.html", sim_page.render(found, summary_text, about, directory))
    console.print(f"Results in {directory}: results.parquet, results.jsonl, report.html", soft_wrap=True)
