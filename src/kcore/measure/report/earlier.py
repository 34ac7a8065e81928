"""Finds earlier runs in the folders next to a run's results: the baseline and the history of a report."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kcore.extras import needs
from kcore.measure.report.result_files import METADATA_KEY, facts_in, filled
from kcore.measure.report.result_table import ResultTable

with needs("report"):
    import pyarrow as pa
    import pyarrow.parquet as pq

FILE: Final = "results.parquet"
MOST_RUNS: Final = 10  # Earlier runs in a report.
_MOST_FOLDERS: Final = 200  # The newest runs; older runs are not read.
_MOST_OF_TABLE: Final = 50  # The newest runs of a table; older runs are not read.
_SAME: Final = ("host", "processor", "cores")  # Facts that the machines of two comparable runs share.


@dataclass(frozen=True, slots=True)
class EarlierRun:
    """An earlier run: its folder, its facts, and its rows in the present schema."""

    path: Path
    facts: dict[str, Any]
    table: pa.Table

    @property
    def when(self) -> str:
        return str(self.facts.get("when", ""))

    @property
    def name(self) -> str:
        return f"{self.path.name} ({self.when})"


@dataclass(frozen=True, slots=True)
class ResultKind:
    """The format of one command's results."""

    schema: pa.Schema  # Columns that older versions did not write are null.
    needed: Sequence[str]  # The columns that a history needs; results without them are passed over.
    own: Sequence[str]  # Columns that distinguish these results from other commands' results.
    file: str = FILE  # The path in the folder of a run; in a subfolder if the results are only a part of the run.


@dataclass(frozen=True, slots=True)
class EarlierRuns:
    """The newest readable runs, oldest first, and a line for each of the newest unreadable runs."""

    runs: Sequence[EarlierRun] = ()
    passed_over: Sequence[str] = ()


def earlier_runs(
    directory: Path | None, facts: Mapping[str, Any], kind: ResultKind, runs_at: ResultTable | None = None
) -> EarlierRuns:
    """The runs on the same machine before the run with these facts, from the folders next to its `directory`.

    Also those of the table `runs_at`, without the runs that have a folder.
    """
    runs, passed_over = [], list[str]()
    for folder in [] if directory is None else _newest(directory, kind.file):
        found = _read(folder, facts, kind)
        if isinstance(found, EarlierRun):
            runs.append(found)
        elif found:
            passed_over.append(found)
    for found in [] if runs_at is None else _in_table(runs_at, facts, kind):
        if isinstance(found, str):
            passed_over.append(found)
        elif found.when not in {run.when for run in runs}:
            runs.append(found)
    return EarlierRuns(sorted(runs, key=lambda run: run.when)[-MOST_RUNS:], passed_over[-MOST_RUNS:])


def _in_table(table: ResultTable, now: Mapping[str, Any], kind: ResultKind) -> list[EarlierRun | str]:
    """The newest runs of the table on the same machine, and a line for each that cannot be read.

    A store that fails after the measurement must not cost its report, and fsspec's stores raise errors of their own.
    """
    found: list[EarlierRun | str] = []
    try:
        names = table.runs()[-_MOST_OF_TABLE:]
    except Exception as error:
        return [f"The table {table.uri} is passed over: {error}."]
    for name in reversed(names):
        if len(found) == MOST_RUNS:
            break
        try:
            rows = table.read(name)
            facts = facts_in(rows.schema)
            if not set(kind.own) <= set(rows.schema.names):
                continue  # A table may have the runs of several commands.
            if str(facts.get("when", "")) < str(now.get("when", "")) and is_same_machine(facts, now):
                found.append(EarlierRun(Path(name), facts, filled(rows, kind.schema, kind.needed)))
        except Exception as error:
            found.append(f"{name} is passed over: {error}.")
    return found


def is_same_machine(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """True if times of two runs can be compared: same host, processor and number of cores."""
    mine, theirs = one.get("machine", {}), other.get("machine", {})
    return all(mine.get(name) == theirs.get(name) for name in _SAME)


def _newest(directory: Path, file: str) -> list[Path]:
    """The newest folders with results next to `directory`, oldest first."""
    here, depth = directory.resolve(), len(Path(file).parents) - 1
    try:
        files = [
            path for path in here.parent.glob(f"*/{file}") if path.is_file() and path.parents[depth].resolve() != here
        ]
        files.sort(key=lambda path: path.stat().st_mtime)
    except OSError:
        return []
    return [path.parents[depth] for path in files[-_MOST_FOLDERS:]]


def _read(folder: Path, now: Mapping[str, Any], kind: ResultKind) -> EarlierRun | str | None:
    """The run; the reason if it is passed over; None if the file is not an earlier run of this kind and machine."""
    path = folder / kind.file
    try:
        schema = pq.read_schema(path)
        if not set(kind.own) <= set(schema.names) or METADATA_KEY not in (schema.metadata or {}):
            return None
        facts = facts_in(schema)
        if str(facts.get("when", "")) >= str(now.get("when", "")) or not is_same_machine(facts, now):
            return None
    except (OSError, ValueError, pa.ArrowException):
        return None
    try:
        return EarlierRun(folder, facts, filled(pq.read_table(path), kind.schema, kind.needed))
    except (OSError, ValueError, pa.ArrowException) as error:
        return f"{folder.name} ({facts.get('when', '')}) is passed over: {error}."
