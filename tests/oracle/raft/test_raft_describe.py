"""`kcore quorum describe` and Kafka's kafka-metadata-quorum.sh, asked of the same real quorum: the same bytes."""

import re
import subprocess
from collections.abc import Iterator

import pytest

from oracle.kafka_tools import RELEASE, tool_command
from oracle.raft_quorums import KCORE, METADATA_QUORUM, RaftQuorum

TIME = re.compile(r"\b1[0-9]{12}\b")
AGO = re.compile(r"-?[0-9]+ ms ago *")
ROW = re.compile(r"^([0-9]+ *\t\S+\t)([0-9]+ *)\t([0-9]+ *)\t", re.MULTILINE)
NUMBER = re.compile(r"^(HighWatermark|MaxFollowerLag|MaxFollowerLagTimeMs): ( *)-?[0-9]+$", re.MULTILINE)


def masked(text: str) -> str:
    """Offsets, lags and times out of it, and nothing else: not their padding either, where that is not their own."""
    text = AGO.sub("AGO", TIME.sub("T", text))
    text = ROW.sub(lambda row: f"{row[1]}{'E' * len(row[2])}\tL\t", text)
    return NUMBER.sub(r"\1: \2N", text)


@pytest.fixture(scope="module", params=[("4.4.0", True), ("4.4.0", False), ("4.3.1", True), ("3.9.1", False)], ids=str)
def quorum(request: pytest.FixtureRequest) -> Iterator[RaftQuorum]:
    release, dynamic = request.param
    with RaftQuorum(release, real=2, kcore=0, dynamic=dynamic, broker=True) as started:
        started.leader()
        yield started


def options_of(quorum: RaftQuorum) -> list[tuple[str, str]]:
    return [("--bootstrap-controller", quorum.bootstrap), ("--bootstrap-server", quorum.brokers[0].address)]


@pytest.mark.covers("KIP-595 describe --status", "KIP-595 describe --replication")
@pytest.mark.parametrize("view", [["--status"], ["--replication"], ["--replication", "--human-readable"]], ids=" ".join)
def test_the_same_as_kafkas_tool(quorum: RaftQuorum, view: list[str]) -> None:
    for option, where in options_of(quorum):
        kafka = tool_command(METADATA_QUORUM, option, where, "describe", *view, release=RELEASE)
        printed = [
            subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
            for command in (kafka, [*KCORE, "describe", option, where, *view])
        ]
        assert [each.returncode for each in printed] == [0, 0], printed
        assert masked(printed[0].stdout) == masked(printed[1].stdout)
        assert "T" in masked(printed[1].stdout) or "--status" in view or "AGO" in masked(printed[1].stdout)


def test_a_broker_is_no_controller_and_a_controller_no_broker(quorum: RaftQuorum) -> None:
    (controller, controllers), (server, broker) = options_of(quorum)
    for option, where in ((controller, broker), (server, controllers)):
        command = [*KCORE, "describe", option, where, "--status", "--timeout", "5000"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 1
        assert "DescribeCluster to 127.0.0.1" in done.stderr
