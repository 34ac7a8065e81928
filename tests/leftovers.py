"""Processes that tests start end with pytest, however it ends: also those with a session of their own.

A process that pytest starts inherits a mark in its environment. A watcher, started first, kills every process with
the mark once pytest is gone: after Ctrl-C, a time-out of CI or `kill -9`, where no test can clean up. Linux alone has
/proc/PID/environ; elsewhere nothing is watched.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final
from uuid import uuid4

import pytest

MARK: Final = "KCORE_TESTS"
_WATCHER: Final = """
import glob, os, select, signal, sys
mark, pytest = sys.argv[1].encode(), int(sys.argv[2])
while os.getppid() == pytest and not select.select([0], [], [], 0.5)[0]:
    pass
for _ in range(3):  # One that was being started is found in the next round.
    for path in glob.glob("/proc/[0-9]*/environ"):
        pid = int(path.split("/")[2])
        try:
            with open(path, "rb") as file:
                if pid not in (pytest, os.getpid()) and mark in file.read().split(b"\\0"):
                    os.kill(pid, signal.SIGKILL)
        except OSError:
            pass  # It has ended, or belongs to another user.
"""


class Leftovers:
    """A plugin of each process of pytest."""

    def __init__(self) -> None:
        if not Path("/proc/self/environ").exists():
            return
        unmarked = {name: value for name, value in os.environ.items() if name != MARK}
        os.environ[MARK] = str(uuid4())
        command = [sys.executable, "-ISc", _WATCHER, f"{MARK}={os.environ[MARK]}", str(os.getpid())]
        # In a session of its own, which Ctrl-C does not reach; it ends when its stdin does.
        self._watcher = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, env=unmarked, start_new_session=True
        )

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self) -> None:
        if hasattr(self, "_watcher"):
            assert self._watcher.stdin is not None
            self._watcher.stdin.close()
            self._watcher.wait()
