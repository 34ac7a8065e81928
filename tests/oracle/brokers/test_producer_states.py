"""Other logs of producers than those of tests/data/decisions, replayed by Kafka's ProducerStateManager."""

import json
import subprocess
from pathlib import Path
from random import Random

import pytest

from broker.producer_logs import random_log, states_of
from kcore.measure.processes.jars import kafka_jars
from kcore.spark.java import java_home
from oracle.kafka_tools import OLDER_RELEASE, RELEASE


def kafkas(logs: list[list[bytes]], release: str) -> list[object]:
    command = [str(java_home() / "bin" / "java"), "-cp", f"{kafka_jars(release)}/*"]
    program = Path(__file__).with_name("ProducerStateFacts.java")
    lines = "".join(" ".join(batch.hex() for batch in log) + "\n" for log in logs)
    done = subprocess.run(
        [*command, str(program)], input=lines, capture_output=True, encoding="utf-8", check=True, timeout=180
    )
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[{")]


@pytest.mark.parametrize("release", [RELEASE, OLDER_RELEASE])
def test_producers_are_known_as_kafka_knows_them(release: str) -> None:
    seed = Random().getrandbits(32)
    dice = Random(seed)
    logs = [random_log(dice) for _ in range(300)]
    states = kafkas(logs, release)
    assert len(states) == len(logs)
    for log, expected in zip(logs, states, strict=True):
        assert states_of(log) == expected, seed
