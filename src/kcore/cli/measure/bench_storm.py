"""The storm at the end of `kcore bench`: its plan, its run, and its section in the page of the run."""

from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from rich.console import Console
from rich.markup import escape

from kcore.cli.console import fail, wide_console
from kcore.cli.measure.measured_storm import MeasuredStorm, measure
from kcore.cli.measure.results_folder import kept_whole
from kcore.measure.processes.kcore_quorum import KCORE_KRAFT
from kcore.measure.report.exits import Exit
from kcore.measure.report.machine import Load
from kcore.measure.storm import answer
from kcore.measure.storm import storm_report as report
from kcore.measure.storm.report_rows import is_good
from kcore.measure.storm.storm_plan import StormPlan
from kcore.spark.java import NoJavaError, java_home

# Its default target is Kafka's controller of the default release.
SHORT: Final = StormPlan(scenarios=("create", "broker-lost"))


class Ending(NamedTuple):
    """The storm's contribution to the whole run: an exit code and a section of the page."""

    exit: Exit
    section: str


def plan_of(with_kafka: bool, repeat: int | None, seed: int | None) -> StormPlan:
    """The storm of kcore's controller, and of Kafka's if wanted; ends the command with code 2 if Java is missing."""
    if with_kafka:
        try:
            java_home()
        except NoJavaError as error:
            fail(f"--with-kafka: {error}")
    targets = (*(SHORT.targets if with_kafka else ()), KCORE_KRAFT)
    return replace(SHORT, targets=targets, repeat=repeat or SHORT.repeat, seed=SHORT.seed if seed is None else seed)


def run(plan: StormPlan, directory: Path, load: Load, console: Console, as_json: bool) -> Ending:
    """Runs the storm, prints it and writes it to `directory`. `load`: how busy the machine was before the whole run."""
    before = replace(Load.now(), average=load.average)  # Since then the run itself has kept the machine busy.
    storm = measure(plan, wide_console(stderr=True), before)
    storm.show(console, as_json)
    for sentence, _ in answer.sentences([row for row in storm.rows if is_good(row)], storm.facts):
        console.print(f"[bold]{escape(sentence)}[/]", soft_wrap=True)
    with kept_whole(directory):
        storm.keep(directory, is_part=True)
    page = f"{directory.name}/report.html"
    return Ending(exit_of(storm), report.section(storm.rows, storm.facts, storm.lacking, page))


def exit_of(storm: MeasuredStorm) -> Exit:
    """The storm's exit code. If no scenario ran under a controller, that controller is unmeasured, not failed."""
    measured = {row["target"] for row in storm.rows if row["error"] is None}
    return storm.exit if measured.issuperset(target.name for target in storm.plan.parsed()) else Exit.INVALID
