"""A storm beside earlier storms of the same machine."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from kcore.hollow.histograms import NOT_KNOWN
from kcore.report.earlier import earlier_runs
from kcore.report.page import html_table, paragraphs
from kcore.report.units import duration, three_digits
from kcore.storm.phases import work_ms
from kcore.storm.report_rows import KEY, Row, is_good, merged

_NS: Final = 1e6  # in a millisecond
_NEEDED: Final = (*KEY, "first_ms", "last_ms", "append_gap_ms", "error", "valid", "partial")
_SESSION: Final = "session_ms"  # Not in results of older versions.


class History:
    """Earlier runs with scenarios, sizes and targets in common with this one."""

    def __init__(self, directory: Path | None, facts: Mapping[str, Any], rows: Sequence[Row]) -> None:
        self.now = {_key(row): work_ms(row) for row in rows if is_good(row) and work_ms(row) > 0}
        runs = earlier_runs(directory, facts, _NEEDED) if directory is not None else []
        works = [_works(run.table.to_pylist(maps_as_pydicts="strict")) for run in runs]
        read = zip((f"{run.path.name} ({run.when})" for run in runs), works, strict=True)
        self.runs = [(name, found) for name, found in read if found.keys() & self.now.keys()]

    def section(self) -> str:
        """Of the page; empty without earlier runs."""
        if not self.runs:
            return ""
        head = ["scenario", "target", "size", *(name for name, _ in self.runs), "this run", "over the run before"]
        rows = [(self._cells(key, work), False) for key, work in self.now.items()]
        told = (
            "Work until the last broker knew, without session time-outs; medians where there are repetitions. A single "
            "run varies: a ratio of it says little."
        )
        return f'<h2 id="history">Earlier runs</h2>{paragraphs([told])}{html_table(head, rows, ("target", "size"))}'

    def _cells(self, key: tuple[Any, ...], work: float) -> list[str]:
        brokers, partitions, scenario, target = key
        before = [works.get(key, NOT_KNOWN) for _, works in self.runs]
        times = ["" if ms == NOT_KNOWN else duration(ms * _NS) for ms in (*before, work)]
        ratio = f"{three_digits(work / before[-1])}x" if before[-1] > 0 else ""
        return [scenario, target, f"{brokers:,} x {partitions:,}", *times, ratio]


def _key(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in KEY)


def _works(rows: Sequence[Row]) -> dict[tuple[Any, ...], float]:
    """The controllers' work by KEY. What an older version did not tell apart from the session is left out."""
    told = [row for row in rows if _SESSION in row]
    return {_key(row): work_ms(row) for row in merged(told) if is_good(row) and work_ms(row) > 0}
