"""A recorded log of a real cluster, replayed on kcore's controller by hollow brokers."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import cases
from kcore.cli.commands import app
from kcore.measure.processes.kcore_quorum import KcoreQuorum
from kcore.measure.report.result_files import facts_of
from kcore.measure.storm.replay.recording import recording_of
from kcore.measure.storm.replay.trace import read_trace
from storm.replay.cut_traces import begin_at_a_snapshot

SAMPLE = cases.DATA / "samples/kraft43/controller-3003"
DAY = cases.DATA / "traces/day44"


def replayed(out: Path, *options: str, trace: Path = SAMPLE, target: str = "kcore-kraft") -> dict[str, Any]:
    arguments = ["storm", "replay", str(trace), "--target", target, "--speed", "100x", "--json"]
    result = CliRunner().invoke(app, [*arguments, "--out", str(out), *options])
    assert result.exit_code == 0, result.output
    [summary] = json.loads(result.stdout)["targets"]
    return dict(summary)


@pytest.mark.parametrize(
    ("begin", "end"),
    [
        ("+58s", "+74s"),  # A broker returns without a registration, loses a directory, and shuts down.
        pytest.param("+0s", "+200s", marks=pytest.mark.long),
        pytest.param("+0s", "+1h", marks=pytest.mark.long),
    ],
)
def test_a_busy_day_ends_as_recorded_with_all_epochs(tmp_path: Path, begin: str, end: str) -> None:
    target = replayed(tmp_path, "--from", begin, "--to", end, trace=DAY)
    recorded = recording_of(read_trace(DAY), begin, end).after.table.partition_count
    assert (target["error"], target["problems"], target["ends"], target["decisions"]) == ("", [], [], [])
    assert target["same_ends"] == recorded > 20 and target["false_fencings"] == 0
    rows = [json.loads(line) for line in (tmp_path / "results.jsonl").read_text().splitlines()]
    assert not any(row["errors"] or row["deviation"] for row in rows)
    kinds = {row["kind"] for row in rows if f"\n{row['kind']}: " in (tmp_path / "report.html").read_text()}
    assert len(kinds) > 3  # The chart's marks name the slowest events.


@pytest.mark.long
@pytest.mark.parametrize("runs_already", [False, True])
def test_three_controllers_end_as_recorded(tmp_path: Path, runs_already: bool) -> None:
    part = ("--from", "+58s", "--to", "+74s")
    if runs_already:
        with KcoreQuorum(controllers=3) as quorum:
            target = replayed(tmp_path, *part, trace=DAY, target=",".join(quorum.bootstrap))
    else:
        target = replayed(tmp_path, *part, "--controllers", "3", trace=DAY)
    assert (target["error"], target["problems"], target["ends"], target["decisions"]) == ("", [], [], [])
    assert target["same_ends"] > 20


@pytest.mark.long
@pytest.mark.parametrize("begin", ["+0s", "+48s"])  # From +48s on the first state has topics, which are made first.
def test_the_replay_ends_as_recorded(tmp_path: Path, begin: str) -> None:
    target = replayed(tmp_path, "--from", begin)
    assert target["error"] == ""
    # A controller refuses to lower its metadata.version of 4.4 to the recorded one of 4.3.
    assert [each.partition(",")[0] for each in target["problems"]] == ["metadata.version is 33"]
    assert (target["same_ends"], target["ends"]) == (8, [])
    rows = [json.loads(line) for line in (tmp_path / "results.jsonl").read_text().splitlines()]
    assert {row["kind"] for row in rows} >= {"missed heartbeats", "controlled shutdown", "directory report"}
    assert not any(row["errors"] for row in rows)
    assert all(row["known_ms"] >= 0 for row in rows if row["kind"] == "topic creation")
    assert "timeline" in (tmp_path / "report.html").read_text()
    table = pq.read_table(tmp_path / "results.parquet")
    assert [{name: row[name] for name in rows[0]} for row in table.to_pylist()] == rows
    assert {*table["build"].to_pylist()} == {"kcore-kraft"} and facts_of(table)["summaries"] == [target]


@pytest.mark.long
def test_a_trace_that_begins_at_a_snapshot_ends_as_recorded(tmp_path: Path) -> None:
    trace = begin_at_a_snapshot(SAMPLE / "__cluster_metadata-0", tmp_path / "__cluster_metadata-0", 131)
    target = replayed(tmp_path / "out", trace=trace)
    assert (target["error"], target["same_ends"], target["ends"]) == ("", 8, [])


@pytest.mark.long
def test_after_ctrl_c_one_line_has_what_was_replayed(tmp_path: Path) -> None:
    arguments = ["storm", "replay", str(SAMPLE), "--target", "kcore-kraft", "--target", "b=kcore-kraft"]
    command = [sys.executable, "-m", "kcore", *arguments, "--speed", "4x", "--out", str(tmp_path), "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        next(line for line in process.stderr if "3 of" in line)  # The third event has begun.
        process.send_signal(signal.SIGINT)
        printed, said = process.communicate(timeout=120)
    assert process.returncode == 3 and "Traceback" not in said
    first, second = json.loads(printed)["targets"]
    rows = (tmp_path / "results.jsonl").read_text().splitlines()
    assert 1 <= first["events"] == len(rows) < first["planned"] and not first["is_whole"] and second["planned"] == 0
    [line] = [each for each in said.splitlines() if each.startswith("interrupted")]
    assert line == (
        f"interrupted: kcore-kraft has replayed {len(rows)} of {first['planned']} events, and its end is not compared; "
        "b has replayed nothing"
    )


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--target", "kcore-zk"], "a controller in ZooKeeper mode has no metadata log"),
        (["--speed", "fast"], "--speed 'fast': give a factor"),
        (["--controllers", "2"], "--controllers 2 is neither 1 nor 3"),
        (["--session-timeout", "5"], "--session-timeout 5 is not from 1000"),
        (["--target", "nowhere"], "--target 'nowhere'"),
    ],
)
def test_wrong_options_are_one_line_with_exit_code_2(options: list[str], text: str) -> None:
    result = CliRunner().invoke(app, ["storm", "replay", str(SAMPLE), *options])
    assert result.exit_code == 2
    assert text in result.stderr and result.stderr.count("\n") == 1
