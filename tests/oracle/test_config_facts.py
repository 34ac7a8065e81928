"""The settings in tests/data/settings equal those in Kafka's jars."""

import gzip
import json
import subprocess
from pathlib import Path

import pytest

from kcore.measure.processes.jars import kafka_jars
from kcore.spark.java import java_home

DATA = Path(__file__).parents[1] / "data" / "settings"


def printed(program: str, release: str) -> str:
    """What the Java program prints, with that release's jars."""
    command = [str(java_home() / "bin" / "java"), "-cp", f"{kafka_jars(release)}/*"]
    path = str(Path(__file__).with_name(program))
    return subprocess.run([*command, path], capture_output=True, encoding="utf-8", check=True, timeout=120).stdout


@pytest.mark.parametrize("release", ["3.9.1", "4.3.1", "4.4.0"])
def test_the_definitions_are_those_of_the_jars(release: str) -> None:
    """Recorded by `java -cp 'JARS/*' tests/oracle/ConfigFacts.java | gzip -9n`."""
    lines = [line for line in printed("ConfigFacts.java", release).splitlines() if line.startswith("{")]
    recorded = gzip.decompress((DATA / f"config_defs_{release}.jsonl.gz").read_bytes()).decode().splitlines()
    assert [json.loads(line) for line in lines] == [json.loads(line) for line in recorded]


@pytest.mark.parametrize("release", ["3.9.1", "4.3.1", "4.4.0"])
def test_the_version_texts_are_those_of_the_jars(release: str) -> None:
    """Recorded by `java -cp 'JARS/*' tests/oracle/MetadataVersionTexts.java | gzip -9n`."""
    recorded = gzip.decompress((DATA / f"version_texts_{release}.json.gz").read_bytes())
    assert json.loads(printed("MetadataVersionTexts.java", release)) == json.loads(recorded)
