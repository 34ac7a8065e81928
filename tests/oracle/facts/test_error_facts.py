"""The error codes in tests/data/errors equal those in Kafka's jars."""

import json
import subprocess
from pathlib import Path

import pytest

from kcore.measure.processes.jars import kafka_jars
from kcore.spark.java import java_home

FACTS = Path(__file__).parents[2] / "data" / "errors"


@pytest.mark.parametrize("release", ["3.9.1", "4.3.1", "4.4.0"])
def test_the_codes_are_those_of_the_jars(release: str) -> None:
    """Recorded by `java -cp 'JARS/*' tests/oracle/facts/ErrorFacts.java`."""
    command = [str(java_home() / "bin" / "java"), "-cp", f"{kafka_jars(release)}/*"]
    program = Path(__file__).with_name("ErrorFacts.java")
    done = subprocess.run([*command, str(program)], capture_output=True, encoding="utf-8", check=True, timeout=120)
    assert json.loads(done.stdout) == json.loads((FACTS / f"{release}.json").read_text())
