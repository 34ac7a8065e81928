"""The walk-through of docs/guides/control.md, typed: kcore's controller, three brokers of Kafka, a topic, a message."""

import os
import signal
import subprocess
from pathlib import Path

from kcore.measure.processes.local_process import free_ports
from oracle.kafka_tools import CONSOLE_CONSUMER, RELEASE, TOPICS, tool_command
from pages.markdown import ROOT, blocks_of

MAIN_CLASSES = {
    "kafka-storage.sh": "kafka.tools.StorageTool",
    "kafka-server-start.sh": "kafka.Kafka",
    "kafka-topics.sh": TOPICS,
    "kafka-console-producer.sh": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-console-consumer.sh": CONSOLE_CONSUMER,
}


def distribution(folder: Path) -> Path:
    """A folder whose `bin` has the scripts that the page uses, over the jars of the release."""
    (folder / "bin").mkdir(parents=True)
    for script, main in MAIN_CLASSES.items():
        path = folder / "bin" / script
        command = " ".join(f"'{each}'" for each in tool_command(main, release=RELEASE))
        path.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        path.chmod(0o755)
    return folder


def walk_through(kafka: Path, demo: Path) -> str:
    """The page's commands in order, at ports that are free and in a folder of the test's."""
    page = (ROOT / "docs" / "guides" / "control.md").read_text("utf-8")
    lines = [line.removeprefix("   ") for block in blocks_of(page) for line in block.body.splitlines()]
    text = "\n".join(lines)
    given = {f"~/kafka_2.13-{RELEASE}": str(kafka), "~/kcore-demo": str(demo), "1909$id": "$(port $id)"}
    given |= dict(
        zip(("127.0.0.1:9093", "127.0.0.1:19091"), (f"127.0.0.1:{each}" for each in free_ports(2)), strict=True)
    )
    for old, new in given.items():
        assert old in text, f"the page does not have {old} any more"
        text = text.replace(old, new)
    first = given["127.0.0.1:19091"].partition(":")[2]
    others = free_ports(2)
    return f"port() {{ case $1 in 1) echo {first};; 2) echo {others[0]};; 3) echo {others[1]};; esac; }}\n{text}"


def test_the_walk_through_works_when_typed(tmp_path: Path) -> None:
    kafka, demo = distribution(tmp_path / "kafka"), tmp_path / "demo"
    with subprocess.Popen(
        ["bash", "-em"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT, start_new_session=True
    ) as shell:
        try:
            out, _ = shell.communicate(walk_through(kafka, demo), timeout=300)
        finally:
            left = subprocess.run(["pgrep", "-f", str(demo)], capture_output=True, text=True, check=False).stdout
            for process in left.split():
                os.kill(int(process), signal.SIGKILL)
    assert shell.returncode == 0, out
    assert "Created topic greetings." in out and "\nhello\n" in out
    assert "2 topics, 53 partitions, 0 offline, 0 under-replicated" in out, "the consumer's offsets, too"
    assert not demo.exists() and not left, "all has ended, and nothing is left"
