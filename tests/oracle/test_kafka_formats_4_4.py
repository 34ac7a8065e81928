"""Kafka 4.4.0's own kafka-storage formats directories as kcore does, byte for byte but for ids and times."""

import subprocess
from pathlib import Path

import pytest

from cli.servers.test_format_4_4 import CLUSTER, FORMATS, SNAPSHOT, comparable, formatted, properties
from kcore.measure.processes.jars import kafka_jars
from kcore.spark.java import java_home
from kcore.storage.raft.raft_dir import METADATA_FOLDER
from oracle.kafka_tools import OPTIONS


@pytest.mark.parametrize("name", FORMATS)
def test_kafkas_tool_writes_the_same_files(name: str, tmp_path: Path) -> None:
    form = FORMATS[name]
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for folder in (ours, theirs):
        folder.mkdir()
    java, jars = java_home() / "bin" / "java", f"{kafka_jars('4.4.0')}/*"
    tool = [str(java), *OPTIONS, "-cp", jars, "kafka.tools.StorageTool", "format", "-t", CLUSTER]
    options = ["-c", str(properties(theirs, form.quorum)), *form.options, *form.only_kafkas]
    subprocess.run([*tool, *options], check=True, capture_output=True, timeout=120)
    files = formatted(ours, form)
    assert files == sorted(
        str(each.relative_to(theirs / "data")) for each in (theirs / "data").rglob("*") if each.is_file()
    )
    snapshot = f"data/{METADATA_FOLDER}/{SNAPSHOT}"
    assert comparable(ours / snapshot) == comparable(theirs / snapshot)
