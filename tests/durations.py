"""How long a whole run will take, from an earlier one on this machine, and at its end the ten slowest files."""

import os
import time
from collections import Counter
from typing import Any

import pytest

CORE_S = {"quick": 680, "all": 2_400}
"""Seconds of a core for a whole run: the estimate where no run has been recorded."""
KEY = "kcore/durations"
"""In pytest's cache: by kind of run, its seconds and its processes."""
SLOWEST = 10


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def words_of(seconds: float) -> str:
    return f"{seconds:.0f} seconds" if seconds < 90 else f"{seconds / 60:.0f} minutes"


def estimate(kind: str, recorded: dict[str, Any], processes: int) -> str:
    """The line that a run begins with."""
    what = "the quick tests" if kind == "quick" else "all tests"
    if (earlier := recorded.get(kind)) is None:
        seconds = CORE_S[kind] / min(processes, cores())
        return f"{what} will take about {words_of(seconds)}: an estimate, since none ran to its end here"
    seconds = earlier["seconds"] * earlier["processes"] / processes
    return f"{what} will take about {words_of(seconds)}, as the last time here"


class Durations:
    """A plugin of the process that reports: `kind` is "quick" or "all"."""

    def __init__(self, config: pytest.Config, kind: str) -> None:
        self._cache: pytest.Cache | None = getattr(config, "cache", None)  # None with -p no:cacheprovider.
        self._kind = kind
        self._processes = config.getoption("numprocesses", None) or 1
        self._begin_s = time.monotonic()
        self._files: Counter[str] = Counter()

    def pytest_report_header(self) -> str:
        recorded = self._cache.get(KEY, {}) if self._cache is not None else {}
        return estimate(self._kind, recorded, self._processes)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._files[report.location[0]] += report.duration

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        is_whole = exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
        if self._cache is not None and is_whole and not (session.shouldfail or session.shouldstop):
            seconds = round(time.monotonic() - self._begin_s, 1)
            recorded = self._cache.get(KEY, {})
            recorded[self._kind] = {"seconds": seconds, "processes": self._processes}
            self._cache.set(KEY, recorded)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.write_sep("=", "slowest files")
        for path, seconds in self._files.most_common(SLOWEST):
            terminalreporter.write_line(f"{seconds:7.1f} s  {path}")
