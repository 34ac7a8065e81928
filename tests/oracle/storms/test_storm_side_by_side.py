"""Kafka 4.4.0's controller and kcore's under the same storm: every partition comes to the same state."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from kcore.measure.hollow.fleet import Fleet
from kcore.measure.hollow.quorum_client import Quorum
from kcore.measure.processes.controller_quorum import ControllerQuorum
from kcore.measure.processes.kafka_quorum import KafkaQuorum
from kcore.measure.processes.kcore_quorum import KcoreQuorum
from kcore.measure.processes.target import KAFKA
from kcore.measure.storm.kraft.kraft_storm import Sizes, Storm
from kcore.measure.storm.kraft.scenarios import NEEDS_OWN_QUORUM, SCENARIOS
from kcore.metadata.table.partition_state import PartitionState
from oracle.kafka_tools import RELEASE

BROKERS, RACKS = 9, 3
SIZES = Sizes(brokers=BROKERS, partitions=450, partitions_per_topic=30, racks=RACKS, seconds=1, restarts=2, leaders=2)
TARGETS = (KAFKA, "kcore-kraft")
COMMAND = (sys.executable, "-c", "from kcore.cli import main; main()", "storm")
LIMIT_S = 300

States = dict[str, dict[tuple[str, int], dict[str, Any]]]


async def play(processes: ControllerQuorum) -> States:
    """The partitions after each scenario. Replicas are placed by the storm: a controller places by its own dice."""
    quorum = Quorum(processes.bootstrap, random=Random(1))  # It draws at each retry, the storm at each choice.
    await quorum.open()
    found: States = {}
    try:
        async with Fleet(quorum, random=Random(2)) as fleet:
            storm = Storm(quorum, fleet, SIZES, Random(6), processes=processes, places=True)
            for broker in range(BROKERS):
                fleet.add(broker + 1, rack=f"rack-{broker % RACKS}")
            for name, scenario in SCENARIOS.items():
                if name not in NEEDS_OWN_QUORUM:
                    result = await scenario(storm)
                    assert result.false_fencings == 0, name
                    await storm.settled()
                    found[name] = states_of(storm)
    finally:
        await quorum.close()
    return found


def states_of(storm: Storm) -> dict[tuple[str, int], dict[str, Any]]:
    table = storm.table
    states = (table.state(row) for row in np.flatnonzero(table.topic_row__p >= 0).tolist())
    return {(state.topic, state.partition): comparable(state) for state in states}


def comparable(state: PartitionState) -> dict[str, Any]:
    """But for ids that are random."""
    return {
        "replicas": list(state.replicas),
        "isr": list(state.isr),
        "leader": state.leader,
        "leader_epoch": state.leader_epoch,
        "partition_epoch": state.partition_epoch,
        "adding": list(state.adding),
        "removing": list(state.removing),
    }


@pytest.fixture(scope="module")
def played() -> Iterator[tuple[States, States]]:
    with KafkaQuorum(RELEASE, heap="512m") as kafka:
        theirs = asyncio.run(play(kafka))
    with KcoreQuorum() as kcore:
        yield theirs, asyncio.run(play(kcore))


@pytest.mark.parametrize("scenario", [name for name in SCENARIOS if name not in NEEDS_OWN_QUORUM])
def test_partitions_are_in_the_same_state_after_each_scenario(played: tuple[States, States], scenario: str) -> None:
    theirs, ours = (each[scenario] for each in played)
    assert ours == theirs
    assert len(ours) == (0 if scenario == "register" else SIZES.partitions if scenario != "delete-topics" else 360)


def test_one_report_has_both(tmp_path: Path) -> None:
    targets = [part for target in TARGETS for part in ("--target", target)]
    sizes = ["--brokers", "6", "--partitions", "600", "--heap", "512m"]
    command = [*COMMAND, "broker-lost", "controlled-shutdown", *targets, *sizes, "--json", "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT_S)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    names = ["register", "create", "broker-lost", "controlled-shutdown"]
    assert [(row["target"], row["scenario"]) for row in rows] == [(each, name) for each in TARGETS for name in names]
    for row in rows:
        assert row["error"] is None and row["valid"] and row["false_fencings"] == 0
        assert 0 < row["first_ms"] <= row["last_ms"]
        assert row["controller_cpu_s"] > 0 and row["controller_rss_mb"] > 0
    page = (tmp_path / "report.html").read_text()
    assert all(target in page for target in TARGETS)
    assert "kcore-kraft gets the same lines of server.properties" in page
