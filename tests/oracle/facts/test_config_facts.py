"""The settings in tests/data/settings equal those in Kafka's jars."""

import gzip
import json
from pathlib import Path

import pytest

from kcore.measure.processes.jars import kafka_jars
from recorder.java_program import printed

DATA = Path(__file__).parents[2] / "data" / "settings"


def class_path(release: str) -> str:
    """All jars of that release."""
    return f"{kafka_jars(release)}/*"


@pytest.mark.parametrize("release", ["3.9.1", "4.1.2", "4.3.1", "4.4.0"])
def test_the_definitions_are_those_of_the_jars(release: str) -> None:
    """Recorded by `java -cp 'JARS/*' tests/recorder/ConfigFacts.java | gzip -9n`."""
    lines = [line for line in printed("ConfigFacts.java", class_path(release)).splitlines() if line.startswith("{")]
    recorded = gzip.decompress((DATA / f"config_defs_{release}.jsonl.gz").read_bytes()).decode().splitlines()
    assert [json.loads(line) for line in lines] == [json.loads(line) for line in recorded]


@pytest.mark.parametrize("release", ["3.9.1", "4.3.1", "4.4.0"])
def test_the_version_texts_are_those_of_the_jars(release: str) -> None:
    """Recorded by `java -cp 'JARS/*' tests/recorder/MetadataVersionTexts.java | gzip -9n`."""
    recorded = gzip.decompress((DATA / f"version_texts_{release}.json.gz").read_bytes())
    assert json.loads(printed("MetadataVersionTexts.java", class_path(release))) == json.loads(recorded)
