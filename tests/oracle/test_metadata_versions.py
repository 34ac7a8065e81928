"""The versions in tests/data/metadata_versions equal those in Kafka's jars."""

import json
from pathlib import Path

import pytest

from kcore.measure.processes.jars import kafka_jars
from recorder.java_program import printed

FACTS = Path(__file__).parents[1] / "data" / "metadata_versions"


@pytest.mark.parametrize("release", ["3.9.1", "4.3.1", "4.4.0"])
def test_the_facts_are_those_of_the_jars(release: str) -> None:
    """Recorded from `levels` of `java -cp 'JARS/*' tests/recorder/ReleaseFacts.java`."""
    lines = printed("ReleaseFacts.java", f"{kafka_jars(release)}/*").splitlines()
    [facts] = [json.loads(line) for line in lines if line.startswith("{")]
    assert facts["levels"] == json.loads((FACTS / f"{release}.json").read_text())
