"""Other stories of Kafka's ClientRequestQuotaManager than those of tests/data/decisions."""

import json
import subprocess
from pathlib import Path
from random import Random

import pytest

from kcore.measure.processes.jars import kafka_jars
from kcore.spark.java import java_home
from node.test_rate_quotas import throttled
from oracle.kafka_tools import OLDER_RELEASE, RELEASE


@pytest.mark.parametrize("release", [RELEASE, OLDER_RELEASE])
def test_clients_are_throttled_as_kafka_throttles_them(release: str) -> None:
    seed = str(Random().getrandbits(32))
    command = [str(java_home() / "bin" / "java"), "-cp", f"{kafka_jars(release)}/*"]
    program = Path(__file__).with_name("RequestQuotaFacts.java")
    done = subprocess.run(
        [*command, str(program), seed, "300"], capture_output=True, encoding="utf-8", check=True, timeout=120
    )
    stories = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert len(stories) == 300
    for story in stories:
        assert throttled(story) == [step[-1] for step in story["steps"] if step[0] == "used"], seed
