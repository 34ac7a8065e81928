"""`kcore top` of real controllers: what it reads of Kafka's quorum and log is what Kafka's own tools tell."""

import json
import subprocess
from typing import Any

import pytest

from oracle.kafka_tools import TOPICS, run_tool
from oracle.raft_quorums import KCORE, RaftQuorum

TOP = (*KCORE[:-1], "top")


def top(*arguments: str) -> str:
    done = subprocess.run([*TOP, *arguments], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(("release", "dynamic"), [("4.4.0", True), ("3.9.1", False)], ids=str)
def test_kafkas_own_controllers(release: str, dynamic: bool) -> None:
    with RaftQuorum(release, real=2, kcore=0, dynamic=dynamic, broker=True) as quorum:
        [broker] = quorum.brokers
        run_tool(TOPICS, "--create", "--topic", "orders", "--partitions", "3", "--bootstrap-server", broker.address)
        options = (quorum.bootstrap, "--once", "--interval", "1")
        description = quorum.described()
        frame: dict[str, Any] = json.loads(top(*options, "--json"))
        roles = {each["id"]: each["role"] for each in frame["replicas"]}
        voters = {each.replica_id for each in description.current_voters}
        assert {each for each, role in roles.items() if role != "observer"} == voters
        assert (
            [each for each, role in roles.items() if role == "leader"]
            == [frame["leader_id"]]
            == [description.leader_id]
        )
        assert [each for each, role in roles.items() if role == "observer"] == [broker.node_id], "and not this reader"
        assert frame["epoch"] == description.leader_epoch and frame["high_watermark"] >= description.high_watermark
        assert frame["cluster_id"] == quorum.cluster_id and frame["problems"] == []
        assert [(each["id"], each["state"], each["leaders"]) for each in frame["brokers"]] == [
            (broker.node_id, "active", 3)
        ]
        counts = frame["partitions"]
        assert (counts["topics"], counts["partitions"], counts["offline"], counts["under_replicated"]) == (1, 3, 0, 0)
        assert counts["metadata_version"].startswith(release[:3])
        text = top(*options)
        assert f"leader {description.leader_id} at " in text and "3 of 1 topics" in text
