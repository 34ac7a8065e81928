"""A process that is started, paused, ended and started again; a shell script stands for Java."""

import os
import signal
import time
from pathlib import Path

import pytest

from kcore.errors import TargetError
from kcore.measure.processes import java_process
from kcore.measure.processes.java_process import JavaProcess, last_lines, stop_all

# Its one argument behind java's own option: what it does when it is ready.
SCRIPT = """#!/bin/sh
trap 'echo stopping; exit 143' TERM
[ "$2" = dies ] && { echo "no luck"; exit 1; }
[ "$2" = deaf ] && trap '' TERM
echo "ready $$"
while :; do sleep 0.01; done
"""


@pytest.fixture(autouse=True)
def a_script_for_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(SCRIPT)
    java.chmod(0o755)
    monkeypatch.setattr(java_process, "java_home", lambda: tmp_path)


def process(folder: Path, does: str = "runs") -> JavaProcess:
    return JavaProcess("it", folder / "deep" / "it.log", [does], "ready")


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_its_end_is_the_exit_code_and_the_last_lines(tmp_path: Path) -> None:
    it = process(tmp_path)
    assert it.end == "", "it was not started"
    it.start()
    assert it.end == ""
    it.terminate()
    assert it.end == f"it has ended with exit code 143: ready {it.pid}; stopping"


def test_an_end_is_a_failure_unless_a_method_ended_it(tmp_path: Path) -> None:
    it = process(tmp_path)
    it.start()
    it.kill()
    assert it.end and it.failure == ""
    it.start()
    os.kill(it.pid, signal.SIGKILL)
    it.wait()
    assert it.failure == it.end == f"it has ended with exit code -9: ready {it.pid}"
    it.kill()
    assert it.failure, "it was not running at the kill"


def test_the_last_lines_of_a_log_are_one_line_without_frames_of_stack_traces() -> None:
    log = "a\nb\nERROR it failed\njava.io.IOException: no\n\tat java.base/x.y(z)\n\t... 3 more\n\nCaused by: q\n"
    assert last_lines(log) == "ERROR it failed; java.io.IOException: no; Caused by: q"
    assert last_lines("") == ""


def test_it_runs_until_it_is_stopped(tmp_path: Path) -> None:
    it = process(tmp_path)
    it.start()
    assert it.is_running
    assert it.log_text() == f"ready {it.pid}\n"
    usage = it.usage()
    assert usage is not None and usage.rss_bytes > 0
    assert it.terminate() == 143
    assert not it.is_running and it.usage() is None


def test_its_log_begins_where_it_was_started_again(tmp_path: Path) -> None:
    it = process(tmp_path)
    it.start()
    first = it.pid
    it.kill()
    it.start()
    assert it.log_text() == f"ready {it.pid}\n"
    assert it.log.read_text() == f"ready {first}\nready {it.pid}\n"
    it.kill()


def test_a_failed_start_shows_the_log(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match=r"^it has ended with exit code 1: no luck$"):
        process(tmp_path, "dies").start()


def test_one_that_is_deaf_is_killed(tmp_path: Path) -> None:
    it = process(tmp_path, "deaf")
    it.start()
    assert it.terminate(timeout_s=0.1) == -signal.SIGKILL


def test_a_paused_one_lives_on_and_can_be_stopped(tmp_path: Path) -> None:
    both = [process(tmp_path / name) for name in "ab"]
    for it in both:
        it.start()
    both[0].pause()
    while state(both[0].pid) != "T":
        time.sleep(0.001)
    assert both[0].is_running
    stop_all(both)
    assert [it.wait() for it in both] == [143, 143]
