import os
from pathlib import Path

import pytest

from kcore.measure.report import machine

PROPERTIES = """Property settings:
    java.vendor = Eclipse Adoptium
    java.vm.name = OpenJDK 64-Bit Server VM
    java.vm.version = 17.0.12+7
"""


def test_the_jvm_is_named_by_its_own_properties(tmp_path: Path):
    java = tmp_path / "java"
    java.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{PROPERTIES}END\n")
    java.chmod(0o755)
    assert machine.jvm_name(java) == "OpenJDK 64-Bit Server VM 17.0.12+7 (Eclipse Adoptium)"
    assert machine.jvm_name(tmp_path / "none") is None
    java.write_text("#!/bin/sh\necho no\n")
    assert machine.jvm_name(java) is None


def test_busy_and_stolen_are_shares_of_what_passed(monkeypatch: pytest.MonkeyPatch):
    times = iter(["cpu  10 0 10 100 0 0 0 0 5 5\ncpu0", "cpu  40 0 10 120 10 0 0 40 9 9\ncpu0"])
    monkeypatch.setattr(machine.Path, "read_text", lambda path: next(times))
    monkeypatch.setattr(os, "getloadavg", lambda: (1.5, 0.0, 0.0))
    assert machine.Load.now().since() == {"load_before": 1.5, "busy_share": 0.7, "stolen_share": 0.4}


def test_where_the_system_does_not_tell_there_are_no_shares(monkeypatch: pytest.MonkeyPatch):
    def missing(path: Path) -> str:
        raise FileNotFoundError(path)

    monkeypatch.setattr(machine.Path, "read_text", missing)
    found = machine.Load.now().since()
    assert (found["busy_share"], found["stolen_share"]) == (None, None)
