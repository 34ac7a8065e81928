"""A recorded day of Kafka 4.4.0, replayed at ten times its speed on Kafka's and kcore's controllers in one report."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cases
from kcore.measure.processes.kafka_quorum import KafkaQuorum
from kcore.measure.storm.replay.compare_states import decisions_of
from kcore.measure.storm.replay.recording import recording_of
from kcore.measure.storm.replay.trace import read_trace
from oracle.kafka_tools import RELEASE

DAY = cases.DATA / "traces/day44"
TARGETS = ("kafka-4.4.0", "kafka-4.3.1", "kcore-kraft")
LIMIT_S = 3_600
SESSION_MS = "9000"  # As recorded: no session ends by itself, however busy the machine is.


def replayed(folder: Path, targets: Sequence[str], *options: str) -> dict[str, dict[str, Any]]:
    """The summaries of a replay of the day, by target."""
    wanted = [each for target in targets for each in ("--target", target)]
    command = [sys.executable, "-m", "kcore", "storm", "replay", str(DAY), *wanted, *options, "--json"]
    done = subprocess.run(
        [*command, "--out", str(folder / "out")],
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
        env=os.environ | {"TMPDIR": str(folder)},
    )
    assert done.returncode == 0, done.stderr
    return {each["target"]: each for each in json.loads(done.stdout)["targets"]}


def test_three_running_controllers_of_kafka_end_as_recorded(tmp_path: Path) -> None:
    begin, end = "+58s", "+200s"
    recording = recording_of(read_trace(DAY), begin, end)
    with KafkaQuorum(RELEASE, controllers=3, heap="512m") as quorum:
        running = f"running={','.join(quorum.bootstrap)}"
        [found] = replayed(tmp_path, [running], "--speed", "20x", "--from", begin, "--to", end).values()
    assert (found["error"], found["problems"], found["ends"], found["decisions"]) == ("", [], [], [])
    assert found["same_ends"] == recording.after.table.partition_count and found["events"] == len(recording.causes)


def test_a_day_ends_as_recorded_on_all_targets(tmp_path: Path) -> None:
    recording = recording_of(read_trace(DAY))
    partitions = recording.after.table.partition_count
    decided = len(decisions_of(recording.before.copy(), recording.batches).by_partition)
    found = replayed(tmp_path, TARGETS, "--speed", "10x", "--session-timeout", SESSION_MS)
    assert [*found] == [*TARGETS]
    for target, each in found.items():
        assert (target, each["error"], each["ends"], each["false_fencings"]) == (target, "", [], 0)
        assert (each["same_ends"], each["same_decisions"]) == (partitions, decided)
    levels = [each.partition(",")[0] for each in found["kafka-4.3.1"]["problems"]]
    assert levels == ["share.version is 1", "metadata.version is 30"]  # 4.3.1 lacks the recorded levels.
    assert not found["kafka-4.4.0"]["problems"] and not found["kcore-kraft"]["problems"]
    rows = [json.loads(line) for line in (tmp_path / "out/results.jsonl").read_text().splitlines()]
    assert len(rows) == len(TARGETS) * len(recording.causes)
    assert not any(row["errors"] or row["deviation"] for row in rows)
