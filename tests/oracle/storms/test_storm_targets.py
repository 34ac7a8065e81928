"""Storms with targets of any release and build: real controllers of Kafka, which say themselves what they are."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kcore.measure.processes.jars import jars_digest, kafka_jars

COMMAND = (sys.executable, "-c", "from kcore.cli import main; main()")
SMALL = ("--brokers", "4", "--partitions", "200", "--heap", "512m")
LIMIT_S = 300


def results_of(folder: Path, *arguments: str) -> dict[str, dict[str, Any]]:
    """The last row of each target."""
    done = subprocess.run([*COMMAND, *arguments, "--out", str(folder)], capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode in (0, 3), done.stdout + done.stderr  # 3: the load generator was late on a busy machine.
    rows = [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]
    assert not [row for row in rows if row.get("error") or row.get("fault")], done.stdout + done.stderr
    return {row.get("target") or row["system"]: row for row in rows}


def test_two_targets_of_one_release_differ_by_one_option_of_the_jvm(tmp_path: Path) -> None:
    targets = ("--target", "g1=kafka-4.4.0", "--target", "zgc=kafka-4.4.0", "--jvm", "zgc:-XX:+UseZGC")
    found = results_of(tmp_path, "storm", "create", *targets, *SMALL)
    assert {name: row["jvm_options"] for name, row in found.items()} == {
        "g1": ["-Xmx512m"],
        "zgc": ["-Xmx512m", "-XX:+UseZGC"],
    }
    for row in found.values():
        assert row["build"] == "kafka-4.4.0" and row["release"].startswith("4.4.0") and row["changes"] == 200
        assert row["jars_sha256"] == jars_digest(kafka_jars("4.4.0")) and "VM" in row["jvm"]


def test_a_distribution_runs_beside_kcore_with_properties(tmp_path: Path) -> None:
    (tmp_path / "kafka").mkdir()
    (tmp_path / "kafka" / "libs").symlink_to(kafka_jars("4.3.1"))
    targets = ("--target", f"mine=kafka:{tmp_path / 'kafka'}", "--target", "kcore-kraft")
    options = ("--property", "broker.session.timeout.ms=7000", "--property", "mine:num.io.threads=3")
    found = results_of(tmp_path / "out", "storm", "create", *targets, *options, *SMALL)
    mine, kcore = found["mine"], found["kcore-kraft"]
    assert mine["release"].startswith("4.3.1") and mine["jars_sha256"] == jars_digest(kafka_jars("4.3.1"))
    assert mine["properties"] == ["broker.session.timeout.ms=7000", "num.io.threads=3"]
    assert kcore["properties"] == ["broker.session.timeout.ms=7000"] and kcore["release"].startswith("kcore ")


def test_a_release_before_dynamic_quorums_has_a_static_one(tmp_path: Path) -> None:
    found = results_of(tmp_path, "storm", "controller-killed", "--target", "kafka-3.7.2", "--controllers", "3", *SMALL)
    assert found["kafka-3.7.2"]["release"].startswith("3.7.2") and found["kafka-3.7.2"]["controllers"] == 3


def test_an_older_release_in_zookeeper_mode(tmp_path: Path) -> None:
    found = results_of(tmp_path, "storm", "create", "--target", "kafka-3.7.2-zk", *SMALL)
    row = found["kafka-3.7.2-zk"]
    assert row["release"].startswith("3.7.2") and row["changes"] >= 200, "each partition in at least one request"


def test_raft_nodes_of_two_releases_beside_kcore(tmp_path: Path) -> None:
    targets = ("--target", "new=kafka-4.4.0", "--target", "old=kafka-3.7.2", "--target", "mine=kcore")
    load = ("--rate", "500", "--linger", "0", "--seconds", "20", "--jvm", "new:-XX:+UseSerialGC")
    found = results_of(tmp_path, "bench", "quorum", *targets, *load)
    assert {name: row["release"].split()[0] for name, row in found.items()} == {
        "new": "4.4.0", "old": "3.7.2", "mine": "kcore"
    }  # fmt: skip
    assert found["new"]["jvm_options"] == ["-Xmx1g", "-XX:+UseSerialGC"] and found["old"]["bytes_per_s"] > 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--jvm=-XX:+UseZGCC",), "kcore: kafka-4.4.0: Unrecognized VM option 'UseZGCC'"),
        (("--jvm=-Xms1g",), "kcore: kafka-4.4.0: Error occurred during initialization of VM; Initial heap size"),
    ],
)
def test_the_jvms_own_words_end_the_command(arguments: tuple[str, ...], said: str, tmp_path: Path) -> None:
    command = [*COMMAND, "storm", "--target", "kafka-4.4.0", *SMALL, *arguments, "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 2 and done.stderr.splitlines()[-1].startswith(said) and not done.stdout
