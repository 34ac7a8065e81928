"""The profile of one cell of a storm: samples each scenario, and divides the CPU time when the cell has ended."""

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from kcore.measure.processes.jars import async_profiler_jars
from kcore.measure.storm.profile.async_profiler import AsyncProfiler
from kcore.measure.storm.profile.profile_rules import KAFKA, KCORE
from kcore.measure.storm.profile.pyspy import PySpy, check_permitted
from kcore.measure.storm.profile.samples import Sample
from kcore.measure.storm.profile.shares import Share, shares_of
from kcore.measure.storm.profile.threads import ThreadTimes, ThreadUse, thread_times, used_between
from kcore.measure.storm.storm_plan import Cell, StormPlan

_MS: Final = 1_000


def check_can_profile(plan: StormPlan) -> None:
    """Raises a TargetError if a profiler that the plan needs is missing, cannot be downloaded, or may not run."""
    for target in plan.parsed():
        if target.is_kcore:
            check_permitted()
        else:
            async_profiler_jars()


@dataclass(slots=True)
class Window:
    """The measured interval of one scenario."""

    scenario: str
    begin_ms: int  # Unix time.
    end_ms: int
    uses: list[ThreadUse]  # One entry for each process.
    samples: dict[int, list[Sample]] = field(default_factory=dict)  # By process.
    shares: list[Share] = field(default_factory=list)


@dataclass(slots=True)
class CellProfile:
    """Call `begin` and `end` around each scenario, and `finish` once the controllers have ended."""

    cell: Cell
    folder: Path
    windows: list[Window] = field(default_factory=list)
    sampler_cpu_s: float = 0.0  # CPU time of samplers that are separate processes.
    pids: Callable[[], Sequence[int]] = lambda: ()  # The running controllers' processes.
    _spy: PySpy | None = None
    _async: AsyncProfiler | None = None
    _before: list[ThreadTimes] = field(default_factory=list)
    _open: Window | None = None

    def __post_init__(self) -> None:
        if self.cell.target.is_kcore:
            self._spy = PySpy(self.folder)
        else:
            self._async = AsyncProfiler(self.folder)

    @property
    def java_options(self) -> tuple[str, ...]:
        """JVM options for controllers of Kafka."""
        return self._async.java_options if self._async else ()

    def begin(self, scenario: str) -> None:
        """Starts to sample the controllers. TargetError if one cannot be sampled."""
        pids = self.pids()
        if self._spy:
            self._spy.end()  # Ends the samplers of a failed scenario.
            self._spy.begin(pids, scenario)
        self._before = [times for pid in pids if (times := thread_times(pid))]
        self._open = Window(scenario, int(time.time() * _MS), 0, [])

    def end(self) -> None:
        """Ends the window of the current scenario; no effect if no scenario has begun."""
        window, self._open = self._open, None
        if window is None:
            return
        used = (used_between(before, thread_times(before.pid)) for before in self._before)
        window.uses = [use for use in used if use]
        window.end_ms = int(time.time() * _MS)
        if self._spy:
            children = os.times().children_user + os.times().children_system
            window.samples = self._spy.end()
            self.sampler_cpu_s += os.times().children_user + os.times().children_system - children
        self.windows.append(window)

    def finish(self) -> None:
        """Divides the CPU time of every window among its samples. TargetError if a recording cannot be read."""
        rules = KCORE if self._spy else KAFKA
        for window in self.windows:
            for use in window.uses:
                samples = window.samples.pop(use.pid, [])
                if self._async:
                    samples = [*self._async.samples(use.pid, window.begin_ms, window.end_ms)]
                window.shares += shares_of(use, samples, rules)

    def close(self) -> None:
        """Ends samplers that still run."""
        if self._spy:
            self._spy.close()


@contextmanager
def profiled(cell: Cell, profiles: list[CellProfile] | None) -> Iterator[CellProfile | None]:
    """Profiles a cell's controllers while they run; adds the profile to `profiles`. None if no profile is wanted."""
    if profiles is None:
        yield None
        return
    folder = Path(tempfile.mkdtemp(prefix="kcore-profile-"))
    try:
        profile = CellProfile(cell, folder)
        try:
            yield profile
        finally:
            profile.close()
            if profile.windows:
                profiles.append(profile)
                profile.finish()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
