"""A profiled storm of real controllers: Kafka's by async-profiler, kcore's by py-spy, one report."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kcore.measure.processes.target import KAFKA

COMMAND = (sys.executable, "-c", "from kcore.cli import main; main()", "storm", "--profile")
SIZES = ("--brokers", "5", "--partitions", "2k")
LIMIT_S = 300


def profile_of(folder: Path, *arguments: str) -> list[dict[str, Any]]:
    done = subprocess.run([*COMMAND, *arguments, *SIZES, "--out", str(folder)], capture_output=True, text=True,
                          timeout=LIMIT_S, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in (folder / "profile.jsonl").read_text().splitlines()]
    results = [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]
    for result in results:
        if "--controllers" in arguments and result["scenario"] == "controller-killed":
            continue  # The processes at its end are not those at its beginning.
        mine = [row for row in rows if (row["target"], row["scenario"]) == (result["target"], result["scenario"])]
        assert sum(row["cpu_s"] for row in mine) == pytest.approx(result["controller_cpu_s"], rel=0.25)
    return rows


def layers(rows: list[dict[str, Any]], target: str, scenario: str) -> set[str]:
    return {row["layer"] for row in rows if (row["target"], row["scenario"]) == (target, scenario) and row["samples"]}


def test_kafkas_and_kcores_time_has_layers_events_and_graphs(tmp_path: Path) -> None:
    rows = profile_of(tmp_path, "create", "--target", KAFKA, "--target", "kcore-kraft")
    assert {"state", "decision", "raft", "network", "JIT compiler"} <= layers(rows, KAFKA, "create")
    assert len(layers(rows, "kcore-kraft", "create")) > 1
    events = {row["event"] for row in rows if row["target"] == KAFKA and row["scenario"] == "create"}
    assert {"decide createTopics", "replay a decision", "append"} <= events
    for name in (f"profile-{KAFKA}-5x2k", "profile-kcore-kraft-5x2k"):
        assert all((tmp_path / f"{name}.{kind}").stat().st_size for kind in ("folded", "svg", "html"))
        assert f'href="{name}.html"' in (tmp_path / "report.html").read_text()


def test_a_killed_controller_costs_its_last_seconds_alone(tmp_path: Path) -> None:
    """Its recording ends without a last word; the others' are whole, and so is the run."""
    rows = profile_of(tmp_path, "controller-killed", "--controllers", "3", "--target", KAFKA)
    assert "raft" in layers(rows, KAFKA, "controller-killed")


def test_controllers_in_zookeeper_mode_are_profiled_too(tmp_path: Path) -> None:
    rows = profile_of(tmp_path, "failover", "--target", "kafka-3.9.1-zk", "--target", "kcore-zk")
    assert {"ZooKeeper", "JIT compiler"} <= layers(rows, "kafka-3.9.1-zk", "failover")
    assert layers(rows, "kcore-zk", "failover")
