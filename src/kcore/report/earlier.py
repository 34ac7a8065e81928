"""Earlier runs beside a folder of results: the baseline and the history of a report."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kcore.extras import needs
from kcore.report.keep import METADATA_KEY, facts_of

with needs("report"):
    import pyarrow as pa
    import pyarrow.parquet as pq

FILE: Final = "results.parquet"
MOST_RUNS: Final = 10
_MOST_FOLDERS: Final = 200  # The newest; of more, older ones are not looked at.
_SAME: Final = ("host", "processor", "cores")


@dataclass(frozen=True, slots=True)
class EarlierRun:
    """One run: its folder, its facts, its rows."""

    path: Path
    facts: dict[str, Any]
    table: pa.Table

    @property
    def when(self) -> str:
        return str(self.facts.get("when", ""))


def earlier_runs(directory: Path, facts: Mapping[str, Any], columns: Collection[str]) -> list[EarlierRun]:
    """Runs of the same machine before the one with these facts, in folders beside its own; oldest first.

    `columns`: those that results of the same kind have. What cannot be read as such is no earlier run.
    """
    found = []
    for folder in _newest(directory):
        run = _read(folder / FILE, columns)
        if run is not None and run.when < str(facts.get("when", "")) and is_same_machine(run.facts, facts):
            found.append(run)
    return sorted(found, key=lambda run: run.when)[-MOST_RUNS:]


def is_same_machine(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether times of two runs compare: same host, processor and number of cores."""
    mine, theirs = one.get("machine", {}), other.get("machine", {})
    return all(mine.get(name) == theirs.get(name) for name in _SAME)


def _newest(directory: Path) -> list[Path]:
    """Folders with results beside this one, without it."""
    here = directory.resolve()
    try:
        files = [path for path in here.parent.glob(f"*/{FILE}") if path.is_file() and path.parent.resolve() != here]
        files.sort(key=lambda path: path.stat().st_mtime)
    except OSError:
        return []
    return [path.parent for path in files[-_MOST_FOLDERS:]]


def _read(path: Path, columns: Collection[str]) -> EarlierRun | None:
    try:
        schema = pq.read_schema(path)
        if not set(columns) <= set(schema.names) or METADATA_KEY not in (schema.metadata or {}):
            return None
        table = pq.read_table(path)
        return EarlierRun(path.parent, facts_of(table), table)
    except (OSError, ValueError, pa.ArrowException):
        return None
