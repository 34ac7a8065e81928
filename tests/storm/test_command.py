import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from cases import DATA
from kcore.cli.commands import app
from kcore.measure.storm import run_storm as run
from kcore.measure.storm.kraft.scenarios import LIMITS, SCENARIOS
from kcore.measure.storm.report_rows import Row, failed_row, row_of
from kcore.measure.storm.result import ScenarioResult
from kcore.measure.storm.storm_plan import StormPlan
from kcore.measure.storm.zk.scenarios import SCENARIOS as ZK_SCENARIOS

DUMP = str(DATA / "samples/zk39-scenario/2-broker3-killed.zk.txt")


def storm(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["storm", *arguments])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["flood"], "`kcore storm --list`"),
        (["--target", "kafka-0.7"], "--target kafka-0.7: Kafka 0.7: a release has a form such as 4.4.0"),
        (["--target", "localhost"], "give HOST:PORT"),
        (["--brokers", "many"], "no list of counts such as 20,100"),
        (["--partitions", "1k,0"], "--partitions 0 is not from 1"),
        (["--controllers", "2"], "neither 1 nor 3"),
        (["--seed", "x"], "Invalid value"),
        (["--target", "kcore-zk", "--controllers", "3"], "kcore-zk has one controller"),
        (["--target", "kafka-3.9.1-zk", "--master", "local[2]"], "leave out"),
        (["rack-lost", "--target", "kcore-zk"], "nothing is left to run"),
        (["--cluster", "nowhere"], "nowhere: No such file or directory"),
        (["--cluster", DUMP, "--racks", "2"], "--racks are for generated clusters"),
        (["--cluster", DUMP, "--brokers", "1"], "--brokers 1 is not from 3, the replicas of a partition"),
        (["--cluster", str(DATA / "samples/kraft44/static"), "create"], "the cluster has no partition"),
        (["--cluster", DUMP, "--command-config", "nowhere"], "--command-config nowhere"),
    ],
)
def test_wrong_options_are_exit_code_2_and_say_what_to_do(arguments: list[str], said: str):
    result = storm(*arguments)
    assert result.exit_code == 2
    assert said in result.stderr


def test_list_names_every_scenario_with_a_line():
    usual, rest = storm("--list").stdout.split("\n\nof controllers in ZooKeeper mode (kafka-3.9.1-zk, kcore-zk):\n")
    zookeeper, limits = rest.split("\n\nlimits of the controller, only where named:\n")
    for text, scenarios in ((usual, SCENARIOS), (zookeeper, ZK_SCENARIOS), (limits, LIMITS)):
        lines = text.splitlines()
        assert [line.split()[0] for line in lines] == list(scenarios)
        assert all(len(line.split()) > 3 for line in lines)


def test_the_old_name_of_the_option_metadata_works_and_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    fake(monkeypatch)
    result = storm("--mind", "count", "create", "--target", "kcore-kraft", "--out", str(tmp_path / "run"))
    assert result.exit_code == 0, result.output
    assert "kcore: --mind is called --metadata now." in result.stderr.splitlines()
    assert 'metadata = "count"' in (tmp_path / "run" / "plan.toml").read_text().splitlines()


def fake(monkeypatch: pytest.MonkeyPatch, *, interrupt: bool = False, error: str | None = None, lag: bool = False,
         left: list[str] | None = None):  # fmt: skip
    def run_plan(
        plan: StormPlan, rows: list[Row], tell: Callable[[str], None], spark: object, profiles: object, cluster: object
    ) -> list[str]:
        [cell] = plan.cells()
        for name in plan.scenarios_of(cell.target):
            if name == "broker-lost" and interrupt:
                raise KeyboardInterrupt
            if name == "broker-lost" and error:
                tell(error)
                rows.append(failed_row(cell, name, 1, 1, error))
            else:
                rows.append(row_of(cell, ScenarioResult(name, 20, 10, 1, last_ms=5.0, valid=not lag), 1))
        return left or []

    monkeypatch.setattr(run, "run", run_plan)
    monkeypatch.setattr(run, "check_builds", lambda plan: None)


def test_json_is_alone_on_stdout_and_the_folder_holds_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    fake(monkeypatch)
    result = storm("broker-lost", "--json", "--out", str(tmp_path))
    assert result.exit_code == 0, result.output
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert [row["scenario"] for row in rows] == ["register", "create", "broker-lost"]
    assert {path.name for path in tmp_path.iterdir()} == {
        "results.parquet",
        "results.jsonl",
        "medians.json",
        "report.html",
        "plan.toml",
    }


@pytest.mark.parametrize(
    ("what", "code"), [({}, 0), ({"error": "no"}, 1), ({"lag": True}, 3), ({"interrupt": True}, 3)]
)
def test_exit_codes(what: dict, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    fake(monkeypatch, **what)
    assert storm("broker-lost", "--out", str(tmp_path)).exit_code == code


def test_what_is_left_on_a_cluster_of_others_is_exit_code_3_and_said_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    fake(monkeypatch, left=["here:1, 20 brokers: left behind: 2 topics"])
    result = storm("broker-lost", "--out", str(tmp_path))
    assert result.exit_code == 3
    assert "left behind: 2 topics" in result.output


def test_the_text_of_a_controller_is_one_line_without_controls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Both while it runs and at the end."""
    error = "refused\n\x1b[2J\u202e[bold]kcore: all is well"
    fake(monkeypatch, error=error, left=[error])
    lines = storm("broker-lost", "--out", str(tmp_path)).output.splitlines()
    found = [line for line in lines if "all is well" in line]
    assert len(found) == 3 and all(r"refused\n\x1b[2J\u202e[bold]kcore: all is well" in line for line in found)


def test_an_interrupted_run_keeps_what_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    fake(monkeypatch, interrupt=True)
    result = storm("broker-lost", "--out", str(tmp_path))
    assert result.exit_code == 3 and "interrupted: all is stopped" in result.output
    rows = [json.loads(line) for line in (tmp_path / "results.jsonl").read_text().splitlines()]
    assert [row["scenario"] for row in rows] == ["register", "create"]
    kept = json.loads((tmp_path / "medians.json").read_text())
    assert [row["scenario"] for row in kept["medians"]] == ["register", "create"]
    assert "missing: broker-lost on kafka-4.4.0" in " ".join(result.output.split())


def test_targets_take_turns_within_each_repetition():
    plan = StormPlan(targets=("kafka-3.9.1-zk", "kcore-zk"), repeat=2, partitions=(10, 20))
    cells = [(cell.repetition, cell.partitions, cell.target.name) for cell in plan.cells()]
    both = ("kafka-3.9.1-zk", "kcore-zk")
    assert cells == [(nth, size, target) for nth in range(2) for size in (10, 20) for target in both]
