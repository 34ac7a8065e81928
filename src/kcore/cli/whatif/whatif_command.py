"""`kcore whatif`: reads the options and a cluster, answers a question, prints and writes the answer."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import typer

from kcore.cli.console import fail, say, wide_console
from kcore.cli.files.cluster_file import ClusterFile, cluster_in
from kcore.cli.measure.results_folder import Overwrite, kept_whole, results_directory
from kcore.cli.options.command_config import CommandConfigOption
from kcore.cli.options.spark_options import Archives, Conf, Gathered, SparkSettings, gather, session_on, spark_of
from kcore.cli.options.whatif_options import (
    Brokers,
    Directories,
    Each,
    Json,
    Master,
    MinIsr,
    Out,
    Pairs,
    Partitions,
    Racks,
    Reassignment,
    Release,
    Restart,
    ScaledBrokers,
    Scenarios,
    Seed,
    Source,
    Unclean,
)
from kcore.cli.whatif.whatif_answers import Answer, outcomes_answer, pairs_answer, restart_answer
from kcore.cli.whatif.whatif_size import at_size
from kcore.errors import KcoreError
from kcore.measure.report.exits import Exit
from kcore.storage.files import MOST_CLUSTER_FILE, read_text
from kcore.storage.tools.dump import compact
from kcore.suggestions import did_you_mean
from kcore.whatif import PairOutcomes, Scenario, WhatIf, what_if
from kcore.whatif.scenario import parse_scenarios

EACH: Final = ("broker", "rack", "directory")
_NONE: Final = {
    "broker": "no broker of the cluster is live: there is nothing to lose",
    "rack": "no live broker has a rack: broker.rack is not set",
    "directory": "no live broker has registered a log directory",
}
_ALL: Final = Gathered([], is_partial=False)


class Question(NamedTuple):
    """A loss or another question; at most one of the fields is set."""

    scenario: Scenario | None
    scenarios: Path | None
    each: str | None
    pairs: bool
    restart_plan: bool


def command(
    source: Source,
    broker: Brokers = None,
    rack: Racks = None,
    directory: Directories = None,
    each: Each = None,
    pairs: Pairs = False,
    scenarios: Scenarios = None,
    restart_plan: Restart = False,
    reassignment: Reassignment = None,
    partitions: Partitions = None,
    brokers: ScaledBrokers = None,
    seed: Seed = 1,
    release: Release = None,
    unclean: Unclean = None,
    min_isr: MinIsr = None,
    command_config: CommandConfigOption = None,
    master: Master = None,
    conf: Conf = None,
    archives: Archives = None,
    out: Out = None,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Show what the loss of brokers, racks or directories would do to a cluster, or plan a rolling restart.

    Rules and settings are the cluster's own unless options name others. Exit code: 0 answered, 1 the log could be read
    only in part, 2 usage, 3 pairs are missing.
    """
    lost = _scenario(broker or [], rack or [], directory or [])
    question = Question(lost, scenarios, _checked_kind(each), pairs, restart_plan)
    if len(given := [name for name, value in zip(_NAMES, question, strict=True) if value]) > 1:
        fail(f"{' and '.join(given)}: ask one question at a time")
    if master and not pairs:
        fail("--master is for --pairs: all other answers take less time than a start of Spark")
    spark = spark_of(master, conf, archives)
    folder = None if out is None else results_directory(out, "whatif", overwrite)
    try:
        found = cluster_in(source, command_config)
        asked = what_if(found.image, release=release, unclean=unclean, min_isr=min_isr)
        asked = at_size(asked, partitions, brokers, seed)
        if reassignment is not None:
            with _named(reassignment):
                asked = asked.after_reassignment(_text(reassignment))
        answer, gathered = _answer(asked, question, spark)
    except (KcoreError, OSError) as error:
        fail(str(error))
    raise typer.Exit(_show(answer, gathered, found, folder, json))


_NAMES: Final = ("--broker, --rack or --directory", "--scenarios", "--each", "--pairs", "--restart-plan")


def _scenario(brokers: list[int], racks: list[str], directories: list[str]) -> Scenario | None:
    try:
        return Scenario.of(brokers, racks, directories) if brokers or racks or directories else None
    except KcoreError as error:
        fail(str(error))


def _checked_kind(each: str | None) -> str | None:
    if each is not None and each not in EACH:
        fail(f"--each {each}: give one of {', '.join(EACH)}{did_you_mean(each, EACH)}")
    return each


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """A context for the use of a file: an error about its content ends the command with a line that names the file."""
    try:
        yield
    except KcoreError as error:
        fail(str(error) if str(path) in str(error) else f"{path}: {error}")


def _text(path: Path) -> str:
    return read_text(path, MOST_CLUSTER_FILE)


def _answer(asked: WhatIf, question: Question, spark: SparkSettings | None) -> tuple[Answer, Gathered]:
    """The answer, and the problems of Spark."""
    if question.pairs:
        pairs, gathered = (asked.pairs(), _ALL) if spark is None else _pairs_over_spark(asked, spark)
        return pairs_answer(asked, pairs), gathered
    if question.restart_plan:
        return restart_answer(asked), _ALL
    if question.scenario is not None:
        return outcomes_answer(asked, [asked.outcome(question.scenario)]), _ALL
    if question.scenarios is not None:
        with _named(question.scenarios):
            listed = parse_scenarios(_text(question.scenarios))
            return outcomes_answer(asked, [asked.outcome(each) for each in listed]), _ALL
    kind = question.each or EACH[0]
    each = dict(zip(EACH, (asked.each_broker, asked.each_rack, asked.each_directory), strict=True))
    if not (outcomes := each[kind]()):
        fail(f"--each {kind}: {_NONE[kind]}")
    return outcomes_answer(asked, outcomes), _ALL


def _pairs_over_spark(asked: WhatIf, wanted: SparkSettings) -> tuple[PairOutcomes, Gathered]:
    from kcore.spark.whatif import pair_pieces

    parts: list[PairOutcomes] = []
    with session_on(wanted) as spark:
        gathered = gather(pair_pieces(spark, asked.cluster), parts)
    if not parts:
        fail(f"no pair was answered: {'; '.join(gathered.troubles)}")
    return PairOutcomes.joined(parts), gathered


def _show(answer: Answer, gathered: Gathered, found: ClusterFile, folder: Path | None, as_json: bool) -> Exit:
    if as_json:
        for row in answer.rows:
            say(compact(row))
    else:
        console = wide_console()
        for sentence in answer.sentences:
            console.print(sentence, highlight=False, markup=False, soft_wrap=True)
        for table in answer.tables:
            console.print(table.rich())
    for trouble in gathered.troubles:
        say(f"kcore: {'pairs are missing: ' if gathered.is_partial else ''}{trouble}", err=True)
    if folder is not None:
        from kcore.cli.whatif.whatif_results import keep

        with kept_whole(folder):
            keep(answer, folder)
        say(f"Results in {folder}: results.parquet, results.jsonl, report.html", err=as_json)
    read = found.report()
    return Exit.INVALID if gathered.is_partial else read
