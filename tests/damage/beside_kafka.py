"""Kafka's controller opens damaged metadata directories (KafkaOpens.java); the outcomes are recorded beside kcore's."""

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from damage.changes import Change, apply
from damage.subjects import FOLDER, SUBJECTS, gone_from, on_disk
from kcore.measure.processes.jars import kafka_jars
from kcore.spark.java import java_home


def opened_by_kafka(subject: str, changes: Sequence[Change], folder: Path) -> list[dict[str, Any]]:
    """A row a change: what Kafka says, and how many whole batches are on the disk before and after."""
    make, _ = SUBJECTS[subject]
    source = folder / "source"
    source.mkdir()
    make(source)
    cases = [folder / str(number) for number in range(len(changes))]
    before = []
    for case, change in zip(cases, changes, strict=True):
        shutil.copytree(source, case)
        apply(case, change)
        before.append(on_disk(case))
    command = [str(java_home() / "bin" / "java"), "-cp", f"{kafka_jars('4.3.1')}/*"]
    program = Path(__file__).with_name("KafkaOpens.java")
    lines = "".join(f"{case / FOLDER}\n" for case in cases)
    done = subprocess.run(
        [*command, str(program)], input=lines, capture_output=True, encoding="utf-8", check=True, timeout=300
    )
    said = [line for line in done.stdout.splitlines() if line.startswith(("opened ", "refused "))]
    assert len(said) == len(cases), done.stderr[-2000:]
    return [
        {
            "subject": subject,
            **change._asdict(),
            "kafka": text,
            "batches": were.total(),
            "gone": len(gone_from(case, were)),
        }
        for change, text, were, case in zip(changes, said, before, cases, strict=True)
    ]
