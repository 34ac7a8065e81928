"""A scenario fails at once if a process ends that the storm has started."""

import asyncio
import os
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kcore.errors import TargetError
from kcore.measure.processes.java_process import ChildProcess
from kcore.measure.storm import run_storm as run
from kcore.measure.storm.kraft.kraft_storm import Storm
from kcore.measure.storm.report_rows import Row
from kcore.measure.storm.result import ScenarioResult
from kcore.measure.storm.storm_plan import StormPlan
from kcore.measure.storm.zk import run_zk_storm


@pytest.mark.long
def test_a_failed_scenario_names_a_controller_that_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    async def register(storm: Storm) -> ScenarioResult:
        assert storm.processes is not None
        storm.processes.nodes[0].kill()
        raise TargetError("no answer came")

    monkeypatch.setitem(run.ALL, "register", register)
    rows: list[Row] = []
    run.run(StormPlan(targets=("kcore-kraft",), scenarios=("create",), brokers=(3,)), rows, lambda line: None)
    assert str(rows[0]["error"]).startswith("no answer came; controller 30001 has ended with exit code -9: ")
    assert [row["error"] for row in rows[1:]] == ["not run: register failed"]


@pytest.mark.long
def test_a_controller_that_ends_during_a_scenario_fails_it_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def register(storm: Storm) -> ScenarioResult:
        assert storm.processes is not None
        os.kill(storm.processes.nodes[0].pid, signal.SIGKILL)
        await asyncio.sleep(600)
        raise AssertionError("the scenario went on")

    monkeypatch.setitem(run.ALL, "register", register)
    monkeypatch.setattr(run, "_SCENARIO_S", 20.0)
    rows: list[Row] = []
    run.run(StormPlan(targets=("kcore-kraft",), scenarios=("create",), brokers=(3,)), rows, lambda line: None)
    assert str(rows[0]["error"]).startswith("controller 30001 has ended with exit code -9: ")
    assert str(rows[0]["error"]).count("exit code") == 1, "the process is named once"


def test_a_process_that_ends_fails_a_scenario_in_zookeeper_mode_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    it = ChildProcess("ZooKeeper", tmp_path / "log", ["sh", "-c", "echo out of memory; exit 3"], "out of memory")
    it.start()

    async def create(storm: object) -> ScenarioResult:
        await asyncio.sleep(600)
        raise AssertionError("the scenario went on")

    monkeypatch.setitem(run_zk_storm.SCENARIOS, "create", create)
    monkeypatch.setattr(run_zk_storm, "_SCENARIO_S", 2.0)
    plan = StormPlan(targets=("kcore-zk",), scenarios=("create",))
    rows: list[Row] = []
    [cell] = plan.cells()
    storm: Any = SimpleNamespace()
    asyncio.run(run_zk_storm._scenarios(plan, cell, storm, [it], rows, lambda line: None))
    assert rows[0]["error"] == "ZooKeeper has ended with exit code 3: out of memory"
