"""A storm as a command runs it: measured with one line of progress per step, then printed, written and judged."""

import json
import logging
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from rich.console import Console
from rich.markup import escape

from kcore.cli.console import fail
from kcore.cli.options.spark_options import SparkSettings, session_on
from kcore.measure.report import result_files
from kcore.measure.report.build import builds_of
from kcore.measure.report.exits import Exit
from kcore.measure.report.machine import Load, facts
from kcore.measure.report.result_table import ResultTable
from kcore.measure.storm import report_table
from kcore.measure.storm import run_storm as storms
from kcore.measure.storm import storm_report as report
from kcore.measure.storm.profile import profile_files, profile_page
from kcore.measure.storm.profile.profile_cell import CellProfile
from kcore.measure.storm.report_rows import BULKY, Row, different_ends, medians, merged, missing, table_of
from kcore.measure.storm.storm_plan import StormPlan
from kcore.metadata.table.partition_table import PartitionTable
from kcore.printable import printable
from kcore.spark.java import NoJavaError, jvm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class MeasuredStorm:
    """The results of a storm that ran to its end, or until Ctrl-C or SIGTERM."""

    plan: StormPlan
    rows: Sequence[Row]
    profiles: Sequence[CellProfile]
    left: Sequence[str]  # Objects left on clusters that the storm did not start, one line each.
    is_whole: bool
    facts: dict[str, Any]

    @property
    def lacking(self) -> list[str]:
        """The cells and scenarios of the plan that have no row."""
        expected = [(cell, name) for cell in self.plan.cells() for name in self.plan.scenarios_of(cell.target)]
        return missing(self.rows, expected)

    @property
    def exit(self) -> Exit:
        """The exit code of the run: INVALID if the storm was interrupted or left objects behind."""
        return verdict(self.rows, self.lacking) if self.is_whole and not self.left else Exit.INVALID

    def show(self, console: Console, as_json: bool) -> None:
        """Prints the tables; with `as_json`, also prints the rows to stdout."""
        report_table.show(console, merged(self.rows), [*report_table.troubles(self.rows, self.lacking), *self.left])
        for row in self.rows if as_json else ():
            sys.stdout.write(json.dumps({name: value for name, value in row.items() if name not in BULKY}) + "\n")

    def table(self) -> pa.Table:
        """The rows, with the facts."""
        return result_files.with_facts(table_of(self.rows), self.facts)

    def keep(
        self, directory: Path, *, is_part: bool = False, runs_at: ResultTable | None = None
    ) -> profile_files.Written:
        """Writes all files of the results; OSError if one cannot be written.

        `is_part`: the folder is inside the results folder of another command. `runs_at`: has earlier runs, too.
        """
        result_files.write(self.table(), directory)
        result_files.write_text(directory / "plan.toml", self.plan.to_toml())
        text = json.dumps({"facts": self.facts, "medians": medians(self.rows)}, indent=1)
        result_files.write_text(directory / "medians.json", f"{text}\n")
        found = profile_files.write(self.profiles, directory) if self.plan.profile else profile_files.Written()
        section = profile_page.section(found.rows, found.drawn, found.costs)
        text = report.render(self.rows, self.facts, self.lacking, directory, section, is_part=is_part, runs_at=runs_at)
        result_files.write_text(directory / "report.html", text)
        return found


def measure(
    plan: StormPlan,
    console: Console,
    before: Load,
    spark: SparkSettings | None = None,
    cluster: PartitionTable | None = None,
) -> MeasuredStorm:
    """Runs the plan with progress on the console. Ctrl-C ends the storm early.

    `before`: how busy the machine was. `cluster`: the plan's cluster.
    """
    logging.getLogger("kazoo").setLevel(logging.ERROR)  # kazoo would log that the run stops ZooKeeper.
    rows: list[Row] = []
    profiles: list[CellProfile] = []
    is_whole, left = _run(plan, rows, console, spark, profiles if plan.profile else None, cluster)
    builds = {name: build.as_row() for name, build in builds_of(rows, "target").items()}
    about = facts(before) | _jvm(plan, rows)
    about |= {"plan": plan.to_toml(), "targets": [target.name for target in plan.parsed()], "builds": builds}
    return MeasuredStorm(plan, rows, profiles, left, is_whole, about)


def print_line(console: Console, line: str) -> None:
    """Prints one line with escapes, since an error may contain text of a controller."""
    console.print(escape(printable(line)), soft_wrap=True)


def verdict(rows: Sequence[Row], lacking: Sequence[str]) -> Exit:
    """The exit code for the rows of a run: INVALID if some are missing or invalid, FAILED if one has an error."""
    if lacking or any(row["partial"] or not row["valid"] for row in rows):
        return Exit.INVALID
    is_wrong = any(row["error"] is not None for row in rows) or different_ends(rows)
    return Exit.FAILED if is_wrong else Exit.GOOD


def _run(
    plan: StormPlan,
    rows: list[Row],
    console: Console,
    wanted: SparkSettings | None,
    profiles: list[CellProfile] | None,
    cluster: PartitionTable | None,
) -> tuple[bool, list[str]]:
    """True if the storm came to its end; and what it left on clusters that it did not start, one line each."""
    before = signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        with _spark(wanted) as spark:
            left = storms.run(plan, rows, partial(print_line, console), spark, profiles, cluster)
    except KeyboardInterrupt:
        console.print("interrupted: all is stopped", soft_wrap=True)
        return False, []
    except NoJavaError as error:
        fail(str(error))
    finally:
        signal.signal(signal.SIGTERM, before)
    return True, left


@contextmanager
def _spark(wanted: SparkSettings | None) -> "Iterator[SparkSession | None]":
    """A Spark session if one is wanted; None if the hollow brokers run in this process."""
    if wanted is None:
        yield None
        return
    with session_on(wanted) as spark:
        # Spark's handler would interrupt the removal of topics.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        yield spark


def _jvm(plan: StormPlan, rows: Sequence[Row]) -> dict[str, str | None]:
    """The JVMs of the Kafka controllers or ZooKeeper servers that the run started; empty if it started none."""
    if not any(target.is_kafka or target.in_zookeeper for target in plan.parsed()):
        return {}
    return {"jvm": ", ".join(dict.fromkeys(row["jvm"] for row in rows if row.get("jvm"))) or jvm()}
