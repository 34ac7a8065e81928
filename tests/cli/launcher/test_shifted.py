"""`ci/shifted` moves the time of day and the time zone of a command; timers and time-outs run as usual."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

SHIFTED = Path(__file__).parents[3] / "ci" / "shifted"
DAY_S = 24 * 3600
WAITS = """
import multiprocessing, subprocess, threading, time
assert not threading.Event().wait(0.01) and not multiprocessing.Semaphore(0).acquire(timeout=0.01)
time.sleep(0.01)
subprocess.run(["true"], timeout=60)
print(time.time(), time.monotonic(), *time.tzname)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="LD_PRELOAD is of Linux")
def test_a_shifted_command_has_another_date_and_zone_and_the_same_monotonic_clock() -> None:
    environment = {name: value for name, value in os.environ.items() if name not in ("LD_PRELOAD", "KCORE_SHIFT_S")}
    before_s, before_monotonic_s = time.time(), time.monotonic()
    if "KCORE_SHIFT_S" in os.environ:  # The whole suite is shifted.
        before_s -= float(os.environ["KCORE_SHIFT_S"])
    command = [SHIFTED, "400", "Pacific/Auckland", sys.executable, "-c", WAITS]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    *_, printed = done.stdout.splitlines()
    wall_s, monotonic_s, *zone = printed.split()
    assert 0 <= float(wall_s) - before_s - 400 * DAY_S < DAY_S
    assert 0 <= float(monotonic_s) - before_monotonic_s < DAY_S
    assert zone == ["NZST", "NZDT"]


@pytest.mark.skipif(sys.platform != "linux", reason="LD_PRELOAD is of Linux")
def test_a_command_that_is_not_shifted_is_refused() -> None:
    environment = {name: value for name, value in os.environ.items() if name not in ("LD_PRELOAD", "KCORE_SHIFT_S")}
    done = subprocess.run([SHIFTED, "0", "UTC", "true"], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "the date is still" in done.stderr
    assert subprocess.run([SHIFTED, "400", "UTC"], capture_output=True, check=False).returncode == 1
