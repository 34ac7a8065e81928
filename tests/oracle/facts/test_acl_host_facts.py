"""The blocks of addresses in tests/data/decisions equal those of Kafka's CidrUtils."""

import json
import subprocess
from pathlib import Path

import cases
from kcore.measure.processes.jars import kafka_jars
from kcore.spark.java import java_home
from oracle.kafka_tools import RELEASE


def test_blocks_of_addresses_are_those_of_the_jars() -> None:
    """Recorded by `java -cp 'JARS/*' tests/oracle/facts/AclHostFacts.java | gzip -9n`. Kafka has them from 4.4.0 on."""
    program = Path(__file__).with_name("AclHostFacts.java")
    command = [str(java_home() / "bin" / "java"), "-cp", f"{kafka_jars(RELEASE)}/*", str(program)]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=True, timeout=120)
    printed = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert printed == cases.load(f"acl_hosts_{RELEASE}")
