"""Real brokers of Kafka's under the answer loop: their heartbeats and fetches are answered by the loop."""

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Final

from oracle.kraft_clusters import KraftCluster, Node

PATIENCE_S: Final = 60
PROGRAM: Final = """
import json, os, signal
from kcore.server.quorum_node.answer_loop import AnswerLoop

answer_loops, begin = [], AnswerLoop.begin

def begun(answer_loop, *arguments):
    answer_loops.append(answer_loop)
    begin(answer_loop, *arguments)

def tell(*_):
    with open({path!r} + ".new", "w") as file:
        json.dump(answer_loops[0].loop.counters(), file)
    os.replace({path!r} + ".new", {path!r})

AnswerLoop.begin = begun
signal.signal(signal.SIGUSR1, tell)
from kcore.cli import main
main()
"""


class Watched(KraftCluster):
    """Its controller writes the loop's counters where it gets SIGUSR1."""

    def _controller(self, node_id: int, port: int) -> Node:
        place = self.folder / f"controller-{node_id}"
        program = PROGRAM.format(path=str(self.counters))
        command = [sys.executable, "-c", program, "controller", "kraft", "run", "-c", place / "server.properties"]
        return Node(node_id, port, place, command, f"controller {node_id} listens")

    @property
    def counters(self) -> Path:
        return self.folder / "counters.json"

    def counted(self) -> dict[str, int]:
        self.counters.unlink(missing_ok=True)
        os.kill(self.controllers[0].pid, signal.SIGUSR1)
        while not self.counters.exists():
            time.sleep(0.02)
        found: dict[str, int] = json.loads(self.counters.read_text())
        return found


def test_real_brokers_beat_and_fetch_in_the_loop() -> None:
    """The brokers accept the loop's answers: they stay registered, and see a topic that is created."""
    with Watched(brokers=1) as cluster:
        deadline = time.monotonic() + PATIENCE_S
        while (before := cluster.counted())["connections"] < 2:
            assert time.monotonic() < deadline, before
            time.sleep(0.2)
        time.sleep(3)
        after = cluster.counted()
        assert after["heartbeats"] - before["heartbeats"] >= 3 and after["fetches"] - before["fetches"] >= 3
        cluster.tool(
            "org.apache.kafka.tools.TopicCommand",
            *("--bootstrap-server", cluster.bootstrap, "--create", "--topic", "t", "--partitions", 3),
        )
        described = cluster.tool(
            "org.apache.kafka.tools.TopicCommand", "--bootstrap-server", cluster.bootstrap, "--describe", "--topic", "t"
        )
        assert described.count("Leader: 1") == 3
        assert cluster.counted()["connections"] >= 2
