"""Storms in ZooKeeper mode: hollow brokers under a real Kafka 3.9.1 controller and under kcore's, side by side."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from kcore.cli.commands import app
from kcore.measure.processes.target import KAFKA_ZK, KCORE_ZK
from kcore.measure.storm.zk.scenarios import SCENARIOS

BROKERS, PARTITIONS, FACTOR = 6, 600, 3


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], dict[str, object]]:
    out = tmp_path_factory.mktemp("storm")
    targets = [part for target in (KAFKA_ZK, KCORE_ZK) for part in ("--target", target)]
    sizes = ["--brokers", str(BROKERS), "--partitions", str(PARTITIONS), "--heap", "512m"]
    result = CliRunner().invoke(app, ["storm", *targets, *sizes, "--json", "--out", str(out)])
    assert result.exit_code == 0, result.output
    printed = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]
    assert pq.read_table(out / "results.parquet").num_rows == len(printed) == 2 * len(SCENARIOS)
    return {(row["target"], row["scenario"]): row for row in printed}


@pytest.mark.parametrize("target", [KAFKA_ZK, KCORE_ZK])
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_broker_gets_the_requests(
    rows: dict[tuple[str, str], dict[str, object]], target: str, scenario: str
) -> None:
    row = rows[target, scenario]
    assert row["valid"] and row["error"] is None
    assert 0 <= row["first_ms"] <= row["p50_ms"] <= row["last_ms"]  # type: ignore[operator]
    assert row["controller_cpu_s"] > 0 and row["controller_rss_mb"] > 0  # type: ignore[operator]


def test_both_tell_the_same(rows: dict[tuple[str, str], dict[str, object]]) -> None:
    """The same partitions to the same replicas; Kafka's may say some of it twice."""
    whole = PARTITIONS * FACTOR
    assert rows[KCORE_ZK, "failover"]["changes"] == whole <= rows[KAFKA_ZK, "failover"]["changes"]  # type: ignore[operator]
    for scenario in ("broker-lost", "broker-back", "controlled-shutdown"):
        ours, theirs = rows[KCORE_ZK, scenario], rows[KAFKA_ZK, scenario]
        assert 0 < ours["changes"] <= theirs["changes"]  # type: ignore[operator]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_both_leave_the_same_in_zookeeper(rows: dict[tuple[str, str], dict[str, object]], scenario: str) -> None:
    """Topics, assignments, leaders and ISRs."""
    assert rows[KCORE_ZK, scenario]["end_state"] == rows[KAFKA_ZK, scenario]["end_state"] != ""


def test_every_scenario_changes_what_is_in_zookeeper_or_nothing_of_it(
    rows: dict[tuple[str, str], dict[str, object]],
) -> None:
    """The compared digests are not constant: they differ before and after a scenario that writes to ZooKeeper."""
    ends = [rows[KCORE_ZK, scenario]["end_state"] for scenario in SCENARIOS]
    changes = [scenario for scenario, before, after in zip([*SCENARIOS][1:], ends, ends[1:]) if before != after]  # noqa: B905
    assert {"broker-lost", "bounce", "reassign", "delete-topics"} <= {*changes}
    assert "failover" not in changes and "broker-back" not in changes


@pytest.mark.parametrize("target", [KAFKA_ZK, KCORE_ZK])
def test_the_session_of_a_dead_broker_is_a_part_of_its_own(
    rows: dict[tuple[str, str], dict[str, object]], target: str
) -> None:
    lost = rows[target, "broker-lost"]
    assert 0 < lost["session_ms"] <= lost["first_ms"] <= lost["last_ms"]  # type: ignore[operator]
    assert all(rows[target, other]["session_ms"] == -1 for other in SCENARIOS if other != "broker-lost")


@pytest.mark.parametrize("target", [KAFKA_ZK, KCORE_ZK])
def test_topics_are_created_moved_and_deleted(rows: dict[tuple[str, str], dict[str, object]], target: str) -> None:
    """The requests name every replica at least once, and the brokers get LeaderAndIsr and StopReplica."""
    assert rows[target, "create"]["changes"] >= PARTITIONS * FACTOR  # type: ignore[operator]
    moved, deleted = rows[target, "reassign"], rows[target, "delete-topics"]
    for row, kind in ((moved, "LeaderAndIsr"), (moved, "StopReplica"), (deleted, "StopReplica")):
        assert row["records"][kind] > 0  # type: ignore[index]
    assert moved["waves_ms"].keys() == {"no partition moves any more"}  # type: ignore[attr-defined]
    assert deleted["last_ms"] >= deleted["waves_ms"]["znodes gone"] > 0  # type: ignore[index, operator]


def test_no_broker_gets_more_than_one_request_of_a_kind(rows: dict[tuple[str, str], dict[str, object]]) -> None:
    """A lost broker costs each other broker one LeaderAndIsr and one UpdateMetadata at most."""
    requests = rows[KCORE_ZK, "broker-lost"]["records"]
    assert isinstance(requests, dict)
    assert requests["UpdateMetadata"] == BROKERS - 1 and requests["LeaderAndIsr"] <= BROKERS - 1


def test_what_is_for_quorums_is_refused(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["storm", "rack-lost", "--target", KCORE_ZK, "--out", str(tmp_path)])
    assert result.exit_code == 2
    assert "nothing is left to run: rack-lost on kcore-zk: it is for quorums" in " ".join(result.output.split())
