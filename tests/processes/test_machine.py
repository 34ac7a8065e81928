"""What a process has taken of the machine."""

import os
import subprocess
import sys
import time

from kcore.processes.machine import usage_of


def test_cpu_time_is_known_to_the_microsecond() -> None:
    before_s = time.process_time()
    usage = usage_of(os.getpid())
    after_s = time.process_time()
    assert usage is not None
    assert before_s - 1e-6 <= usage.cpu_s <= after_s + 1e-6
    assert 0 < usage.rss_bytes <= usage.peak_rss_bytes


def test_a_process_that_has_ended_has_none() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert usage_of(process.pid) is None, "nobody has asked for its exit code yet"
    process.wait()
    assert usage_of(process.pid) is None
