"""Other logs of producers than those of tests/data/decisions, replayed by Kafka's ProducerStateManager."""

import json
import subprocess
from pathlib import Path
from random import Random

from broker.producer_logs import random_log, states_of
from kcore.measure.processes.jars import kafka_jars
from kcore.spark.java import java_home


def kafkas(logs: list[list[bytes]]) -> list[object]:
    command = [str(java_home() / "bin" / "java"), "-cp", f"{kafka_jars('4.3.1')}/*"]
    program = Path(__file__).with_name("ProducerStateFacts.java")
    lines = "".join(" ".join(batch.hex() for batch in log) + "\n" for log in logs)
    done = subprocess.run(
        [*command, str(program)], input=lines, capture_output=True, encoding="utf-8", check=True, timeout=180
    )
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[{")]


def test_producers_are_known_as_kafka_knows_them() -> None:
    seed = Random().getrandbits(32)
    dice = Random(seed)
    logs = [random_log(dice) for _ in range(300)]
    states = kafkas(logs)
    assert len(states) == len(logs)
    for log, expected in zip(logs, states, strict=True):
        assert states_of(log) == expected, seed
