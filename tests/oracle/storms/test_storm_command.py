"""`kcore storm` for real: against a Kafka of its own, against one that runs beside it, and interrupted."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kcore.measure.processes.kafka_quorum import KafkaQuorum
from kcore.measure.processes.target import KAFKA
from oracle.clusters import image_of
from oracle.kafka_tools import RELEASE
from spark.test_standalone import master as master

COMMAND = (sys.executable, "-c", "from kcore.cli import main; main()", "storm")
SIZES = ("--brokers", "10", "--partitions", "1000")
LIMIT_S = 240


def storm(folder: Path, *arguments: str) -> tuple[subprocess.CompletedProcess[str], list[dict]]:
    """Runs a storm: the ended process, and its rows. All its temporary files are in `folder`."""
    command = [*COMMAND, *arguments, *SIZES, "--out", str(folder / "out"), "--json"]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=LIMIT_S, env=os.environ | {"TMPDIR": str(folder)}
    )
    return done, [json.loads(line) for line in done.stdout.splitlines()]


def left_behind(folder: Path) -> list[str]:
    """Names of folders of ours, and command lines of processes that know such a folder."""
    folders = [path.name for path in folder.glob("kcore-quorum-*")]
    processes = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_text(errors="replace")
        except OSError:
            continue  # It has ended meanwhile.
        if f"{folder}/kcore-quorum-" in line:
            processes.append(line.replace("\0", " "))
    return folders + processes


@pytest.mark.parametrize("target", [KAFKA, "kcore-kraft"])
def test_a_broker_is_lost_on_controllers_that_are_started_for_it(target: str, tmp_path: Path):
    done, rows = storm(tmp_path, "broker-lost", "--target", target)
    assert done.returncode == 0, done.stderr
    assert [row["scenario"] for row in rows] == ["register", "create", "broker-lost"]
    create, lost = rows[1:]
    assert (create["changes"], create["partitions"], create["brokers"]) == (1000, 1000, 10)
    assert lost["brokers"] == 9
    assert lost["changes"] == lost["records"]["PartitionChangeRecord"] > 0
    assert 0 < lost["first_ms"] <= lost["p50_ms"] <= lost["last_ms"]
    assert 0 < lost["session_ms"] < lost["last_ms"]
    assert (lost["false_fencings"], lost["valid"]) == (0, True)
    assert lost["controller_cpu_s"] > 0
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {"results.parquet", "results.jsonl", "medians.json", "report.html", "plan.toml"}
    assert left_behind(tmp_path) == []


def test_a_cluster_of_others_is_as_it_was_before(tmp_path: Path):
    with KafkaQuorum(RELEASE, heap="512m", first_node_id=7) as kafka:
        address = f"localhost:{kafka.nodes[0].port}"
        done, rows = storm(tmp_path, "broker-lost", "--target", address)
        assert done.returncode == 0, done.stderr
        assert [row["brokers"] for row in rows] == [10, 10, 9]
        image = asyncio.run(image_of(address))
    assert (image.table.partition_count, image.topic_ids, image.brokers) == (0, {}, {}), done.stderr


def test_a_directory_is_lost_by_a_broker_on_spark(tmp_path: Path):
    done, rows = storm(tmp_path, "dir-lost", "--target", KAFKA, "--master", "local[2]")
    assert done.returncode == 0, done.stderr
    assert "left out" not in done.stderr
    lost = rows[2]
    assert (lost["scenario"], lost["brokers"], lost["partitions"]) == ("dir-lost", 10, 1000)
    assert lost["changes"] == lost["records"]["PartitionChangeRecord"] > 100  # Half of a broker's replicas.
    assert lost["waves_ms"]["assigned"] > 0
    assert left_behind(tmp_path) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_leaves_no_process_and_no_folder(tmp_path: Path, number: signal.Signals):
    command = [*COMMAND, *SIZES, "--out", str(tmp_path / "out")]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ | {"TMPDIR": str(tmp_path)})
    assert process.stderr is not None
    end = time.monotonic() + LIMIT_S
    for line in process.stderr:
        if ": create: " in line or time.monotonic() > end:
            break
    assert left_behind(tmp_path) != []
    process.send_signal(number)
    _, printed = process.communicate(timeout=60)
    assert process.returncode == 3, printed
    assert "interrupted" in printed
    assert left_behind(tmp_path) == []
    rows = [json.loads(line) for line in (tmp_path / "out" / "results.jsonl").read_text().splitlines()]
    assert [row["scenario"] for row in rows][:2] == ["register", "create"]


def executors(folder: Path) -> list[int]:
    """Processes of Spark's executors whose workers keep their files in `folder`."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            is_ours = folder in (path / "cwd").resolve().parents
            if is_ours and "CoarseGrainedExecutorBackend" in (path / "cmdline").read_text():
                found.append(int(path.name))
        except OSError:
            continue  # It has ended meanwhile.
    return found


def test_a_lost_executor_leaves_a_partial_report_and_exit_code_3(tmp_path: Path, master: str):
    command = [*COMMAND, "rack-lost", "--brokers", "200", "--partitions", "2000", "--master", master]
    process = subprocess.Popen(
        [*command, "--out", str(tmp_path / "out")],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    )
    assert process.stderr is not None
    for line in process.stderr:
        if ": create: " in line:
            break
    time.sleep(2)  # Into the time in which the rack's sessions end.
    first, _ = executors(tmp_path)
    os.kill(first, signal.SIGKILL)
    _, printed = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 3, printed
    rows = [json.loads(line) for line in (tmp_path / "out" / "results.jsonl").read_text().splitlines()]
    assert [(row["scenario"], row["partial"], row["error"]) for row in rows] == [
        ("register", False, None),
        ("create", False, None),
        ("rack-lost", True, None),
    ]
    assert [row["brokers"] for row in rows[:2]] == [200, 200]
    assert "100 of 200 brokers" in rows[2]["invalid"]
    assert rows[0]["clock_ms"] > 0
    assert "partial: rack-lost" in (tmp_path / "out" / "report.html").read_text()
    assert left_behind(tmp_path) == []
