"""The command ci/sim --planted: searches simulated quorums for one planted bug or for all bugs."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

import planted_raft
from kcore.cli.console import fail, say, wide_console
from kcore.cli.measure import sim_command
from kcore.cli.measure.results_folder import Overwrite
from kcore.cli.options.sim_options import (
    Events,
    FirstSeed,
    Json,
    Level,
    Master,
    Observers,
    Out,
    Processes,
    Seed,
    Seeds,
    Voters,
)
from kcore.cli.options.spark_options import Archives, Conf, SparkSettings, settings_of
from kcore.measure.report.exits import Exit
from kcore.sim.raft.campaign import Campaign, Row, cores
from kcore.sim.raft.run_world import EVENTS
from kcore.suggestions import did_you_mean
from planted_raft import PLANTED, PlantingError, all_bugs
from planted_raft.hunting import is_broken, is_caught, run_planted

ALL = "all"  # Selects all planted bugs.
COMMAND = "ci/sim"
app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


@app.command(COMMAND)
def command(
    planted: Annotated[str, typer.Option(metavar="NAME", help="Plant this bug; all: every bug, one by one.")] = ALL,
    seeds: Seeds = 500,
    first_seed: FirstSeed = 1,
    seed: Seed = None,
    events: Events = EVENTS,
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
    names: Annotated[bool, typer.Option("--names", help="List the bugs that can be planted, and stop.")] = False,
) -> None:
    """Plant bugs in simulated quorums; the invariant that a bug names must catch it.

    The search for a bug ends at the first seed that catches it. Ctrl-C ends the command early: it then shows and keeps
    the finished seeds or bugs.

    Exit code: 0 the named invariants caught all bugs, 1 some bug was not caught, 2 usage, 3 seeds or bugs are missing.
    """
    if names:
        for planted_bug in PLANTED.values():
            say(f"{planted_bug.name:48} {planted_bug.invariant:30} {planted_bug.about}")
        return
    if planted not in (*PLANTED, ALL):
        fail(f"--planted: no bug is called {planted!r}{did_you_mean(planted, (*PLANTED, ALL), '--names lists them')}")
    chosen = sim_command.chosen_seeds(seeds, first_seed, seed)
    fixed = sim_command.checked_options(level, voters, observers)
    if planted == ALL:
        all_bugs.refuse(**fixed, master=master, conf=conf, archives=archives)
        raise typer.Exit(all_bugs.run(chosen, events, processes or cores(), out, json, overwrite=overwrite))
    spark = settings_of(master, conf, archives) if master else None
    campaign = Campaign(chosen, events, fixed | {"planted": planted}, run_planted, COMMAND)
    raise typer.Exit(search(planted, campaign, spark, processes, out, json, overwrite=overwrite))


def search(
    name: str,
    campaign: Campaign,
    spark: SparkSettings | None,
    processes: int | None,
    out: Path | None,
    as_json: bool,
    *,
    overwrite: bool,
) -> Exit:
    """Runs the seeds up to the first that catches the bug or raises another exception; shows and keeps the results."""

    def is_catch(row: Row) -> bool:
        return is_caught(name, row["invariant"])

    if spark is not None:
        _send_bugs_by_value()
    try:
        found = sim_command.run(
            campaign,
            spark,
            processes,
            out,
            as_json,
            overwrite=overwrite,
            is_last=lambda row: is_catch(row) or is_broken(row["invariant"]),
        )
    except PlantingError as error:
        fail(str(error))
    if found.rows:
        last = next(filter(is_catch, found.rows), found.rows[-1])
        verdict = f"caught by seed {last['seed']}: {last['invariant']}" if is_catch(last) else "not caught"
        if is_broken(last["invariant"]):
            verdict = f"broken: {last['invariant']} is no invariant"
        line = f"planted bug {name}, which {PLANTED[name].invariant} must catch: {verdict}"
        wide_console(stderr=as_json).print(line, soft_wrap=True)
    if found.is_partial:
        return Exit.INVALID
    return Exit.GOOD if any(map(is_catch, found.rows)) else Exit.FAILED


def _send_bugs_by_value() -> None:
    """Sends the code of the bugs to Spark's executors, which have kcore but not its tests."""
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(planted_raft)


def arguments_of(given: list[str]) -> list[str]:
    """The arguments, with "all" added after a `--planted` without a name."""
    arguments: list[str] = []
    for each, following in zip(given, [*given[1:], "--"], strict=True):
        arguments.append(each)
        if each == "--planted" and following.startswith("-"):
            arguments.append(ALL)
    return arguments


def main(arguments: list[str]) -> Any:
    """Runs the command line of ci/sim --planted, and exits with its code."""
    return app(arguments_of(arguments), prog_name=COMMAND)


if __name__ == "__main__":
    main(sys.argv[1:])
