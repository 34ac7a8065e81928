"""The machine's resources that a process has used."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kcore.errors import TargetError
from kcore.measure.processes import local_process as machine
from kcore.measure.processes.local_process import free_ports, usage_of


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


OTHER = """
import os
from kcore.measure.processes import local_process as machine
os.getpid = lambda: 5
print(*machine.free_ports(3), flush=True)
input()
"""


@pytest.fixture
def ports_of_tests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few, in no other process's way; this process and those that it starts begin to look at the same one."""
    monkeypatch.setattr(machine.tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(machine.os, "getpid", lambda: 5)
    monkeypatch.setattr(machine, "_reservations", machine._Reservations())


@pytest.mark.usefixtures("ports_of_tests")
def test_no_port_is_given_twice_before_somebody_listens_there() -> None:
    assert {*free_ports(5)}.isdisjoint(free_ports(5))


@pytest.mark.usefixtures("ports_of_tests")
def test_the_ports_of_another_process_are_its_own_while_it_lives() -> None:
    command = [sys.executable, "-c", OTHER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        theirs = {*map(int, other.stdout.readline().split())}
        assert len(theirs) == 3
        assert theirs.isdisjoint(free_ports(3))
        other.communicate("")
    assert theirs <= {*free_ports(10)}, "the lock ends with the process"


@pytest.mark.usefixtures("ports_of_tests")
def test_ports_are_given_again_when_all_others_were(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_PORTS", range(19_000, 19_040))
    monkeypatch.setattr(machine, "_is_free", lambda _: True)
    first = free_ports(2)
    rest = free_ports(3)
    assert free_ports(2) == first and {*first}.isdisjoint(rest)
    with pytest.raises(TargetError, match="no 6 free ports"):
        free_ports(6)
