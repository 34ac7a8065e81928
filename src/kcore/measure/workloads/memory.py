"""Measures the memory of a call: the growth of the process's high-water mark, read from Linux.

tracemalloc would count only Python's own allocations, and make them several times slower.
"""

import ctypes
import re
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

CLEAR_REFS = Path("/proc/self/clear_refs")
STATUS = Path("/proc/self/status")
RESET_HIGH_WATER_MARK = "5"  # proc(5): resets VmHWM to the current VmRSS.


def peak_growth(run: Callable[[], Any]) -> int | None:
    """The largest growth of resident memory in bytes while `run` runs; None if Linux does not report it.

    None also if this process may not reset its high-water mark, because growth below an earlier peak would not show.
    """
    _give_back_free_memory()
    try:
        CLEAR_REFS.write_text(RESET_HIGH_WATER_MARK)
        before = _status_bytes("VmRSS")
        run()
        return max(0, _status_bytes("VmHWM") - before)
    except OSError:
        run()
        return None


def process_peak() -> int:
    """The largest resident size of this process so far, in bytes.

    Reads VmHWM first: Linux copies `ru_maxrss` to a child process, so that a small child of a large parent seems large.
    """
    try:
        return _status_bytes("VmHWM")
    except OSError:
        pass
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _status_bytes(key: str) -> int:
    match = re.search(rf"^{key}:\s+(\d+) kB$", STATUS.read_text(), re.MULTILINE)
    if match is None:
        raise OSError(f"{STATUS} has no {key}")
    return int(match[1]) * 1024


def _give_back_free_memory() -> None:
    """Returns free heap pages to the system. They count as resident: a second run would seem to need no memory."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # Only glibc has it.
    if trim is not None:
        trim(0)
