"""How much CPU time each thread of a process has taken, from /proc."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kcore.measure.processes.local_process import usage_of

_NS: Final = 1e9
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_UTIME: Final = 11  # In /proc/PID/task/TID/stat after the name; the next field is the time in the kernel.


@dataclass(frozen=True, slots=True)
class ThreadTimes:
    """The CPU time of a process and of its live threads, in seconds since each began."""

    pid: int
    cpu_s: float  # The whole process, including threads that have ended.
    cpu_s_of: dict[int, float]  # By thread id.
    names: dict[int, str]  # As the kernel has them: 15 characters.


def thread_times(pid: int) -> ThreadTimes | None:
    """The CPU times of a process on this machine; None if there is no such process."""
    usage = usage_of(pid)
    if usage is None:
        return None
    times, names = dict[int, float](), dict[int, str]()
    for folder in Path(f"/proc/{pid}/task").glob("*"):
        try:
            times[int(folder.name)] = _cpu_s(folder)
            names[int(folder.name)] = (folder / "comm").read_text(errors="replace").strip()
        except OSError:
            times.pop(int(folder.name), None)  # The thread has just ended.
    return ThreadTimes(pid, usage.cpu_s, times, names)


def _cpu_s(folder: Path) -> float:
    """The CPU time of one thread, from ns if the kernel counts ns, otherwise from ticks."""
    try:
        return int((folder / "schedstat").read_text().split()[0]) / _NS
    except (FileNotFoundError, IndexError):
        fields = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()
        return (int(fields[_UTIME]) + int(fields[_UTIME + 1])) / _TICKS


@dataclass(frozen=True, slots=True)
class ThreadUse:
    """The CPU seconds that the threads of a process took between two moments."""

    pid: int
    cpu_s_of: dict[int, float]
    names: dict[int, str]
    ended_s: float  # CPU time of threads that have ended.


def used_between(before: ThreadTimes | None, after: ThreadTimes | None) -> ThreadUse | None:
    """The use between two moments; None if the process did not exist at both: it was killed or started meanwhile."""
    if before is None or after is None:
        return None
    taken = {tid: cpu_s - before.cpu_s_of.get(tid, 0.0) for tid, cpu_s in after.cpu_s_of.items()}
    ended_s = max(0.0, after.cpu_s - before.cpu_s - sum(taken.values()))
    return ThreadUse(after.pid, {tid: cpu_s for tid, cpu_s in taken.items() if cpu_s > 0}, after.names, ended_s)
